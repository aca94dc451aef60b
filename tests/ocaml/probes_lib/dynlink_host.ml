(* A program that switches the probes of the plugin named on its command line, which it loads. *)

module P = Probes_lib
module Self = P.Self

let[@inline never] own_round () = [%probe "reused" (incr Dynlink_api.in_host)]

let round what =
  own_round ();
  !Dynlink_api.round ();
  Printf.printf "%s: host=%d plugin=%d\n" what !Dynlink_api.in_host !Dynlink_api.in_plugin;
  Dynlink_api.in_host := 0;
  Dynlink_api.in_plugin := 0

let print_states what states =
  let show (p : P.probe_state) = Printf.sprintf "%s=%b" p.name p.enabled in
  Printf.printf "%s: %s\n" what (String.concat " " (List.map show (Array.to_list states)))

let attempt f =
  match f () with
  | () -> print_endline "fine"
  | exception P.Error why ->
    let pid = Str.regexp (string_of_int (Unix.getpid ())) in
    print_endline (Str.global_replace pid "PID" why)

let () =
  let file = Sys.argv.(1) in
  let plugin = P.create ~prog:file () in
  attempt (fun () -> Self.Dynlink.update plugin (All Enable));
  Dynlink.loadfile file;
  round "loaded";
  Self.Dynlink.update plugin (All Enable);
  round "plugin on";
  print_states "plugin" (Self.Dynlink.get_probe_states plugin);
  print_states "some" (Self.Dynlink.get_probe_states ~probe_names:[| "reused" |] plugin);
  print_states "host" (Self.get_probe_states ());
  Self.update (All Enable);
  Self.Dynlink.update plugin (Selected [ Disable, Name "reused" ]);
  round "host's reused, plugin_only";
  attempt (fun () -> Self.update (Selected [ Enable, Name "plugin_only" ]));
  attempt (fun () -> Self.Dynlink.update plugin (Selected [ Enable, Name "host_only" ]));
  Self.update (All Disable);
  Self.Dynlink.update ~force:true plugin (All Disable);
  round "all off";
  (* From outside. *)
  flush stdout;
  (match Unix.fork () with
   | 0 ->
     let pid = Unix.getppid () in
     P.trace_existing_process plugin ~pid ~actions:(Selected [ Enable, Pair ("plugin_only", "reused") ]);
     print_states "from outside" (P.get_probe_states ~atomically:true plugin ~pid);
     exit 0
   | child -> ignore (Unix.waitpid [] child));
  round "plugin on";
  print_states "host" (Self.get_probe_states ())
