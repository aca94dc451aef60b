(* Probes in functions that are applied partially, to too many arguments, passed on as values, and
   built from combinators. *)
open Suite

let[@inline never] three a b c = [%probe "three" (note "three %d %d %d" a b c)]; (a * b) + c

let[@inline never] returns_function a =
  [%probe "returns_function" (note "first %d" a)];
  fun b ->
    [%probe "returned" (note "second %d %d" a b)];
    a - b

let compose f g x = [%probe "compose" (note "composing at %d" x)]; f (g x)
let rec iterate n f = if n = 0 then Fun.id else compose f (iterate (n - 1) f)
let[@inline never] in_argument x = three (([%probe "argument" (note "argument")]; x)) 2 x

let () =
  run (fun () ->
      let two = three 2 in
      let six = two 3 in
      say "%s" (String.concat " " (List.map (fun x -> string_of_int (six x)) [ 1; 2 ]));
      say "%d" (returns_function 9 4);
      say "%d" (iterate 2 (returns_function 10) 3);
      say "%d" (in_argument 5);
      let functions = [ two 1; returns_function 1 ] in
      let results = List.map2 (fun f x -> string_of_int (f x)) functions [ 7; 8 ] in
      say "%s" (String.concat " " results))

(*expected
> three 2 3 1
> three 2 3 2
7 8
> first 9
> second 9 4
5
> first 10
> composing at 3
> composing at 3
> second 10 3
> second 10 7
3
> argument
> three 5 2 5
15
> first 1
> three 2 1 7
> second 1 8
9 -7
*)
