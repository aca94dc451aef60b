(* Requests that are open at one moment in one thread, with Lwt, and the program's own books of them.

     served CONCURRENT ROUNDS

   Prints "ready" and waits for a line. In each round it begins CONCURRENT requests, and then ends them in another
   order. It prints its books and stays until another line, or the end of stdin. The line `quit` ends it at once.

     request_start RID ROUTE     request_done STATUS RID
     other_start ID              other_done NUMBER          the same requests, without a name in common
     query_start TEXT            query_done TEXT            the same requests, by strings
     ids_start, ids_done, ints_start, ints_done, ...        several arguments in common

   Times are of CLOCK_MONOTONIC: a request takes at least from after its start probe to before its stop probe
   (within_ns), and at most from before the one to after the other (around_ns). *)

external now : unit -> int = "served_now" [@@noalloc]

let concurrent = int_of_string Sys.argv.(1)
let rounds = int_of_string Sys.argv.(2)

type times = { mutable count : int; mutable within : int; mutable around : int; mutable shortest : int; mutable longest : int }

let none () = { count = 0; within = 0; around = 0; shortest = max_int; longest = 0 }
let all = none ()
let routes = [ ("/", none ()); ("/cart", none ()); ("/pay", none ()) ]
let route_of rid = fst (List.nth routes (rid mod 3))

let book times ~within ~around =
  times.count <- times.count + 1;
  times.within <- times.within + within;
  times.around <- times.around + around;
  times.shortest <- min times.shortest around;
  times.longest <- max times.longest within

(* What is measured by thread: a stop ends the newest of at most 32 open starts. *)
let opened = ref []
let counted = ref 0
let mismatched = ref 0
let orphan_starts = ref 0
let orphan_stops = ref 0

let rec take n = function [] -> [] | first :: rest -> if n = 0 then [] else first :: take (n - 1) rest

let thread_begins rid =
  opened := rid :: !opened;
  if List.length !opened > 32 then begin
    incr orphan_starts;
    opened := take 32 !opened
  end

let thread_ends rid =
  match !opened with
  | [] -> incr orphan_stops
  | newest :: rest ->
    opened := rest;
    incr counted;
    if newest <> rid then incr mismatched

(* Each line is a probe of both names. *)
let[@inline never] several_start text rest user_id n ok =
  [%probe "ids_start" ~args:((text : string), rest, (n : int), user_id) ()];
  [%probe "ints_start" ~args:((text : string), rest, (n : int)) ()];
  [%probe "any_start" ~args:((text : string), rest) ()];
  [%probe "texts_start" ~args:((ok : bool), (text : string)) ()];
  [%probe "bools_start" ~args:((ok : bool)) ()]

let[@inline never] several_done text rest user_id n ok =
  [%probe "ids_done" ~args:(user_id, (n : int), rest, (text : string)) ()];
  [%probe "ints_done" ~args:((n : int), rest, (text : string)) ()];
  [%probe "any_done" ~args:(rest, (text : string)) ()];
  [%probe "texts_done" ~args:((text : string), (ok : bool)) ()];
  [%probe "bools_done" ~args:((ok : bool)) ()]

let[@inline never] starts rid route text =
  [%probe "other_start" ~args:(rid) ()];
  [%probe "query_start" ~args:((text : string)) ()];
  let before = now () in
  [%probe "request_start" ~args:(rid, (route : string)) ()];
  (before, now ())

let[@inline never] ends rid status text =
  let before = now () in
  [%probe "request_done" ~args:(status, rid) ()];
  let after = now () in
  [%probe "query_done" ~args:((text : string)) ()];
  let number = rid + 1 in
  [%probe "other_done" ~args:(number) ()];
  (before, after)

let serve rid gate =
  let route = route_of rid and text = Printf.sprintf "select %d" rid in
  several_start text rid rid rid true;
  several_done text rid rid rid true;
  let before, began = starts rid route text in
  thread_begins rid;
  Lwt.bind gate (fun () ->
    Lwt.bind (Lwt.pause ()) (fun () ->
      let ending, after = ends rid 200 text in
      thread_ends rid;
      let within = ending - began and around = after - before in
      book all ~within ~around;
      book (List.assoc route routes) ~within ~around;
      Lwt.return_unit))

(* 7 has no factor in common with 2, 20 and 200. *)
let round number =
  let gates = Array.init concurrent (fun _ -> Lwt.wait ()) in
  let tasks = Array.make concurrent Lwt.return_unit in
  for i = 0 to concurrent - 1 do
    tasks.(i) <- serve ((number * concurrent) + i) (fst gates.(i))
  done;
  Lwt.bind (Lwt.pause ()) (fun () ->
    for i = 0 to concurrent - 1 do
      Lwt.wakeup_later (snd gates.(((7 * i) + 1) mod concurrent)) ()
    done;
    Lwt.join (Array.to_list tasks))

let rec all_rounds number = if number = rounds then Lwt.return_unit else Lwt.bind (round number) (fun () -> all_rounds (number + 1))

let print name t =
  Printf.printf "%s count=%d within_ns=%d around_ns=%d shortest_ns=%d longest_ns=%d\n" name t.count t.within t.around
    t.shortest t.longest

let read_command () = try input_line stdin with End_of_file -> "quit"

let () =
  print_endline "ready";
  if read_command () = "quit" then exit 0;
  Lwt_main.run (all_rounds 0);
  print "key" all;
  List.iter (fun (route, t) -> print ("route " ^ route) t) routes;
  Printf.printf "thread count=%d mismatched=%d orphan_starts=%d orphan_stops=%d open=%d\n" !counted !mismatched
    !orphan_starts !orphan_stops (List.length !opened);
  print_endline "end";
  ignore (read_command ())
