(* Until STOP has returned, work in two fibres of a domain, the inner one below a callback from C++. *)

external guarded : (int -> int) -> int -> int = "foreign_guarded"

let[@inline never] in_fibre f = Effect.Deep.match_with f () { retc = succ; exnc = raise; effc = (fun _ -> None) }

let run work stop =
  let outer () = 1 + guarded (fun n -> 1 + in_fibre (fun () -> work (); n)) 1 in
  let domain = Domain.spawn (fun () -> 1 + in_fibre outer) in
  stop ();
  ignore (Domain.join domain : int)
