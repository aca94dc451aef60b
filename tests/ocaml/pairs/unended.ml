(* Pairs and calls that have begun and not ended, and the program's own books of them.

     unended THREADS

   Prints "ready", and obeys a line each:

     begin   begins all of it, says what is open, and then "end"
     finish  ends what is open, and says "finished"
     quit    ends, as the end of stdin

   What is open, a line each: open NAME ID TID BEFORE BEHIND, with the times in front of and behind its
   beginning.

     request_start, request_done      id; 30 of them, two of three are done; request 30 is begun twice
     enter, leave                     id at enter; by thread, in each call of descends
     Unended.descends                 in each thread as deep as its number, where it waits
     Unended.escapes                  exceptions have ended these calls, deeper and less deep than the others
     Unended.suspends                 in fibres, of which each thread runs the last one (OCaml 5)
     Unended.obeys                    of the main thread *)

external clock : unit -> (int[@untagged]) = "pairs_clock_byte" "pairs_clock" [@@noalloc]
external gettid : unit -> (int[@untagged]) = "pairs_gettid_byte" "pairs_gettid" [@@noalloc]

let n_threads = int_of_string Sys.argv.(1)
let books : (int, string) Hashtbl.t = Hashtbl.create 100
let next = ref 0
let lock = Mutex.create ()
let may_end = Condition.create ()
let is_ended = ref false
let n_waiting = ref 0

let locked f =
  Mutex.lock lock;
  let result = f () in
  Mutex.unlock lock;
  result

let began name id before behind =
  locked (fun () ->
      incr next;
      Hashtbl.replace books !next (Printf.sprintf "open %s %d %d %d %d" name id (gettid ()) before behind);
      !next)

let ended ticket = locked (fun () -> Hashtbl.remove books ticket)

let waits () =
  Mutex.lock lock;
  incr n_waiting;
  while not !is_ended do
    Condition.wait may_end lock
  done;
  Mutex.unlock lock

(* ---- requests ------------------------------------------------------------------------------------ *)

let requests = Hashtbl.create 30

let start id =
  let before = clock () in
  [%probe "request_start" ~args:(id) ()];
  Hashtbl.replace requests id (began "request_start,request_done" id before (clock ()))

let finish id =
  [%probe "request_done" ~args:(id) ()];
  ended (Hashtbl.find requests id);
  Hashtbl.remove requests id

let start_requests () =
  for id = 1 to 30 do
    start id;
    if id mod 3 <> 0 then finish id
  done;
  (* The second beginning takes the place of the first one. *)
  ended (Hashtbl.find requests 30);
  start 30

let finish_requests () = List.iter finish (Hashtbl.fold (fun id _ ids -> id :: ids) requests [])

(* ---- calls --------------------------------------------------------------------------------------- *)

exception Escape

let rec escapes depth = if depth = 0 then raise Escape else 1 + escapes (depth - 1)
let escape depth = try ignore (Sys.opaque_identity (escapes depth)) with Escape -> ()

let[@inline never] suspends id is_last before =
  let ticket = began "Unended.suspends" id before (clock ()) in
  if is_last then waits () else Fibres.yield ();
  ended ticket

let rec descends id depth before =
  let call = began "Unended.descends" id before (clock ()) in
  escape 3;
  let before = clock () in
  [%probe "enter" ~args:(id) ()];
  let pair = began "enter,leave" id before (clock ()) in
  if depth > 0 then descends (id + 1) (depth - 1) (clock ())
  else Fibres.run (List.init 3 (fun i () -> escape 1; suspends i (i = 2) (clock ())));
  [%probe "leave" ()];
  ended pair;
  ended call

let work number =
  escape 20;
  descends (100 * number) number (clock ())

(* ---- the main thread ----------------------------------------------------------------------------- *)

let say_books () =
  while locked (fun () -> !n_waiting < n_threads) do
    Thread.yield ()
  done;
  locked (fun () -> Hashtbl.iter (fun _ line -> print_endline line) books);
  print_endline "end"

let rec obeys threads before =
  let ticket = began "Unended.obeys" 0 before (clock ()) in
  escape 2;
  (match input_line stdin with
  | "begin" ->
    start_requests ();
    let threads = List.init n_threads (fun i -> Thread.create work (i + 1)) in
    (* This call stands in the books while it waits for the next line. *)
    say_later threads
  | "finish" ->
    locked (fun () -> is_ended := true; Condition.broadcast may_end);
    List.iter Thread.join threads;
    finish_requests ();
    print_endline "finished";
    obeys [] (clock ())
  | _ | (exception End_of_file) -> ());
  ended ticket

and say_later threads =
  ignore (Thread.create say_books ());
  obeys threads (clock ())

let () =
  print_endline "ready";
  obeys [] (clock ())
