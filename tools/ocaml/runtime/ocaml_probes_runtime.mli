(** The primitives that [[%probe]] and [[%probe_is_enabled]] expand to. They are primitives of the
    compiler and have no code of their own. Programs should not call them. *)

(** The argument itself, hidden from the optimisers. *)
external opaque : string -> string = "%opaque"

(** The immediate 0 with the type of a string. It is physically different from every string. *)
external nowhere : int -> string = "%identity"

(** Physical equality. It does not depend on the meaning of [==] where the probe is. *)
external same : string -> string -> bool = "%eq"

(** [counter s i] is the little-endian 16-bit number at offset [i] of [s]. Bounds are not checked.
    *)
external counter : string -> int -> int = "%caml_string_get16u"

(** Integer inequality. *)
external differ : int -> int -> bool = "%noteq"

(** The bytes of a string as an array of words. *)
external words : string -> int array = "%identity"

(** The word that represents a value. It is hidden from the optimisers, because flambda knows that a
    float is not a word. *)
external word : 'a -> int = "%opaque"

(** [store words i word] stores [word] at index [i]. Bounds are not checked, and there is no write
    barrier. *)
external store : int array -> int -> int -> unit = "%array_unsafe_set"

(** A constant pair, hidden from the optimisers. *)
external pair : string * int -> string * int = "%opaque"

(** The first component of a pair. *)
external first : string * int -> string = "%field0"
