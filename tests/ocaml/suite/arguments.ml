(* ~args: of every kind, at hand and computed, more than there are registers, in loops, closures
   and inlined functions; evaluated when the probe is on and only then. What tracers read of them
   is tested elsewhere (tests/ocaml/args.ml): here they must disturb nobody. *)
(*suite: strict no: tracers cannot be told where computed arguments are *)
open Suite

let evaluated = ref 0

let[@inline never] computed x =
  incr evaluated;
  string_of_int x

let[@inline never] kinds x s f =
  let l = Int64.of_int x and g = f *. 2. in
  [%probe "kinds" ~args:(x, s, f, g, l, [ x ], Some s) (note "%d %s %g %g %Ld" x s f g l)];
  Printf.sprintf "%d%s%g%g%Ld" x s f g l

let[@inline never] calls x = [%probe "calls" ~args:(computed x, x + 1) (note "called for %d" x)]; x

let[@inline never] many a b c d e f g h i j =
  let k = a + j and l = b * i and m = c - h and n = d lxor g in
  [%probe "many" ~args:(a, b, c, d, e, f, g, h, i, j, k, l, m, n) (Gc.minor (); note "%d" (a + n))];
  a + b + c + d + e + f + g + h + i + j + (2 * k) + (3 * l) + (5 * m) + (7 * n)

let[@inline never] loop n =
  let sum = ref 0 and total = ref 0. in
  for i = 1 to n do
    [%probe "loop" ~args:(i, !sum, !total) (if i = n then note "last %d %g" !sum !total)];
    sum := !sum + i;
    total := !total +. (float_of_int i /. 2.)
  done;
  Printf.sprintf "%d %g" !sum !total

let[@inline always] inlined s =
  [%probe "inlined" ~args:(s, String.length s) (note "inlined %s" s)];
  s ^ "."

let[@inline never] twice s = inlined (inlined s)
let[@inline never] closure x = fun y ->
  [%probe "closure" ~args:(x, y) (note "closure %d %s" x y)];
  y ^ string_of_int x

let[@inline never] raises x y =
  try [%probe "raises" ~args:(x, y) (raise_notrace Exit)]; x + y with Exit -> x - y

let[@inline never] no_handler x y = [%probe "no_handler" ~args:(x, y) ()]; x ^ y

let () =
  run (fun () ->
      evaluated := 0;
      say "%s" (kinds 1 "s" 0.5);
      say "%d" (calls 2);
      say "%d" (many 1 2 3 4 5 6 7 8 9 10);
      say "%s" (loop 10);
      say "%s" (twice "a");
      say "%s" (closure 3 "c");
      say "%d" (raises 5 3);
      say "%s" (no_handler "x" "y");
      count "evaluated" !evaluated)

(*expected
> 1 s 0.5 1 1
1s0.511
> called for 2
2
> 4
127
> last 45 22.5
55 27.5
> inlined a
> inlined a.
a..
> closure 3 c
c3
- 8
+ 2
xy
# evaluated 1
*)
