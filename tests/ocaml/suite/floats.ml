(* Float code: values alive in vector registers across a probe, boxed for its handler, changed by
   it in unboxed references, in records and arrays of floats. *)
open Suite

type point = { mutable x : float; mutable y : float }

let[@inline never] polynomial x =
  let x2 = x *. x in
  let x3 = x2 *. x in
  [%probe "live_floats" (note "%g %g %g" x x2 x3)];
  1. +. x +. (x2 /. 2.) +. (x3 /. 6.)

let[@inline never] integrate n =
  let sum = ref 0. and h = 1. /. float_of_int n in
  for i = 0 to n - 1 do
    let t = (float_of_int i +. 0.5) *. h in
    [%probe "in_loop" (if i = 3 then note "t = %.4f, sum = %.4f" t !sum)];
    sum := !sum +. (t *. t *. h)
  done;
  !sum

let[@inline never] changes x =
  let r = ref x in
  [%probe "changes" (r := !r *. 2.)];
  !r +. 1.

(* Nine values that want to stay in registers, and C calls. *)
let[@inline never] many a b c d =
  let e = a +. b and f = b *. c and g = c -. d and h = d /. a and i = sqrt b in
  [%probe "many" (note "%.3f" (sin e +. f))];
  [%probe "many" ()];
  a +. (b *. 2.) +. (c *. 3.) +. (d *. 5.) +. (e *. 7.)
  +. (f *. 11.) +. (g *. 13.) +. (h *. 17.) +. (i *. 19.)

let[@inline never] move p dx =
  p.x <- p.x +. dx;
  [%probe "record" (note "at %g, %g" p.x p.y; p.y <- p.y +. 0.)];
  p.y <- p.y -. dx;
  p.x +. p.y

let[@inline never] dot a b =
  let s = ref 0. in
  Array.iteri (fun i x ->
    [%probe "array" (if i = 2 then note "%g * %g" x b.(i))];
    s := !s +. (x *. b.(i))) a;
  !s

let[@inline never] special x =
  [%probe "special" (note "%b %b" (Float.is_nan x) (x < infinity))];
  if x <> x then "nan" else Float.to_string x

let () =
  run (fun () ->
      say "%.6f" (polynomial 0.5);
      say "%.6f" (integrate 10);
      say "%g" (changes 1.5);
      say "%.6f" (many 1. 4. 2.5 3.);
      say "%g" (move { x = 1.; y = 2. } 0.25);
      say "%g" (dot [| 1.; 2.; 3. |] [| 4.; 5.; 6. |]);
      say "%s %s" (special nan) (special neg_infinity))

(*expected
> 0.5 0.25 0.125
1.645833
> t = 0.3500, sum = 0.0088
0.332500
- 2.5
+ 4
> 9.041
259.000000
> at 1.25, 2
3
> 3 * 6
32
> false true
> true false
nan -inf
*)
