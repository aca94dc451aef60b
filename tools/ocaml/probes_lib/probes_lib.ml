exception Error of string

let () = Callback.register_exception "Probes_lib.Error" (Error "")
let error fmt = Printf.ksprintf (fun why -> raise (Error why)) fmt

type pid = int
type probe_name = string

type probe_state =
  { name : probe_name
  ; enabled : bool
  }

type pattern = Str.regexp

let pattern = Str.regexp

type probe_desc =
  | Name of probe_name
  | Pair of probe_name * probe_name
  | Regex of pattern
  | Predicate of (probe_name -> bool)

type action =
  | Enable
  | Disable

type actions =
  | All of action
  | Selected of (action * probe_desc) list

module Pid_or_self = struct
  type t =
    | Self of pid
    | Other of pid

  let self () = Self (Unix.getpid ())
  let of_pid pid = if pid = Unix.getpid () then Self pid else Other pid

  let get_exe = function
    | Self _ -> "/proc/self/exe"
    | Other pid -> Printf.sprintf "/proc/%d/exe" pid

  let to_pid (Self pid | Other pid) = pid
end

(* The order in which probes_lib_stubs.c has them. *)
type step_kind =
  | Step_all
  | Step_name
  | Step_pair
  | Step_set

(* What the C library is asked to do; the names of a set are sorted. *)
type step =
  { kind : step_kind [@warning "-69"]
  ; enable : bool [@warning "-69"]
  ; names : probe_name array [@warning "-69"]
  }

module Stub = struct
  (* A custom block: see probes_lib_stubs.c. *)
  type tracer

  external set_verbose : bool -> unit = "probes_lib_set_verbose"
  external create : prog:string -> check_prog:bool -> allow_gigatext:bool -> tracer = "probes_lib_open"
  external allow_gigatext : tracer -> bool -> unit = "probes_lib_allow_gigatext"
  external names : tracer -> probe_name array = "probes_lib_names"
  external states : tracer -> held:bool -> pid -> atomically:bool -> bool array = "probes_lib_states"
  external update : tracer -> held:bool -> pid -> flags:int -> step array -> unit = "probes_lib_update"
  external attach : tracer -> pid -> unit = "probes_lib_attach"
  external start : tracer -> string array -> pid = "probes_lib_start"
  external trace : tracer -> string array -> step array -> pid = "probes_lib_trace"
  external detach : tracer -> unit = "probes_lib_detach"
end

type t =
  { tracer : Stub.tracer
  ; prog : string
  ; names : probe_name array (* sorted *)
  }

