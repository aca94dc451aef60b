(* Probes_lib on other processes: every function, every error. Arguments: what to do, and what that
   needs. What is expected is in tests/e2e/probes_lib.sh. *)

module P = Probes_lib
module PT = Probes_lib.With_ptrace

let state_string (p : P.probe_state) = Printf.sprintf "%s=%b" p.name p.enabled
let print_states what states =
  Printf.printf "%s: %s\n%!" what
    (String.concat " " (List.map state_string (Array.to_list states)))

let attempt what f =
  match f () with
  | () -> Printf.printf "%s: fine\n%!" what
  | exception P.Error why -> Printf.printf "%s: %s\n%!" what why

(* The letter in /proc/PID/stat. *)
let run_state pid =
  let ic = open_in (Printf.sprintf "/proc/%d/stat" pid) in
  let line = input_line ic in
  close_in ic;
  line.[String.rindex line ')' + 2]

let is_stopped pid = run_state pid = 't'

let kill_and_wait pid =
  Unix.kill pid Sys.sigkill;
  match Unix.waitpid [] pid with
  | _, WSIGNALED signal when signal = Sys.sigkill -> ()
  | _ -> print_endline "ended otherwise"

(* As [attempt], for sentences with a number in them that is another one every time. *)
let attempt_number number name what f =
  let re = Str.regexp (Printf.sprintf "\\b%d\\b" number) in
  attempt what (fun () ->
    try f () with
    | P.Error why -> raise (P.Error (Str.global_replace re name why)))

let attempt_pid pid = attempt_number pid "PID"

let errors loop other =
  attempt "no such file" (fun () -> ignore (P.create ~prog:"/nonexistent" ()));
  attempt "empty" (fun () -> ignore (P.create ~prog:"" ()));
  attempt "NUL" (fun () -> ignore (P.create ~prog:"/bin/sh\000x" ()));
  attempt "no ELF file" (fun () -> ignore (P.create ~prog:"/etc/passwd" ()));
  let t = P.create ~prog:loop () in
  let pid = P.trace_new_process t ~args:[] ~actions:(Selected []) in
  let update ?force ?atomically what actions =
    attempt_pid pid what (fun () ->
      P.trace_existing_process ?force ?atomically t ~pid ~actions:(Selected actions))
  in
  update "unknown" [ Enable, Name "alpha"; Enable, Name "alpa" ];
  update "unknown in a pair" [ Enable, Pair ("alpha", "nothing") ];
  update "NUL in a name" [ Enable, Name "alpha\000" ];
  update "off already" [ Enable, Name "beta"; Disable, Name "alpha" ];
  update "both ways" [ Enable, Name "beta"; Disable, Name "beta" ];
  update "a pair of one" [ Enable, Pair ("beta", "beta") ];
  print_states "nothing was done" (P.get_probe_states t ~pid);
  update "nothing" [];
  update "named twice" [ Enable, Name "beta"; Enable, Name "beta"; Enable, Pair ("beta", "alpha") ];
  print_states "once each" (P.get_probe_states t ~pid);
  update "off once" [ Disable, Name "beta"; Disable, Name "alpha" ];
  update "no match" [ Enable, Regex (P.pattern "nothing"); Enable, Predicate (fun _ -> false) ];
  update "sets leave alone" [ Disable, Regex (P.pattern ""); Disable, Predicate (fun _ -> true) ];
  update ~force:true "by force" [ Disable, Name "alpha"; Enable, Name "gamma" ];
  update ~force:true ~atomically:true "by force at once" [ Disable, Name "gamma" ];
  print_states "in the end" (P.get_probe_states t ~pid);
  attempt "state of none" (fun () ->
    PT.attach t pid;
    Fun.protect
      ~finally:(fun () -> PT.detach t)
      (fun () -> print_states "" (PT.get_probe_states ~probe_names:[| "alpha"; "omega" |] t)));
  let large = (1 lsl 32) + pid in
  List.iter
    (fun pid -> attempt_number large "LARGE" "not a pid" (fun () -> ignore (P.get_probe_states t ~pid)))
    [ 0; -1; large ];
  attempt_pid pid "no other process" (fun () ->
    ignore (P.get_probe_states (P.create ~prog:other ()) ~pid));
  attempt_pid pid "attach" (fun () -> PT.attach (P.create ~prog:other ()) pid);
  attempt_pid (Unix.getpid ()) "self at once" (fun () ->
    P.trace_existing_process ~atomically:true (P.create ~prog:"/proc/self/exe" ())
      ~pid:(Unix.getpid ()) ~actions:(All Enable));
  attempt_pid (Unix.getpid ()) "states of self at once" (fun () ->
    ignore
      (P.get_probe_states ~atomically:true (P.create ~prog:"/proc/self/exe" ()) ~pid:(Unix.getpid ())));
  attempt_pid (Unix.getpid ()) "attach to self" (fun () ->
    PT.attach (P.create ~prog:"/proc/self/exe" ()) (Unix.getpid ()));
  kill_and_wait pid;
  attempt_pid pid "ended" (fun () -> ignore (P.get_probe_states t ~pid));
  attempt_pid pid "attach to none" (fun () -> PT.attach t pid)

