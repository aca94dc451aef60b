(* Probes in recursive modules, and in recursive values that are initialised step by step. *)
open Suite

module rec Tree : sig
  type t = Leaf of string | Node of Set_of_trees.t

  val compare : t -> t -> int
end = struct
  type t = Leaf of string | Node of Set_of_trees.t

  let compare a b =
    [%probe "compare" (match a, b with Leaf a, Leaf b -> note "%s ? %s" a b | _ -> note "?")];
    match a, b with
    | Leaf a, Leaf b -> String.compare a b
    | Leaf _, Node _ -> 1
    | Node _, Leaf _ -> -1
    | Node a, Node b -> Set_of_trees.compare a b
end

and Set_of_trees : (Set.S with type elt = Tree.t) = Set.Make (Tree)

module rec Even : sig
  val test : int -> bool
end = struct
  let test n = [%probe "even" (if n < 2 then note "even %d" n)]; n = 0 || Odd.test (n - 1)
end

and Odd : sig
  val test : int -> bool
end = struct
  let test n = [%probe "odd" (if n < 2 then note "odd %d" n)]; n <> 0 && Even.test (n - 1)
end

type node = { value : int; next : node }

let rec ring = { value = 1; next = { value = 2; next = ring } }

let[@inline never] walk n =
  let rec go r i =
    [%probe "walk" (if i = 0 then note "ends at %d" r.value)];
    if i = 0 then r.value else go r.next (i - 1)
  in
  go ring n

let () =
  run (fun () ->
      let set = Set_of_trees.of_list [ Leaf "b"; Leaf "a" ] in
      say "%d" (Set_of_trees.cardinal set);
      say "%d" (Tree.compare (Node set) (Node set));
      say "%b" (Even.test 101);
      say "%d" (walk 7))

(*expected
> a ? b
2
> ?
> a ? a
> b ? b
0
> even 1
> odd 0
false
> ends at 2
2
*)
