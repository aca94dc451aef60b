(* ~enabled_at_init: the handler runs from the start on; also where sites of one name were
   declared with and without it. *)
(*suite: initially on *)
open Suite

let[@inline never] f x = [%probe "initial" ~enabled_at_init:true (note "initial %d" x)]; x + 1
let () = [%probe "early" ~enabled_at_init:true ()]

let[@inline never] raises x =
  match [%probe "raises" ~enabled_at_init:true (raise_notrace Exit)]; x with
  | x -> x
  | exception Exit -> -x

let () =
  run (fun () ->
      for i = 1 to 3 do
        ignore (f i)
      done;
      say "%d" (raises 4);
      count "enabled" (if [%probe_is_enabled "initial"] then 1 else 0))

(*expected
> initial 1
> initial 2
> initial 3
- 4
+ -4
# enabled 1
*)
