(* SPDX-License-Identifier: MIT *)
(* The first worker is this domain. *)
let run n work =
  let others = List.init (n - 1) (fun i -> Domain.spawn (fun () -> work (i + 1))) in
  work 0;
  List.iter Domain.join others
