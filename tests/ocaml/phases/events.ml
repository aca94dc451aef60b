(* SPDX-License-Identifier: MIT *)
(* The books of OCaml 5. events FOLDER PID reads all that the process has written to its ring, and prints
   a line for each phase and domain: name, domain, spans, nanoseconds; then how long these spans are at least and
   at most, if each begins and ends between the domain's event before and its own event; then the nanoseconds of each. *)

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
  let latest = Hashtbl.create 16 in
  (* The time of an event, and that of the event before it. *)
  let times domain time =
    let ns = Int64.to_int (Runtime_events.Timestamp.to_int64 time) in
    let before = Option.value ~default:ns (Hashtbl.find_opt latest domain) in
    Hashtbl.replace latest domain ns;
    (before, ns)
  in
  let runtime_begin domain time phase = Hashtbl.add open_spans (domain, phase) (times domain time) in
  let runtime_end domain time phase =
    let before_end, stop = times domain time in
    match (name phase, Hashtbl.find_opt open_spans (domain, phase)) with
    | Some name, Some (before_start, start) ->
        let spans, sum, least, most, each =
          Option.value ~default:(0, 0, 0, 0, []) (Hashtbl.find_opt sums (name, domain))
        in
        Hashtbl.remove open_spans (domain, phase);
        Hashtbl.replace sums (name, domain)
          (spans + 1, sum + stop - start, least + max 0 (before_end - start), most + stop - before_start, (stop - start) :: each)
    | Some name, None -> Printf.printf "lost %s %d 1 0 0 0 0\n" name domain
    | None, _ -> ()
  in
  let runtime_counter domain time _ _ = ignore (times domain time) in
  let alloc domain time _ = ignore (times domain time) in
  let lifecycle domain time _ _ = ignore (times domain time) in
  let lost_events domain n = Printf.printf "lost events %d %d 0 0 0 0\n" domain n in
  let callbacks =
    Runtime_events.Callbacks.create ~runtime_begin ~runtime_end ~runtime_counter ~alloc ~lifecycle ~lost_events ()
  in
  while Runtime_events.read_poll cursor callbacks None > 0 do () done;
  Hashtbl.iter 
    (fun (name, domain) (spans, sum, least, most, each) ->
      let each = String.concat "," (List.rev_map string_of_int each) in
      Printf.printf "%s %d %d %d %d %d %s\n" name domain spans sum least most each)
    sums
