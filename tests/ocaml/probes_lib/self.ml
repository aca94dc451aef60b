(* Probes_lib on the process that runs it. Arguments: how much of all to do, and how many children to fork. *)

module P = Probes_lib
module Self = P.Self

let size = int_of_string Sys.argv.(1)
let children = int_of_string Sys.argv.(2)
let hot = Array.init 4 (fun _ -> ref 0)
let cold = ref 0
let switched = ref 0

let[@inline never] work i x =
  [%probe "hot" (incr hot.(i))];
  if x land 7 = 0 then [%probe "cold" (incr cold)];
  x + 1

(* A handler that switches itself off. *)
let[@inline never] once () =
  [%probe "once"
    (incr switched;
     Self.update (Selected [ Disable, Name "once" ]))]

let print_states () =
  Array.iter
    (fun (p : P.probe_state) -> Printf.printf " %s=%b" p.name p.enabled)
    (Self.get_probe_states ());
  print_newline ()

let enable names = Self.update (Selected (List.map (fun name -> P.Enable, P.Name name) names))
let disable names = Self.update (Selected (List.map (fun name -> P.Disable, P.Name name) names))

(* Several threads run through the sites while others switch them. *)
let threads () =
  let stop = Atomic.make false in
  let run i =
    let x = ref 0 in
    while not (Atomic.get stop) do
      x := work i !x;
      if !x land 0xfff = 0 then Thread.yield ()
    done
  in
  let ran () = Array.exists (fun count -> !count > 0) hot && !cold > 0 in
  let toggle () =
    for i = 1 to 8 * size do
      enable [ "hot"; "cold" ];
      (* Later on they may have a turn only while all is off. *)
      if i = 1 then while not (ran ()) do Thread.yield () done;
      ignore (Self.get_probe_states ());
      disable [ "hot"; "cold" ];
      if i mod 40 = 0 then Gc.compact ()
    done
  in
  let runners = List.init 4 (fun i -> Thread.create run i) in
  let togglers = List.init 3 (fun _ -> Thread.create toggle ()) in
  List.iter Thread.join togglers;
  Atomic.set stop true;
  List.iter Thread.join runners;
  Printf.printf "handlers ran: %b\n" (ran ());
  (* Nobody is left in a handler, and none runs again. *)
  let before = Array.map ( ! ) hot in
  for x = 1 to 1000 do
    ignore (work 0 x)
  done;
  Printf.printf "all off: %b\n" (Array.map ( ! ) hot = before);
  print_states ()

let signal () =
  let handle _ = if [%probe_is_enabled "cold"] then disable [ "cold" ] else enable [ "cold" ] in
  Sys.set_signal Sys.sigalrm (Sys.Signal_handle handle);
  let interval = { Unix.it_interval = 0.0005; it_value = 0.0005 } in
  ignore (Unix.setitimer ITIMER_REAL interval);
  for _ = 1 to 16 * size do
    enable [ "hot" ];
    disable [ "hot" ]
  done;
  ignore (Unix.setitimer ITIMER_REAL { it_interval = 0.; it_value = 0. });
  Self.update ~force:true (All Disable);
  print_states ()

let finaliser () =
  let collect () =
    Gc.finalise (fun _ -> enable [ "cold" ]) (ref 0);
    ignore (Sys.opaque_identity (ref 1))
  in
  collect ();
  Gc.full_major ();
  print_states ();
  disable [ "cold" ]

(* A child of a fork has its own probes, also if another thread was in the library. *)
let fork () =
  let stop = Atomic.make false in
  let toggler =
    Thread.create
      (fun () ->
        while not (Atomic.get stop) do
          enable [ "hot" ];
          disable [ "hot" ]
        done)
      ()
  in
  let good = ref 0 in
  for _ = 1 to children do
    Thread.yield ();
    match Unix.fork () with
    | 0 ->
      Self.update ~force:true (All Disable);
      cold := 0;
      enable [ "cold" ];
      ignore (work 0 0);
      Unix._exit (if !cold = 1 then 0 else 1)
    | child ->
      (match Unix.waitpid [] child with
       | _, WEXITED 0 -> incr good
       | _ -> ())
  done;
  Atomic.set stop true;
  Thread.join toggler;
  Printf.printf "children: %d\n" !good;
  print_states ()

let () =
  Printf.printf "names: %s\n" (String.concat " " (Array.to_list (Self.get_probe_names ())));
  print_states ();
  enable [ "once" ];
  for _ = 1 to 10 do
    once ()
  done;
  Printf.printf "once: %d\n" !switched;
  threads ();
  signal ();
  finaliser ();
  fork ();
  (* By pid it is the same process. *)
  let t = P.create ~check_prog:true ~prog:Sys.executable_name () in
  P.trace_existing_process t ~pid:(Unix.getpid ()) ~actions:(Selected [ Enable, Regex (P.pattern "[ch]o") ]);
  print_states ();
  Array.iter
    (fun (p : P.probe_state) -> Printf.printf "%s %b\n" p.name p.enabled)
    (Self.get_probe_states ~probe_names:[| "once"; "hot" |] ());
  Self.set_allow_gigatext true;
  (match Self.update (Selected [ Enable, Name "colt" ]) with
   | () -> print_endline "fine"
   | exception P.Error why -> print_endline why);
  Printf.printf "exe: %s\n" (P.get_exe (Unix.getpid ()));
  Printf.printf "pids: %b\n"
    P.Pid_or_self.(to_pid (self ()) = Unix.getpid () && get_exe (of_pid 2) = "/proc/2/exe");
  at_exit (fun () ->
    Self.update (All Disable);
    print_states ())
