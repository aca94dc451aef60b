(* SPDX-License-Identifier: MIT *)
(* Pairs of functions: paired ROUNDS THREADS US prints "ready", waits for a line, makes so many rounds in each of
   so many threads, and prints its books. The books of "visit" and "request" have the pairs that ended, and the
   times inside and around them. Their functions do not have the same size of stack frame. *)
open Books

exception Escape

let entered = ref 0

let[@inline never] enters n = entered := !entered + n
let[@inline never] talks n = ignore (Sys.opaque_identity n)

let[@inline never] leaves n m =
  talks n; talks m; talks (n + m); talks (n * m)

(* An exception skips the call of `leaves`; the level above continues. *)
let rec visit us n =
  let before = clock () in
  hit "enters";
  enters n;
  let start = clock () in
  burn us;
  (if n > 0 then try visit us (n - 1) with Escape -> burn us);
  if n mod 3 = 1 then raise Escape;
  inner "visit" (clock () - start);
  hit "leaves";
  leaves n (n + 1);
  outer "visit" (clock () - before)

(* One function begins what another one ends, deeper in the stack. *)
let opened = ref 0
let[@inline never] opens x = opened := !opened + 1; talks x
let[@inline never] closes x = opened := !opened - 1; talks x
let rec deeper f n x = if n = 0 then f x else begin deeper f (n - 1) x; talks n end

let[@inline never] session us =
  hit "opens"; deeper opens 1 us;
  hit "opens"; deeper opens 3 us;
  hit "closes"; deeper closes 5 us;
  hit "closes"; deeper closes 0 us;
  hit "lone"; deeper closes 2 us

(* Requests in turns: the first one ends, the second one is given up. *)
let taken = ref 0
let[@inline never] takes id = taken := !taken + 1; talks id
let[@inline never] gives id = taken := !taken - 1; talks id

let[@inline never] requests us i =
  let before = clock () in
  hit "takes"; takes (2 * i);
  let start = clock () in
  burn us;
  hit "takes"; takes (-1);
  hit "no_int"; takes (Sys.opaque_identity (Obj.magic (ref us)));
  burn us;
  inner "request" (clock () - start);
  hit "gives"; gives (2 * i);
  outer "request" (clock () - before)

let () =
  let rounds = int_of_string Sys.argv.(1) and threads = int_of_string Sys.argv.(2) and us = int_of_string Sys.argv.(3) in
  print_endline "ready";
  ignore (input_line stdin);
  let run thread () =
    for i = 1 to rounds do
      visit us 5;
      session us;
      requests us (thread * rounds + i);
      Thread.yield ()
    done
  in
  List.iter Thread.join (List.init threads (fun i -> Thread.create (run i) ()));
  print ()