(* C's strings end at the first NUL. *)
let check_string what s =
  if String.contains s '\000' then error "%s %S: holds a NUL character" what s

let create ?(check_prog = false) ?(allow_gigatext = false) ~prog () =
  check_string "file" prog;
  (* What the stub takes for "no file". *)
  if prog = "" then error "the program's file has an empty name";
  let tracer = Stub.create ~prog ~check_prog ~allow_gigatext in
  { tracer; prog; names = Stub.names tracer }

let get_probe_names t = Array.copy t.names
let get_exe pid = Pid_or_self.(get_exe (of_pid pid))
let set_verbose = Stub.set_verbose
let set_allow_gigatext t = Stub.allow_gigatext t.tracer

(* ---- states ---------------------------------------------------------------------------------- *)

let index_of_name t name =
  let rec search first n =
    if n = 0 then error "probe '%s': no such probe in %s" name t.prog;
    let middle = first + (n / 2) in
    let order = String.compare name t.names.(middle) in
    if order = 0 then middle
    else if order < 0 then search first (n / 2)
    else search (middle + 1) (n - (n / 2) - 1)
  in
  search 0 (Array.length t.names)

let read_states ?probe_names ?(atomically = false) t ~held pid =
  let enabled = Stub.states t.tracer ~held pid ~atomically in
  match probe_names with
  | None -> Array.map2 (fun name enabled -> { name; enabled }) t.names enabled
  | Some names ->
    Array.map (fun name -> { name; enabled = enabled.(index_of_name t name) }) names

let get_probe_states ?atomically t ~pid = read_states ?atomically t ~held:false pid

(* ---- updates --------------------------------------------------------------------------------- *)

let enables = function
  | Enable -> true
  | Disable -> false

(* The C library rejects duplicate names. Here they are allowed and have no effect. *)
let step_of_names named action names =
  let enable = enables action in
  let is_new name = not (Hashtbl.mem named (action, name)) in
  let steps =
    match List.filter is_new names with
    | [] -> []
    | [ name ] -> [ { kind = Step_name; enable; names = [| name |] } ]
    | names -> [ { kind = Step_pair; enable; names = Array.of_list names } ]
  in
  List.iter
    (fun name ->
      check_string "probe" name;
      Hashtbl.replace named (action, name) ())
    names;
  steps

let step_of_set t action is_chosen =
  let names = Array.of_seq (Seq.filter is_chosen (Array.to_seq t.names)) in
  [ { kind = Step_set; enable = enables action; names } ]

let steps_of_desc t named (action, desc) =
  match desc with
  | Name name -> step_of_names named action [ name ]
  | Pair (start, stop) -> step_of_names named action [ start; stop ]
  | Regex re -> step_of_set t action (fun name -> Str.string_match re name 0)
  | Predicate is_chosen -> step_of_set t action is_chosen

let steps t = function
  | All action -> [| { kind = Step_all; enable = enables action; names = [||] } |]
  | Selected descs ->
    Array.of_list (List.concat_map (steps_of_desc t (Hashtbl.create 16)) descs)

(* OCP_ATOMICALLY, OCP_FORCE *)
let flags ~atomically ~force = (if atomically then 1 else 0) lor if force then 2 else 0

let update ?(atomically = false) ?(force = false) t ~held pid actions =
  Stub.update t.tracer ~held pid ~flags:(flags ~atomically ~force) (steps t actions)

let trace_existing_process ?atomically ?force t ~pid ~actions =
  update ?atomically ?force t ~held:false pid actions

let argv prog args =
  List.iter (check_string "argument") args;
  Array.of_list (prog :: args)

let trace_new_process t ~args ~actions =
  let enabling =
    match actions with
    | All Enable -> actions
    | All Disable -> Selected []
    | Selected descs -> Selected (List.filter (fun (action, _) -> action = Enable) descs)
  in
  Stub.trace t.tracer (argv t.prog args) (steps t enabling)

(* ---- the running process --------------------------------------------------------------------- *)

module Self = struct
  let gigatext_is_allowed = Atomic.make false

  (* Replaced after a fork: another thread of the parent may have been using it. *)
  let cache = Atomic.make None

  let self () =
    let pid = Unix.getpid () in
    match Atomic.get cache with
    | Some (creator, t) when creator = pid -> t
    | Some _ | None ->
      let allow_gigatext = Atomic.get gigatext_is_allowed in
      let t = create ~allow_gigatext ~prog:"/proc/self/exe" () in
      Atomic.set cache (Some (pid, t));
      t

  let set_allow_gigatext allow =
    Atomic.set gigatext_is_allowed allow;
    set_allow_gigatext (self ()) allow

  let get_probe_names () = get_probe_names (self ())

  module Dynlink = struct
    let update ?force t actions = update ?force t ~held:false (Unix.getpid ()) actions
    let get_probe_states ?probe_names t = read_states ?probe_names t ~held:false (Unix.getpid ())
  end

  let update ?force actions = Dynlink.update ?force (self ()) actions
  let get_probe_states ?probe_names () = Dynlink.get_probe_states ?probe_names (self ())
end

(* ---- ptrace ---------------------------------------------------------------------------------- *)

module With_ptrace = struct
  let attach t pid = Stub.attach t.tracer pid
  let start t ~args = Stub.start t.tracer (argv t.prog args)
  let update ?force t ~actions = update ?force t ~held:true 0 actions
  let get_probe_states ?probe_names t = read_states ?probe_names t ~held:true 0
  let detach t = Stub.detach t.tracer
end

module Raw_ptrace = struct
  (* The processes that were started and not resumed. A tracer that is collected resumes its process. *)
  let started : (pid * Stub.tracer) list Atomic.t = Atomic.make []

  let rec change f =
    let before = Atomic.get started in
    if not (Atomic.compare_and_set started before (f before)) then change f

  let start ~argv =
    if Array.length argv = 0 then error "no program to start";
    Array.iter (check_string "argument") argv;
    let tracer = Stub.create ~prog:"" ~check_prog:false ~allow_gigatext:false in
    let pid = Stub.start tracer argv in
    change (List.cons (pid, tracer));
    pid

  let detach pid =
    match List.assoc_opt pid (Atomic.get started) with
    | None -> error "pid %d: not started by Raw_ptrace, or already detached" pid
    | Some tracer ->
      change (List.remove_assoc pid);
      Stub.detach tracer
end

(* ---- profiles by Gc.Memprof ------------------------------------------------------------------ *)

module Memprof = struct
  type state =
    | Waiting
    | Running
    | Stopped
    | Ended

  type frame =
    { name : string
    ; file : string option
    ; line : int
    }

  type source =
    | Normal
    | Marshal
    | Custom

  type allocation =
    { n_samples : int
    ; size : int
    ; source : source
    ; callstack : frame array
    }

  type kind =
    | Alloc_minor of allocation
    | Alloc_major of allocation
    | Promote
    | Dealloc_minor
    | Dealloc_major

  type event =
    { kind : kind
    ; id : int
    ; time : float
    ; domain : int
    ; minor_collections : int
    ; major_collections : int
    }

  type usage =
    { samples : int
    ; live_samples : int
    ; sampled_blocks : int
    ; live_sampled_blocks : int
    ; words : float
    ; live_words : float
    ; blocks : float
    ; live_blocks : float
    ; major_words : float
    ; promoted_words : float
    ; minor_deaths : float
    ; major_deaths : float array
    ; mean_lifetime : float
    }

  type losses =
    { allocations : int
    ; lost_samples : int
    ; promotions : int
    ; deallocations : int
    ; unread : int
    ; unfollowed : int
    ; forks : int
    ; cut : bool
    ; damaged : bool
    ; still_on : bool
    ; refused : int array
    }

  type report =
    { seconds : float
    ; rate : float
    ; total : usage
    ; sites : (frame * usage) array
    ; stacks : (frame array * usage) array
    ; losses : losses
    }

  type order =
    | Allocated
    | Live

  (* The order in which memprof_recorder.h has them. *)
  type recorder_state =
    | Is_waiting
    | Is_late
    | Is_running
    | Has_stopped
    | Has_ended

  module Stub = struct
    (* A custom block: see probes_lib_memprof_stubs.c. Frames are numbers. *)
    type recorder

    type summary = float * int array * int array

    external start : pid -> float -> int -> int -> recorder = "probes_lib_memprof_start"
    external await : recorder -> here:bool -> ms:int -> recorder_state = "probes_lib_memprof_await"
    external stop : recorder -> unit = "probes_lib_memprof_stop"
    external take : recorder -> string = "probes_lib_memprof_take"
    external stack : recorder -> int -> int array = "probes_lib_memprof_stack"
    external frame : recorder -> int -> string * string * int = "probes_lib_memprof_frame"
    external summary : recorder -> summary = "probes_lib_memprof_summary"

    external report
      :  recorder
      -> by_live:bool
      -> (int * float array) array * float array array * summary
      = "probes_lib_memprof_report"
  end

  module Numbers = Map.Make (Int)

  type session =
    { recorder : Stub.recorder
    ; rate : float
    ; keeps_events : bool
    ; is_self : bool
    ; frames : frame Numbers.t Atomic.t (* the frames that already have names *)
    ; stacks : frame array Numbers.t Atomic.t
    }

  let await session ~ms = Stub.await session.recorder ~here:session.is_self ~ms

  (* If this program is the profiled program, its handler starts and stops the profile between the steps. *)
  let step_ms = 2

  let rec await_start session =
    match await session ~ms:step_ms with
    | Is_waiting -> await_start session
    | Is_late | Is_running | Has_stopped | Has_ended -> ()

  let start ?(rate = 1e-4) ?(callstack_size = 128) ?(events = 0) ~pid () =
    let session =
      { recorder = Stub.start pid rate callstack_size events
      ; rate
      ; keeps_events = events > 0
      ; is_self = pid = Unix.getpid ()
      ; frames = Atomic.make Numbers.empty
      ; stacks = Atomic.make Numbers.empty
      }
    in
    await_start session;
    session

  let state session =
    match await session ~ms:0 with
    | Is_waiting | Is_late -> Waiting
    | Is_running -> Running
    | Has_stopped -> Stopped
    | Has_ended -> Ended

  (* ---- names ---- *)

  let rec remember cache number found =
    let before = Atomic.get cache in
    if not (Atomic.compare_and_set cache before (Numbers.add number found before)) then
      remember cache number found

  let cached cache number find =
    match Numbers.find_opt number (Atomic.get cache) with
    | Some found -> found
    | None ->
      let found = find number in
      remember cache number found;
      found

  let frame session number =
    cached session.frames number (fun number ->
        let name, file, line = Stub.frame session.recorder number in
        { name; file = (if file = "" then None else Some file); line })

  let stack session number =
    cached session.stacks number (fun number ->
        Array.map (frame session) (Stub.stack session.recorder number))

  (* ---- events ---- *)

  (* struct recorded_event *)
  let event_bytes = 56

  let decode session bytes at =
    let long i = Int64.to_int (String.get_int64_le bytes (at + i)) in
    let int i = Int32.to_int (String.get_int32_le bytes (at + i)) land 0xffff_ffff in
    let allocation () =
      { n_samples = long 16
      ; size = long 24
      ; source = (match int 52 with 0 -> Normal | 1 -> Marshal | _ -> Custom)
      ; callstack = stack session (int 44)
      }
    in
    { kind =
        (match int 48 with
        | 1 -> Alloc_minor (allocation ())
        | 2 -> Alloc_major (allocation ())
        | 3 -> Promote
        | 4 -> Dealloc_minor
        | _ -> Dealloc_major)
    ; id = long 0
    ; time = float_of_int (long 8) *. 1e-9
    ; domain = int 32
    ; minor_collections = int 36
    ; major_collections = int 40
    }

  let read session =
    if not session.keeps_events then error "read: the session keeps no events: see ~events";
    let bytes = Stub.take session.recorder in
    Array.init (String.length bytes / event_bytes) (fun i -> decode session bytes (i * event_bytes))

  (* ---- reports ---- *)

  let usage ~rate numbers =
    let number i = numbers.(i) in
    let words i = numbers.(i) /. rate in
    let dead = number 0 -. number 1 in
    { samples = int_of_float (number 0)
    ; live_samples = int_of_float (number 1)
    ; sampled_blocks = int_of_float (number 2)
    ; live_sampled_blocks = int_of_float (number 3)
    ; words = words 0
    ; live_words = words 1
    ; blocks = words 4
    ; live_blocks = words 5
    ; major_words = words 6
    ; promoted_words = words 7
    ; minor_deaths = words 8
    ; major_deaths = Array.init (Array.length numbers - 10) (fun i -> words (10 + i))
    ; mean_lifetime = (if dead > 0. then number 9 /. dead /. 1e9 else nan)
    }

  let losses (_, numbers, refused) =
    { allocations = numbers.(0)
    ; lost_samples = numbers.(1)
    ; promotions = numbers.(2)
    ; deallocations = numbers.(3)
    ; unread = numbers.(4)
    ; unfollowed = numbers.(5)
    ; forks = numbers.(6)
    ; cut = numbers.(7) <> 0
    ; damaged = numbers.(8) <> 0
    ; still_on = numbers.(9) = 0
    ; refused
    }

  let no_usage = Array.make 18 0.

  let report ?(by = Allocated) session =
    let sites, stacks, summary = Stub.report session.recorder ~by_live:(by = Live) in
    let seconds, _, _ = summary in
    let usage = usage ~rate:session.rate in
    { seconds
    ; rate = session.rate
    ; total = usage (Array.fold_left (Array.map2 ( +. )) no_usage stacks)
    ; sites = Array.map (fun (number, numbers) -> frame session number, usage numbers) sites
    ; stacks = Array.mapi (fun number numbers -> stack session number, usage numbers) stacks
    ; losses = losses summary
    }

  let stop session =
    Stub.stop session.recorder;
    let rec await_stop () =
      match await session ~ms:step_ms with
      | Has_stopped | Has_ended -> ()
      | Is_waiting | Is_late | Is_running -> await_stop ()
    in
    await_stop ();
    losses (Stub.summary session.recorder)

  module Self = struct
    let start ?rate ?callstack_size ?events () =
      start ?rate ?callstack_size ?events ~pid:(Unix.getpid ()) ()
  end
end
