(** What the expansion of [[%probe]] and [[%probe_is_enabled]] leans on: primitives of the compiler, no
    code. Not for use by hand. *)

(** The argument, hidden from the optimisers. *)
external opaque : string -> string = "%opaque"

(** A value that no string equals physically: the immediate 0 in the clothes of a string. *)
external nowhere : int -> string = "%identity"

(** Physical equality, whatever [==] means where the probe stands. *)
external same : string -> string -> bool = "%eq"

(** The little-endian 16-bit number at an offset, bounds unchecked. *)
external counter : string -> int -> int = "%caml_string_get16u"

(** Integer inequality. *)
external differ : int -> int -> bool = "%noteq"

(** The bytes of a string as words. *)
external words : string -> int array = "%identity"

(** A value as what is stored in a word. Hidden from the optimisers, for flambda knows that a float is
    none. *)
external word : 'a -> int = "%opaque"

(** [store words i word], bounds unchecked, without the collector's knowledge. *)
external store : int array -> int -> int -> unit = "%array_unsafe_set"

(** A constant pair, hidden from the optimisers. *)
external pair : string * int -> string * int = "%opaque"

(** The first half of a pair. *)
external first : string * int -> string = "%field0"
