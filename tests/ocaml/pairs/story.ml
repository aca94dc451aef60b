(* A story: what one thread does, and when, by the clock that tools measure by.

     story ROUNDS

   Prints "ready" and waits for a line. Then the main thread does these things in turn, ROUNDS times, and says of each between
   which times it did it:

     NAME FROM TO      lock, compute, collect, sleep, write

   lock: it waits for a mutex that another thread holds until then. compute: between the probes compute_start and compute_done, which have
   the number of the round. collect: a minor collection. sleep: 2 ms. write: a pipe is full until another thread reads from it.
   Then it prints "end", and stays until another line or the end of stdin. *)

external clock : unit -> (int[@untagged]) = "pairs_clock_byte" "pairs_clock" [@@noalloc]
external gettid : unit -> (int[@untagged]) = "pairs_gettid_byte" "pairs_gettid" [@@noalloc]

let books = Buffer.create 10000

let within name f =
  let from = clock () in
  let result = Sys.opaque_identity (f ()) in
  Printf.bprintf books "%s %d %d\n" name from (clock ());
  result

let full = Bytes.make 65536 'x'

(* The other thread holds the mutex, or leaves the pipe full, until the main thread waits. *)
let mutex = Mutex.create ()
let is_held = ref false
let begins_to_wait = ref false
let from_main, to_main = Unix.pipe ()
let main_tid = gettid ()

let is_asleep () =
  let file = open_in (Printf.sprintf "/proc/self/task/%d/stat" main_tid) in
  let line = input_line file in
  close_in file;
  line.[String.rindex line ')' + 2] = 'S'

(* Nobody else needs the lock of the runtime during the delay. So a main thread that waited for this lock runs after it. *)
let rec until_main_waits asleep =
  Thread.delay 0.0005;
  let is_asleep = !begins_to_wait && is_asleep () in
  if not (asleep && is_asleep) then until_main_waits is_asleep

let rec read_all n = if n > 0 then read_all (n - Unix.read from_main (Bytes.create n) 0 n)

let rec other asked =
  let byte = Bytes.create 1 in
  if Unix.read asked byte 0 1 = 1 then begin
    if Bytes.get byte 0 = 'h' then begin
      Mutex.lock mutex;
      is_held := true;
      until_main_waits false;
      begins_to_wait := false;
      Mutex.unlock mutex
    end
    else begin
      until_main_waits false;
      begins_to_wait := false;
      read_all (Bytes.length full + 1)
    end;
    other asked
  end

let ask asked what = ignore (Unix.write asked (Bytes.make 1 what) 0 1)

let wait_until_held () =
  while not !is_held do
    Thread.delay 0.0001
  done;
  is_held := false

let compute round =
  [%probe "compute_start" ~args:round ()];
  let sum = ref 0 in
  for i = 1 to 200_000 do
    sum := (!sum * 31) + i
  done;
  [%probe "compute_done" ~args:round ()];
  !sum

let story asked round =
  ask asked 'h';
  wait_until_held ();
  within "lock" (fun () ->
      begins_to_wait := true;
      Mutex.lock mutex);
  Mutex.unlock mutex;
  ignore (within "compute" (fun () -> compute round));
  within "collect" Gc.minor;
  within "sleep" (fun () -> Thread.delay 0.002);
  ignore (Unix.write to_main full 0 (Bytes.length full));
  ask asked 'r';
  within "write" (fun () ->
      begins_to_wait := true;
      ignore (Unix.write to_main (Bytes.make 1 'x') 0 1))

let () =
  let rounds = int_of_string Sys.argv.(1) in
  let asked_r, asked = Unix.pipe () in
  ignore (Thread.create other asked_r);
  print_endline "ready";
  ignore (read_line ());
  for round = 1 to rounds do
    story asked round
  done;
  print_string (Buffer.contents books);
  print_endline "end";
  try ignore (read_line ()) with End_of_file -> ()
