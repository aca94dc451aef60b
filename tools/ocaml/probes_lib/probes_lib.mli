(** Control the probes of native OCaml programs: switch their handlers on and off and see which are
    on, in other processes and in the running one.

    This is the interface of the library of the same name for forked compilers, over the C library
    of the [ocaml-probes] tool; what the tool can switch this can switch. Programs are described by
    {!t}, made from their file by {!create}; processes are named by their pid.

    {b Errors.} Everything here raises {!Error} with a sentence that names the operand and the
    reason. An update that fails has changed nothing: everything is verified before the first byte
    is written, and what was written is undone if a later write fails.

    {b Counters.} Every probe has a counter of 16 bits: enabling adds 1, disabling subtracts 1, and
    the probe is on while it is above 0. Several users of one process do not disturb each other as
    long as each takes back what it did.

    {b Which probes.} A {!t} stands for the probes of one file. Plugins and shared libraries have
    theirs, and are described by a {!t} of their own; also where they use the same names.

    {b Privileges.} The right to trace the process (ptrace(2)): the same user, or CAP_SYS_PTRACE.
    None for one's own process.

    {b Threads.} Operations on one {!t} wait for each other; the OCaml runtime lock is not held
    meanwhile. Predicates are called by the thread that asked, before anything else happens. *)

(** The probes of a program, and at most one process to which {!With_ptrace} is attached. When it
    is garbage collected it detaches. *)
type t

(** What went wrong, in one sentence. *)
exception Error of string

(** Pids that remember whether they are one's own: [/proc/self] is found also after a fork, and in
    another pid namespace. *)
module Pid_or_self : sig
  (** A process. *)
  type t

  (** The running process. *)
  val self : unit -> t

  (** The process of this pid, which may be the running one. *)
  val of_pid : int -> t

  (** Where its executable is: [/proc/PID/exe], or [/proc/self/exe]. *)
  val get_exe : t -> string

  (** Its pid. *)
  val to_pid : t -> int
end

(** The number of a process. *)
type pid = int

(** What stands behind [[%probe]]. *)
type probe_name = string

(** A probe of a process at one moment. *)
type probe_state =
  { name : probe_name
  ; enabled : bool
    (** that anything of it is on; when another tool was killed amid its work, that may be some of
        its sites or its counter alone *)
  }

(** A compiled regular expression. *)
type pattern

(** In the syntax of [Str.regexp]. It is matched at the start of names, and need not reach their
    end.
    @raise Failure as [Str.regexp] does. *)
val pattern : string -> pattern

(** Some probes. One that is chosen more than once in the same direction is switched once; one that
    is named in both directions is an error. *)
type probe_desc =
  | Name of probe_name (** one, which must exist; disabling it when it is off is an error *)
  | Pair of probe_name * probe_name
      (** of what starts something and what stops it: the stop is enabled before the start and
          disabled after it, so that nothing is seen to begin that is not seen to end *)
  | Regex of pattern
      (** all whose names match, which may be none; disabling leaves alone what is off *)
  | Predicate of (probe_name -> bool)
      (** all for which it is true, which may be none; disabling leaves alone what is off *)

(** What is to be done to probes. *)
type action =
  | Enable
  | Disable

(** Actions that are carried out together, all or none. *)
type actions =
  | All of action (** to all; disabling leaves alone what is off *)
  | Selected of (action * probe_desc) list (** in this order *)

(** [create ~prog ()] reads which probes the ELF file [prog] has, from its headers and notes: an
    executable, a shared library or a plugin ([.cmxs]). No process is needed. A file without probes
    is no error. [/proc/PID/exe] (see {!get_exe}) does also when the program's file was deleted or
    replaced.

    @param check_prog
      accept processes only that run the very file [prog]. Otherwise (the default) a copy will do: a
      file with the same probes at the same addresses, as an installed one, or a stripped one. What
      has no more in common is refused in any case.
    @param allow_gigatext
      also update a process whose code is mapped on pages of 1 GiB, each of which the kernel copies
      when it is first written to. Not allowed by default. *)
