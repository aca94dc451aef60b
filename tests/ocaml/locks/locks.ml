(* Threads "left" and "right" hold a lock for known times while the thread "waiter" waits for it, which they see. With each line of
   stdin, they do so with "mutex" or with the lock of the "runtime"; then the books follow as lines: the thread, the function that
   holds the lock, how often, and between which sums of nanoseconds the waiter has waited. With "time_out" a thread waits five times
   for a mutex until a time, while another one works. With "stay" the waiter waits for a mutex until the end. *)

external now : unit -> int = "locks_now" [@@noalloc]
external name : string -> int = "locks_name" [@@noalloc]
external reads : int -> bool = "locks_reads" [@@noalloc]
external waits_for : int -> Mutex.t -> bool = "locks_waits_for" [@@noalloc]
external wake : Unix.file_descr -> bool = "locks_wake" [@@noalloc]
external hold : int -> int -> int = "locks_hold" [@@noalloc]
external time_out : int -> unit = "locks_time_out"

let mutex = Mutex.create ()
let pipe, wake_end = Unix.pipe ()
let waiter = ref 0

(* Whether the waiter takes the mutex, too. *)
let takes_mutex = ref true

let[@inline never] take () =
  if !takes_mutex then begin
    Mutex.lock mutex;
    Mutex.unlock mutex
  end

let wait () =
  let byte = Bytes.create 1 in
  waiter := name "waiter";
  while Unix.read pipe byte 0 1 = 1 do
    take ()
  done

let await condition =
  while not (condition ()) do
    Thread.delay 0.0002
  done

let count = ref 0
let least = ref 0
let most = ref 0

let add ~woken ~seen ~before ~after =
  incr count;
  least := !least + before - seen;
  most := !most + after - woken

(* The waiter begins to wait between `woken` and `seen`, and its wait ends between `before` and `after`. *)
let[@inline always] hold_mutex ns =
  Mutex.lock mutex;
  let woken = now () in
  assert (wake wake_end);
  await (fun () -> waits_for !waiter mutex);
  let seen = now () in
  Thread.delay (float ns /. 1e9);
  let before = now () in
  Mutex.unlock mutex;
  add ~woken ~seen ~before ~after:(now ())

(* The thread releases the lock of the runtime when it begins to sleep. *)
let[@inline always] hold_runtime ns =
  let woken = now () in
  assert (wake wake_end);
  let seen = hold !waiter ns in
  let before = now () in
  Thread.delay 0.002;
  add ~woken ~seen ~before ~after:(now ())

let[@inline never] mutex_briefly () = hold_mutex 2_000_000; ignore (Sys.opaque_identity 1)
let[@inline never] mutex_long () = hold_mutex 20_000_000; ignore (Sys.opaque_identity 2)
let[@inline never] runtime_briefly () = hold_runtime 2_000_000; ignore (Sys.opaque_identity 3)
let[@inline never] runtime_long () = hold_runtime 20_000_000; ignore (Sys.opaque_identity 4)

let rounds thread n function_name f =
  count := 0;
  least := 0;
  most := 0;
  for _ = 1 to n do
    await (fun () -> reads !waiter);
    f ()
  done;
  await (fun () -> reads !waiter);
  Printf.printf "%s Locks.%s %d %d %d\n%!" thread function_name !count !least !most

let in_thread f = Thread.join (Thread.create f ())

let holder thread works =
  in_thread (fun () ->
      ignore (name thread);
      List.iter (fun (n, function_name, f) -> rounds thread n function_name f) works)

let time_out_beside_work () =
  let has_ended = ref false in
  let work = Thread.create (fun () -> while not !has_ended do ignore (Sys.opaque_identity (ref 0)) done) () in
  in_thread (fun () -> time_out 5);
  has_ended := true;
  Thread.join work

let stay () =
  takes_mutex := true;
  Mutex.lock mutex;
  assert (wake wake_end);
  await (fun () -> waits_for !waiter mutex)

let obey = function
  | "mutex" ->
      holder "left" [ (6, "mutex_briefly", mutex_briefly); (4, "mutex_long", mutex_long) ];
      holder "right" [ (5, "mutex_briefly", mutex_briefly); (3, "mutex_long", mutex_long) ]
  | "runtime" ->
      takes_mutex := false;
      holder "left" [ (7, "runtime_briefly", runtime_briefly); (4, "runtime_long", runtime_long) ];
      holder "right" [ (5, "runtime_briefly", runtime_briefly); (2, "runtime_long", runtime_long) ]
  | "time_out" -> time_out_beside_work ()
  | "stay" -> stay ()
  | order -> failwith order

let () =
  ignore (Thread.create wait ());
  await (fun () -> !waiter <> 0 && reads !waiter);
  print_endline "ready";
  try
    while true do
      obey (input_line stdin);
      print_endline "done"
    done
  with End_of_file -> Unix._exit 0
