(* What the plugin and its host share. *)

let in_host = ref 0
let in_plugin = ref 0
let round = ref (fun () -> ())
