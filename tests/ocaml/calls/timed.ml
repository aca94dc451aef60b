(* SPDX-License-Identifier: MIT *)
(* A program that times its own functions. timed CALLS US prints "ready", waits for a line, makes so many
   calls of each function, which last so many microseconds, and prints its books: see calls_stubs.c. The
   tool's sum for a function is between the inner and the outer one. *)
open Books

exception Escape

let[@inline never] returns us =
  hit "Timed.returns";
  let start = clock () in
  burn us;
  inner "Timed.returns" (clock () - start)

let rec nests us n =
  hit "Timed.nests";
  let start = clock () in
  burn us;
  let m = if n = 0 then 0 else 1 + around "Timed.nests" (nests us) (n - 1) in
  inner "Timed.nests" (clock () - start);
  m

(* An exception ends N + 1 calls; with a negative N, none. *)
let rec escapes us n =
  hit "Timed.escapes";
  let start = clock () in
  burn us;
  if n = 0 then begin hit "Timed.escapes:raised"; raise Escape end;
  if n > 0 then begin hit "Timed.escapes:raised"; ignore (escapes us (n - 1)) end;
  inner "Timed.escapes" (clock () - start);
  n

let jumped = ref 0
let left = ref 0

let[@inline never] lands us =
  let landed = clock () in
  outer "Timed.jumps" (landed - !jumped);
  hit "Timed.lands";
  burn us;
  inner "Timed.lands" (clock () - landed)

let[@inline never] jumps us =
  hit "Timed.jumps";
  let start = clock () in
  burn us;
  left := clock ();
  inner "Timed.jumps" (!left - start);
  lands us

(* Other threads run inside of these calls. *)
let[@inline never] yields us =
  hit "Timed.yields";
  let start = clock () in
  burn us;
  Thread.yield ();
  burn us;
  inner "Timed.yields" (clock () - start)

(* The stack grows in the middle of these calls. *)
let rec dig n = if n = 0 then 0 else 1 + dig (n - 1)

let[@inline never] grows us n =
  hit "Timed.grows";
  let start = clock () in
  burn us;
  let m = dig n in
  burn us;
  inner "Timed.grows" (clock () - start);
  m

let rec digs n =
  hit "Timed.digs";
  if n = 0 then 0 else 1 + digs (n - 1)

let[@inline never] calls_back us =
  hit "Timed.calls_back";
  let start = clock () in
  let f us = returns us; us in
  around "Timed.returns" (fun us -> ignore (call f us)) us;
  inner "Timed.calls_back" (clock () - start)

let () =
  let calls = int_of_string Sys.argv.(1) and us = int_of_string Sys.argv.(2) in
  print_endline "ready";
  ignore (input_line stdin);
  for i = 1 to calls do
    around "Timed.returns" returns us;
    if i mod 5 = 0 then ignore (around "Timed.nests" (nests us) 4);
    if i mod 4 = 0 then begin
      (try ignore (escapes us 2) with Escape -> ());
      ignore (around "Timed.escapes" (escapes us) (-1))
    end;
    jumped := clock ();
    jumps us;
    outer "Timed.lands" (clock () - !left);
    if i mod 10 = 0 then begin
      (* On a new stack. *)
      Thread.join (Thread.create (fun () -> ignore (around "Timed.grows" (grows us) (i * 1000))) ());
      around "Timed.calls_back" calls_back us
    end
  done;
  ignore (digs 20_000);
  List.init 4 (fun _ ->
    Thread.create (fun () -> for _ = 1 to calls / 4 do around "Timed.yields" yields us done) ())
  |> List.iter Thread.join;
  Versioned.timed us;
  print ()
