(* Signals: probes in an OCaml signal handler, signals sent by a probe's handler, a signal handler
   that raises through a probe's handler, and a timer that interrupts a loop full of sites. *)
open Suite

let received = ref 0
let ticks = ref 0
let hits = ref 0

exception Alarm

let on_usr1 _ = [%probe "in_signal_handler" (note "signal")]; incr received
let send signal = Unix.kill (Unix.getpid ()) signal

(* Delivered at the next safe point; poll until it was. *)
let await n =
  while !received < n do
    ignore (Sys.opaque_identity (ref 0))
  done

let[@inline never] sent_by_handler () =
  [%probe "sends"
    (let before = !received in
     send Sys.sigusr1;
     await (before + 1);
     note "sent")]

let rec spin n =
  [%probe "spin" (incr hits; ignore (Sys.opaque_identity (ref n)))];
  if !ticks = 0 then spin (n + 1)

let[@inline never] interrupted () =
  match
    ignore (Unix.setitimer Unix.ITIMER_REAL { Unix.it_interval = 0.; it_value = 0.0005 });
    while true do
      [%probe "waits" (ignore (Sys.opaque_identity (ref 0)))];
      ignore (Sys.opaque_identity (ref 0))
    done
  with
  | () -> "no"
  | exception Alarm -> "interrupted"

let () =
  Sys.set_signal Sys.sigusr1 (Sys.Signal_handle on_usr1);
  run (fun () ->
      received := 0;
      send Sys.sigusr1;
      await 1;
      say "received %d" !received;
      sent_by_handler ();
      ticks := 0;
      Sys.set_signal Sys.sigalrm (Sys.Signal_handle (fun _ -> incr ticks));
      ignore (Unix.setitimer Unix.ITIMER_REAL { Unix.it_interval = 0.; it_value = 0.0005 });
      spin 0;
      say "ticks %d" !ticks;
      Sys.set_signal Sys.sigalrm (Sys.Signal_handle (fun _ ->
        [%probe "raising_signal" (incr hits)];
        raise Alarm));
      say "%s" (interrupted ()))

(*expected
> signal
received 1
> signal
> sent
ticks 1
interrupted
*)
