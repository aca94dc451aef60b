(** Lets [ocaml-probes memprof] and [Probes_lib.Memprof] profile the allocations of this program
    while it runs, by [Gc.Memprof]. It is enough to link the program with the library: the program
    need not use any function of the library.

    Until a tool requests a profile, the library has a C thread that waits, and two open
    descriptors. While a profile runs, [Gc.Memprof.start] raises [Failure] in the program. A profile
    that the program itself runs is not disturbed: the request of the tool is refused. *)

(** What has happened to a sampled block. *)
type kind =
  | Alloc_minor  (** It was allocated in the minor heap. *)
  | Alloc_major  (** It was allocated in the major heap. *)
  | Promote  (** It has moved from the minor to the major heap. *)
  | Dealloc_minor  (** It was freed in the minor heap. *)
  | Dealloc_major  (** It was freed in the major heap. *)

(** After [observe (Some f)], the library calls [f kind id allocation] for each event, after it has
    reported the event to the tool. [id] is the number of the block, and [allocation] is the record
    of [Gc.Memprof] for a new block. [f] must not raise. [observe None] ends these calls. *)
val observe : (kind -> int -> Gc.Memprof.allocation option -> unit) option -> unit
