(* The tool asks memprof_server.c, a thread, which makes OCaml run the handler of a signal: only OCaml
   code can start and stop a profile, and in OCaml 5 only code in its domain. *)

type kind = Alloc_minor | Alloc_major | Promote | Dealloc_minor | Dealloc_major

(* memprof_events.c. Kinds are numbers from 1. What both tell of an event is overwritten by the next one of the
   domain: all of it by one call, since each call costs as much as the rest of a callback. *)
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

(* In a register or on the stack at the probe. The compiler would load it where the handler runs, and tools that
   know nothing of loads cannot read that (bpftrace, perf). *)
let[@inline] here x = Sys.opaque_identity x

(* The number of the block; of an allocation, 0: the event is lost; -1: the session has ended *)
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

(* Probes are not hit for sessions that have ended. *)

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

(* Closures that have the session: applied by halves, each would be called through another. *)
let tracker epoch =
  {
    Gc.Memprof.alloc_minor = (fun info -> alloc_minor epoch info);
    alloc_major = (fun info -> alloc_major epoch info);
    promote = (fun id -> promote epoch id);
    dealloc_minor = (fun id -> dealloc_minor epoch id);
    dealloc_major = (fun id -> dealloc_major epoch id);
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
