(** Control the probes of native OCaml programs, in other processes and in the running one: enable
    and disable their handlers, and read which are enabled. {!Memprof} profiles what programs
    allocate.

    This library has the interface of the library of the same name for forked compilers. It uses the
    C library of the [ocaml-probes] tool. A program is described by a {!t}, which {!create} makes
    from its file. A process is named by its pid.

    {b Errors.} Functions raise {!Error} with a message that names the operand and the reason. An
    update that fails has changed nothing: it is verified before the first byte is written, and if a
    later write fails, the earlier ones are undone.

    {b Counters.} Each probe has a 16-bit counter. Enabling adds 1, disabling subtracts 1, and the
    probe is enabled while the counter is above 0. Several tools can use one process if each of them
    disables what it has enabled.

    {b Files.} A {!t} stands for the probes of one file. Plugins and shared libraries need a {!t} of
    their own, even if their probes have the same names.

    {b Privileges.} The caller needs the right to trace the process (ptrace(2)): the same user, or
    CAP_SYS_PTRACE. The running process needs no privilege.

    {b Threads.} Operations on one {!t} wait for each other. The OCaml runtime lock is released
    meanwhile. Predicates are called by the caller's thread, before the operation begins.

    @since 0.1.0 *)

(** The probes of a program, and at most one process to which {!With_ptrace} is attached. It
    detaches when it is garbage collected. *)
type t

(** An operation failed. The argument is a message of one sentence. *)
exception Error of string

(** Processes that may be the running one. {!Pid_or_self.get_exe} is valid for the running process
    also in another pid namespace. *)
module Pid_or_self : sig
  (** A process. *)
  type t

  (** The running process. *)
  val self : unit -> t

  (** [of_pid pid] is the process [pid], which may be the running one. *)
  val of_pid : int -> t

  (** The path of the executable: [/proc/PID/exe], or [/proc/self/exe] for the running process. *)
  val get_exe : t -> string

  (** The pid of the process. *)
  val to_pid : t -> int
end

(** The id of a process. *)
type pid = int

(** The name of a probe, as in [[%probe "name" handler]]. *)
type probe_name = string

(** The state of a probe in a process at one moment. *)
type probe_state =
  { name : probe_name (** the name of the probe *)
  ; enabled : bool
    (** whether any part of the probe is on. If another tool was killed during an update, this may
        be only the counter or some of the sites. *)
  }

(** A compiled regular expression. *)
type pattern

(** [pattern re] compiles [re], which has the syntax of [Str.regexp]. A match begins at the start of
    a name and may end anywhere in it.
    @raise Failure if [re] is invalid, as [Str.regexp] does. *)
val pattern : string -> pattern

(** A choice of probes. A probe that is chosen several times for the same action is switched once.
    It is an error to enable and disable the same probe. *)
type probe_desc =
  | Name of probe_name
      (** the probe of this name. It must exist, and it must be enabled if it is to be disabled. *)
  | Pair of probe_name * probe_name
      (** two probes that mark the start and the stop of an operation. At no moment the start is
          enabled and the stop is not. An operation that is under way when both are disabled is
          only seen to start, and one that is under way when they are enabled is only seen to
          stop. To see the last ones stop, disable the start alone, and the stop when they have
          stopped. *)
  | Regex of pattern
      (** the probes whose names match; there may be none. Those that are off already are not
          disabled. *)
  | Predicate of (probe_name -> bool)
      (** the probes for which it is true; there may be none. Those that are off already are not
          disabled. *)

(** What to do with probes. *)
type action =
  | Enable (** add 1 to the counter *)
  | Disable (** subtract 1 from the counter *)

(** Actions that are carried out together: all of them, or none if one fails. *)
type actions =
  | All of action (** for all probes. Those that are off already are not disabled. *)
  | Selected of (action * probe_desc) list (** for some probes, in this order *)

