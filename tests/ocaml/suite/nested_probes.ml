(* Handlers that contain probes: of other names, of the same name, in functions that were inlined
   into the handler, in loops and closures of the handler. *)
open Suite

let[@inline always] step x = [%probe "step" (note "step %d" x)]; x + 1

let[@inline never] three x =
  let y = x * 10 in
  [%probe "one"
    (note "one %d" x;
     [%probe "two" (note "two %d" y; [%probe "three" (note "three %d" (x + y))]; note "two ends")];
     note "one ends")];
  x + y

let[@inline never] inlined x =
  let a = step x in
  [%probe "around" (note "around %d" (step (a * 100)))];
  step a

let[@inline never] in_loop n =
  [%probe "loop"
    (for i = 1 to n do
       [%probe "element" (note "element %d" i)]
     done;
     List.iter (fun i -> [%probe "closure" (note "closure %d" i)]) [ n ])];
  n

let[@inline never] conditional x =
  [%probe "if"
    (if x > 0 then [%probe "positive" (note "positive")]
     else [%probe "negative" (note "negative")])];
  x

let[@inline never] asks x =
  [%probe "asks" (if [%probe_is_enabled "asks"] then note "enabled %d" x)];
  x

let () =
  run (fun () ->
      say "%d" (three 1);
      say "%d" (inlined 5);
      say "%d" (in_loop 2);
      say "%d" (conditional 3 + conditional (-4));
      say "%d" (asks 6))

(*expected
> one 1
> two 10
> three 11
> two ends
> one ends
11
> step 5
> step 600
> around 601
> step 6
7
> element 1
> element 2
> closure 2
2
> negative
> positive
-1
> enabled 6
6
*)
