(* Threads go through several probes a known number of times; the handlers count their own runs.

     counted ITERATIONS THREADS

   A line on stdin starts the loops (so that a tool can attach first), and a line on stdout tells
   that this line is awaited. Then, one line a probe: NAME handler=RUNS expected=HITS; and the program
   stays, to be looked at, until another line or the end of stdin. The line `stop` ends the loops before
   their time, and not the program. *)

let iterations = int_of_string Sys.argv.(1)
let n_threads = int_of_string Sys.argv.(2)

(* `incr` of a global is one instruction, and OCaml 4's threads switch at allocations and polls only. *)
let in_loop = ref 0
let inlined = ref 0
let in_functor = ref 0
let in_try = ref 0
let raising = ref 0
let outer = ref 0
let nested = ref 0
let tail = ref 0
let queried = ref 0

(* One source probe, a site wherever it is inlined. *)
let[@inline always] inlined_probe () = [%probe "inlined" (incr inlined)]

let[@inline never] odd x =
  inlined_probe ();
  x lxor 1

let[@inline never] even x =
  let y = x + 2 in
  inlined_probe ();
  y

module type STEP = sig
  val step : int -> int
end

module Make (Step : STEP) = struct
  let[@inline never] run x =
    [%probe "in_functor" (incr in_functor)];
    Step.step x
end

module Odd = Make (struct let step = odd end)
module Even = Make (struct let step = even end)

exception Skip

let[@inline never] guarded x =
  try
    [%probe "in_try" (incr in_try)];
    if x land 3 = 0 then raise Skip;
    x
  with Skip -> x + 1

(* The handler raises; its caller's handler catches. Off, the function returns x. *)
let[@inline never] raiser x =
  [%probe "raising" (incr raising; raise_notrace Exit)];
  x

let[@inline never] nest x =
  [%probe "outer" (incr outer; [%probe "nested" (incr nested)])];
  x

let[@inline never] tail_probe () = [%probe "tail" (incr tail)]

let stopping = ref false
let hits = ref 0

let worker () =
  let x = ref 0 in
  let i = ref 0 in
  while !i < iterations && not !stopping do
    incr i;
    [%probe "in_loop" (incr in_loop)];
    x := if !i land 1 = 0 then Even.run !x else Odd.run !x;
    x := guarded !x;
    (match raiser !x with y -> x := y | exception Exit -> ());
    x := nest !x;
    tail_probe ();
    if [%probe_is_enabled "in_loop"] then incr queried
  done;
  hits := !hits + !i;
  ignore (Sys.opaque_identity !x)

let rec obey () =
  match input_line stdin with
  | "stop" ->
    stopping := true;
    obey ()
  | _ | (exception End_of_file) -> ()

let () =
  print_endline "ready";
  ignore (input_line stdin);
  let threads = List.init n_threads (fun _ -> Thread.create worker ()) in
  let obeying = Thread.create obey () in
  List.iter Thread.join threads;
  let hits = !hits in
  (* The nested probe is reached by the outer one's handler only. *)
  List.iter
    (fun (name, runs, expected) -> Printf.printf "%s handler=%d expected=%d\n" name runs expected)
    [
      "in_functor", !in_functor, hits;
      "in_loop", !in_loop, hits;
      "in_try", !in_try, hits;
      "inlined", !inlined, hits;
      "nested", !nested, !outer;
      "outer", !outer, hits;
      "raising", !raising, hits;
      "tail", !tail, hits;
    ];
  Printf.printf "# in_loop was seen enabled %d times\n%!" !queried;
  Thread.join obeying
