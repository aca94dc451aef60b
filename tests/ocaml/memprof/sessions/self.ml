(* A program that profiles itself, linked with subject.ml: self part MODE [ARG...]. *)
open Probes_lib.Memprof

(* No event is missing in the books up to the last, and the session may have some more. *)
let books path wanted =
  let books = Subject.write_books path in
  let round = Subject.mixed () in
  let session = Self.start ~rate:0.01 ~events:10_000_000 () in
  let i = ref 0 in
  while !Subject.n_events < wanted do
    incr i;
    round !i
  done;
  Ocaml_probes_memprof.observe None;
  let n = !Subject.n_events in
  let losses = stop session in
  close_out books;
  let all = read session in
  Array.iteri Shown.print_event (Array.sub all 0 n);
  Shown.print_end losses;
  if losses.still_on then failwith "still on";
  Shown.check_reports session all

let say_state session =
  print_endline
    (match state session with
    | Waiting -> "waiting"
    | Running -> "running"
    | Stopped -> "stopped"
    | Ended -> "ended")

let await_free () =
  while not (Subject.is_free ()) do
    Unix.sleepf 0.001
  done

let[@inline never] leave_one () = ignore (Sys.opaque_identity (Self.start ()))

(* [Self.start] waits for a second; under strace, or beside other tests, the start or the refusal takes longer. *)
let start_and_wait () =
  let session = Self.start () in
  while state session = Waiting do
    Unix.sleepf 0.001
  done;
  session

(* Why no session starts while the program runs a profile of its own. The last session may end a moment later
   than its profile. *)
let rec why_refused () =
  match start_and_wait () with
  | _ -> failwith "the program's profile was replaced"
  | exception Probes_lib.Error why when String.ends_with ~suffix:"its last profile has not ended yet" why ->
    Unix.sleepf 0.001;
    why_refused ()
  | exception Probes_lib.Error why -> why

(* Start and stop, and sessions that nobody stops. *)
let turns n =
  for i = 1 to n do
    let session = start_and_wait () in
    if Subject.is_free () then (
      say_state session;
      failwith (Printf.sprintf "no profile at turn %d" i));
    if i = 1 then (
      say_state session;
      match start_and_wait () with
      | _ -> failwith "two sessions"
      | exception Probes_lib.Error why -> print_endline why);
    ignore (stop session);
    if not (Subject.is_free ()) then failwith "still a profile";
    if i = 1 then say_state session
  done;
  leave_one ();
  Gc.full_major ();
  await_free ();
  ignore (Sys.opaque_identity (Gc.Memprof.start ~sampling_rate:0. Gc.Memprof.null_tracker));
  print_endline (why_refused ());
  Gc.Memprof.stop ();
  print_endline "done"

(* Threads go on while others wait for the start and the stop, and a thread that allocates is seen. *)
let threads () =
  let goes_on = Atomic.make true in
  let worker () =
    let i = ref 0 in
    while Atomic.get goes_on do
      incr i;
      Subject.request !i;
      Thread.yield ()
    done;
  in
  let workers = List.init 3 (fun _ -> Thread.create worker ()) in
  let session = Self.start ~rate:0.001 () in
  while (report session).total.samples < 1000 do
    Thread.delay 0.005
  done;
  ignore (stop session);
  Atomic.set goes_on false;
  List.iter Thread.join workers;
  Array.iter
    (fun (site, usage) ->
      if site.name = "Subject.leak" && usage.live_words > 0. then print_endline site.name)
    (report ~by:Live session).sites

let () =
  match Array.to_list Sys.argv |> List.tl with
  | [ "part"; "books"; path; events ] -> books path (int_of_string events)
  | [ "part"; "turns"; n ] -> turns (int_of_string n)
  | [ "part"; "threads" ] -> threads ()
  | _ -> exit 2
