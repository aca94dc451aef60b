(* Loops over bigarrays of several kinds (unboxed loads and stores), with a handler that reads and
   one that writes them. *)
open Suite
open Bigarray

let[@inline never] fill (a : (float, float64_elt, c_layout) Array1.t) =
  for i = 0 to Array1.dim a - 1 do
    a.{i} <- float_of_int (i * i);
    [%probe "fill" (if i = 4 then note "a.{4} = %g" a.{i})]
  done

let[@inline never] sum (a : (float, float64_elt, c_layout) Array1.t) =
  let s = ref 0. in
  for i = 0 to Array1.dim a - 1 do
    let x = Array1.unsafe_get a i in
    [%probe "sum" (if x > 60. then note "big %g, %g" x !s)];
    s := !s +. x
  done;
  !s

let[@inline never] transpose (m : (int32, int32_elt, fortran_layout) Array2.t) =
  let n = Array2.dim1 m in
  for i = 1 to n do
    for j = 1 to i - 1 do
      let x = m.{i, j} in
      [%probe "transpose" (note "%d,%d: %ld" i j x)];
      m.{i, j} <- m.{j, i};
      m.{j, i} <- x
    done
  done

let[@inline never] bytes (a : (int, int8_unsigned_elt, c_layout) Array1.t) =
  [%probe "writes" (Array1.fill a 7)];
  Array1.set a 0 300;
  a.{0} + a.{1}

let () =
  run (fun () ->
      let a = Array1.create Float64 C_layout 10 in
      fill a;
      say "sum %g" (sum a);
      let m = Array2.of_array Int32 Fortran_layout [| [| 1l; 2l |]; [| 3l; 4l |] |] in
      transpose m;
      say "%ld %ld" m.{1, 2} m.{2, 1};
      let b = Array1.of_array Int8_unsigned C_layout [| 1; 2 |] in
      say "%d" (bytes b))

(*expected
> a.{4} = 16
> big 64, 140
> big 81, 204
sum 285
> 2,1: 3
3 2
- 46
+ 51
*)
