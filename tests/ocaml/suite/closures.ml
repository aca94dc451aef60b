(* Probes in closures, in curried and mutually recursive ones, in handlers that are closures or
   make them, and that capture what the function around them does not use otherwise. *)
open Suite

let hits = ref 0
let[@inline never] adder x = fun y -> [%probe "adder" (note "%d + %d" x y)]; x + y

let[@inline never] counter step =
  let n = ref 0 in
  fun () ->
    [%probe "counter" (incr hits; n := !n + 0)];
    n := !n + step;
    !n

(* Alive for the handler alone. *)
let[@inline never] captured a b =
  let product = a * b and text = string_of_int a in
  [%probe "captured" (List.iter (fun x -> note "%s: %d" text (x + product)) [ a; b ])];
  a

let[@inline never] handler_makes_closure x =
  let stored = ref (fun y -> y) in
  [%probe "makes_closure" (stored := fun y -> if y > 100 then x else y)];
  List.map !stored [ x; x + 1 ]

let[@inline never] local_recursion n =
  let rec up i = if i = n then i else begin [%probe "up" (incr hits)]; down (i + 2) end
  and down i = [%probe "down" (incr hits)]; up (i - 1) in
  up 0

let () =
  run (fun () ->
      hits := 0;
      say "adder %d" (adder 3 4);
      let next = counter 5 in
      ignore (next ());
      say "counter %d" (next ());
      say "captured %d" (captured 6 7);
      say "stored %s" (String.concat " " (List.map string_of_int (handler_makes_closure 8)));
      say "recursion %d" (local_recursion 20);
      count "hits" !hits)

(*expected
> 3 + 4
adder 7
counter 10
> 6: 48
> 6: 49
captured 6
stored 8 9
recursion 20
# hits 42
*)