(** [create ~prog ()] reads the probes of the ELF file [prog] from its headers and notes. The file
    is an executable, a shared library or a plugin ([.cmxs]), and may have no probes. No process is
    needed. If the file of a process was deleted or replaced, use {!get_exe}.

    @param check_prog
      accept only processes that run the file [prog] itself. By default, copies are accepted: files
      with the same probes at the same addresses, such as an installed or a stripped one.
    @param allow_gigatext
      allow updates of code that is mapped on pages of 1 GiB. The kernel copies each of these pages
      at the first write. The default is [false].
    @raise Error if the file cannot be read or is not a valid ELF file. *)
val create : ?check_prog:bool -> ?allow_gigatext:bool -> prog:string -> unit -> t

(** The names of the program's probes, sorted and without duplicates. *)
val get_probe_names : t -> probe_name array

(** The states of the program's probes in process [pid], in the order of {!get_probe_names}.

    @param atomically
      stop the process while the states are read, so that they are those of one moment.
    @raise Error if [pid] does not run the program or cannot be read. *)
val get_probe_states : ?atomically:bool -> t -> pid:pid -> probe_state array

(** Switch probes of the running process [pid]. All of its threads are stopped while bytes are
    written.

    @param atomically
      stop the process only once, so that it sees all of the update at one moment. By default, a
      large update needs several stops of a few milliseconds, and each probe is switched within one
      of them. Not possible for the running process itself.
    @param force set counters to 1 (enable) or 0 (disable), whatever they were.
    @raise Error if the update fails; then nothing has changed. *)
val trace_existing_process
  :  ?atomically:bool
  -> ?force:bool
  -> t
  -> pid:pid
  -> actions:actions
  -> unit

(** Start the program with the arguments [args] as a child process, and enable probes before any of
    its code runs. [Disable] actions are ignored: the other probes start as they were compiled. The
    child inherits the environment and the open files. It is running when the function returns its
    pid.

    @raise Error on failure; then there is no child. *)
val trace_new_process : t -> args:string list -> actions:actions -> pid

(** [get_exe pid] is a path to the executable of process [pid], for {!create}: [/proc/PID/exe]. It
    is
    valid even if the file was deleted or replaced. *)
val get_exe : pid -> string

(** Turn messages about each step on or off. They are written to stderr. *)
val set_verbose : bool -> unit

(** Change the parameter [allow_gigatext] of {!create}. *)
val set_allow_gigatext : t -> bool -> unit

(** The running process. No privilege is needed and no thread is stopped. An update switches one
    byte after the other, and other threads and domains may run the sites meanwhile. Each site is on
    or off at any moment. A handler may switch any probe, including its own. *)
module Self : sig
  (** Switch probes of the executable. See {!trace_existing_process} for [force].
      @raise Error if the update fails; then nothing has changed. *)
  val update : ?force:bool -> actions -> unit

  (** The states of all probes of the executable, or of [probe_names] in this order.
      @raise Error if a name does not exist. *)
  val get_probe_states : ?probe_names:probe_name array -> unit -> probe_state array

  (** The names of the executable's probes, sorted and without duplicates.
      @raise Error if the executable cannot be read. *)
  val get_probe_names : unit -> probe_name array

  (** The same as {!Probes_lib.set_allow_gigatext} for the running process.
      @raise Error if the executable cannot be read. *)
  val set_allow_gigatext : bool -> unit

  (** Files that the running process has loaded: plugins and shared libraries. *)
  module Dynlink : sig
    (** Switch probes of the file. See {!trace_existing_process} for [force].
        @raise Error if the update fails; then nothing has changed. *)
    val update : ?force:bool -> t -> actions -> unit

    (** The states of all probes of the file, or of [probe_names] in this order.
        @raise Error if a name does not exist or the file is not loaded. *)
    val get_probe_states : ?probe_names:probe_name array -> t -> probe_state array
  end
end

(** Several operations while a process is stopped: {!attach} or {!start}, any number of {!update}
    and {!get_probe_states}, then {!detach}. For one operation, {!trace_existing_process} with
    [atomically] and {!trace_new_process} are simpler. A {!Probes_lib.t} is attached to one process
    at a time. If the running process ends before it detaches, an attached process continues and a
    started one is killed. *)
module With_ptrace : sig
  (** Stop all threads of a process.
      @raise Error if this fails, or if the {!Probes_lib.t} is attached already. *)
  val attach : t -> pid -> unit

  (** Start the program and stop it before any of its code runs. Its shared libraries are mapped.
      @raise Error on failure; then there is no child. *)
  val start : t -> args:string list -> pid

  (** Switch probes of the stopped process. See {!trace_existing_process} for [force].
      @raise Error if the update fails; then nothing has changed. *)
  val update : ?force:bool -> t -> actions:actions -> unit

  (** The states of all probes of the stopped process, or of [probe_names] in this order.
      @raise Error if a name does not exist or no process is attached. *)
  val get_probe_states : ?probe_names:probe_name array -> t -> probe_state array

  (** Resume the process.
      @raise Error if no process is attached. *)
  val detach : t -> unit
end

(** Start any program and stop it before its code runs, with or without probes. *)
module Raw_ptrace : sig
  (** [start ~argv] starts the file [argv.(0)] as {!With_ptrace.start} does.
      @raise Error on failure; then there is no child. *)
  val start : argv:string array -> pid

  (** Resume a process that {!start} has started.
      @raise Error if {!start} has not started it, or if it was resumed already. *)
  val detach : pid -> unit
end

(** Profiles of what a program allocates, by [Gc.Memprof], in other processes and in the running one:
    what [ocaml-probes memprof] does. The profiled program must be linked with
    [ocaml-probes.memprof], and needs no change. It runs OCaml 4.13, 4.14, or 5.3 or later.

    While a session runs, a thread of C takes the program's events. {!report} tells what was
    allocated where, what is alive, and how long blocks lived; {!read} gives the events themselves.
    {!stop} ends the profile. The end of this process ends it, too, as does the collector when it
    frees the session.

    {[
    let session = Probes_lib.Memprof.start ~rate:1e-3 ~pid () in
    Unix.sleep 10;
    ignore (Probes_lib.Memprof.stop session);
    Array.iter
      (fun (site, usage) ->
        Printf.printf "%.0f of %.0f words are alive: %s\n"
          usage.live_words usage.words site.name)
      (Probes_lib.Memprof.report ~by:Live session).sites
    ]}

    A process has one profile at a time, and one that it runs by itself is left alone. After a fork,
    the sessions stay with the parent. *)
module Memprof : sig
  (** A profile. *)
  type session

  (** How far a session is. *)
  type state =
    | Waiting
        (** the program waits, or runs no OCaml code: the profile starts when it goes on *)
    | Running (** the profile has started *)
    | Stopped (** by {!stop} *)
    | Ended (** the program has ended, or executes another program *)

  (** A place in the source. *)
  type frame =
    { name : string (** the function, as in the tool: ["Service.find"] *)
    ; file : string option (** the file, if it is known *)
    ; line : int (** the line; 0 if it is not known *)
    }

  (** What a block is. *)
  type source =
    | Normal (** allocated by OCaml code or for it *)
    | Marshal (** made by [Marshal] *)
    | Custom (** memory outside of the heap that a custom block has *)

  (** A sampled block. *)
  type allocation =
    { n_samples : int (** the samples in it, at least 1; a sample stands for 1 / rate words *)
    ; size : int (** in words, without the header *)
    ; source : source (** what it is *)
    ; callstack : frame array
          (** who has allocated it, the innermost first. Inlined functions have frames of their own. *)
    }

  (** What has happened to a sampled block. *)
  type kind =
    | Alloc_minor of allocation (** it was allocated in the minor heap *)
    | Alloc_major of allocation (** it was allocated in the major heap *)
    | Promote (** it has moved from the minor to the major heap *)
    | Dealloc_minor (** it was freed in the minor heap *)
    | Dealloc_major (** it was freed in the major heap *)

  (** An event of the profiled program. *)
  type event =
    { kind : kind (** what has happened *)
    ; id : int (** the number of the block *)
    ; time : float (** seconds, of the clock CLOCK_MONOTONIC *)
    ; domain : int (** where it has happened; 0 in OCaml 4 *)
    ; minor_collections : int (** that the program had made *)
    ; major_collections : int (** that the program had made *)
    }

  (** What a place in the source, or a call stack, has to do with. Words include headers. They are
      estimated from samples, each of which stands for 1 / rate words. *)
  type usage =
    { samples : int (** of all its sampled blocks *)
    ; live_samples : int (** of those that are alive *)
    ; sampled_blocks : int (** blocks with a sample *)
    ; live_sampled_blocks : int (** those that are alive *)
    ; words : float (** that were allocated *)
    ; live_words : float (** that are alive *)
    ; blocks : float (** that were allocated, with samples or without *)
    ; live_blocks : float (** that are alive *)
    ; major_words : float (** that were allocated in the major heap *)
    ; promoted_words : float (** that have moved to the major heap *)
    ; minor_deaths : float (** words that were freed in the minor heap *)
    ; major_deaths : float array
          (** words that were freed in the major heap after so many major collections: 0, 1, 2, 3-4,
              5-8, 9-16, 17-32, more *)
    ; mean_lifetime : float (** of the dead words, in seconds; nan if there are none *)
    }

  (** What is missing. *)
  type losses =
    { allocations : int (** for which the ring of events had no room *)
    ; lost_samples : int (** of these allocations *)
    ; promotions : int (** for which there was no room *)
    ; deallocations : int (** for which there was no room: these blocks seem to be alive *)
    ; unread : int (** events that {!read} could not give, because [events] waited already *)
    ; unfollowed : int (** blocks whose end is not looked for: too many are alive *)
    ; forks : int (** of the program: children are not profiled *)
    ; cut : bool (** the program has ended in the middle of an event *)
    ; damaged : bool (** the program has damaged the ring: the rest is missing *)
    ; still_on : bool
          (** the program has not said that the profile is off. After {!stop}: it waits, and stops
              the profile when it goes on. *)
    ; refused : int array (** domains without events, because they run a profile of their own *)
    }

  (** A profile, as far as it is known. *)
  type report =
    { seconds : float (** that the profile has run *)
    ; rate : float (** samples per word *)
    ; total : usage (** of all stacks *)
    ; sites : (frame * usage) array (** by the place that allocates, the largest first *)
    ; stacks : (frame array * usage) array
          (** by call stack, the innermost frame first, in the order in which they were seen *)
    ; losses : losses (** what is missing *)
    }

  (** The order of the sites of a report. *)
  type order =
    | Allocated (** by allocated words *)
    | Live (** by live words *)

  (** [start ~pid ()] asks the process [pid] for a profile, and returns when it has started in one of
      its domains, or when the process has not answered for a second: see [Waiting]. If it is the
      running process, the profile starts in the domain that calls.

      @param rate samples per word, from 1e-9 to 1; the default is 1e-4.
      @param callstack_size frames of call stacks, from 0 to 1024; the default is 128.
      @param events
        how many events to keep for {!read}, up to 10000000. The default is 0, since reports need
        none.
      @raise Error
        if a parameter is wrong, the process does not exist, may not be traced, is not linked with
        [ocaml-probes.memprof], is profiled already, or has a runtime without [Gc.Memprof]. It goes on
        as before. *)
  val start
    :  ?rate:float
    -> ?callstack_size:int
    -> ?events:int
    -> pid:pid
    -> unit
    -> session

  (** How far the session is.
      @raise Error if the process has refused the profile. *)
  val state : session -> state

  (** Take the events that have come since the last call, in their order. In a program that profiles
      itself, this allocates, too.
      @raise Error if the session was started without [events]. *)
  val read : session -> event array

  (** What the session has seen so far; all of it, if it was stopped.
      @param by the order of the sites; the default is [Allocated].
      @raise Error if the process has refused the profile. *)
  val report : ?by:order -> session -> report

  (** Stop the profile and tell what is missing. It takes a second at most: see [still_on]. The events
      and the report are there afterwards, too. Nothing happens the second time.
      @raise Error if the process has refused the profile. *)
  val stop : session -> losses

  (** The running process. No privilege is needed. It must be linked with [ocaml-probes.memprof], and
      the profile includes what this library allocates. *)
  module Self : sig
    (** See {!Memprof.start}. *)
    val start : ?rate:float -> ?callstack_size:int -> ?events:int -> unit -> session
  end
end
