(* Probes in functions that call each other, not in tail position, with the handler calling back
   into the ring. *)
open Suite

let hits = ref 0

let rec even n = [%probe "even" (incr hits)]; n = 0 || not (not (odd (n - 1)))
and odd n = [%probe "odd" (incr hits)]; n <> 0 && not (not (even (n - 1)))

type tree =
  | Leaf of int
  | Node of forest

and forest = tree list

let rec tree_sum = function
  | Leaf n -> [%probe "leaf" (note "leaf %d" n)]; n
  | Node f -> 1 + forest_sum f

and forest_sum = function
  | [] -> [%probe "empty" (note "end")]; 0
  | t :: f ->
    let first = tree_sum t in
    [%probe "between" (if first > 1 then note "depth %d" (depth t))];
    first + forest_sum f

and depth = function
  | Leaf _ -> 0
  | Node f -> 1 + List.fold_left (fun m t -> max m (depth t)) 0 f

let () =
  run (fun () ->
      hits := 0;
      say "even %b odd %b" (even 1000) (odd 11);
      say "sum %d" (tree_sum (Node [ Leaf 1; Node [ Leaf 2; Leaf 3 ]; Node [] ]));
      count "hits" !hits)

(*expected
even true odd true
> leaf 1
> leaf 2
> depth 0
> leaf 3
> depth 0
> end
> depth 1
> end
> end
sum 9
# hits 1013
*)