val create : ?check_prog:bool -> ?allow_gigatext:bool -> prog:string -> unit -> t

(** The names of the program's probes, sorted, each once. *)
val get_probe_names : t -> probe_name array

(** The states of the program's probes in process [pid], in the order of {!get_probe_names}.

    @param atomically stop the process, so that the states are those of one moment. *)
val get_probe_states : ?atomically:bool -> t -> pid:pid -> probe_state array

(** Switch probes of the running process [pid]. All its threads are stopped while bytes are written.

    @param atomically
      in one stop: the process sees all of the update or nothing. A large update is otherwise made
      in several stops of a few milliseconds, each probe within one. Not possible for one's own
      process.
    @param force set states and counters outright, to 1 or to 0, whatever they were. *)
val trace_existing_process
  :  ?atomically:bool
  -> ?force:bool
  -> t
  -> pid:pid
  -> actions:actions
  -> unit

(** Start the program with these arguments, as a child of this process, with probes enabled before
    any of its code runs. [Disable] is ignored: programs start with their probes as they were
    compiled. It inherits everything else and is running when the function returns; if that raises,
    there is no such process. *)
val trace_new_process : t -> args:string list -> actions:actions -> pid

(** The file that process [pid] executes, for {!create}: [/proc/PID/exe], which is the right file
    even if there is another one of its name now, or none. *)
val get_exe : pid -> string

(** Tell on stderr what is being done. *)
val set_verbose : bool -> unit

(** Change what {!create} was told. *)
val set_allow_gigatext : t -> bool -> unit

(** The running process: no privilege is needed, nothing is stopped. Bytes are switched one by one
    while other threads and domains may run through the sites, each of which is on or off at any
    moment. A handler may switch any probe, its own too. *)
module Self : sig
  (** Switch probes of the executable. For [force] see {!trace_existing_process}. *)
  val update : ?force:bool -> actions -> unit

  (** The states of all probes of the executable, or of [probe_names] in this order. *)
  val get_probe_states : ?probe_names:probe_name array -> unit -> probe_state array

  (** The names of the executable's probes, sorted, each once. *)
  val get_probe_names : unit -> probe_name array

  (** As {!Probes_lib.set_allow_gigatext}. *)
  val set_allow_gigatext : bool -> unit

  (** An object file [t] that this process has loaded: a plugin, or a shared library. *)
  module Dynlink : sig
    (** Switch its probes. *)
    val update : ?force:bool -> t -> actions -> unit

    (** The states of all its probes, or of [probe_names] in this order. *)
    val get_probe_states : ?probe_names:probe_name array -> t -> probe_state array
  end
end

(** Several steps while the process is stopped: [(attach | start) (update | get_probe_states)*
    detach]. For one step {!trace_existing_process} with [atomically], and {!trace_new_process},
    are simpler. A [t] is attached to one process at a time. If this process ends before it
    detaches, a process that it has attached to runs on, and one that it has started is killed. *)
module With_ptrace : sig
  (** Stop a process, with all its threads. *)
  val attach : t -> pid -> unit

  (** Start the program, stopped before any of its code runs; its shared libraries are mapped. *)
  val start : t -> args:string list -> pid

  (** Switch probes of the stopped process, which stays stopped. For [force] see
      {!trace_existing_process}. *)
  val update : ?force:bool -> t -> actions:actions -> unit

  (** The states of all probes of the stopped process, or of [probe_names] in this order. *)
  val get_probe_states : ?probe_names:probe_name array -> t -> probe_state array

  (** Let the process run on. *)
  val detach : t -> unit
end

(** Starting any program stopped, with or without probes. *)
module Raw_ptrace : sig
  (** [start ~argv] starts the file [argv.(0)], as {!With_ptrace.start} does. *)
  val start : argv:string array -> pid

  (** Let a process run that [start] has started. *)
  val detach : pid -> unit
end
