(* Fibres for test_unwind_steps: resumed, ended by exceptions, nested, in callbacks, with large stacks, and in
   another domain. *)

open Effect
open Tools

type _ Effect.t += Inner : int -> int Effect.t | Outer : int -> int Effect.t | Unknown : int Effect.t

exception Left of int

let[@inline never] ask_outer n = 1 + perform (Outer n)
let[@inline never] ask_inner n = 1 + perform (Inner n)
let rec deep n f = if n = 0 then f () else 1 + deep (n - 1) f

(* The handler runs F and goes on with its result. *)
let handle_inner (f : int -> int) body =
  let effc (type a) : a Effect.t -> ((a, int) Deep.continuation -> int) option = function
    | Inner n -> Some (fun k -> Deep.continue k (f n))
    | _ -> None
  in
  Deep.match_with body () { retc = succ; exnc = (function Left n -> n | e -> raise e); effc }

let handle_outer (f : int -> int) body =
  let effc (type a) : a Effect.t -> ((a, int) Deep.continuation -> int) option = function
    | Outer n -> Some (fun k -> Deep.continue k (f n))
    | _ -> None
  in
  Deep.try_with body () { effc }

(* Two handlers: what the inner one does not know goes to the outer one, and both fibres go on. *)
let nested t =
  handle_outer t.allocate (fun () ->
      deep 3 (fun () ->
          handle_inner t.allocate (fun () ->
              let a = deep 4 (fun () -> ask_inner 5) in
              let b = deep 5 (fun () -> ask_outer 6) in
              a + b + ask_inner (ask_outer 2))))

let left () =
  handle_inner Fun.id (fun () -> deep 5 (fun () -> raise (Left (ask_inner 3))))
  + handle_inner Fun.id (fun () -> deep 2 (fun () -> raise_notrace (Left 4)))

(* The handler raises in the fibre. *)
let discontinued () =
  let effc (type a) : a Effect.t -> ((a, int) Deep.continuation -> int) option = function
    | Outer n -> Some (fun k -> try Deep.discontinue k (Left n) with Left n -> n)
    | _ -> None
  in
  Deep.try_with
    (fun () -> handle_inner succ (fun () -> try deep 3 (fun () -> ask_outer 7) with Left n -> raise (Left (n + 1))))
    () { effc }

let unknown () = try handle_inner succ (fun () -> deep 2 (fun () -> perform Unknown)) with Unhandled _ -> 1

(* Fibres that take turns, and are resumed below others than those that they left. *)
let turns t =
  let later = Queue.create () and sum = ref 0 in
  let effc (type a) : a Effect.t -> ((a, unit) Deep.continuation -> unit) option = function
    | Outer n -> Some (fun k -> Queue.add (fun () -> Deep.continue k n) later)
    | _ -> None
  in
  let start n = Deep.try_with (fun () -> sum := !sum + handle_inner t.allocate (fun () -> deep n (fun () -> ask_outer n + ask_inner n))) () { effc } in
  List.iter start [ 1; 2; 3 ];
  let rec next depth =
    match Queue.take_opt later with
    | None -> 0
    | Some k -> deep depth (fun () -> k (); next (depth + 1))
  in
  ignore (next 0);
  !sum

let shallow () =
  let rec loop : 'a. ('a, int) Shallow.continuation -> 'a -> int -> int =
   fun k x left ->
    let effc (type b) : b Effect.t -> ((b, int) Shallow.continuation -> int) option = function
      | Inner n -> Some (fun k -> if left = 0 then Shallow.discontinue_with k (Left n) { retc = Fun.id; exnc = (fun _ -> n); effc = (fun _ -> None) } else 1 + loop k n (left - 1))
      | _ -> None
    in
    Shallow.continue_with k x { retc = Fun.id; exnc = raise; effc }
  in
  loop (Shallow.fiber (fun n -> deep n (fun () -> ask_inner 1 + ask_inner 2 + ask_inner 3))) 2 2

(* C calls back in a fibre; effects do not pass that. *)
let rec callbacks t n =
  handle_inner t.allocate (fun () ->
      let x = t.call (fun x -> t.allocate x + t.call (fun x -> deep x (fun () -> t.allocate 10)) x) (ask_inner 4) in
      let y = t.call_caught (fun x -> deep x (fun () -> ask_inner x)) 3 in
      let z = t.call_caught (fun x -> deep x (fun () -> raise (Left x))) 2 in
      let v = t.sum (fun x -> t.allocate x) 1 2 3 4 5 6 7 in
      let w = if n = 0 then 0 else t.call (fun x -> deep x (fun () -> callbacks t (n - 1))) 3 in
      x + y + z + v + w + ask_inner 1)

(* The stack grows: in a fibre, in its callbacks, and with a fibre above it. *)
let large t =
  handle_inner t.allocate (fun () ->
      deep 60 (fun () ->
          t.call (fun x -> deep 100 (fun () -> handle_inner succ (fun () -> ask_inner (deep x (fun () -> t.allocate 5))))) 3))

let caught_large () = handle_inner succ (fun () -> try deep 90 (fun () -> raise (Left 1)) with Left n -> n)

let everything t =
  nested t + left () + discontinued () + unknown () + turns t + shallow () + callbacks t 2 + large t + caught_large ()

let has_spawned = ref false

let run t =
  ignore (Sys.opaque_identity (everything t));
  if not !has_spawned then begin
    has_spawned := true;
    ignore (Sys.opaque_identity (Domain.join (Domain.spawn (fun () -> nested t + callbacks t 1))))
  end
