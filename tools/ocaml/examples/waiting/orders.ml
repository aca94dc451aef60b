(* Slow, but not busy: four threads take orders, and each holds the lock of the stock while it asks the database. *)

let stock = Mutex.create ()

(* The answer of the database takes 10 ms. *)
let[@inline never] ask_database () =
  Thread.delay 0.01;
  ignore (Sys.opaque_identity ())

let[@inline never] reserve () =
  Mutex.lock stock;
  ask_database ();
  Mutex.unlock stock

let[@inline never] take_orders () =
  while true do
    reserve ()
  done

let () =
  let threads = List.init 4 (fun _ -> Thread.create take_orders ()) in
  List.iter Thread.join threads
