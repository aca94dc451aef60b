(* Two threads go through a few probes until a line or the end of stdin, or SIGTERM; then the handlers'
   runs are printed, a line a probe: NAME handler=RUNS.

     loop         each thread works for 0.1 ms and sleeps for 2 ms, in turn, and so leaves the CPUs to others
     loop busy    each thread works at full speed *)

let is_busy = Array.length Sys.argv > 1 && Sys.argv.(1) = "busy"
let work_s = 0.0001
let pause_s = 0.002
let stopping = ref false
let alpha = ref 0
let beta = ref 0
let gamma = ref 0

let[@inline always] beta_probe () = [%probe "beta" (incr beta)]

let[@inline never] work x =
  [%probe "alpha" (incr alpha)];
  if x land 1 = 0 then beta_probe () else beta_probe ();
  if x land 7 = 0 then [%probe "gamma" (incr gamma)];
  x + 1

let worker () =
  let x = ref 0 and resumed = ref 0. in
  while not !stopping do
    x := work !x;
    if (not is_busy) && !x land 15 = 0 && Unix.gettimeofday () -. !resumed >= work_s then begin
      Thread.delay pause_s;
      resumed := Unix.gettimeofday ()
    end
  done

let () =
  let stop _ = stopping := true in
  Sys.set_signal Sys.sigterm (Sys.Signal_handle stop);
  print_endline "ready";
  let threads = [ Thread.create worker (); Thread.create worker () ] in
  (* A signal makes the read fail with EINTR, or is noticed by another thread. *)
  let rec wait () =
    if not !stopping then
      match Unix.select [ Unix.stdin ] [] [] 0.05 with
      | [], _, _ -> wait ()
      | _ -> stopping := true
      | exception Unix.Unix_error (Unix.EINTR, _, _) -> wait ()
  in
  wait ();
  List.iter Thread.join threads;
  List.iter
    (fun (name, runs) -> Printf.printf "%s handler=%d\n" name runs)
    [ "alpha", !alpha; "beta", !beta; "gamma", !gamma ]
