(* For each line on stdin, `load FILE` loads a plugin and prints `loaded`, `run SECONDS` works so long. *)

let rec obey () =
  match String.split_on_char ' ' (input_line stdin) with
  | [ "load"; file ] ->
    Dynlink.loadfile file;
    print_endline "loaded";
    obey ()
  | [ "run"; seconds ] ->
    let until = Sys.time () +. float_of_string seconds in
    while Sys.time () < until do
      ignore (Sys.opaque_identity (!Host_api.work 1000))
    done;
    print_endline "done";
    obey ()
  | _ | (exception End_of_file) -> ()

let () =
  print_endline "ready";
  obey ()
