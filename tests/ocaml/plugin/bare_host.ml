(* A program without probes. For each line on stdin, `load FILE` loads a plugin and prints `loaded`,
   `go N` passes the plugin's probes N times and prints `done`. *)

let rec obey () =
  match String.split_on_char ' ' (input_line stdin) with
  | [ "load"; file ] ->
    Dynlink.loadfile file;
    print_endline "loaded";
    obey ()
  | [ "go"; rounds ] ->
    for _ = 1 to int_of_string rounds do
      !Plugin_api.round ()
    done;
    print_endline "done";
    obey ()
  | _ | (exception End_of_file) -> ()

let () =
  print_endline "ready";
  obey ()
