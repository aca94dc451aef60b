(* A small service: clients send requests at random intervals, worker threads serve them from a cache
   or compute the answer. It runs until SIGTERM. With `leak`, each request is a new one, and the cache
   keeps all pages: it leaks a kilobyte a request.

     service [WORKERS [leak]]

   Its probes are off until somebody switches them on:

     request_start   a worker takes a request
     request_done    it has answered
     cache_hit, cache_miss, cache_evict
     queue_full      a client found the queue full and waits
     gc_minor        the minor collector ran since the worker's last request *)

type request = { id : int; key : int }

let queue : request Queue.t = Queue.create ()
let queue_limit = 64
let lock = Mutex.create ()
let not_empty = Condition.create ()
let not_full = Condition.create ()
let stopping = ref false
let served = ref 0

let leaks = Array.length Sys.argv > 2 && Sys.argv.(2) = "leak"

let print_line fmt = Printf.ksprintf (fun line -> print_string (line ^ "\n"); flush stdout) fmt

module Cache = struct
  let limit = if leaks then max_int else 128
  let entries : (int, int * Bytes.t) Hashtbl.t = Hashtbl.create 128
  let misses = ref 0

  let find key =
    match Hashtbl.find_opt entries key with
    | Some (answer, _) ->
      [%probe "cache_hit" (print_line "cache: %d is there" key)];
      Some answer
    | None ->
      [%probe "cache_miss"
        (incr misses;
         print_line "cache: %d is missing (%d times so far)" key !misses)];
      None

  let add key answer =
    if Hashtbl.length entries >= limit then begin
      [%probe "cache_evict" (print_line "cache: full with %d entries, emptied" limit)];
      Hashtbl.reset entries
    end;
    Hashtbl.replace entries key (answer, if leaks then Bytes.create 1000 else Bytes.empty)
end

(* The work: some allocation, some arithmetic. *)
let compute key =
  let rec digits n = if n = 0 then [] else (n mod 10) :: digits (n / 10) in
  let rec rounds n acc =
    if n = 0 then acc else rounds (n - 1) (List.fold_left (fun a d -> (a * 31) + d) acc (digits acc) land 0xffffff)
  in
  rounds 1000 (key + 1)

let locked f =
  Mutex.lock lock;
  Fun.protect ~finally:(fun () -> Mutex.unlock lock) f

let submit request =
  locked (fun () ->
      while Queue.length queue >= queue_limit && not !stopping do
        [%probe "queue_full" (print_line "queue: full, request %d waits" request.id)];
        Condition.wait not_full lock
      done;
      Queue.add request queue;
      Condition.signal not_empty)

let next_request () =
  locked (fun () ->
      while Queue.is_empty queue && not !stopping do
        Condition.wait not_empty lock
      done;
      let request = Queue.take_opt queue in
      Condition.signal not_full;
      request)

let answer request =
  match locked (fun () -> Cache.find request.key) with
  | Some answer -> answer
  | None ->
    let answer = compute request.key in
    locked (fun () -> Cache.add request.key answer);
    answer

let rec worker (name, collections) =
  match next_request () with
  | None -> if not !stopping then worker (name, collections)
  | Some ({ id; key } as request) ->
    [%probe "request_start" ~args:(id, key) (print_line "worker %d: request %d starts" name id)];
    let result = answer request in
    incr served;
    [%probe "request_done" ~args:(id, key, result)
      (print_line "worker %d: request %d for %d is done: %d" name id key result)];
    let now = (Gc.quick_stat ()).minor_collections in
    if now <> collections then
      [%probe "gc_minor" (print_line "gc: %d minor collections so far" now)];
    worker (name, now)

(* Bursts, some larger than the queue, so that every probe is hit within a second or so. *)
let client () =
  let state = Random.State.make [| 42 |] in
  let id = ref 0 in
  while not !stopping do
    let burst = if !id mod 7 = 0 then 2 * queue_limit else 1 + Random.State.int state 16 in
    for _ = 1 to burst do
      incr id;
      let a = Random.State.int state 25 and b = Random.State.int state 25 in
      submit { id = !id; key = (if leaks then !id else a * b) }
    done;
    Thread.delay 0.005
  done

let () =
  let n_workers = if Array.length Sys.argv > 1 then int_of_string Sys.argv.(1) else 4 in
  Sys.set_signal Sys.sigterm (Sys.Signal_handle (fun _ -> stopping := true));
  let client = Thread.create client () in
  let workers = List.init n_workers (fun i -> Thread.create worker (i + 1, 0)) in
  print_line "service: pid %d, %d workers, running until SIGTERM" (Unix.getpid ()) n_workers;
  while not !stopping do
    try Thread.delay 0.1 with Unix.Unix_error (Unix.EINTR, _, _) -> ()
  done;
  (* Nobody must sleep through the end. *)
  locked (fun () ->
      Condition.broadcast not_empty;
      Condition.broadcast not_full);
  List.iter Thread.join (client :: workers);
  print_line "service: stopped after %d requests" !served
