(* Handlers that call the function their probe is in: the same site is passed again while its
   handler runs. *)
open Suite

let depth = ref 0
let deepest = ref 0
let hits = ref 0

let rec f x =
  [%probe "recursive"
    (incr hits;
     if !depth < 5 then begin
       incr depth;
       deepest := max !deepest !depth;
       ignore (f (x + 1));
       decr depth
     end)];
  x * 2

(* Twice each level. *)
let rec tree level x =
  let y = x + level in
  [%probe "tree"
    (incr hits;
     if level > 0 then begin
       ignore (tree (level - 1) y);
       ignore (tree (level - 1) (y + 1))
     end)];
  y

let rec g x = [%probe "g" (incr hits; if x > 0 then ignore (h (x - 1)))]; x
and h x = [%probe "h" (incr hits; if x > 0 then ignore (g (x - 1)))]; x + 1

let () =
  run (fun () ->
      hits := 0;
      depth := 0;
      deepest := 0;
      say "f %d" (f 21);
      say "depth %d" !depth;
      count "deepest" !deepest;
      say "tree %d" (tree 5 1);
      say "g %d" (g 9);
      count "hits" !hits)

(*expected
f 42
depth 0
# deepest 5
tree 6
g 9
# hits 79
*)
