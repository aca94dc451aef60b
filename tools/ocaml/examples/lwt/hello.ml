(* Requests of an Lwt service, many at a time in one thread. Each
   has a number, rid. *)

open Lwt.Infix

let look_up customer =
  Lwt_unix.sleep (if customer = 7 then 0.5 else 0.002)

let serve rid customer =
  [%probe "request_start" ~args:((rid : int), (customer : int)) ()];
  look_up customer >|= fun () ->
  [%probe "request_done" ~args:((rid : int)) ()]

(* A new request each millisecond, of ten customers in turn. *)
let rec run rid =
  Lwt.async (fun () -> serve rid (rid mod 10));
  Lwt_unix.sleep 0.001 >>= fun () -> run (rid + 1)

let () = Lwt_main.run (run 1)
