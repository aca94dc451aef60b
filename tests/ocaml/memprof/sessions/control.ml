(* Profiles of other processes by Probes_lib.Memprof: control MODE PID. It is not linked with
   ocaml-probes.memprof. *)
open Probes_lib.Memprof

let attempt what f =
  match f () with
  | _ -> Printf.printf "%s: fine\n%!" what
  | exception Probes_lib.Error why -> Printf.printf "%s: %s\n%!" what why

(* Until the program ends. *)
let events pid =
  let session = start ~rate:0.01 ~events:10_000_000 ~pid () in
  let rec follow before =
    let ended = state session = Ended in
    let so_far = read session :: before in
    if ended then Array.concat (List.rev so_far)
    else (
      Unix.sleepf 0.01;
      follow so_far)
  in
  let events = follow [] in
  Array.iteri Shown.print_event events;
  Shown.print_end (stop session);
  Shown.check_reports session events

let errors pid =
  attempt "rate 0" (start ~rate:0. ~pid);
  attempt "rate nan" (start ~rate:nan ~pid);
  attempt "rate 2" (start ~rate:2. ~pid);
  attempt "rate below" (start ~rate:1e-10 ~pid);
  attempt "no depth" (start ~callstack_size:(-1) ~pid);
  attempt "depth" (start ~callstack_size:1025 ~pid);
  attempt "large depth" (start ~callstack_size:max_int ~pid);
  attempt "events" (start ~events:(-1) ~pid);
  attempt "pid 0" (start ~pid:0);
  attempt "large pid" (start ~pid:max_int);
  attempt "no process" (start ~pid:0x3fffff);
  attempt "own" (Self.start ?rate:None);
  let session = start ~pid () in
  attempt "read" (fun () -> read session);
  attempt "second" (start ~pid);
  ignore (stop session);
  ignore (stop session);
  attempt "again" (fun () -> stop (start ~pid ()));
  let session = start ~rate:0.1 ~events:10 ~pid () in
  Unix.sleepf 0.3;
  let { unread; _ } = stop session in
  Printf.printf "%d kept, others unread: %b\n" (Array.length (read session)) (unread > 0)

(* The program writes events all the time. *)
let busy pid =
  let most = 10 in
  let session = start ~rate:1. ~events:most ~pid () in
  (* Whenever as many as can wait are waiting, more have come. *)
  let full = ref 0 in
  while !full < 5 do
    Unix.sleepf 0.01;
    if Array.length (read session) = most then incr full
  done;
  let { unread; _ } = stop session in
  Printf.printf "stopped, unread: %b\n" (unread > 0)

let state_name session =
  match state session with
  | Waiting -> "waiting"
  | Running -> "running"
  | Stopped -> "stopped"
  | Ended -> "ended"

let waits ?signal pid =
  let session = start ~pid () in
  print_endline (state_name session);
  Option.iter (Unix.kill pid) signal;
  Printf.printf "still on: %b\n" (stop session).still_on;
  print_endline (state_name session)

(* A child has no profile of its parent, which it does not keep open either. *)
let fork pid =
  let session = start ~events:10 ~pid () in
  if Unix.fork () = 0 then (
    attempt "state" (fun () -> state session);
    attempt "report" (fun () -> report session);
    attempt "read" (fun () -> read session);
    attempt "stop" (fun () -> stop session);
    Gc.full_major ();
    Unix.sleepf 3.;
    Unix._exit 0);
  Unix.sleepf 0.2

let[@inline never] leave_one pid = ignore (Sys.opaque_identity (start ~pid ()))

let () =
  match Sys.argv.(1), int_of_string Sys.argv.(2) with
  | "events", pid -> events pid
  | "errors", pid -> errors pid
  | "busy", pid -> busy pid
  | "start", pid -> attempt "start" (start ~pid)
  | "waits", pid -> waits pid
  | "stopped", pid ->
    waits ~signal:Sys.sigstop pid;
    Unix.kill pid Sys.sigcont
  | "fork", pid -> fork pid
  | "forgotten", pid ->
    leave_one pid;
    Gc.full_major ();
    Printf.printf "collected\n%!";
    Unix.sleepf 30.
  | "leak", pid ->
    let session = start ~rate:0.01 ~pid () in
    Unix.sleepf 0.5;
    ignore (stop session);
    Array.iter
      (fun (frames, _) ->
        if frames.(0).name = "Subject.leak" then
          Array.iter (fun frame -> print_endline (Shown.print_frame frame)) frames)
      (report session).stacks
  | _ -> exit 2
