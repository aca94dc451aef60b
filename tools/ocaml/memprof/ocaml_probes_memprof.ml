(* The tool asks memprof_server.c, a thread, which makes OCaml run the handler of a signal: only OCaml
   code can start and stop a profile, and in OCaml 5 only code in its domain. *)

type kind = Alloc_minor | Alloc_major | Promote | Dealloc_minor | Dealloc_major

(* memprof_events.c. Kinds are numbers from 1. *)
external allocate : int -> int -> Gc.Memprof.allocation -> int = "ocaml_probes_memprof_allocate"
  [@@noalloc]

external change : int -> int -> int -> int = "ocaml_probes_memprof_change" [@@noalloc]
external collections : unit -> int = "ocaml_probes_memprof_collections" [@@noalloc]
external domain : unit -> int = "ocaml_probes_memprof_domain" [@@noalloc]

(* memprof_stubs.c *)
external poll : unit -> int = "ocaml_probes_memprof_poll" [@@noalloc]
external epoch : unit -> int = "ocaml_probes_memprof_epoch" [@@noalloc]
external rate : unit -> float = "ocaml_probes_memprof_rate"
external depth : unit -> int = "ocaml_probes_memprof_depth" [@@noalloc]
external started : Obj.t -> unit = "ocaml_probes_memprof_started"
external refused : string -> unit = "ocaml_probes_memprof_refused"
external is_ours : unit -> bool = "ocaml_probes_memprof_is_ours" [@@noalloc]
external take : unit -> Obj.t = "ocaml_probes_memprof_take"
external discard : Obj.t -> unit = "ocaml_probes_memprof_discard"
external free_signal : unit -> int = "ocaml_probes_memprof_signal" [@@noalloc]
external open_server : int -> unit = "ocaml_probes_memprof_open"
external serve : unit -> unit = "ocaml_probes_memprof_serve"
external call_domains : unit -> unit = "ocaml_probes_memprof_call"

let observer : (kind -> int -> Gc.Memprof.allocation option -> unit) option ref = ref None
let observe f = observer := f

(* ALLOCATION is made before the event: between the event and the observer, nothing is allocated. *)
let[@inline] tell kind id allocation =
  match !observer with
  | None -> ()
  | Some f -> f kind id allocation

let[@inline] for_observer info =
  match !observer with
  | None -> None
  | Some _ -> Some info

(* Stop the profile of this domain. The program may have stopped it already, and run one of its own. *)
let stop () =
  let is_ours = is_ours () in
  let profile = take () in
  (if is_ours then try Gc.Memprof.stop () with Failure _ -> ());
  try discard profile with Failure _ -> ()

(* ---- the callbacks ------------------------------------------------------------------------------ *)

(* Tools read the arguments of the probes: see enum memprof_probe_arg in src/memprof/ring.h. *)

(* An event of a session that has ended: this is a domain whose profile came from another one, which
   does not exist any more, or a child after fork. *)
let abandon () =
  stop ();
  None

(* Minor and major collections so far, in one number. *)
let[@inline] minors_of at = at land 0xffff_ffff
let[@inline] majors_of at = at lsr 32

(* Opaque members of the record are in a register or on the stack at the probe. The compiler would load
   others where the handler runs, and tools that know nothing of loads cannot read these (bpftrace, perf). *)

let alloc_minor session (info : Gc.Memprof.allocation) =
  let observed = for_observer info in
  let id = allocate session 1 info in
  let n_samples = Sys.opaque_identity info.n_samples and size = Sys.opaque_identity info.size in
  let source = Sys.opaque_identity info.source and callstack = Sys.opaque_identity info.callstack in
  let at = collections () in
  let minor_collections = minors_of at and major_collections = majors_of at and domain = domain () in
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
  let id = allocate session 2 info in
  let n_samples = Sys.opaque_identity info.n_samples and size = Sys.opaque_identity info.size in
  let source = Sys.opaque_identity info.source and callstack = Sys.opaque_identity info.callstack in
  let at = collections () in
  let minor_collections = minors_of at and major_collections = majors_of at and domain = domain () in
  [%probe
    "memprof_alloc_major"
      ~args:(n_samples, size, source, callstack, id, session, minor_collections, major_collections, domain)
      ()];
  if id > 0 then (
    tell Alloc_major id observed;
    Some id)
  else None

(* Probes are not hit for sessions that have ended. *)

let promote session id =
  let at = change session 3 id in
  if at >= 0 then (
    let minor_collections = minors_of at and major_collections = majors_of at and domain = domain () in
    [%probe "memprof_promote" ~args:(id, session, minor_collections, major_collections, domain) ()]);
  tell Promote id None;
  Some id

let dealloc_minor session id =
  let at = change session 4 id in
  if at >= 0 then (
    let minor_collections = minors_of at and major_collections = majors_of at and domain = domain () in
    [%probe "memprof_dealloc_minor" ~args:(id, session, minor_collections, major_collections, domain) ()]);
  tell Dealloc_minor id None

let dealloc_major session id =
  let at = change session 5 id in
  if at >= 0 then (
    let minor_collections = minors_of at and major_collections = majors_of at and domain = domain () in
    [%probe "memprof_dealloc_major" ~args:(id, session, minor_collections, major_collections, domain) ()]);
  tell Dealloc_major id None

let tracker epoch =
  {
    Gc.Memprof.alloc_minor = alloc_minor epoch;
    alloc_major = alloc_major epoch;
    promote = promote epoch;
    dealloc_minor = dealloc_minor epoch;
    dealloc_major = dealloc_major epoch;
  }

(* ---- the handler -------------------------------------------------------------------------------- *)

(* The result of [start] is a unit in OCaml 4, where the tracker stands for it, and a profile in OCaml 5. *)
let start () =
  let tracker = tracker (epoch ()) in
  match Gc.Memprof.start ~sampling_rate:(rate ()) ~callstack_size:(depth ()) tracker with
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
