external opaque : string -> string = "%opaque"
external nowhere : int -> string = "%identity"
external same : string -> string -> bool = "%eq"
external counter : string -> int -> int = "%caml_string_get16u"
external differ : int -> int -> bool = "%noteq"

(* The linker takes the stubs from their archive only if something calls them. Bytecode has no use for
   them, and calls a harmless primitive of the standard runtime instead. *)
external keep_sections : unit -> int = "caml_obj_tag" "ocaml_probes_keep_sections" [@@noalloc]

let _ : int = keep_sections ()
