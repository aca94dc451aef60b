(* Fibres that take turns. *)

type _ Effect.t += Yield : unit Effect.t

let yield () = Effect.perform Yield

(* Run F until it ends, or give what is left of it to LATER. *)
let start later f =
  let effc (type a) : a Effect.t -> ((a, unit) Effect.Deep.continuation -> unit) option = function
    | Yield -> Some (fun k -> later (fun () -> Effect.Deep.continue k ()))
    | _ -> None
  in
  Effect.Deep.match_with f () { retc = Fun.id; exnc = raise; effc }

(* In one thread, each until it yields. *)
let run fibres =
  let waiting = Queue.create () in
  let later k = Queue.add k waiting in
  List.iter (fun f -> later (fun () -> start later f)) fibres;
  while not (Queue.is_empty waiting) do
    (Queue.take waiting) ()
  done

(* Every second of them in a domain of its own, the others in threads of this one. *)
let parallel workers =
  let start i f =
    if i land 1 = 1 then
      let domain = Domain.spawn f in
      fun () -> Domain.join domain
    else
      let thread = Thread.create f () in
      fun () -> Thread.join thread
  in
  List.iter (fun join -> join ()) (List.mapi start workers)

(* In N domains, each in whichever is free. *)
let run_anywhere n fibres =
  let waiting = Queue.create () and lock = Mutex.create () in
  let left = Atomic.make (List.length fibres) in
  let locked f = Mutex.lock lock; Fun.protect ~finally:(fun () -> Mutex.unlock lock) f in
  let later k = locked (fun () -> Queue.add k waiting) in
  let counted f () = f (); Atomic.decr left in
  List.iter (fun f -> later (fun () -> start later (counted f))) fibres;
  let rec work () =
    match locked (fun () -> Queue.take_opt waiting) with
    | Some k -> k (); work ()
    | None -> if Atomic.get left > 0 then begin Domain.cpu_relax (); work () end
  in
  List.iter Domain.join (List.init n (fun _ -> Domain.spawn work))
