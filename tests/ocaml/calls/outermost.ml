(* SPDX-License-Identifier: MIT *)
(* Functions that call themselves, with books of the outermost calls only. outermost ROUNDS US prints "ready", waits for a line,
   makes so many rounds of calls, each of which lasts so many microseconds, and prints its books: see calls_stubs.c. TOP is true
   in outermost calls. The tool's sum for a function is between the inner and the outer one. *)
open Books

exception Escape

let begins top name =
  if top then hit name;
  clock ()
[@@inline always]

let ends top name start = if top then inner name (clock () - start) [@@inline always]

let rec down top us n =
  let start = begins top "Outermost.down" in
  burn us;
  let m = if n = 0 then 0 else 1 + down false us (n - 1) in
  ends top "Outermost.down" start;
  m

(* The first call of each is outermost. *)
let rec even top us n =
  let start = begins top "Outermost.even" in
  burn us;
  let m = if n = 0 then 0 else if top then 1 + around "Outermost.odd" (odd top us) (n - 1) else 1 + odd top us (n - 1) in
  ends top "Outermost.even" start;
  m

and odd top us n =
  let start = begins top "Outermost.odd" in
  burn us;
  let m = if n = 0 then 0 else 1 + even false us (n - 1) in
  ends top "Outermost.odd" start;
  m

(* An exception ends N + 1 calls; with a negative N, it makes -N calls that return. *)
let rec raises top us n =
  let start = begins top "Outermost.raises" in
  burn us;
  if n = 0 then raise Escape;
  if n > 0 then ignore (raises false us (n - 1));
  if n < -1 then ignore (raises false us (n + 1));
  ends top "Outermost.raises" start;
  n

(* Each call but the innermost one catches the exception of the one inside. *)
let rec catches top us n =
  let start = begins top "Outermost.catches" in
  burn us;
  (if n = 0 then raise Escape else try ignore (catches false us (n - 1)) with Escape -> burn us);
  ends top "Outermost.catches" start;
  if (not top) && n land 1 = 0 then raise Escape;
  n

(* Other threads run inside of these calls. *)
let rec yields top us n =
  let start = begins top "Outermost.yields" in
  burn us;
  Thread.yield ();
  let m = if n = 0 then 0 else 1 + yields false us (n - 1) in
  ends top "Outermost.yields" start;
  m

(* C is between the calls. *)
let rec calls_back top us n =
  let start = begins top "Outermost.calls_back" in
  burn us;
  let m = if n = 0 then 0 else 1 + call (fun us -> calls_back false us (n - 1)) us in
  ends top "Outermost.calls_back" start;
  m

let rec deeper n f = if n = 0 then f () else 1 + deeper (n - 1) f
let returns us = ignore (around "Outermost.raises" (raises true us) (-3)); 0
let escapes us = try raises true us 3 with Escape -> 0

let one_round us =
  ignore (around "Outermost.down" (down true us) 5);
  ignore (around "Outermost.even" (even true us) 5);
  (* The outermost call that an exception has ended was nearer to the start of the stack than the next outermost call. *)
  ignore (escapes us);
  ignore (deeper 7 (fun () -> returns us));
  List.iter (fun f -> ignore (f us)) [ escapes; (fun us -> deeper 3 (fun () -> returns us)); returns ];
  ignore (around "Outermost.catches" (catches true us) 4);
  ignore (around "Outermost.calls_back" (calls_back true us) 3)

let () =
  let rounds = int_of_string Sys.argv.(1) and us = int_of_string Sys.argv.(2) in
  print_endline "ready";
  ignore (input_line stdin);
  for _ = 1 to rounds do one_round us done;
  List.init 4 (fun _ ->
    Thread.create (fun () -> for _ = 1 to rounds do ignore (around "Outermost.yields" (yields true us) 3) done) ())
  |> List.iter Thread.join;
  Versioned.outermost us;
  print ()
