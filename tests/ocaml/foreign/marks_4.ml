(* Until STOP has returned, work in a thread. *)
let run work stop =
  let thread = Thread.create work () in
  stop ();
  Thread.join thread
