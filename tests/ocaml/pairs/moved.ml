(* Workers that pass two probes as fast as they can, in threads, on OCaml 5 in domains too, and in children;
   and what they have passed, by their own books. Meanwhile somebody moves, stops and traces them.

     moved WORKERS

   Prints "ready" and waits for a line; then WORKERS workers, as many children, and one child that forks a
   child after the other, pass `one` and `two`. A timer interrupts each of them all the time; its handler
   passes `ticked`. It prints "running PID...", the processes. Another line ends them; then it prints
   "NAME expected=HITS" for each probe, and "end", and stays until another line or the end of stdin. *)

let n_workers = int_of_string Sys.argv.(1)
let stopping = Atomic.make false
let ticks = Atomic.make 0

(* The process that has the timer. A child may inherit a signal whose handler has still to run. *)
let ticking = ref 0

(* Nothing is switched between a probe and its book. *)
let on_tick _ =
  if !ticking = Unix.getpid () then begin
    [%probe "ticked" (ignore (Sys.opaque_identity 0))];
    Atomic.incr ticks
  end

let tick seconds =
  ignore (Unix.setitimer Unix.ITIMER_PROF { Unix.it_interval = seconds; it_value = seconds })

let start_ticks () =
  ticking := Unix.getpid ();
  tick 0.001

(* Returns how many there were. *)
let end_ticks () =
  tick 0.;
  ticking := 0;
  Atomic.get ticks

let[@inline never] pass () =
  [%probe "one" (ignore (Sys.opaque_identity 1))];
  (* OCaml 4.13 handles signals, and switches threads, at allocations. *)
  ignore (Sys.opaque_identity (ref 0));
  [%probe "two" (ignore (Sys.opaque_identity 2))]

let pass_until_stopped () =
  let n = ref 0 in
  while not (Atomic.get stopping) do
    pass ();
    incr n
  done;
  !n

let rec await pid =
  match Unix.waitpid [] pid with
  | _, status -> status
  | exception Unix.Unix_error (Unix.EINTR, _, _) -> await pid

(* Short children, one after the other. *)
let fork_until_stopped () =
  let n = ref 0 and a_child = 300 in
  while not (Atomic.get stopping) do
    match Unix.fork () with
    | 0 ->
      for _ = 1 to a_child do pass () done;
      Unix._exit 0
    | pid ->
      if await pid <> Unix.WEXITED 0 then failwith "a child";
      n := !n + a_child
  done;
  !n

(* A child that works, and writes its books to OUT. *)
let child out work =
  match Unix.fork () with
  | 0 ->
    start_ticks ();
    let n = work () in
    let ticked = end_ticks () in
    let line = Printf.sprintf "%d %d\n" n ticked in
    ignore (Unix.write_substring out line 0 (String.length line));
    Unix._exit 0
  | pid -> pid

let obey () =
  ignore (try input_line stdin with End_of_file -> "");
  Atomic.set stopping true

let () =
  Sys.set_signal Sys.sigprof (Sys.Signal_handle on_tick);
  Sys.set_signal Sys.sigusr2 (Sys.Signal_handle (fun _ -> Atomic.set stopping true));
  print_endline "ready";
  ignore (input_line stdin);
  let books_in, books = Unix.pipe () in
  (* A process with domains cannot fork. *)
  let children = child books fork_until_stopped :: List.init n_workers (fun _ -> child books pass_until_stopped) in
  Unix.close books;
  let obeying = Thread.create obey () in
  print_endline (String.concat " " ("running" :: List.map string_of_int (Unix.getpid () :: children)));
  let passed = Array.make (n_workers * 64) 0 in
  start_ticks ();
  Fibres.parallel (List.init n_workers (fun i () -> passed.(i * 64) <- pass_until_stopped ()));
  let ticked = ref (end_ticks ()) and hits = ref (Array.fold_left ( + ) 0 passed) in
  Thread.join obeying;
  List.iter (fun pid -> Unix.kill pid Sys.sigusr2) children;
  let channel = Unix.in_channel_of_descr books_in in
  List.iter
    (fun _ -> Scanf.sscanf (input_line channel) "%d %d" (fun n t -> hits := !hits + n; ticked := !ticked + t))
    children;
  List.iter (fun pid -> if await pid <> Unix.WEXITED 0 then failwith "a child") children;
  Printf.printf "one expected=%d\nticked expected=%d\ntwo expected=%d\nend\n%!" !hits !ticked !hits;
  ignore (try input_line stdin with End_of_file -> "")
