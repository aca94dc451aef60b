(* Probes with arguments of all kinds and in all places. A probe's name ends with its arguments' types: i
   an int or another immediate, s a string, f a float, l an int64, r a record whose first field is an
   int. The handlers print the name and the arguments; args_at_site.c prints the same from outside. *)

type r = { mutable n : int; x : float }

let line fmt = Printf.ksprintf prerr_endline fmt

let[@inline never] immediates a b c d =
  [%probe "mixed_iiiisf" ~args:(a, b, c, true, "text", 2.5)
    (line "mixed_iiiisf %d %d %d 1 text 2.5" a (Bool.to_int b) (Char.code c))];
  if b then a + Char.code c else d

(* Not boxed at the site. The int64 and the sums live in registers. *)
let[@inline never] unboxed x y l =
  let z = x *. y and m = Int64.add l 1L in
  [%probe "unboxed_flff" ~args:(z, m, x, y) (line "unboxed_flff %.17g %Ld %.17g %.17g" z m x y)];
  z +. x +. y +. Int64.to_float m

let[@inline never] many a b c d e f g h i j =
  let k = a + b and l = c + d and m = e + f and n = g + h and o = i + j in
  [%probe "many_iiiiiiiiiiiiiii" ~args:(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
    (line "many_iiiiiiiiiiiiiii %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d" a b c d e f g h i j k
       l m n o)];
  (a * b) + (c * d) + (e * f) + (g * h) + (i * j) + (k * l * m * n * o)

let[@inline never] fields r s =
  [%probe "fields_rifs" ~args:(r, r.n, r.x, s) (line "fields_rifs %d %d %.17g %s" r.n r.n r.x s)];
  r.n <- r.n + String.length s

let[@inline never] closure x s =
  let y = x * 2 in
  fun z ->
    [%probe "closure_iisi" ~args:(x, y, s, z) (line "closure_iisi %d %d %s %d" x y s z)];
    x + y + z + String.length s

let[@inline never] loop n =
  let sum = ref 0 and total = ref 0. in
  for i = 1 to n do
    total := !total +. float_of_int i;
    [%probe "loop_iif" ~args:(i, !sum, !total) (line "loop_iif %d %d %.17g" i !sum !total)];
    sum := !sum + i
  done;
  float_of_int !sum +. !total

let[@inline always] inlined x = [%probe "inlined_i" ~args:x (line "inlined_i %d" x)]

let[@inline never] guarded x =
  try
    [%probe "guarded_i" ~args:(x) (line "guarded_i %d" x; if x > 6 then raise Exit)];
    x
  with Exit -> x

let[@inline never] nested x y =
  [%probe "nested_ii" ~args:(x, y) (line "nested_ii %d %d" x y; inlined (x + y))];
  x + y

(* No handler to speak of: for tracers alone. *)
let[@inline never] silent x y = [%probe "silent_is" ~args:(x, y) ()]; x + String.length y

let () =
  let s = String.make 3 (Char.chr (97 + Array.length Sys.argv)) in
  let three = String.length s in
  let toplevel_float = float_of_int three /. 7. in
  [%probe "toplevel_isf" ~args:(three, s, toplevel_float)
    (line "toplevel_isf %d %s %.17g" three s toplevel_float)];
  let r = { n = -5; x = 0.1 } in
  Printf.printf "%d\n" (immediates three true 'c' 4 + immediates (-three) false 'd' 5);
  Printf.printf "%.17g\n" (unboxed toplevel_float 3.25 (Int64.of_int three));
  Printf.printf "%d\n" (many 1 2 3 4 5 6 7 8 9 10);
  fields r s;
  Gc.minor ();
  fields r (s ^ s);
  Printf.printf "%d %d\n" r.n (closure three s 7);
  Printf.printf "%.17g\n" (loop 5);
  inlined 5;
  inlined three;
  Printf.printf "%d %d\n" (guarded three) (guarded (three * 3));
  Printf.printf "%d %d\n" (nested 1 three) (silent three s)
