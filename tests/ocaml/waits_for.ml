(* Each thread waits for another kind of thing, in a function of its own, for the whole time. Prints "ready". With the first line
   of stdin, two more threads begin to work, and so wait for the lock of the runtime in turn. It ends with stdin. *)

let mutex = Mutex.create ()
let condition = Condition.create ()
let condition_mutex = Mutex.create ()
let pipe, write_end = Unix.pipe ()
let other_pipe, _other_end = Unix.pipe ()

(* A wait is no tail call, so the function stays on the stack. *)
let[@inline never] in_mutex () = Mutex.lock mutex; ignore (Sys.opaque_identity 1)

let[@inline never] in_condition () =
  Mutex.lock condition_mutex;
  Condition.wait condition condition_mutex;
  ignore (Sys.opaque_identity 2)

let[@inline never] in_read () = ignore (Unix.read pipe (Bytes.create 1) 0 1)
let[@inline never] in_select () = ignore (Unix.select [ other_pipe ] [] [] (-1.))
let[@inline never] in_delay () = Thread.delay 3600.; ignore (Sys.opaque_identity 3)
let[@inline never] in_signal () = ignore (Thread.wait_signal [ Sys.sigusr1 ])
let[@inline never] in_join thread = Thread.join thread; ignore (Sys.opaque_identity 4)
let[@inline never] in_waitpid child = ignore (Unix.waitpid [] child)

let[@inline never] in_turns () =
  while true do
    ignore (Sys.opaque_identity (ref 0))
  done

let[@inline never] in_input () = match input_line stdin with _ -> true | exception End_of_file -> false

let () =
  let child = Unix.fork () in
  if child = 0 then begin
    (* Until the parent ends. *)
    Unix.close write_end;
    ignore (Unix.read pipe (Bytes.create 1) 0 1);
    Unix._exit 0
  end;
  Mutex.lock mutex;
  let first = Thread.create in_mutex () in
  List.iter
    (fun wait -> ignore (Thread.create wait ()))
    [ in_condition; in_read; in_select; in_delay; in_signal; (fun () -> in_join first); (fun () -> in_waitpid child) ];
  print_endline "ready";
  if in_input () then begin
    List.iter (fun f -> ignore (Thread.create f ())) [ in_turns; in_turns ];
    ignore (in_input ())
  end;
  Unix.kill child Sys.sigkill;
  Unix._exit 0
