(* Requests of fibres, for OCaml 5: each begins, waits in an effect until others have begun, and ends.

     fibres N

   Prints "ready", waits for a line, serves N requests, and prints "end". Between its two probes the
   stack of a request is in the heap. *)

open Effect
open Effect.Deep

type _ Effect.t += Pause : unit Effect.t

let waiting : (unit -> unit) Queue.t = Queue.create ()
let[@inline never] work text = ignore (Sys.opaque_identity (String.length text))
let log = Buffer.create 100

let[@inline never] request rid customer =
  [%probe "fibre_begun" ~args:(rid, customer) ()];
  let answer () =
    perform Pause;
    work customer;
    [%probe "fibre_ended" ~args:(customer, rid) (Printf.bprintf log "%d" rid)]
  in
  answer ();
  perform Pause;
  [%probe "fibre_left" ~args:(customer, rid) (Buffer.clear log)]

let spawn f =
  match_with f ()
    {
      retc = ignore;
      exnc = raise;
      effc =
        (fun (type a) (eff : a Effect.t) ->
          match eff with
          | Pause ->
            Some
              (fun (k : (a, unit) continuation) -> Queue.push (fun () -> continue k ()) waiting)
          | _ -> None);
    }

let () =
  let n = int_of_string Sys.argv.(1) in
  print_endline "ready";
  ignore (read_line ());
  for rid = 1 to n do
    spawn (fun () -> request rid (string_of_int rid));
    if rid mod 5 = 0 then Gc.compact ()
  done;
  while not (Queue.is_empty waiting) do
    (Queue.pop waiting) ()
  done;
  print_endline "end";
  try ignore (read_line ()) with End_of_file -> ()
