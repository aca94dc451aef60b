(* host N FILE: loads FILE, a plugin. *)
let () = Dynlink.loadfile Sys.argv.(2)
