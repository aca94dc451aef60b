(** What the expansion of [[%probe]] and [[%probe_is_enabled]] leans on. Not for use by hand. *)

(** The argument, hidden from the optimisers. *)
external opaque : string -> string = "%opaque"

(** A value that no string equals physically: the immediate 0 in the clothes of a string. *)
external nowhere : int -> string = "%identity"

(** Physical equality, whatever [==] means where the probe stands. *)
external same : string -> string -> bool = "%eq"

(** The little-endian 16-bit number at an offset, bounds unchecked. *)
external counter : string -> int -> int = "%caml_string_get16u"

external differ : int -> int -> bool = "%noteq"
(** Integer inequality. *)
