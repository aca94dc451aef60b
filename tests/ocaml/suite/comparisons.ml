(* Polymorphic comparison and hashing (calls of C functions) before, after and in handlers, also
   where the comparison's flags are used after the probe. *)
open Suite

type t = { name : string; values : float list }

let a = { name = "a"; values = [ 1.; 2. ] }
let b = { name = "a"; values = [ 1.; 3. ] }

let[@inline never] order x y =
  let c = compare x y in
  [%probe "after_compare" (note "compared: %d" (compare y x))];
  if c < 0 then "less" else if c = 0 then "equal" else "greater"

let[@inline never] flags x y =
  let smaller = x < y in
  [%probe "between" (if x = y then note "equal")];
  if smaller then 1 else 0

let[@inline never] int_flags (x : int) y =
  let smaller = x < y in
  [%probe "between_ints" (if x <> y then note "%d <> %d" x y)];
  smaller

let[@inline never] functional x = try ignore (x = x); "equal" with Invalid_argument what -> what

let[@inline never] in_handler f =
  [%probe "comparing_functions" (note "%s" (functional f))];
  Hashtbl.hash (a.name, 3) = Hashtbl.hash ("a", 3)

let[@inline never] maximum l =
  List.fold_left (fun m x ->
    [%probe "fold" (if max m x <> m then note "new maximum %s" x)];
    max m x) "" l

let () =
  run (fun () ->
      say "%s" (order a b);
      say "%s" (order [ Some 1 ] [ Some 1 ]);
      say "flags %d %d" (flags "x" "y") (flags nan nan);
      say "ints %b" (int_flags 3 4);
      say "hash %b" (in_handler (fun x -> x + 1));
      say "maximum %s" (maximum [ "b"; "d"; "c" ]))

(*expected
> compared: 1
less
> compared: 0
equal
flags 1 0
> 3 <> 4
ints true
> compare: functional value
hash true
> new maximum b
> new maximum d
maximum d
*)
