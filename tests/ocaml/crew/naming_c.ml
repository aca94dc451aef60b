(* Before OCaml 5.4. *)
external set : string -> unit = "crew_set_name"