(* A copy of the program will do, unless it was said that it does not. *)
let copies loop copy =
  let pid = P.trace_new_process (P.create ~prog:loop ()) ~args:[] ~actions:(All Enable) in
  print_states "a copy" (P.get_probe_states (P.create ~prog:copy ()) ~pid);
  let strict = P.create ~check_prog:true ~prog:copy () in
  attempt_pid pid "no copies" (fun () -> ignore (P.get_probe_states strict ~pid));
  Sys.remove loop;
  let t = P.create ~check_prog:true ~prog:(P.get_exe pid) () in
  print_states "deleted" (P.get_probe_states t ~pid);
  kill_and_wait pid

let counters loop =
  let t = P.create ~prog:loop () in
  let pid = P.trace_new_process t ~args:[] ~actions:(Selected [ Enable, Name "beta"; Disable, Name "nothing" ]) in
  let all action = P.trace_existing_process t ~pid ~actions:(All action) in
  print_states "started" (P.get_probe_states t ~pid);
  all Enable;
  all Disable;
  print_states "beta was on before" (P.get_probe_states t ~pid);
  all Disable;
  print_states "all off" (P.get_probe_states t ~pid);
  P.trace_existing_process t ~pid ~actions:(Selected [ Enable, Pair ("alpha", "beta") ]);
  P.trace_existing_process t ~pid ~actions:(Selected [ Disable, Pair ("alpha", "beta"); Enable, Name "gamma" ]);
  print_states "by pairs" (P.get_probe_states ~atomically:true t ~pid);
  kill_and_wait pid;
  attempt "not started" (fun () ->
    ignore (P.trace_new_process t ~args:[] ~actions:(Selected [ Enable, Name "nothing" ])));
  match Unix.waitpid [ WNOHANG ] (-1) with
  | exception Unix.Unix_error (ECHILD, _, _) -> print_endline "no child is left"
  | _ -> print_endline "a child is left"

exception From_predicate

let predicates loop =
  let t = P.create ~prog:loop () in
  let pid = P.trace_new_process t ~args:[] ~actions:(All Disable) in
  let update is_chosen =
    P.trace_existing_process t ~pid ~actions:(Selected [ Enable, Predicate is_chosen ])
  in
  (match update (fun name -> if name = "gamma" then raise From_predicate else true) with
   | () -> print_endline "no exception"
   | exception From_predicate -> print_states "an exception" (P.get_probe_states t ~pid));
  (* One that allocates, collects, and uses what it is being called for. *)
  update (fun name ->
    let states = P.get_probe_states t ~pid in
    Gc.compact ();
    name <> "beta" && not (Array.exists (fun (p : P.probe_state) -> p.enabled) states));
  print_states "all but beta" (P.get_probe_states t ~pid);
  kill_and_wait pid

