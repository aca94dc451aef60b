(* Probes in guards of match cases, between a match and its cases, in cases for exceptions, in
   or-patterns' branches, in `function`. *)
open Suite

let[@inline never] guarded x =
  match x with
  | n when ([%probe "first_guard" (note "is %d negative" n)]; n < 0) -> "negative"
  | 0 -> [%probe "case" (note "zero")]; "zero"
  | n when ([%probe "second_guard" (note "is %d even" n)]; n land 1 = 0) -> "even"
  | _ -> "odd"

let[@inline never] subject l =
  match
    [%probe "subject" (note "of %d" (List.length l))];
    List.find (fun x -> x > 3) l
  with
  | x -> [%probe "found" (note "found %d" x)]; x
  | exception Not_found -> [%probe "exception_case" (note "not found")]; 0

let alternatives = function
  | `A (x, 1) | `B (1, x) | `C x -> [%probe "alternatives" (note "x = %d" x)]; x
  | `A (_, n) | `B (n, _) -> [%probe "others" (note "n = %d" n)]; -n

let[@inline never] bindings = function
  | { contents = (a, _ as pair) :: _ } when ([%probe "alias" (note "alias %d" (fst pair))]; a > 1) -> a
  | _ -> 0

let rec pairs = function
  | a :: (b :: _ as rest) ->
    [%probe "pairs" (if b < a then note "%d before %d" a b)];
    (b - a) :: pairs rest
  | _ -> []

let () =
  run (fun () ->
      List.iter (fun x -> say "%s" (guarded x)) [ -1; 0; 6; 7 ];
      say "%d %d" (subject [ 1; 5 ]) (subject []);
      let values = [ `A (10, 1); `B (1, 20); `C 30; `A (1, 4); `B (5, 0) ] in
      say "%d" (List.fold_left (fun n x -> n + alternatives x) 0 values);
      say "%d" (bindings (ref [ 2, 0 ]));
      say "%s" (String.concat " " (List.map string_of_int (pairs [ 1; 4; 2; 8 ]))))

(*expected
> is -1 negative
negative
> is 0 negative
> zero
zero
> is 6 negative
> is 6 even
even
> is 7 negative
> is 7 even
odd
> of 0
> not found
> of 2
> found 5
5 0
> x = 10
> x = 20
> x = 30
> n = 4
> n = 5
51
> alias 2
2
> 4 before 2
3 -2 6
*)
