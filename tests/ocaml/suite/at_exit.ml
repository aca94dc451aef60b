(* Probes in at_exit functions and in what runs after an uncaught exception. The rounds are made
   of child processes: what they say comes back through a pipe. *)
open Suite

type teller = { tell : 'a. ('a, unit, string, unit) format4 -> 'a }

let child round =
  let from_child, to_parent = Unix.pipe () in
  match Unix.fork () with
  | 0 ->
    let out = Unix.out_channel_of_descr to_parent in
    round { tell = (fun fmt -> Printf.ksprintf (fun s -> output_string out (s ^ "\n"); flush out) fmt) };
    exit 0
  | pid ->
    Unix.close to_parent;
    let input = Unix.in_channel_of_descr from_child in
    let rec copy () =
      match input_line input with
      | line -> say "%s" line; copy ()
      | exception End_of_file -> ()
    in
    copy ();
    close_in input;
    let _, status = Unix.waitpid [] pid in
    say "%s" (match status with WEXITED n -> Printf.sprintf "exited %d" n | _ -> "killed")

let () =
  run (fun () ->
      child (fun { tell } ->
          at_exit (fun () -> [%probe "first_registered" (tell "> runs last")]; tell "first");
          at_exit (fun () -> [%probe "last_registered" (tell "> runs first")]; tell "last");
          [%probe "exits" (tell "> exiting")];
          exit 3);
      child (fun { tell } ->
          Printexc.set_uncaught_exception_handler (fun e _ ->
            [%probe "uncaught" (tell "> uncaught")];
            tell "%s" (Printexc.to_string e));
          at_exit (fun () -> [%probe "after_exception" (tell "> at exit")]);
          failwith "nobody catches this"))

(*expected
> exiting
> runs first
last
> runs last
first
exited 3
> at exit
> uncaught
Failure("nobody catches this")
exited 2
*)
