(* SPDX-License-Identifier: MIT *)
(* The books of OCaml 5. events FOLDER PID reads all that the process has written to its ring, and prints
   a line for each phase and domain: name, domain, spans, nanoseconds. *)

(* By names: older versions lack some constructors. *)
let name phase =
  match Runtime_events.runtime_phase_name phase with
  | "minor" -> Some "gc:minor"
  | "major_slice" -> Some "gc:major_slice"
  | "compaction" -> Some "gc:compact"
  | "stw_leader" | "stw_handler" -> Some "gc:stw"
  | "empty_minor" -> Some "gc:stw_wait"
  | _ -> None

let () =
  let cursor = Runtime_events.create_cursor (Some (Sys.argv.(1), int_of_string Sys.argv.(2))) in
  let sums = Hashtbl.create 16 and open_spans = Hashtbl.create 16 in
  let ns = Runtime_events.Timestamp.to_int64 in
  let runtime_begin domain time phase = Hashtbl.add open_spans (domain, phase) (ns time) in
  let runtime_end domain time phase =
    match (name phase, Hashtbl.find_opt open_spans (domain, phase)) with
    | Some name, Some start ->
        let spans, sum = Option.value ~default:(0, 0L) (Hashtbl.find_opt sums (name, domain)) in
        Hashtbl.remove open_spans (domain, phase);
        Hashtbl.replace sums (name, domain) (spans + 1, Int64.add sum (Int64.sub (ns time) start))
    | Some name, None -> Printf.printf "lost %s %d 1 0\n" name domain
    | None, _ -> ()
  in
  let lost_events domain n = Printf.printf "lost events %d %d 0\n" domain n in
  let callbacks = Runtime_events.Callbacks.create ~runtime_begin ~runtime_end ~lost_events () in
  while Runtime_events.read_poll cursor callbacks None > 0 do () done;
  Hashtbl.iter (fun (name, domain) (spans, sum) -> Printf.printf "%s %d %d %Ld\n" name domain spans sum) sums
