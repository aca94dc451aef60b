(* Fourteen values alive across a probe, ints, floats and pointers: more than there are registers.
   The handlers call, allocate, or neither; the collector must find the pointers, and the values
   must be as they were. *)
open Suite

let hits = ref 0

let[@inline never] ints a b c d e f g h i j k l m n =
  [%probe "ints" (incr hits)];
  [%probe "ints_calling" (note "%d" (a + n))];
  (a + (2 * b) + (3 * c) + (4 * d) + (5 * e) + (6 * f) + (7 * g))
  - ((8 * h) + (9 * i) + (10 * j) + (11 * k) + (12 * l) + (13 * m) + (14 * n))

let[@inline never] pointers x =
  let s i = String.make 1 (Char.chr (x + i)) in
  let a = s 0 and b = s 1 and c = s 2 and d = s 3 and e = s 4 and f = s 5 and g = s 6 in
  let h = s 7 and i = s 8 and j = s 9 and k = s 10 and l = s 11 and m = s 12 and n = s 13 in
  [%probe "pointers"
    (Gc.minor ();
     ignore (Sys.opaque_identity (List.init 100 Fun.id));
     note "%s" (a ^ n))];
  [%probe "pointers_all" (note "%s" (String.concat "-" [ n; m; l; k; j; i; h; g; f; e; d; c; b; a ]))];
  String.concat "" [ a; b; c; d; e; f; g; h; i; j; k; l; m; n ]

let[@inline never] mixed x =
  let f = float_of_int x in
  let a = x + 1 and b = f *. 2. and c = string_of_int x and d = f +. 0.5 and e = [ x ] in
  let g = x * 7 and h = f *. f and i = (x, f) and j = x lxor 5 and k = sqrt f in
  let l = Some c and m = f -. 1. and n = x asr 1 in
  [%probe "mixed" (Gc.full_major (); note "%d %g %s" (a + g + j + n) (b +. d +. h +. k +. m) c)];
  Printf.sprintf "%d %g %s %g %d %d %g %d %g %s %g %d" a b c d (List.hd e) g h (fst i + j) k
    (Option.get l) m n

let () =
  run (fun () ->
      hits := 0;
      say "%d" (ints 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
      say "%s" (pointers 97);
      say "%s" (mixed 9);
      count "ints" !hits)

(*expected
> 15
-735
> an
> n-m-l-k-j-i-h-g-f-e-d-c-b-a
abcdefghijklmn
> 89 119.5 9
10 18 9 9.5 9 63 81 21 3 9 8 4
# ints 1
*)
