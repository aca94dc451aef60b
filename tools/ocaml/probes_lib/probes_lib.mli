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

    {b Files.} A {!t} stands for the probes of one file. Each plugin and each shared library
    needs a separate {!t}, even if its probes have the same names.

    {b Privileges.} The caller needs the right to trace the process (ptrace(2)): the same user, or
    CAP_SYS_PTRACE. The running process needs no privilege.

    {b Threads.} Operations on one {!t} wait for each other. The OCaml runtime lock is released
    during an operation. The caller's thread calls predicates, before the operation begins.

    @since 0.1.0 *)

(** The probes of a program, and at most one process to which {!With_ptrace} is attached. When the
    {!t} is garbage collected, the process is detached. *)
type t

(** An operation failed. The argument is a message of one sentence. *)
exception Error of string

(** Processes, one of which may be the running process. {!Pid_or_self.get_exe} is valid for the
    running process in another pid namespace, too. *)
module Pid_or_self : sig
  (** A process. *)
  type t

  (** The running process. *)
  val self : unit -> t

  (** [of_pid pid] is the process [pid], which may be the running process. *)
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
      (** two probes that mark the start and the stop of an operation. While the start is enabled,
          the stop is enabled, too. Of an operation that is in progress when both are disabled,
          only the start is seen; of one that is in progress when both are enabled, only the stop
          is seen. To see the stops of the last operations, disable the start alone, and disable
          the stop when these operations have ended. *)
  | Regex of pattern
      (** the probes whose names match; there may be none. Probes that are already off are not
          disabled. *)
  | Predicate of (probe_name -> bool)
      (** the probes for which the predicate is true; there may be none. Probes that are already
          off are not disabled. *)

(** What to do with probes. *)
type action =
  | Enable (** add 1 to the counter *)
  | Disable (** subtract 1 from the counter *)

(** Actions that are carried out together: all of them, or none if one fails. *)
type actions =
  | All of action (** for all probes. Probes that are already off are not disabled. *)
  | Selected of (action * probe_desc) list (** for some probes, in this order *)

(** [create ~prog ()] reads the probes of the ELF file [prog] from its headers and notes. The file
    is an executable, a shared library or a plugin ([.cmxs]), and may have no probes. No process is
    needed. If the file of a process was deleted or replaced, use {!get_exe}.

    @param check_prog
      accept only processes that run the file [prog] itself. By default, copies are accepted: files
      with the same probes at the same addresses, such as an installed or a stripped copy.
    @param allow_gigatext
      allow updates of code that is mapped on pages of 1 GiB. The kernel copies each of these pages
      at the first write. The default is [false].
    @raise Error if the file cannot be read or is not a valid ELF file. *)
val create : ?check_prog:bool -> ?allow_gigatext:bool -> prog:string -> unit -> t

