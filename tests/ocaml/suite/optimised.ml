(* What optimisers do to the code around: constants propagated into the handler, unused results,
   common subexpressions and loads moved across a probe, conditions known at compile time, dead
   probes, probes whose handler has no effect. *)
open Suite

type r = { mutable a : int; b : int }

let debug = false
let hits = ref 0
let[@inline never] constant () = let x = 6 in let y = x * 7 in [%probe "constant" (note "%d" y)]; y

let[@inline never] common r =
  let x = r.a * r.b in
  [%probe "common" (r.a <- r.a + 1)];
  let y = r.a * r.b in
  x + y

let[@inline never] dead x =
  if debug then [%probe "dead" (note "never")];
  x

let[@inline never] no_effect x =
  [%probe "no_effect" (ignore (x + 1))];
  [%probe "unit" ()];
  [%probe "empty_sequence" ((); ())];
  x

let[@inline never] same_condition x =
  if x > 3 then [%probe "first" (incr hits)];
  if x > 3 then [%probe "second" (incr hits)];
  if x > 3 then x else begin [%probe "third" (incr hits)]; 0 end

let[@inline never] immutable_after x =
  let p = x, x + 1 in
  [%probe "pair" (note "%d" (fst p))];
  fst p + snd p

let[@inline never] shared_exit x =
  if x < 0 then [%probe "a" (note "exit")]
  else if x = 0 then [%probe "b" (note "exit")]
  else [%probe "a" (note "exit")]

let[@inline never] sequence () =
  [%probe "s1" (incr hits)];
  [%probe "s2" (incr hits)];
  [%probe "s3" (incr hits)];
  [%probe "s1" (incr hits)]

let () =
  run (fun () ->
      hits := 0;
      say "%d" (constant ());
      say "%b" (List.mem (common { a = 2; b = 10 }) [ 40; 50 ]);
      say "%d" (dead 4);
      say "%d" (no_effect 5);
      say "%d" (same_condition 5);
      say "%d" (immutable_after 2);
      shared_exit (-1);
      shared_exit 0;
      shared_exit 1;
      sequence ();
      count "hits" !hits)

(*expected
> 42
42
true
4
5
5
> 2
5
> exit
> exit
> exit
# hits 6
*)
