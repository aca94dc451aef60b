(* Pairs of probes in several threads, and the program's own book-keeping of them by the clock.

     pairs HITS [THREADS [DEPTH]]

   Prints "ready" and waits for a line; then THREADS (8) threads pass the probes, about HITS times in
   all; then it says what it did, and stays until another line or the end of stdin.

   The clock is read directly in front of and behind each probe: what a tool measures from probe to
   probe contains what is measured here between the two, and is contained in what is measured around
   them, whatever threads waited for in between. Book-keeping is that of a tool that matches by thread:
   a stop ends the newest start of the thread that was made in its own frame, and those after it have
   lost their stops; of the starts that are open in a thread at most DEPTH (32) are remembered, the
   newest ones.

     call    recursive, 8 deep; twice a thread an exception leaves three of them without their stops
     step    one after the other, in each call
     stray   stops before any start, pairs, a recursion 40 deep, and at the end a start that stays

   skipping.ml is a program in which exceptions skip stops all the time.

   What is printed, a line each:

     probe NAME hits=N
     pair START STOP count=N within_ns=N around_ns=N shortest_ns=N longest_ns=N
          orphan_starts=N orphan_stops=N open=N
     thread TID hits=N

   Of the times the shortest is one between the probes, the longest one around them. *)

external clock : unit -> (int[@untagged]) = "pairs_clock_byte" "pairs_clock" [@@noalloc]
external gettid : unit -> (int[@untagged]) = "pairs_gettid_byte" "pairs_gettid" [@@noalloc]

let hits = int_of_string Sys.argv.(1)
let n_threads = if Array.length Sys.argv > 2 then int_of_string Sys.argv.(2) else 8
let limit = if Array.length Sys.argv > 3 then int_of_string Sys.argv.(3) else 32
let nesting = 8

(* Two calls and two steps a level. *)
let rounds = hits / (n_threads * nesting * 4)

