(* A tool sends its request to the thread in memprof_server.c, which makes OCaml run a signal handler: only
   OCaml code can start and stop a profile, and in OCaml 5 only code in the domain of the profile. *)

type kind = Alloc_minor | Alloc_major | Promote | Dealloc_minor | Dealloc_major

(* memprof_events.c. Kinds are numbers from 1. Both functions return the arguments of the probes in a block that
   the next event of the domain overwrites. One call returns all of them, because each call costs as much as the
   rest of a callback. *)
type told = int array

external allocate : int -> int -> Gc.Memprof.allocation -> told = "ocaml_probes_memprof_allocate"
  [@@noalloc]

external change : int -> int -> int -> told = "ocaml_probes_memprof_change" [@@noalloc]

(* memprof_stubs.c *)
external poll : unit -> int = "ocaml_probes_memprof_poll" [@@noalloc]
external epoch : unit -> int = "ocaml_probes_memprof_epoch" [@@noalloc]
external rate : unit -> float = "ocaml_probes_memprof_rate"
external depth : unit -> int = "ocaml_probes_memprof_depth" [@@noalloc]
external started : Obj.t -> unit = "ocaml_probes_memprof_started"
external refused : string -> unit = "ocaml_probes_memprof_refused"
external is_sampling : unit -> bool = "ocaml_probes_memprof_is_sampling"
external is_ours : unit -> bool = "ocaml_probes_memprof_is_ours" [@@noalloc]
external take : unit -> Obj.t = "ocaml_probes_memprof_take"
external discard : Obj.t -> unit = "ocaml_probes_memprof_discard"
external free_signal : unit -> int = "ocaml_probes_memprof_signal" [@@noalloc]
external open_server : int -> unit = "ocaml_probes_memprof_open"
external serve : unit -> unit = "ocaml_probes_memprof_serve"
external call_domains : unit -> unit = "ocaml_probes_memprof_call"

let observer : (kind -> int -> Gc.Memprof.allocation option -> unit) option ref = ref None
let observe f = observer := f

(* ALLOCATION is made before the event is recorded, so that nothing is allocated between the event and the call of
   the observer. *)
let[@inline] tell kind id allocation =
  match !observer with
  | None -> ()
  | Some f -> f kind id allocation

let[@inline] for_observer info =
  match !observer with
  | None -> None
  | Some _ -> Some info

(* Stop the profile of this domain. The program may have stopped it already, and may itself run another profile. *)
let stop () =
  let is_ours = is_ours () in
  let profile = take () in
  (if is_ours then try Gc.Memprof.stop () with Failure _ -> ());
  try discard profile with Failure _ -> ()

(* ---- the callbacks ------------------------------------------------------------------------------ *)

(* Tools read the arguments of the probes: see enum memprof_probe_arg in src/memprof/ring.h. *)

(* Handle an event of a session that has ended: this domain has inherited its profile from a domain that no
   longer exists, or the process is a forked child. *)
let abandon () =
  stop ();
  None

(* Keep X in a register or on the stack at the probe. Otherwise the compiler would load X where the handler runs,
   and tools that cannot follow loads (bpftrace, perf) could not read X. *)
let[@inline] here x = Sys.opaque_identity x

(* The number of the block; 0 if the event of an allocation is lost; -1 if the session has ended. *)
let[@inline] id_of (told : told) = here (Array.unsafe_get told 0)
let[@inline] minors_of (told : told) = here (Array.unsafe_get told 1)
let[@inline] majors_of (told : told) = here (Array.unsafe_get told 2)
let[@inline] domain_of (told : told) = here (Array.unsafe_get told 3)

let alloc_minor session (info : Gc.Memprof.allocation) =
  let observed = for_observer info in
  let told = allocate session 1 info in
  let n_samples = here info.n_samples and size = here info.size in
  let source = here info.source and callstack = here info.callstack in
  let id = id_of told and domain = domain_of told in
  let minor_collections = minors_of told and major_collections = majors_of told in
  [%probe
    "memprof_alloc_minor"
      ~args:(n_samples, size, source, callstack, id, session, minor_collections, major_collections, domain)
      ()];
  if id > 0 then (
    tell Alloc_minor id observed;
    Some id)
  else if id < 0 then abandon ()
  else None

let alloc_major session (info : Gc.Memprof.allocation) =
  let observed = for_observer info in
  let told = allocate session 2 info in
  let n_samples = here info.n_samples and size = here info.size in
  let source = here info.source and callstack = here info.callstack in
  let id = id_of told and domain = domain_of told in
  let minor_collections = minors_of told and major_collections = majors_of told in
  [%probe
    "memprof_alloc_major"
      ~args:(n_samples, size, source, callstack, id, session, minor_collections, major_collections, domain)
      ()];
  if id > 0 then (
    tell Alloc_major id observed;
    Some id)
  else None

(* Events of sessions that have ended do not hit the probes. *)

let promote session id =
  let told = change session 3 id in
  if id_of told >= 0 then (
    let domain = domain_of told in
    let minor_collections = minors_of told and major_collections = majors_of told in
    [%probe "memprof_promote" ~args:(id, session, minor_collections, major_collections, domain) ()]);
  tell Promote id None;
  Some id

let dealloc_minor session id =
  let told = change session 4 id in
  if id_of told >= 0 then (
    let domain = domain_of told in
    let minor_collections = minors_of told and major_collections = majors_of told in
    [%probe "memprof_dealloc_minor" ~args:(id, session, minor_collections, major_collections, domain) ()]);
  tell Dealloc_minor id None

let dealloc_major session id =
  let told = change session 5 id in
  if id_of told >= 0 then (
    let domain = domain_of told in
    let minor_collections = minors_of told and major_collections = majors_of told in
    [%probe "memprof_dealloc_major" ~args:(id, session, minor_collections, major_collections, domain) ()]);
  tell Dealloc_major id None

(* Full closures that contain the session: a partial application would add a call to each callback. *)
let tracker epoch =
  {
    Gc.Memprof.alloc_minor = (fun info -> alloc_minor epoch info);
    alloc_major = (fun info -> alloc_major epoch info);
    promote = (fun id -> promote epoch id);
    dealloc_minor = (fun id -> dealloc_minor epoch id);
    dealloc_major = (fun id -> dealloc_major epoch id);
  }

(* ---- the handler -------------------------------------------------------------------------------- *)

(* [Gc.Memprof.start] returns a profile in OCaml 5, and unit in OCaml 4, where the tracker identifies the profile. If
   a profile runs in this domain, [start] fails before OCaml 5.5; from 5.5 on, it would replace this profile. *)
let start_here tracker =
  if is_sampling () then failwith "Gc.Memprof.start: already started.";
  Gc.Memprof.start ~sampling_rate:(rate ()) ~callstack_size:(depth ()) tracker

let start () =
  let tracker = tracker (epoch ()) in
  match start_here tracker with
  | profile ->
    started (if Obj.is_block (Obj.repr profile) then Obj.repr profile else Obj.repr tracker)
  | exception Failure reason -> refused reason

let rec handle signal =
  match poll () with
  | 1 ->
    start ();
    handle signal
  | 2 ->
    stop ();
    handle signal
  | 3 ->
    serve ();
    handle signal
  | 4 -> call_domains ()
  | _ -> ()

let () =
  match Sys.backend_type with
  | Sys.Native -> (
    match free_signal () with
    | 0 -> ()
    | signal ->
      Callback.register "ocaml_probes_memprof_handler" handle;
      Sys.set_signal signal (Sys.Signal_handle handle);
      open_server signal)
  | Sys.Bytecode | Sys.Other _ -> ()
