(* What a plugin and its host share. *)

let work = ref (fun (_ : int) -> 0)
