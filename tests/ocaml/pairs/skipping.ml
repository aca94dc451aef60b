(* Pairs whose stops are skipped by exceptions, one in ten, and the program's own books of them.

     skipping ROUNDS [WORKERS [turns]]

   Prints "ready" and waits for a line; then WORKERS (4) threads, on OCaml 5 domains as well and in each
   four fibres that take turns, do ROUNDS rounds each; then it says what it did as pairs.ml does, and
   stays until another line or the end of stdin.

   These books follow no rule for what a stop belongs to: each pair is a run of one function, which knows
   its own start. Clocks are read as in pairs.ml.

     nest    a tree of calls, which exceptions leave by one to eight levels at a time
     lone    pairs with nothing around them, of which the first hundred are without their stops
     pass    as nest, but one function passes the start, another one the stop
     visit   the same in other depths of the stack; nothing is skipped

   With `turns`, the fibres take turns within a pair, and go on in any of WORKERS domains (on OCaml 4
   each is a thread):

     turn    some skip their stops; the argument of both probes is the fibre's number *)

external clock : unit -> (int[@untagged]) = "pairs_clock_byte" "pairs_clock" [@@noalloc]
external gettid : unit -> (int[@untagged]) = "pairs_gettid_byte" "pairs_gettid" [@@noalloc]

let rounds = int_of_string Sys.argv.(1)
let n_workers = if Array.length Sys.argv > 2 then int_of_string Sys.argv.(2) else 4
let turns = Array.length Sys.argv > 3 && Sys.argv.(3) = "turns"
let fibres_a_worker = 4
let deepest = 7

(* ---- books ----------------------------------------------------------------------------------- *)

type pair = {
  mutable starts : int;
  mutable count : int;
  mutable within : int;
  mutable around : int;
  mutable shortest : int;
  mutable longest : int;
  mutable still_open : int;
}

let pair () =
  { starts = 0; count = 0; within = 0; around = 0; shortest = max_int; longest = 0; still_open = 0 }

let started pair = pair.starts <- pair.starts + 1

(* The clocks in front of and behind both probes. *)
let stopped pair ~before ~behind now later =
  let within = now - behind and around = later - before in
  pair.count <- pair.count + 1;
  pair.within <- pair.within + within;
  pair.around <- pair.around + around;
  if within < pair.shortest then pair.shortest <- within;
  if around > pair.longest then pair.longest <- around

(* What one fibre does. *)
type work = {
  id : int;
  random : Random.State.t;
  nest : pair;
  lone : pair;
  pass : pair;
  visit : pair;
  turn : pair;
}

let work id =
  { id; random = Random.State.make [| id |]; nest = pair (); lone = pair (); pass = pair (); visit = pair ();
    turn = pair () }

let one_in w n = Random.State.int w.random n = 0

(* ---- pairs ----------------------------------------------------------------------------------- *)

(* Up to the call of this level. *)
exception Skip of int

let skip w level = if one_in w 32 then raise_notrace (Skip (Random.State.int w.random (level + 1) - 1))

(* A pair that stops takes this long. What skips its stop does so at once: a time from there would be shorter
   than any. *)
let least_ns = 5000

let rec take_time until = if clock () < until then take_time until

let rec nest w level =
  let before = clock () in
  [%probe "nest_start" ()];
  let behind = clock () in
  started w.nest;
  skip w level;
  take_time (behind + least_ns);
  if level < deepest then begin
    (try nest w (level + 1) with Skip to_level when to_level = level -> ());
    if one_in w 4 then try nest w (level + 1) with Skip to_level when to_level = level -> ()
  end;
  let now = clock () in
  [%probe "nest_stop" ()];
  stopped w.nest ~before ~behind now (clock ())

let[@inline never] lone w ~skips =
  let before = clock () in
  [%probe "lone_start" ()];
  let behind = clock () in
  started w.lone;
  if skips then raise_notrace Exit;
  take_time (behind + least_ns);
  let now = clock () in
  [%probe "lone_stop" ()];
  stopped w.lone ~before ~behind now (clock ())

(* The frames of the two are alike: called by the same function they have the same stack pointer. *)
let[@inline never] pass_in () = [%probe "pass_start" ()]
let[@inline never] pass_out () = [%probe "pass_stop" ()]

let rec pass w level =
  let before = clock () in
  pass_in ();
  let behind = clock () in
  started w.pass;
  skip w level;
  take_time (behind + least_ns);
  if level < deepest then (try pass w (level + 1) with Skip to_level when to_level = level -> ());
  let now = clock () in
  pass_out ();
  stopped w.pass ~before ~behind now (clock ())

let[@inline never] enter () =
  let before = clock () in
  [%probe "visit_start" ()];
  (before, clock ())

let[@inline never] leave () =
  let now = clock () in
  [%probe "visit_stop" ()];
  (now, clock ())

(* F's result, called by N others. *)
let rec below n f =
  if n = 0 then f ()
  else begin
    let result = below (n - 1) f in
    ignore (Sys.opaque_identity n);
    result
  end

(* Starts far below their stops in the stack, or far above. *)
let rec visit w ~starts_below level =
  let before, behind = if starts_below then below 60 enter else enter () in
  started w.visit;
  if level < 3 then visit w ~starts_below (level + 1);
  let now, later = if starts_below then leave () else below 60 leave in
  stopped w.visit ~before ~behind now later

(* A fibre that skipped its stop has something open until it starts again. *)
let turn w ~skips =
  let id = w.id in
  let before = clock () in
  [%probe "turn_start" ~args:id ()];
  let behind = clock () in
  started w.turn;
  w.turn.still_open <- 1;
  Fibres.yield ();
  if not skips then begin
    let now = clock () in
    [%probe "turn_stop" ~args:id ()];
    w.turn.still_open <- 0;
    stopped w.turn ~before ~behind now (clock ())
  end

(* ---- fibres and workers ---------------------------------------------------------------------- *)

(* OCaml 5 moves a stack that grows, and with it the stack pointer: let it grow first. *)
let rec grow n = if n = 0 then 0 else 1 + grow (n - 1)

let fibre w () =
  ignore (Sys.opaque_identity (grow 5000));
  for i = 1 to rounds do
    (try nest w 0 with Skip _ -> ());
    Fibres.yield ();
    (try lone w ~skips:(i <= 100 || one_in w 10) with Exit -> ());
    Fibres.yield ();
    (try pass w 0 with Skip _ -> ());
    visit w ~starts_below:(i land 1 = 0) 0;
    Fibres.yield ()
  done

let turning w () =
  for _ = 1 to rounds do
    turn w ~skips:(one_in w 10);
    Fibres.yield ()
  done

(* A thread that has been joined may still be on its way out of the kernel. *)
let rec await_end tid =
  if Sys.file_exists (Printf.sprintf "/proc/self/task/%d" tid) then begin
    Thread.delay 0.001;
    await_end tid
  end

let run_workers works =
  let tids = Array.make n_workers 0 in
  let worker i () =
    tids.(i) <- gettid ();
    Fibres.run (List.map fibre works.(i))
  in
  Fibres.parallel (List.init n_workers worker);
  Array.iter await_end tids

let report works =
  let say name pair =
    let fold f first field = List.fold_left (fun sum w -> f sum (field (pair w))) first works in
    let sum = fold ( + ) 0 in
    let starts = sum (fun p -> p.starts) and count = sum (fun p -> p.count) in
    let still_open = sum (fun p -> p.still_open) in
    Printf.printf "probe %s_start hits=%d\nprobe %s_stop hits=%d\n" name starts name count;
    Printf.printf
      "pair %s_start %s_stop count=%d within_ns=%d around_ns=%d shortest_ns=%d longest_ns=%d orphan_starts=%d \
       orphan_stops=0 open=%d\n"
      name name count
      (sum (fun p -> p.within))
      (sum (fun p -> p.around))
      (fold min max_int (fun p -> p.shortest))
      (fold max 0 (fun p -> p.longest))
      (starts - count - still_open)
      still_open
  in
  say "nest" (fun w -> w.nest);
  say "lone" (fun w -> w.lone);
  say "pass" (fun w -> w.pass);
  say "visit" (fun w -> w.visit);
  say "turn" (fun w -> w.turn);
  Printf.printf "end\n%!"

let () =
  print_endline "ready";
  ignore (input_line stdin);
  let works =
    Array.init n_workers (fun i -> List.init fibres_a_worker (fun j -> work ((i * fibres_a_worker) + j)))
  in
  let all = List.concat (Array.to_list works) in
  if turns then Fibres.run_anywhere n_workers (List.map turning all) else run_workers works;
  report all;
  try ignore (input_line stdin) with End_of_file -> ()
