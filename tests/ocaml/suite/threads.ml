(* Threads that pass sites all the time, with mutexes and conditions, in handlers too, and
   handlers that yield. *)
open Suite

let lock = Mutex.create ()
let changed = Condition.create ()
let in_handlers = ref 0
let produced = ref 0
let consumed = ref 0
let yields = ref 0
let queue = Queue.create ()
let locked f = Mutex.lock lock; Fun.protect ~finally:(fun () -> Mutex.unlock lock) f

let producer n () =
  for i = 1 to n do
    [%probe "producing" (locked (fun () -> incr in_handlers))];
    locked (fun () ->
        Queue.add i queue;
        produced := !produced + i;
        [%probe "holding_the_lock" (Condition.broadcast changed)];
        Condition.signal changed)
  done

let consumer n () =
  for _ = 1 to n do
    locked (fun () ->
        while Queue.is_empty queue do
          [%probe "waiting" (ignore (Sys.opaque_identity (ref 0)))];
          Condition.wait changed lock
        done;
        consumed := !consumed + Queue.take queue);
    [%probe "consumed" (Thread.yield (); locked (fun () -> incr yields))]
  done

let () =
  run (fun () ->
      in_handlers := 0;
      yields := 0;
      produced := 0;
      consumed := 0;
      let start f = List.init 3 (fun _ -> Thread.create (f 40) ()) in
      let threads = List.concat_map start [ producer; consumer ] in
      List.iter Thread.join threads;
      say "produced %d" !produced;
      say "consumed %d" !consumed;
      count "in_handlers" !in_handlers;
      count "yields" !yields)

(*expected
produced 2460
consumed 2460
# in_handlers 120
# yields 120
*)
