(* What stepped.ml lends to fibres.ml. *)

type t = {
  allocate : int -> int;
  call : (int -> int) -> int -> int;
  call_caught : (int -> int) -> int -> int;
  sum : (int -> int) -> int -> int -> int -> int -> int -> int -> int -> int;
}
