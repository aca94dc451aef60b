(* Arrays: of ints, floats and pointers, generic and specialised, bounds checked, with the write
   barrier, while a handler changes or moves them. *)
open Suite

let hits = ref 0
let[@inline never] reverse a =
  let n = Array.length a in
  for i = 0 to (n / 2) - 1 do
    let x = a.(i) in
    [%probe "swap" (incr hits; Gc.minor ())];
    a.(i) <- a.(n - 1 - i);
    a.(n - 1 - i) <- x
  done;
  a

let[@inline never] prefix_sums (a : float array) =
  for i = 1 to Array.length a - 1 do
    [%probe "prefix" (if i = 2 then note "%g + %g" a.(i) a.(i - 1))];
    a.(i) <- a.(i) +. a.(i - 1)
  done;
  a

let[@inline never] matrix n =
  let m = Array.make_matrix n n 0 in
  for i = 0 to n - 1 do
    for j = 0 to n - 1 do
      m.(i).(j) <- i * j;
      [%probe "matrix" (m.(i) <- Array.copy m.(i))]
    done
  done;
  Array.fold_left (Array.fold_left ( + )) 0 m

let[@inline never] bounds a i =
  match
    let x = Array.get a i in
    [%probe "within" (note "element %d is %d" i x)];
    x
  with
  | x -> string_of_int x
  | exception Invalid_argument what -> [%probe "outside" (note "outside")]; what

let () =
  run (fun () ->
      hits := 0;
      say "%s" (String.concat "" (Array.to_list (reverse [| "a"; "b"; "c"; "d"; "e" |])));
      say "%g" (reverse [| 1.; 2.; 3.; 4. |]).(0);
      say "%g" (prefix_sums [| 1.; 2.; 3.; 4. |]).(3);
      say "%d" (matrix 6);
      say "%s" (bounds [| 1; 2 |] 1);
      say "%s" (bounds [| 1; 2 |] 2);
      count "hits" !hits)

(*expected
edcba
4
> 3 + 3
10
225
> element 1 is 2
2
> outside
index out of bounds
# hits 4
*)
