(* Obeys lines: `load FILE` loads a plugin, `go N` passes the probe N times here and N times there,
   and prints what the handlers have added up. *)

let rec obey () =
  match String.split_on_char ' ' (input_line stdin) with
  | [ "load"; file ] ->
    Dynlink.loadfile file;
    print_endline "loaded";
    obey ()
  | [ "go"; n ] ->
    for _ = 1 to int_of_string n do
      ignore (Sys.opaque_identity (Inlined_host.step 1));
      !Inlined_host.round ()
    done;
    Printf.printf "sum %d\n%!" !Inlined_host.sum;
    obey ()
  | _ | (exception End_of_file) -> ()

let () =
  print_endline "ready";
  obey ()
