(* A service of Lwt: requests of one thread that wait for each other.

     orders_lwt N

   Prints "ready", waits for a line, serves N requests, prints the sum of their numbers and "end". *)

let log = Buffer.create 100
let[@inline never] work text = ignore (Sys.opaque_identity (String.length text))

let serve number customer =
  let rid = number + 1000 in
  [%probe "request" ~args:(rid, customer) ()];
  let%lwt () = Lwt.pause () in
  let%lwt text = Lwt.return (customer ^ "!") in
  work text;
  (try%lwt
     match%lwt Lwt.return (String.length text) with
     | 0 -> Lwt.return_unit
     | size ->
       work text;
       let%lwt () = if rid mod 2 = 0 then Lwt.pause () else Lwt.return_unit in
       work customer;
       [%probe "response" ~args:(size, rid, customer, text) (Printf.bprintf log "%d" rid)];
       Lwt.return_unit
   with Not_found -> Lwt.return_unit)
  [%lwt.finally
    work text;
    [%probe "finished" ~args:(text, rid, customer) (Buffer.clear log)];
    Lwt.return_unit]

let () =
  let n = int_of_string Sys.argv.(1) in
  print_endline "ready";
  ignore (read_line ());
  Lwt_main.run (Lwt.join (List.init n (fun number -> serve number (string_of_int (7 * number)))));
  Printf.printf "sum=%d\nend\n%!" (n * (n - 1) / 2);
  try ignore (read_line ()) with End_of_file -> ()
