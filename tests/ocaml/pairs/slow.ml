(* Pairs with arguments, some of them slow, and the program's own books of them by the clock.

     slow N THREADS

   Prints "ready" and waits for a line; then each of THREADS threads makes N calls, one at a time; then
   it prints the books, and stays until another line or the end of stdin.

     enter   id, name   of a call, which makes another one within, 3 deep
     leave   name, id   unless an exception skips it: every 5th call of depth 1

   The clock is read directly in front of and behind each probe. Every 4th call waits for 4 ms.

   What is printed, a line for each pair:

     pair ID NAME TID within_ns=N around_ns=N *)

external clock : unit -> (int[@untagged]) = "pairs_clock_byte" "pairs_clock" [@@noalloc]
external gettid : unit -> (int[@untagged]) = "pairs_gettid_byte" "pairs_gettid" [@@noalloc]

let n = int_of_string Sys.argv.(1)
let n_threads = int_of_string Sys.argv.(2)
let books = Buffer.create 10000
let lock = Mutex.create ()

let told id name within around =
  Mutex.lock lock;
  Printf.bprintf books "pair %d %S %d within_ns=%d around_ns=%d\n" id name (gettid ()) within around;
  Mutex.unlock lock

let rec call number depth =
  let id = (10 * number) + depth in
  let name = Sys.opaque_identity (Printf.sprintf "call \"%d\"" id) in
  let before = clock () in
  [%probe "enter" ~args:(id, name) ()];
  let behind = clock () in
  if number mod 4 = 0 && depth = 2 then Thread.delay 0.004;
  if depth < 3 then (try call number (depth + 1) with Exit -> ());
  if depth = 1 && number mod 5 = 0 then raise Exit;
  let from = clock () in
  [%probe "leave" ~args:(name, id) ()];
  let until = clock () in
  told id name (from - behind) (until - before)

let work thread =
  for i = 1 to n do
    try call ((thread * n) + i) 0 with Exit -> ()
  done

let () =
  print_endline "ready";
  ignore (read_line ());
  List.iter Thread.join (List.init n_threads (Thread.create work));
  print_string (Buffer.contents books);
  print_endline "end";
  try ignore (read_line ()) with End_of_file -> ()
