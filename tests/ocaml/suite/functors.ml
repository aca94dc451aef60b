(* Probes in functors, in functors applied to functors' results, and in generative ones. *)
open Suite

module type NUMBER = sig
  type t

  val zero : t
  val add : t -> t -> t
  val show : t -> string
end

module Int_number = struct
  type t = int

  let zero = 0
  let add = ( + )
  let show = string_of_int
end

module Float_number = struct
  type t = float

  let zero = 0.
  let add = ( +. )
  let show = Printf.sprintf "%.2f"
end

module Sum (N : NUMBER) = struct
  let[@inline never] sum l =
    List.fold_left
      (fun acc x ->
        [%probe "in_functor" (note "%s + %s" (N.show acc) (N.show x))];
        N.add acc x)
      N.zero l
end

module Pair (A : NUMBER) (B : NUMBER) = struct
  type t = A.t * B.t

  let zero = A.zero, B.zero

  let add (a, b) (c, d) =
    [%probe "in_functor_of_two" (note "pair %s" (A.show a))];
    A.add a c, B.add b d

  let show (a, b) = A.show a ^ "," ^ B.show b
end

module Counter () = struct
  let n = ref 0
  let next () = [%probe "generative" (note "from %d" !n)]; incr n; !n
end

module Sum_int = Sum (Int_number)
module Sum_float = Sum (Float_number)
module Sum_pair = Sum (Pair (Int_number) (Float_number))

let () =
  run (fun () ->
      let module A = Counter () in
      let module B = Counter () in
      say "%d" (Sum_int.sum [ 1; 2 ]);
      say "%.1f" (Sum_float.sum [ 0.5; 2. ]);
      let a, b = Sum_pair.sum [ 1, 1.5; 2, 2. ] in
      say "%d %.1f" a b;
      ignore (A.next ());
      say "%d %d" (A.next ()) (B.next ()))

(*expected
> 0 + 1
> 1 + 2
3
> 0.00 + 0.50
> 0.50 + 2.00
2.5
> 0,0.00 + 1,1.50
> pair 0
> 1,1.50 + 2,2.00
> pair 1
3 3.5
> from 0
> from 0
> from 1
2 1
*)