let ptrace loop =
  let t = P.create ~prog:loop () in
  let pid = PT.start t ~args:[] in
  Printf.printf "started: stopped=%b\n" (is_stopped pid);
  PT.update t ~actions:(Selected [ Enable, Name "alpha" ]);
  PT.update ~force:true t ~actions:(Selected [ Enable, Name "alpha"; Enable, Name "gamma" ]);
  print_states "held" (PT.get_probe_states t);
  print_states "some" (PT.get_probe_states ~probe_names:[| "gamma"; "alpha"; "gamma" |] t);
  Printf.printf "still: stopped=%b\n" (is_stopped pid);
  PT.detach t;
  Printf.printf "detached: stopped=%b\n" (is_stopped pid);
  attempt "twice" (fun () -> PT.detach t);
  PT.attach t pid;
  Printf.printf "attached: stopped=%b\n" (is_stopped pid);
  (* Another thread may go on with it. *)
  Thread.join
    (Thread.create
       (fun () ->
         PT.update t ~actions:(All Disable);
         print_states "by another thread" (PT.get_probe_states t))
       ());
  (* A forked child is attached to nothing, and its end changes nothing. *)
  flush stdout;
  (match Unix.fork () with
   | 0 ->
     attempt "child" (fun () -> PT.detach t);
     attempt_pid pid "child" (fun () -> ignore (P.get_probe_states t ~pid));
     Gc.full_major ();
     Unix._exit 0
   | child -> ignore (Unix.waitpid [] child));
  Printf.printf "after the child: stopped=%b\n" (is_stopped pid);
  PT.detach t;
  print_states "afterwards" (P.get_probe_states t ~pid);
  (* One that is forgotten while it is attached. *)
  PT.attach (P.create ~prog:loop ()) pid;
  Gc.full_major ();
  Gc.full_major ();
  Printf.printf "forgotten: stopped=%b\n" (is_stopped pid);
  kill_and_wait pid;
  (* Killed while it is attached. *)
  let pid = PT.start t ~args:[] in
  Unix.kill pid Sys.sigkill;
  (* What it was is read as long as it has memory. *)
  (try ignore (PT.get_probe_states t) with P.Error _ -> ());
  PT.detach t;
  (match Unix.waitpid [] pid with
   | _, WSIGNALED _ -> print_endline "its status was kept"
   | _ -> print_endline "ended otherwise"
   | exception Unix.Unix_error (ECHILD, _, _) -> print_endline "its status was lost");
  let missing = P.create ~prog:(Sys.getenv "TMP" ^ "/gone") () in
  Sys.remove (Sys.getenv "TMP" ^ "/gone");
  attempt "no program any more" (fun () -> ignore (PT.start missing ~args:[]));
  attempt "NUL in an argument" (fun () -> ignore (PT.start t ~args:[ "\000" ]))

let raw not_a_program =
  let pid = P.Raw_ptrace.start ~argv:[| "/bin/sh"; "-c"; "exit 7" |] in
  Printf.printf "started: stopped=%b\n" (is_stopped pid);
  let other = P.Raw_ptrace.start ~argv:[| "/bin/sh"; "-c"; "exit 8" |] in
  Gc.full_major ();
  Printf.printf "collected: stopped=%b %b\n" (is_stopped pid) (is_stopped other);
  List.iter
    (fun pid ->
      P.Raw_ptrace.detach pid;
      match Unix.waitpid [] pid with
      | _, WEXITED status -> Printf.printf "status %d\n" status
      | _ -> print_endline "ended otherwise")
    [ pid; other ];
  attempt_pid pid "twice" (fun () -> P.Raw_ptrace.detach pid);
  attempt "nothing" (fun () -> ignore (P.Raw_ptrace.start ~argv:[||]));
  attempt "no such program" (fun () -> ignore (P.Raw_ptrace.start ~argv:[| "/nonexistent" |]));
  attempt "no program" (fun () -> ignore (P.Raw_ptrace.start ~argv:[| not_a_program |]))

