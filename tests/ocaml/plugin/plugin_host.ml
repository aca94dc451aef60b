(* A program with a probe that loads the plugin named on its command line and prints `ready`. For
   each line `go` on stdin it passes all probes once and prints how often the handlers have run. *)

let own_round () = [%probe "reused" (incr Plugin_api.in_host)]

let rec obey () =
  match input_line stdin with
  | "go" ->
    own_round ();
    !Plugin_api.round ();
    Printf.printf "host=%d plugin=%d\n%!" !Plugin_api.in_host !Plugin_api.in_plugin;
    obey ()
  | _ | (exception End_of_file) -> ()

let () =
  Dynlink.loadfile Sys.argv.(1);
  print_endline "ready";
  obey ()
