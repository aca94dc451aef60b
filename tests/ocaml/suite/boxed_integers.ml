(* int64, int32 and nativeint: unboxed in registers across a probe, boxed for its handler. *)
open Suite

let[@inline never] mix x =
  let open Int64 in
  let x = mul (logxor x (shift_right_logical x 30)) 0xbf58476d1ce4e5b9L in
  [%probe "mix" (note "%Lx" x)];
  let x = mul (logxor x (shift_right_logical x 27)) 0x94d049bb133111ebL in
  [%probe "mix_again" (note "%Lx" x)];
  logxor x (shift_right_logical x 31)

let[@inline never] checksum s =
  let a = ref 1l and b = ref 0l in
  String.iter
    (fun c ->
      a := Int32.rem (Int32.add !a (Int32.of_int (Char.code c))) 65521l;
      [%probe "adler" (if c = 'd' then note "%ld %ld" !a !b)];
      b := Int32.rem (Int32.add !b !a) 65521l)
    s;
  Int32.logor (Int32.shift_left !b 16) !a

let[@inline never] loop n =
  let acc = ref 0n in
  for i = 1 to n do
    acc := Nativeint.add !acc (Nativeint.of_int i);
    [%probe "native" (if Nativeint.rem !acc 7n = 0n then acc := Nativeint.add !acc 0n)]
  done;
  !acc

let[@inline never] divide x y =
  [%probe "divide" (note "%Ld / %Ld" x y)];
  try Int64.to_string (Int64.div x y) with Division_by_zero -> "division by zero"

let[@inline never] changed x =
  let r = ref x in
  [%probe "changed" (r := Int64.neg !r)];
  Int64.succ !r

let () =
  run (fun () ->
      say "%Lx" (mix 0x9e3779b97f4a7c15L);
      say "%lx" (checksum "abcdef");
      say "%nd" (loop 100);
      say "%s" (divide Int64.min_int (-1L));
      say "%s" (divide 1L 0L);
      say "%Ld" (changed 41L))

(*expected
> 6f68261b57e7a770
> e220a838bf5c9dde
e220a8397b1dcdaf
> 395 589
81e0256
5050
> -9223372036854775808 / -1
-9223372036854775808
> 1 / 0
division by zero
- 42
+ -40
*)