(* One pair in one thread. Fields are ints: nothing allocates, so threads are not switched. *)
type pair = {
  frame : int array; (* of the starts that are open, the oldest first: whose they are *)
  before : int array; (* and their probe's clocks *)
  behind : int array;
  mutable depth : int;
  mutable starts : int;
  mutable stops : int;
  mutable count : int;
  mutable within : int;
  mutable around : int;
  mutable shortest : int;
  mutable longest : int;
  mutable orphan_starts : int;
  mutable orphan_stops : int;
}

let pair () =
  { frame = Array.make limit 0; before = Array.make limit 0; behind = Array.make limit 0; depth = 0;
    starts = 0; stops = 0; count = 0; within = 0; around = 0; shortest = max_int; longest = 0;
    orphan_starts = 0; orphan_stops = 0 }

let drop_oldest pair =
  Array.blit pair.frame 1 pair.frame 0 (limit - 1);
  Array.blit pair.before 1 pair.before 0 (limit - 1);
  Array.blit pair.behind 1 pair.behind 0 (limit - 1);
  pair.depth <- pair.depth - 1;
  pair.orphan_starts <- pair.orphan_starts + 1

let start pair frame before behind =
  pair.starts <- pair.starts + 1;
  if pair.depth = limit then drop_oldest pair;
  pair.frame.(pair.depth) <- frame;
  pair.before.(pair.depth) <- before;
  pair.behind.(pair.depth) <- behind;
  pair.depth <- pair.depth + 1

(* How many starts are open when those after the newest one of FRAME are over. *)
let rec depth_of pair frame depth =
  if depth = 0 then pair.depth
  else if pair.frame.(depth - 1) = frame then depth
  else depth_of pair frame (depth - 1)

let stop pair frame before behind =
  pair.stops <- pair.stops + 1;
  if pair.depth = 0 then pair.orphan_stops <- pair.orphan_stops + 1
  else begin
    let depth = depth_of pair frame pair.depth in
    pair.orphan_starts <- pair.orphan_starts + pair.depth - depth;
    pair.depth <- depth - 1;
    let within = before - pair.behind.(pair.depth) and around = behind - pair.before.(pair.depth) in
    pair.count <- pair.count + 1;
    pair.within <- pair.within + within;
    pair.around <- pair.around + around;
    if within < pair.shortest then pair.shortest <- within;
    if around > pair.longest then pair.longest <- around
  end

(* What is open when its thread ends has lost its stop. *)
let end_thread pair =
  pair.orphan_starts <- pair.orphan_starts + pair.depth;
  pair.depth <- 0

type thread = {
  call : pair;
  step : pair;
  stray : pair;
  mutable tid : int;
}

(* A frame has any number that no other open frame has. *)
let[@inline never] step t x =
  let before = clock () in
  [%probe "step_start" ()];
  start t.step 0 before (clock ());
  let y = (x * 7) lxor 3 in
  let now = clock () in
  [%probe "step_stop" ()];
  stop t.step 0 now (clock ());
  y

let rec call t level x =
  let before = clock () in
  [%probe "call_start" ()];
  start t.call level before (clock ());
  let y = step t x in
  let y = if level = 1 then y else call t (level - 1) y in
  let now = clock () in
  [%probe "call_stop" ()];
  stop t.call level now (clock ());
  y

(* Calls itself until LEVEL is 0 and leaves the innermost three without their stops. *)
let rec escaping t level =
  let before = clock () in
  [%probe "call_start" ()];
  start t.call level before (clock ());
  if level = 0 then raise_notrace Exit;
  if level = 3 then (try escaping t (level - 1) with Exit -> ()) else escaping t (level - 1);
  let now = clock () in
  [%probe "call_stop" ()];
  stop t.call level now (clock ())

let[@inline always] stray_start t frame =
  let before = clock () in
  [%probe "stray_start" ()];
  start t.stray frame before (clock ())

let[@inline always] stray_stop t frame =
  let now = clock () in
  [%probe "stray_stop" ()];
  stop t.stray frame now (clock ())

let rec stray_nested t level =
  stray_start t level;
  if level > 1 then stray_nested t (level - 1);
  stray_stop t level

let worker t =
  let x = ref 1 in
  t.tid <- gettid ();
  stray_stop t 0;
  stray_stop t 0;
  for i = 1 to rounds do
    x := call t nesting !x;
    if i = rounds / 3 || i = rounds / 2 then escaping t 5
  done;
  for _ = 1 to 3 do
    stray_start t 0;
    stray_stop t 0
  done;
  stray_nested t 40;
  stray_start t 0;
  List.iter end_thread [ t.call; t.step; t.stray ];
  ignore (Sys.opaque_identity !x)

(* A thread that has been joined may still be on its way out of the kernel. *)
let rec await_end t =
  if Sys.file_exists (Printf.sprintf "/proc/self/task/%d" t.tid) then begin
    Thread.delay 0.001;
    await_end t
  end

let report threads =
  let fold f first field pair = Array.fold_left (fun sum t -> f sum (field (pair t))) first threads in
  let sum field = fold ( + ) 0 field in
  let say name pair =
    Printf.printf "probe %s_start hits=%d\n" name (sum (fun p -> p.starts) pair);
    Printf.printf "probe %s_stop hits=%d\n" name (sum (fun p -> p.stops) pair);
    Printf.printf
      "pair %s_start %s_stop count=%d within_ns=%d around_ns=%d shortest_ns=%d longest_ns=%d orphan_starts=%d \
       orphan_stops=%d open=%d\n"
      name name
      (sum (fun p -> p.count) pair)
      (sum (fun p -> p.within) pair)
      (sum (fun p -> p.around) pair)
      (fold min max_int (fun p -> p.shortest) pair)
      (fold max 0 (fun p -> p.longest) pair)
      (sum (fun p -> p.orphan_starts) pair)
      (sum (fun p -> p.orphan_stops) pair)
      (sum (fun p -> p.depth) pair)
  in
  say "call" (fun t -> t.call);
  say "step" (fun t -> t.step);
  say "stray" (fun t -> t.stray);
  Array.iter
    (fun t ->
      let of_pair p = p.starts + p.stops in
      Printf.printf "thread %d hits=%d\n" t.tid (of_pair t.call + of_pair t.step + of_pair t.stray))
    threads;
  Printf.printf "end\n%!"

let () =
  print_endline "ready";
  ignore (input_line stdin);
  let threads =
    Array.init n_threads (fun _ -> { call = pair (); step = pair (); stray = pair (); tid = 0 })
  in
  Array.iter Thread.join (Array.map (Thread.create worker) threads);
  Array.iter await_end threads;
  report threads;
  try ignore (input_line stdin) with End_of_file -> ()
