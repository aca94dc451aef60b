(* Probes in functions over GADTs: with existential types, in branches of refined type,
   polymorphic recursion. *)
open Suite

type _ expr =
  | Int : int -> int expr
  | Bool : bool -> bool expr
  | Add : int expr * int expr -> int expr
  | If : bool expr * 'a expr * 'a expr -> 'a expr
  | Less : int expr * int expr -> bool expr
  | Pair : 'a expr * 'b expr -> ('a * 'b) expr

let rec eval : type a. a expr -> a = function
  | Int n -> [%probe "int" (note "int %d" n)]; n
  | Bool b -> [%probe "bool" (note "bool %b" b)]; b
  | Add (a, b) ->
    let x = eval a in
    [%probe "add" (note "add to %d" x)];
    x + eval b
  | If (c, a, b) -> if eval c then [%probe "then" (note "then")]; eval (if eval c then a else b)
  | Less (a, b) -> eval a < eval b
  | Pair (a, b) ->
    let b = eval b in
    eval a, b

type packed = Packed : 'a expr * ('a -> string) -> packed

let[@inline never] show (Packed (e, show)) =
  [%probe "existential" (note "= %s" (show (eval e)))];
  show (eval e)

let rec nested : 'a. ('a -> string) -> 'a -> int -> string =
  fun (type a) (f : a -> string) (x : a) n ->
   [%probe "polymorphic_recursion" (note "level %d" n)];
   if n = 0 then f x else nested (fun (a, b) -> f a ^ f b) (x, x) (n - 1)

let () =
  run (fun () ->
      say "%s" (show (Packed (Add (Int 1, Int 2), string_of_int)));
      say "%d" (eval (If (Less (Int 1, Int 2), Int 10, Int 20)));
      say "%s" (nested string_of_int 7 2))

(*expected
> int 1
> add to 1
> int 2
> = 3
> int 1
> add to 1
> int 2
3
> int 2
> int 1
> then
> int 2
> int 1
> int 10
10
> level 2
> level 1
> level 0
7777
*)
