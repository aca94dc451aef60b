(* SPDX-License-Identifier: MIT *)
external hit : string -> unit = "calls_hit" [@@noalloc]
external inner : string -> int -> unit = "calls_inner" [@@noalloc]
external outer : string -> int -> unit = "calls_outer" [@@noalloc]
external clock : unit -> int = "calls_clock" [@@noalloc]
external burn : int -> unit = "calls_burn" [@@noalloc]
external call : (int -> int) -> int -> int = "calls_call"
external print : unit -> unit = "calls_print"

(* Call F; NAME's book gets the time that the caller sees. Only for calls that return. *)
let[@inline always] around name f x =
  let start = clock () in
  let y = f x in
  outer name (clock () - start);
  y