(** The names of the program's probes, sorted and without duplicates. *)
val get_probe_names : t -> probe_name array

(** The states of the program's probes in process [pid], in the order of {!get_probe_names}.

    @param atomically
      stop the process while the states are read, so that all states are of one moment.
    @raise Error if [pid] does not run the program or cannot be read. *)
val get_probe_states : ?atomically:bool -> t -> pid:pid -> probe_state array

(** Switch probes of the running process [pid]. All of its threads are stopped while bytes are
    written.

    @param atomically
      stop the process only once, so that it sees the whole update at one moment. By default, a
      large update needs several stops of a few milliseconds, and each probe is switched within one
      stop. [atomically] is not possible for the running process itself.
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

(** [get_exe pid] is a path to the executable of process [pid], for {!create}: [/proc/PID/exe]. The
    path is valid even if the file was deleted or replaced. *)
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
    [ocaml-probes.memprof], and needs no other change. It runs OCaml 4.13, 4.14, or 5.3 or later.

    While a session runs, a C thread takes the program's events. {!report} returns what was
    allocated where, what is alive, and how long blocks lived; {!read} returns the events
    themselves. {!stop} ends the profile. The profile also ends when this process ends, or when the
    collector frees the session.

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

    A process has one profile at a time. A profile that the process itself runs is not disturbed.
    After a fork, the sessions stay with the parent. *)
module Memprof : sig
  (** A profile. *)
  type session

  (** The state of a session. *)
  type state =
    | Waiting
        (** the program waits, or runs no OCaml code: the profile starts when it continues *)
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
    | Custom (** memory outside of the heap: of a custom block, or (OCaml 5.4) of a mapped file *)

  (** A sampled block. *)
  type allocation =
    { n_samples : int (** its samples, at least 1; a sample stands for 1 / rate words *)
    ; size : int (** in words, without the header *)
    ; source : source (** what the block is *)
    ; callstack : frame array
          (** the frames that allocated it, the innermost first. An inlined function has a separate
              frame. *)
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
    ; time : float (** in seconds, by CLOCK_MONOTONIC *)
    ; domain : int (** the domain in which it happened; 0 in OCaml 4 *)
    ; minor_collections : int (** the number of minor collections until then *)
    ; major_collections : int (** the number of major collections until then *)
    }

  (** What a place in the source, or a call stack, has allocated. Words include headers. Words and
      blocks are estimated from samples, each of which stands for 1 / rate words. *)
  type usage =
    { samples : int (** samples of all sampled blocks *)
    ; live_samples : int (** samples of the sampled blocks that are alive *)
    ; sampled_blocks : int (** blocks with a sample *)
    ; live_sampled_blocks : int (** blocks with a sample that are alive *)
    ; words : float (** allocated words *)
    ; live_words : float (** allocated words that are alive *)
    ; blocks : float (** allocated blocks, with samples or without *)
    ; live_blocks : float (** allocated blocks that are alive *)
    ; major_words : float (** words that were allocated in the major heap *)
    ; promoted_words : float (** words that have moved to the major heap *)
    ; minor_deaths : float (** words that were freed in the minor heap *)
    ; major_deaths : float array
          (** words that were freed in the major heap, by the number of major collections until
              then: 0, 1, 2, 3-4, 5-8, 9-16, 17-32, more *)
    ; mean_lifetime : float (** mean life of the freed words, in seconds; nan if there are none *)
    }

  (** What is missing. *)
  type losses =
    { allocations : int (** allocations for which the ring of events had no room *)
    ; lost_samples : int (** samples of these allocations *)
    ; promotions : int (** promotions for which there was no room *)
    ; deallocations : int (** deallocations for which there was no room: these blocks seem alive *)
    ; unread : int (** events that {!read} cannot return, because [events] were already waiting *)
    ; unfollowed : int (** blocks that are not followed, because too many are alive *)
    ; forks : int (** forks of the program; children are not profiled *)
    ; cut : bool (** the program has ended in the middle of an event *)
    ; damaged : bool (** the program has damaged the ring: the rest is missing *)
    ; still_on : bool
          (** the program has not confirmed that the profile is off. After {!stop}: the program
              waits, and stops the profile when it continues. *)
    ; refused : int array
          (** domains without events, because the program itself runs a profile there *)
    }

  (** The results of a profile so far. *)
  type report =
    { seconds : float (** the duration of the profile *)
    ; rate : float (** samples per word *)
    ; total : usage (** the sum over all stacks *)
    ; sites : (frame * usage) array (** by the place that allocates, the largest first *)
    ; stacks : (frame array * usage) array
          (** by call stack, the innermost frame first, in the order in which they were seen *)
    ; losses : losses (** what is missing *)
    }

  (** The order of the sites of a report. *)
  type order =
    | Allocated (** by allocated words *)
    | Live (** by live words *)

  (** [start ~pid ()] requests a profile of the process [pid]. It returns when the profile has
      started in one of the domains of the process, or when the process has not replied for a
      second: see [Waiting]. In the running process, the profile starts in the calling domain.

      @param rate samples per word, from 1e-9 to 1; the default is 1e-4.
      @param callstack_size frames of call stacks, from 0 to 1024; the default is 128.
      @param events
        how many events to keep for {!read}, up to 10000000. The default is 0, since reports need
        no kept events.
      @raise Error
        if a parameter is wrong, the process does not exist, may not be traced, is not linked with
        [ocaml-probes.memprof], is already being profiled, or has a runtime without [Gc.Memprof].
        The process then continues as before. *)
  val start
    :  ?rate:float
    -> ?callstack_size:int
    -> ?events:int
    -> pid:pid
    -> unit
    -> session

  (** The state of the session.
      @raise Error if the process has refused the profile. *)
  val state : session -> state

  (** Return the events since the last call, in their order. In a program that profiles itself, the
      profile includes the allocations of this function.
      @raise Error if the session was started without [events]. *)
  val read : session -> event array

  (** The results of the session so far; the complete results if the session was stopped.
      @param by the order of the sites; the default is [Allocated].
      @raise Error if the process has refused the profile. *)
  val report : ?by:order -> session -> report

  (** Stop the profile and return what is missing. This takes at most a second: see [still_on]. The
      events and the report remain available. A second call has no effect on the profile.
      @raise Error if the process has refused the profile. *)
  val stop : session -> losses

  (** The running process. No privilege is needed. The process must be linked with
      [ocaml-probes.memprof], and the profile includes the allocations of this library. *)
  module Self : sig
    (** See {!Memprof.start}. *)
    val start : ?rate:float -> ?callstack_size:int -> ?events:int -> unit -> session
  end
end
