(* Passes a pair of probes as often as it is told to, and goes on in a child or in a new image.

   Lines on stdin, and what it answers to each with a line:

     go N     passes `work` and `worked` N times      passed N
     fork     a child goes on, and the parent ends    child PID
     exec     executes the program again              ready
     quit     ends, as the end of stdin *)

let[@inline never] work x =
  [%probe "work" (ignore (Sys.opaque_identity x))];
  let y = Sys.opaque_identity (x + 1) in
  [%probe "worked" (ignore (Sys.opaque_identity y))];
  y

let pass n =
  let x = ref 0 in
  for _ = 1 to n do
    x := work !x
  done;
  Printf.printf "passed %d\n%!" n

let go_on_in_child () =
  match Unix.fork () with
  | 0 -> Printf.printf "child %d\n%!" (Unix.getpid ())
  | _ -> Unix._exit 0

let rec obey () =
  match String.split_on_char ' ' (input_line stdin) with
  | [ "go"; n ] ->
    pass (int_of_string n);
    obey ()
  | [ "fork" ] ->
    go_on_in_child ();
    obey ()
  | [ "exec" ] -> Unix.execv "/proc/self/exe" Sys.argv
  | _ | (exception End_of_file) -> ()

let () =
  print_endline "ready";
  obey ()
