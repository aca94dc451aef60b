(* OCaml 5.4 and later. *)
let set = Thread.set_current_thread_name
