(* SPDX-License-Identifier: MIT *)
(* A program that times each of its calls. slow_calls CALLS prints "ready", waits for a line, makes calls with
   numbers that differ, prints its books, and stays until another line. The books: see calls_stubs.c, and a line for
   each call that returned:

     one FUNCTION NUMBER TID within_ns=N around_ns=N

   The time of a call is between the time within it and the time around it. *)
open Books

exception Escape

external gettid : unit -> int = "calls_gettid" [@@noalloc]

let calls = int_of_string Sys.argv.(1)
let depth = 10_000
let room = (20 * calls) + depth + 1000
let within = Array.make room 0
let arounds = Array.make room 0
let tids = Array.make room 0
let names = Array.make room ""
let label id = Sys.opaque_identity (Printf.sprintf "call %d" id)

let[@inline always] ended name id start =
  names.(id) <- name;
  tids.(id) <- gettid ();
  within.(id) <- clock () - start

let[@inline always] around id start = arounds.(id) <- clock () - start

(* Every 4th call is slow. *)
let us id = if id mod 4 = 0 then 3000 else 10

let[@inline never] works id label =
  let start = clock () in
  hit "Slow_calls.works";
  burn (us id);
  ignore (Sys.opaque_identity label);
  ended "works" id start

let rec nests id label n =
  let start = clock () in
  hit "Slow_calls.nests";
  burn (us id);
  let from = clock () in
  let m = if n = 0 then 0 else 1 + nests (id + 1) label (n - 1) in
  if n > 0 then around (id + 1) from;
  ended "nests" id start;
  m

(* An exception ends N + 1 calls; with a negative N, none. They use the same places on the stack. *)
let rec escapes id label n =
  let start = clock () in
  hit "Slow_calls.escapes";
  burn (us id);
  if n = 0 then begin hit "Slow_calls.escapes:raised"; raise Escape end;
  if n > 0 then begin hit "Slow_calls.escapes:raised"; ignore (escapes (id + 1) label (n - 1)) end;
  ended "escapes" id start;
  n

let rec digs id n =
  let start = clock () in
  hit "Slow_calls.digs";
  let from = clock () in
  let m = if n = 0 then 0 else 1 + digs (id + 1) (n - 1) in
  if n > 0 then around (id + 1) from;
  ended "digs" id start;
  m

(* Other threads run inside of these calls. *)
let[@inline never] yields id label =
  let start = clock () in
  hit "Slow_calls.yields";
  Thread.yield ();
  burn (us id);
  ignore (Sys.opaque_identity label);
  ended "yields" id start

let thread first =
  for i = 0 to calls - 1 do
    let start = clock () in
    yields (first + i) (label (first + i));
    around (first + i) start
  done

let () =
  print_endline "ready";
  ignore (input_line stdin);
  let next = ref 0 in
  let take n = let first = !next in next := first + n; first in
  for _ = 1 to calls do
    let id = take 1 in
    let start = clock () in
    works id (label id);
    around id start;
    let id = take 5 in
    let start = clock () in
    ignore (nests id (label id) 4);
    around id start;
    let id = take 3 in
    (try ignore (escapes id (label id) 2) with Escape -> ());
    let id = take 1 in
    let start = clock () in
    ignore (escapes id (label id) (-1));
    around id start
  done;
  let id = take (depth + 1) in
  let start = clock () in
  ignore (digs id depth);
  around id start;
  List.init 3 (fun _ -> Thread.create thread (take calls)) |> List.iter Thread.join;
  Versioned.fibres calls;
  print ();
  Array.iteri (fun id name ->
    if name <> "" then
      Printf.printf "one %s %d %d within_ns=%d around_ns=%d\n" name id tids.(id) within.(id) arounds.(id))
    names;
  print_endline "end";
  try ignore (input_line stdin) with End_of_file -> ()
