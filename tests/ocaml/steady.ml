(* Probes that are hit at a known rate until a line or the end of stdin, or SIGTERM:

     steady

   A hundred beats a second; at each of them `beat` is hit once, `flood` ten times, and every tenth
   time `rare`. Between `work_start` and `work_stop` two milliseconds pass, ten times a second.
   When the program was held up, it makes up for it: what counts is the clock. At the end, a line a
   probe: NAME handler=RUNS expected=HITS. *)

let stopping = ref false
let beat = ref 0
let flood = ref 0
let rare = ref 0
let work_start = ref 0
let work_stop = ref 0
let beats = ref 0

let[@inline never] hit_beat () = [%probe "beat" (incr beat)]
let[@inline never] hit_flood () = [%probe "flood" (incr flood)]
let[@inline never] hit_rare () = [%probe "rare" (incr rare)]

let[@inline never] work () =
  [%probe "work_start" (incr work_start)];
  Unix.sleepf 0.002;
  [%probe "work_stop" (incr work_stop)]

let one_beat () =
  incr beats;
  hit_beat ();
  for _ = 1 to 10 do
    hit_flood ()
  done;
  if !beats mod 10 = 0 then begin
    hit_rare ();
    work ()
  end

(* A signal makes the read fail with EINTR. *)
let is_told_to_stop seconds =
  match Unix.select [ Unix.stdin ] [] [] seconds with
  | [], _, _ -> !stopping
  | _ -> true
  | exception Unix.Unix_error (Unix.EINTR, _, _) -> !stopping

let rec run next =
  let left = next -. Unix.gettimeofday () in
  if not (is_told_to_stop (Float.max 0. left)) then
    if left > 0. then run next
    else begin
      one_beat ();
      run (next +. 0.01)
    end

let () =
  Sys.set_signal Sys.sigterm (Sys.Signal_handle (fun _ -> stopping := true));
  print_endline "ready";
  run (Unix.gettimeofday ());
  List.iter
    (fun (name, runs, expected) -> Printf.printf "%s handler=%d expected=%d\n" name runs expected)
    [
      "beat", !beat, !beats;
      "flood", !flood, 10 * !beats;
      "rare", !rare, !beats / 10;
      "work_start", !work_start, !beats / 10;
      "work_stop", !work_stop, !beats / 10;
    ]
