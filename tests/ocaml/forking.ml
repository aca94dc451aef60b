(* Forks children that pass a probe, as their parent does.

     forking CHILDREN ROUNDS

   For the first line on stdin: the parent and each child pass `work` ROUNDS times, then `done`; for
   the second the same, then `done again`; another ends it. *)

let children = int_of_string Sys.argv.(1)
let rounds = int_of_string Sys.argv.(2)

let[@inline never] work x =
  [%probe "work" (ignore (Sys.opaque_identity x))];
  x + 1

let pass () =
  let x = ref 0 in
  for _ = 1 to rounds do
    x := work !x
  done

let all () =
  let start _ =
    match Unix.fork () with
    | 0 ->
      pass ();
      Unix._exit 0
    | pid -> pid
  in
  let pids = List.init children start in
  pass ();
  List.iter (fun pid -> ignore (Unix.waitpid [] pid)) pids

let () =
  print_endline "ready";
  ignore (input_line stdin);
  all ();
  print_endline "done";
  ignore (input_line stdin);
  all ();
  print_endline "done again";
  try ignore (input_line stdin) with End_of_file -> ()