(* After each operation that fails, those that follow: nothing was freed that is still in use, or twice. *)
let failures loop =
  let me = Unix.getpid () in
  let own = P.create ~prog:"/proc/self/exe" () in
  let states what t pid =
    Gc.compact ();
    attempt_pid pid what (fun () ->
      Printf.printf "%d probes, " (Array.length (P.get_probe_states t ~pid)))
  in
  let all t pid action = P.trace_existing_process t ~pid ~actions:(All action) in
  let unknown = P.Selected [ Enable, Name "no_such_probe" ] in
  let fail_at_all t pid =
    attempt_pid pid "attach" (fun () -> PT.attach t pid);
    states "after attach" t pid;
    attempt_pid pid "atomically" (fun () -> ignore (P.get_probe_states ~atomically:true t ~pid));
    states "after reading" t pid;
    attempt_pid pid "unknown" (fun () -> P.trace_existing_process t ~pid ~actions:unknown);
    states "after an update" t pid
  in
  states "own" own me;
  fail_at_all own me;
  all own me Enable;
  all own me Disable;
  let t = P.create ~prog:loop () in
  let start () =
    let pid = P.trace_new_process t ~args:[] ~actions:(All Disable) in
    PT.attach t pid;
    pid
  in
  let pid = start () in
  fail_at_all t pid;
  attempt "held, unknown" (fun () -> PT.update t ~actions:unknown);
  attempt_pid pid "start" (fun () -> ignore (PT.start t ~args:[]));
  attempt_pid pid "trace" (fun () -> ignore (P.trace_new_process t ~args:[] ~actions:unknown));
  states "still held" t pid;
  PT.detach t;
  attempt "detach" (fun () -> PT.detach t);
  states "let go" t pid;
  attempt "trace unknown" (fun () -> ignore (P.trace_new_process t ~args:[] ~actions:unknown));
  attempt "start another" (fun () -> Sys.remove loop; ignore (PT.start t ~args:[]));
  kill_and_wait pid;
  attempt_pid pid "attach to none" (fun () -> PT.attach t pid);
  states "of none" t pid;
  states "own, in the end" own me

(* Many tracers, some from threads that share one, with collections in between. *)
let many loop =
  let shared = P.create ~prog:loop () in
  let pid = P.trace_new_process shared ~args:[] ~actions:(All Disable) in
  let work () =
    for i = 1 to 50 do
      let t = if i land 1 = 0 then shared else P.create ~prog:loop () in
      P.trace_existing_process t ~pid ~actions:(All Enable);
      (match P.trace_existing_process t ~pid ~actions:(Selected [ Enable, Name "nothing" ]) with
       | () -> print_endline "no error"
       | exception P.Error why -> assert (String.length why > 10));
      P.trace_existing_process t ~pid ~actions:(All Disable);
      if i mod 10 = 0 then Gc.full_major ()
    done
  in
  let threads = List.init 4 (fun _ -> Thread.create work ()) in
  List.iter Thread.join threads;
  print_states "afterwards" (P.get_probe_states shared ~pid);
  kill_and_wait pid;
  Gc.full_major ();
  let fds = Array.length (Sys.readdir "/proc/self/fd") in
  Printf.printf "files left open: %b\n" (fds > 8)

let () =
  match Sys.argv with
  | [| _; "errors"; loop; other |] -> errors loop other
  | [| _; "copies"; loop; copy |] -> copies loop copy
  | [| _; "counters"; loop |] -> counters loop
  | [| _; "predicates"; loop |] -> predicates loop
  | [| _; "ptrace"; loop |] -> ptrace loop
  | [| _; "failures"; loop |] -> failures loop
  | [| _; "raw"; not_a_program |] -> raw not_a_program
  | [| _; "many"; loop |] -> many loop
  | [| _; "verbose"; loop |] ->
    P.set_verbose true;
    let t = P.create ~prog:loop () in
    let pid = P.trace_new_process t ~args:[] ~actions:(All Enable) in
    P.set_verbose false;
    print_states "states" (P.get_probe_states t ~pid);
    kill_and_wait pid
  | _ -> exit 2
