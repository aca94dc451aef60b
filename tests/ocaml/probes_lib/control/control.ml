(* A program for the Probes_lib that exists: its signature, item by item, and the ways in which
   programs use it. Arguments: two programs that run until they are killed, with probes. *)

module P = Probes_lib
module PT = Probes_lib.With_ptrace

module type Existing = sig
  type t

  exception Error of string

  module Pid_or_self : sig
    type t

    val self : unit -> t
    val of_pid : int -> t
    val get_exe : t -> string
    val to_pid : t -> int
  end

  type pid = int
  type probe_name = string

  type probe_state =
    { name : probe_name
    ; enabled : bool
    }

  type pattern

  val pattern : string -> pattern

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

  val get_probe_names : t -> probe_name array
  val get_probe_states : ?atomically:bool -> t -> pid:pid -> probe_state array

  val trace_existing_process
    :  ?atomically:bool
    -> ?force:bool
    -> t
    -> pid:pid
    -> actions:actions
    -> unit

  val trace_new_process : t -> args:string list -> actions:actions -> pid
  val get_exe : pid -> string
  val set_verbose : bool -> unit
  val set_allow_gigatext : t -> bool -> unit

  module Self : sig
    val update : ?force:bool -> actions -> unit
    val get_probe_states : ?probe_names:probe_name array -> unit -> probe_state array
    val get_probe_names : unit -> probe_name array
    val set_allow_gigatext : bool -> unit

    module Dynlink : sig
      val update : ?force:bool -> t -> actions -> unit
      val get_probe_states : ?probe_names:probe_name array -> t -> probe_state array
    end
  end

  module With_ptrace : sig
    val attach : t -> pid -> unit
    val start : t -> args:string list -> pid
    val update : ?force:bool -> t -> actions:actions -> unit
    val get_probe_states : ?probe_names:probe_name array -> t -> probe_state array
    val detach : t -> unit
  end

  module Raw_ptrace : sig
    val start : argv:string array -> pid
    val detach : pid -> unit
  end
end

module _ : Existing with type t = P.t = Probes_lib

(* [create] had other optional arguments in every release. *)
let create_0_15 prog = P.create ~check_prog:true ~prog ()
let create_0_16 prog = P.create ~check_prog:true ~allow_gigatext:true ~prog ()
let create_0_17 prog = P.create ~prog ~allow_gigatext:true ()

let print_states states =
  Array.iter
    (fun (p : P.probe_state) ->
      Printf.printf "%s %s\n" p.name (if p.enabled then "enabled" else "disabled"))
    states

let expect_error what f =
  match f () with
  | _ -> Printf.printf "%s: should have failed\n" what
  | exception P.Error why -> Printf.printf "%s: %S\n" what why

let wait pid =
  match Unix.waitpid [] pid with
  | p, WSIGNALED signal when p = pid && signal = Sys.sigkill -> print_endline "killed"
  | _ -> print_endline "ended otherwise"

let () =
  let prog1 = Sys.argv.(1) and prog2 = Sys.argv.(2) in
  let t1 = create_0_15 prog1 and t2 = create_0_17 prog2 in
  P.set_allow_gigatext t1 false;
  Array.iteri (Printf.printf "%d:%s\n") (P.get_probe_names t1);
  let pid1 = P.trace_new_process t1 ~args:[] ~actions:(All Enable) in
  print_states (P.get_probe_states ~atomically:false t1 ~pid:pid1);
  let pid2 = P.trace_new_process t2 ~args:[] ~actions:(All Disable) in
  print_states (P.get_probe_states ~atomically:true t2 ~pid:pid2);
  Printf.printf "exe: %b\n" (P.get_exe pid1 = Printf.sprintf "/proc/%d/exe" pid1);

  (* Attached to one process of two. *)
  PT.attach t1 pid1;
  expect_error "the same again" (fun () ->
    try PT.attach t1 pid1 with
    | P.Error why when why = Printf.sprintf "Already attached to %d" pid1 ->
      raise (P.Error "Already attached"));
  expect_error "another one" (fun () ->
    try PT.attach t1 pid2 with
    | P.Error why when why = Printf.sprintf "Cannot attach to %d, already attached to %d" pid2 pid1
      -> raise (P.Error "Cannot attach"));
  expect_error "start" (fun () ->
    try PT.start t1 ~args:[] with
    | P.Error why when why = Printf.sprintf "Cannot start %s, already attached to %d" prog1 pid1 ->
      raise (P.Error "Cannot start"));
  expect_error "detach" (fun () -> PT.detach t2);
  expect_error "update" (fun () -> PT.update t2 ~actions:(All Enable));
  expect_error "states" (fun () -> ignore (PT.get_probe_states t2));
  PT.update t1 ~actions:(All Disable);
  print_states (PT.get_probe_states t1);
  PT.update t1 ~actions:(All Enable);
  P.trace_existing_process ~atomically:false t1 ~pid:pid1 ~actions:(All Disable);
  print_states (P.get_probe_states ~atomically:false t1 ~pid:pid1);
  P.trace_existing_process ~atomically:true t1 ~pid:pid1 ~actions:(All Enable);
  print_states (P.get_probe_states ~atomically:true t1 ~pid:pid1);
  P.trace_existing_process ~atomically:true t2 ~pid:pid2 ~actions:(All Enable);
  print_states (P.get_probe_states t2 ~pid:pid2);
  PT.detach t1;

  (* As a command line tool does it: the program from the process. *)
  let t = create_0_16 (P.get_exe pid1) in
  let selected actions = P.trace_existing_process t ~pid:pid1 ~actions:(Selected actions) in
  P.trace_existing_process t ~pid:pid1 ~actions:(All Disable);
  selected [ Enable, Pair ("beta", "gamma"); Enable, Regex (P.pattern "al\\(pha\\|x\\)") ];
  print_states (P.get_probe_states t ~pid:pid1);
  selected [ Disable, Name "alpha"; Disable, Predicate (fun name -> name < "beta_") ];
  print_states (P.get_probe_states t ~pid:pid1);
  List.iter (fun pid -> Unix.kill pid Sys.sigkill; wait pid) [ pid1; pid2 ]
