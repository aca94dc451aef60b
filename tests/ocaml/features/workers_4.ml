(* SPDX-License-Identifier: MIT *)
(* What features.ml does with fibres and domains on OCaml 5: see workers_5.ml. *)

let pause () = ()
let in_fibre f x = f x
let spawn _ f = ignore (Thread.create f () : Thread.t)

(* The worker of this domain: all threads are in one. *)
let self () = 0

(* The figures of all workers: threads share them. *)
let sum figures = figures.(0)

(* How many workers take part in a minor collection. *)
let collectors _ = 1
