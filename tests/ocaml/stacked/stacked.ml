(* A probe that is hit through several callers a known number of times, and a pair that takes longer
   from one caller than from another.

     stacked ROUNDS

   Prints "ready" and waits for a line; then it works, prints "CALLER HITS" for each caller of `work` and
   "CALLER PAIRS" for each caller of `timed`, and "done", and stays until another line or the end of stdin. *)

external call_back : (int -> int) -> int -> int = "stacked_call_back"
external call_by_qsort : (int -> int) -> int -> int = "stacked_call_by_qsort"

let rounds = int_of_string Sys.argv.(1)
let books : (string * int ref) list ref = ref []

(* `incr` of a counter is one instruction, and OCaml 4's threads switch at allocations and polls only. *)
let book name =
  let counter = ref 0 in
  books := (name, counter) :: !books;
  counter

let direct_calls = book "direct"
let handled_calls = book "handled"
let outer_calls = book "outer"
let from_c_calls = book "from_c"
let from_qsort_calls = book "from_qsort"
let in_thread_calls = book "in_thread"
let recursive_calls = book "recursive"
let slow_pairs = book "slow"
let fast_pairs = book "fast"

let[@inline never] work x =
  [%probe "leaf" ~args:(x) ()];
  Sys.opaque_identity (x + 1)

let kept = ref []

let[@inline never] direct x =
  incr direct_calls;
  kept := Array.make 200 x :: (if x mod 100 = 0 then [] else !kept);
  work x + 1

exception Stop

let[@inline never] raising x = if work x > 0 then raise Stop else 0

let[@inline never] handled x =
  incr handled_calls;
  try raising x + 1 with Stop -> x

let[@inline always] inlined x = work x + 1

let[@inline never] outer x =
  incr outer_calls;
  inlined x + 1

let[@inline never] called_from_c x =
  incr from_c_calls;
  work x + 1

let[@inline never] from_c x = call_back called_from_c x + 1

let[@inline never] called_by_qsort x =
  incr from_qsort_calls;
  work x land 1

let[@inline never] from_qsort x = call_by_qsort called_by_qsort x + 1

let[@inline never] in_thread x =
  incr in_thread_calls;
  work x + 1

let rec recursive n =
  if n = 0 then begin
    incr recursive_calls;
    work n
  end
  else recursive (n - 1) + 1

let wait seconds =
  let until = Unix.gettimeofday () +. seconds in
  while Unix.gettimeofday () < until do
    ()
  done

let[@inline never] timed seconds =
  [%probe "begin" ()];
  wait seconds;
  [%probe "end" ()];
  ignore (Sys.opaque_identity 0)

let[@inline never] slow () =
  timed 0.005;
  incr slow_pairs

let[@inline never] fast () =
  timed 0.0005;
  incr fast_pairs

(* What the compiler inlines is a matter of a function, so all of it is one. *)
let[@inline never] round i =
  ignore (direct i);
  for _ = 1 to 2 do ignore (handled i) done;
  for _ = 1 to 3 do ignore (outer i) done;
  for _ = 1 to 4 do ignore (from_c i) done;
  ignore (from_qsort i);
  for _ = 1 to 5 do ignore (recursive 20) done;
  if i mod 50 = 0 then slow ();
  if i mod 25 = 0 then fast ()

let[@inline never] thread_body () =
  for i = 1 to 7 * rounds do
    ignore (in_thread i);
    if i mod 10 = 0 then Thread.yield ()
  done

let () =
  print_endline "ready";
  ignore (input_line stdin);
  let thread = Thread.create thread_body () in
  for i = 1 to rounds do round i done;
  Thread.join thread;
  List.iter (fun (name, counter) -> Printf.printf "%s %d\n" name !counter) !books;
  print_endline "done";
  try ignore (input_line stdin) with End_of_file -> ()
