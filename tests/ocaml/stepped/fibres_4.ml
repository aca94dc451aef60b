(* OCaml 4 has none: see fibres_5.ml. *)

let run (_ : Tools.t) = ()
