(* Probes in the places where ocamlopt shapes the code around them differently. Handlers print, so
   that with all of them on the output tells what ran and in which order; off, it is that of a program
   without probes. *)

let say fmt = Printf.printf (fmt ^^ "\n")

exception Found of int

let[@inline never] empty x =
  [%probe "empty" ()];
  x + 1

let[@inline never] in_tail_call x = if x > 0 then [%probe "in_tail_call" (say "tail %d" x)]

(* The handler jumps to a static handler: ocamlopt inverts the condition. *)
let[@inline never] local_exit x =
  let exception Out in
  try
    [%probe "local_exit" (raise_notrace Out)];
    x
  with Out -> -x

let[@inline never] matched x =
  match
    [%probe "matched" (say "matched %d" x)];
    x
  with
  | 1 -> "one"
  | 2 -> "two"
  | _ -> "many"

let[@inline never] raising x =
  try
    [%probe "raising" (raise (Found x))];
    0
  with Found y -> y * 10

let rec descend n =
  if n = 0 then 0
  else begin
    [%probe "descend" (if n = 3 then say "descending")];
    1 + descend (n - 1)
  end

let[@inline never] floats x y =
  let z = x *. y in
  [%probe "floats" (say "float %g" z)];
  z +. x +. y

let[@inline never] closure x =
  let f y =
    [%probe "closure" (say "closure %d %d" x y)];
    x + y
  in
  f

let[@inline never] many_live a b c d e f g h i j =
  let k = a + b and l = c + d and m = e + f and n = g + h and o = i + j in
  [%probe "many_live" (say "live %d" (k + l + m + n + o))];
  (a * b) + (c * d) + (e * f) + (g * h) + (i * j) + (k * l * m * n * o)

(* Same name, nested, and inlined beside each other. *)
let[@inline always] same x = [%probe "same" (say "same %d" x)]

let[@inline never] nested x =
  same x;
  [%probe "same" (say "outer"; same (x + 1); say "outer ends")];
  same (x + 2)

(* The handler is farther than a short jump reaches. *)
let[@inline never] long_handler x =
  let sum = ref x in
  incr sum;
  [%probe "long_handler"
    (sum := (!sum * 3) + 1; sum := !sum lxor 0x1234567; sum := !sum * 7; sum := !sum lsr 1;
     sum := (!sum * 5) + 3; sum := !sum lxor 0x7654321; sum := !sum * 11; sum := !sum lsr 2;
     sum := (!sum * 3) + 1; sum := !sum lxor 0x1234567; sum := !sum * 7; sum := !sum lsr 1;
     sum := (!sum * 5) + 3; sum := !sum lxor 0x7654321; sum := !sum * 11; sum := !sum lsr 2;
     say "long %d" (!sum land 1023))];
  !sum - x

let[@inline never] boolean x =
  ([%probe "boolean" (say "boolean")]; x > 1) && ([%probe "boolean" (say "and again")]; x < 5)

let[@inline never] allocating x =
  let l = [ x; x + 1 ] in
  [%probe "allocating" (say "sum %d" (List.fold_left ( + ) 0 (List.map succ l)))];
  List.length l

(* [==] and [Sys] mean something else here. *)
module Shadow = struct
  module Sys = struct end
  module Stdlib = struct end
  let ( == ) _ _ = true
  let ( <> ) _ _ = true
  let run () =
    [%probe "shadow" (say "shadow")];
    if [%probe_is_enabled "shadow"] then say "shadow enabled" else say "result %b" (1 == 2 && 1 <> 1)
end

let () =
  [%probe "toplevel" (say "toplevel")];
  say "result %d" (empty 1);
  in_tail_call 5;
  say "result %d" (local_exit 7);
  say "result %s" (matched 2);
  say "result %d" (raising 4);
  say "result %d" (descend 5);
  say "result %g" (floats 1.5 2.);
  say "result %d" (closure 3 4);
  say "result %d" (many_live 1 2 3 4 5 6 7 8 9 10);
  nested 1;
  say "result %d" (long_handler 9);
  say "result %b" (boolean 3);
  say "result %d" (allocating 3);
  Shadow.run ()
