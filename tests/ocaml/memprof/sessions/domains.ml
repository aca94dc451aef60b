(* OCaml 5: a domain profiles the program, which has others. *)
open Probes_lib.Memprof

let[@inline never] work stop =
  while not (Atomic.get stop) do
    for i = 1 to 50 do
      ignore (Sys.opaque_identity (List.init 100 (fun j -> "old", i + j)))
    done;
    Unix.sleepf 0.0005
  done

let domains_of events = Array.fold_left (fun set { domain; _ } -> domain :: List.filter (( <> ) domain) set) [] events

external is_sampling : unit -> bool = "ocaml_probes_memprof_is_sampling"

(* In OCaml 5.5 and later, a primitive returns whether a profile runs here. In earlier versions, the start of another
   profile fails. *)
let is_profiled () =
  is_sampling ()
  ||
  match Gc.Memprof.start ~sampling_rate:0. Gc.Memprof.null_tracker with
  | profile ->
    Gc.Memprof.stop ();
    Gc.Memprof.discard profile;
    false
  | exception Failure _ -> true

(* The session is started here, and the other domains join it. Each domain is profiled when it has begun. *)
let profile expected =
  let session = Self.start ~rate:0.01 ~events:1_000_000 () in
  let is_here = is_profiled () in
  let rec follow seen =
    ignore (Sys.opaque_identity (List.init 1000 Fun.id));
    let seen = List.sort_uniq compare (seen @ domains_of (read session)) in
    if List.length seen < expected then (
      Unix.sleepf 0.002;
      follow seen)
    else seen
  in
  let seen = follow [] in
  let losses = stop session in
  Printf.printf "here: %b, domains: %d, still on: %b\n%!" is_here (List.length seen) losses.still_on

let () =
  let stop = Atomic.make false in
  let others = List.init 2 (fun _ -> Domain.spawn (fun () -> work stop)) in
  profile 3;
  (* The main domain waits meanwhile. *)
  Domain.join (Domain.spawn (fun () -> profile 3));
  Atomic.set stop true;
  List.iter Domain.join others;
  profile 1
