(* SPDX-License-Identifier: MIT *)
(* A program whose collector is busy. phases ROUNDS WORKERS [large] prints "ready", waits for a line ("quit" ends it), has so
   many threads (OCaml 4) or domains (OCaml 5) work for so many rounds (without those before FIRST, a variable of the
   environment), prints "finished", and waits for a line. "exec" makes it another program; any other line ends it. *)

let kept = Array.make 64 [||]

(* Small blocks, a tenth of which is kept for a while; lists; blocks too large for the minor heap. *)
let allocate worker round =
  let some = ref [] in
  for i = 1 to 20_000 do
    let block = Array.make (1 + (i mod 30)) i in
    if i mod 10 = 0 then some := block :: !some
  done;
  kept.(((worker * 7) + round) mod 64) <- Array.make (300 + (1000 * (round mod 40))) round;
  ignore (Sys.opaque_identity (List.rev_map (fun block -> Array.length block) !some))

let first = match Sys.getenv_opt "FIRST" with Some round -> int_of_string round | None -> 1

let work rounds worker =
  for round = first to rounds do
    allocate worker round;
    match round mod 50 with
    | 10 -> Gc.minor ()
    | 11 -> Gc.minor () (* nothing is there to collect *)
    | 20 -> ignore (Gc.major_slice 0)
    | 21 -> ignore (Gc.major_slice 10_000)
    | 30 when worker = 0 -> Gc.full_major ()
    | 40 when worker = 0 -> Gc.compact ()
    | _ -> ()
  done

(* With a large heap that is then free, a compaction of OCaml 4 is followed by a second one, and the
   collector starts compactions of its own. *)
let grow_and_shrink () =
  let before = Gc.get () in
  for i = 1 to 5 do
    let large = Array.init 20_000 (fun _ -> Array.make 100 i) in
    ignore (Sys.opaque_identity (Array.length large));
    Gc.set { before with max_overhead = 10 * i };
    for round = 1 to 30 do
      allocate 0 round
    done;
    Gc.compact ()
  done;
  Gc.set before

let () =
  let rounds = int_of_string Sys.argv.(1) and workers = int_of_string Sys.argv.(2) in
  print_endline "ready";
  if input_line stdin = "quit" then exit 0;
  Workers.run workers (work rounds);
  if Array.length Sys.argv > 3 then grow_and_shrink ();
  (* The last cycle ends before the program does. *)
  Gc.full_major ();
  print_endline "finished";
  match input_line stdin with
  | "exec" -> Unix.execv "/bin/sleep" [| "sleep"; "1000" |]
  | _ | (exception End_of_file) -> ()
