(* Records and references changed by handlers: fields, unboxed records, inline records, references
   that would live in registers if no handler changed them, and those that do. *)
open Suite

type t = { mutable n : int; mutable s : string; f : float }
type id = Id of int [@@unboxed]
type shape = Circle of { mutable radius : float } | Box of { w : int; h : int }

let[@inline never] changed_field t =
  let before = t.n in
  [%probe "field" (t.n <- t.n + 100; t.s <- t.s ^ "!")];
  before + t.n

let[@inline never] changed_ref x =
  let r = ref x in
  [%probe "ref" (r := !r * 2)];
  let a = !r in
  [%probe "ref_again" (r := !r + 1)];
  a + !r

let[@inline never] copied t =
  let u = { t with n = 5 } in
  [%probe "copied" (note "%d %s %g" u.n u.s u.f)];
  u.n + t.n

let[@inline never] unboxed (Id n as id) =
  [%probe "unboxed" (match id with Id m -> note "id %d" (m + n))];
  n

let[@inline never] inline_record = function
  | Circle c -> [%probe "circle" (c.radius <- c.radius *. 2.)]; c.radius
  | Box { w; h } -> [%probe "box" (note "%d x %d" w h)]; float_of_int (w * h)

let[@inline never] swap (a, b) =
  let x, y = b, a in
  [%probe "swapped" (note "%s %d" x y)];
  x, y

let () =
  run (fun () ->
      let t = { n = 1; s = "s"; f = 0.5 } in
      say "%d" (changed_field t);
      say "%s" t.s;
      t.n <- 1;
      say "%d" (copied { t with s = "t" });
      ignore (changed_ref 3);
      say "%d" (unboxed (Id 4));
      say "%g" (inline_record (Circle { radius = 1. }));
      say "%g" (inline_record (Box { w = 2; h = 3 }));
      say "%s" (fst (swap (1, "one"))))

(*expected
- 2
+ 102
- s
+ s!
> 5 t 0.5
6
> id 8
4
- 1
+ 2
> 2 x 3
6
> one 1
one
*)
