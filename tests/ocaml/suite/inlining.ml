(* One probe in many places: a function inlined hundreds of times, into loops, branches, handlers,
   and into itself. *)
open Suite

let hits = ref 0
let[@inline always] p1 x = [%probe "inlined" (incr hits)]; x + 1
let[@inline always] p4 x = p1 (p1 (p1 (p1 x)))
let[@inline always] p16 x = p4 (p4 (p4 (p4 x)))
let[@inline always] p64 x = p16 (p16 (p16 (p16 x)))
let[@inline never] p256 x = p64 (p64 (p64 (p64 x)))

let[@inline always] noted name x = [%probe "noted" (note "%s %d" name x)]; x * 2

let[@inline never] branches x =
  if x > 0 then noted "positive" x else if x < 0 then noted "negative" (-x) else noted "zero" x + 1

let rec unrolled n =
  [%probe "unrolled" (incr hits)];
  if n = 0 then 0 else 1 + (unrolled [@unrolled 4]) (n - 1)

let[@specialise always] rec map f = function
  | [] -> []
  | x :: l ->
    let y = f x in
    [%probe "map" (incr hits)];
    y :: map f l

let () =
  run (fun () ->
      hits := 0;
      say "%d" (p256 0);
      say "%d %d %d" (branches 0) (branches 1) (branches (-1));
      say "%d" (unrolled 100);
      say "%d" (List.length (map succ [ 1; 2; 3 ]));
      count "hits" !hits)

(*expected
256
> negative 1
> positive 1
> zero 0
1 2 2
100
3
# hits 360
*)
