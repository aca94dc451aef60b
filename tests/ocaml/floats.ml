(* Probes whose arguments are floats, boxed and not, or anything, and the program's own books of them.

     floats N SEED

   Prints "ready" and waits for a line; then there are N rounds; then it says what each probe was hit
   with, and waits for another line or the end of stdin.

     boxed     n, x       a float that functions pass
     field     total      of a record that has floats only
     stored    stored     computed, and kept over a call
     mixed     it         an int, a bool, a float, an int64, or a string
     begun, ended  n, x   a pair

   A line of the books is "PROBE KIND VALUE": the kind is int, float or other; the value of a float is
   its 64 bits. *)

let rounds = int_of_string Sys.argv.(1)
let random = Random.State.make [| int_of_string Sys.argv.(2) |]
let books = Buffer.create 65536
let note probe kind value = Printf.bprintf books "%s %s %s\n" probe kind value
let note_float probe x = note probe "float" (Printf.sprintf "%016Lx" (Int64.bits_of_float x))
let note_int probe n = note probe "int" (string_of_int n)

type sums = { mutable least : float; mutable total : float; mutable most : float }

let[@inline never] boxed n x =
  [%probe "boxed" ~args:(n, (x : float)) ()];
  note_float "boxed" x

let[@inline never] field sums = [%probe "field" ~args:sums.total ()]
let[@inline never] work x = ignore (Sys.opaque_identity x)

let[@inline never] stored x by =
  let stored = x *. by in
  work by;
  [%probe "stored" ~args:stored ()];
  work by;
  note_float "stored" stored;
  stored +. by

let[@inline never] mixed it = [%probe "mixed" ~args:it ()]
let[@inline never] begun n x = [%probe "begun" ~args:(n, x) ()]
let[@inline never] ended n x = [%probe "ended" ~args:(n, x) ()]

(* Of any exponent and sign, with what is special among them. *)
let any_float i =
  match i mod 20 with
  | 0 -> 0.
  | 1 -> -0.
  | 2 -> infinity
  | 3 | 4 -> neg_infinity
  | 5 -> if i mod 40 = 5 then nan else -.nan
  | 6 -> 4.9e-324
  | 7 -> -.ldexp 1. (Random.State.int random 120 - 50)
  | 8 -> ldexp 1.125 (Random.State.int random 120 - 50)
  | _ ->
      let bits () = Int64.of_int (Random.State.bits random) in
      Int64.(float_of_bits (logxor (shift_left (bits ()) 34) (logxor (shift_left (bits ()) 17) (bits ()))))

(* What a price or a duration may be. *)
let usual () = ldexp (Random.State.float random 2. -. 1.) (Random.State.int random 60 - 40)

let round sums i =
  let x = if i land 1 = 0 then any_float (i / 2) else usual () in
  boxed i x;
  let y = usual () in
  sums.total <- y;
  sums.least <- Float.min sums.least y;
  field sums;
  note_float "field" y;
  ignore (Sys.opaque_identity (stored y 0.1));
  begun i x;
  ended i y;
  match i mod 5 with
  | 0 ->
      mixed (Obj.repr (i - 7));
      note_int "mixed" (i - 7)
  | 1 ->
      mixed (Obj.repr (i mod 2 = 0));
      note_int "mixed" (Bool.to_int (i mod 2 = 0))
  | 2 ->
      mixed (Obj.repr y);
      note_float "mixed" y
  | 3 ->
      mixed (Obj.repr (Int64.of_int (-i)));
      note_int "mixed" (-i)
  | _ ->
      mixed (Obj.repr (string_of_int i));
      note "mixed" "other" "-"

let () =
  print_endline "ready";
  ignore (read_line ());
  let sums = { least = 0.; total = 0.; most = 0. } in
  for i = 0 to rounds - 1 do
    round sums i
  done;
  print_string (Buffer.contents books);
  print_endline "end";
  try ignore (read_line ()) with End_of_file -> ()
