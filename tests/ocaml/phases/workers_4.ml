(* SPDX-License-Identifier: MIT *)
let run n work = List.init n (Thread.create work) |> List.iter Thread.join
