(* SPDX-License-Identifier: MIT *)
(* What features.ml does in another way on OCaml 4: see workers_4.ml. *)

type _ Effect.t += Pause : unit Effect.t

let pause () = Effect.perform Pause

(* F X in a fibre, which continues after each pause. *)
let in_fibre f x =
  let effc (type a) : a Effect.t -> ((a, _) Effect.Deep.continuation -> _) option = function
    | Pause -> Some (fun k -> Effect.Deep.continue k ())
    | _ -> None
  in
  Effect.Deep.match_with f x { retc = Fun.id; exnc = raise; effc }

let worker = Domain.DLS.new_key (fun () -> 0)
let spawn i f = ignore (Domain.spawn (fun () -> Domain.DLS.set worker i; f ()) : unit Domain.t)

(* The worker of this domain. *)
let self () = Domain.DLS.get worker

(* The figures of all workers: each domain has its own. *)
let sum figures = Array.fold_left ( +. ) 0. figures

(* How many workers take part in a minor collection. *)
let collectors workers = workers
