(** Lets [ocaml-probes memprof] and [Probes_lib.Memprof] profile the allocations of this program
    while it runs, by [Gc.Memprof]. A program only has to be linked with the library: it refers to
    nothing of it.

    Until a tool asks for a profile, the library has a thread of C that waits, and two open
    descriptors. While a profile runs, [Gc.Memprof.start] raises [Failure] in the program. A profile
    that the program runs by itself is left alone: the tool is refused. *)

(** What has happened to a sampled block. *)
type kind =
  | Alloc_minor  (** It was allocated in the minor heap. *)
  | Alloc_major  (** It was allocated in the major heap. *)
  | Promote  (** It has moved from the minor to the major heap. *)
  | Dealloc_minor  (** It was freed in the minor heap. *)
  | Dealloc_major  (** It was freed in the major heap. *)

(** [observe (Some f)] lets [f kind id allocation] see each event that a tool is told of, after the
    tool. [id] is the number of the block, and [allocation] is what [Gc.Memprof] tells of a new block.
    [f] must not raise. [observe None] ends it. *)
val observe : (kind -> int -> Gc.Memprof.allocation option -> unit) option -> unit
