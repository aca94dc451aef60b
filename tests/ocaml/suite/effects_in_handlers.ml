(* Handlers that perform effects: such a handler is suspended in the middle, its site is switched
   any way meanwhile, and it is resumed later, by other code, or discontinued, or dropped. *)
(*suite: needs 5 *)
open Suite
open Effect
open Effect.Deep

type _ Effect.t += Suspend : string -> int Effect.t

let suspended : (string * (int, unit) continuation) list ref = ref []
let finished = ref 0

let fiber f =
  match_with f ()
    {
      retc = (fun () -> incr finished);
      exnc = (function Exit -> incr finished | e -> raise e);
      effc =
        (fun (type a) (e : a Effect.t) ->
          match e with
          | Suspend name ->
            Some (fun (k : (a, _) continuation) -> suspended := (name, k) :: !suspended)
          | _ -> None);
    }

let[@inline never] work name x =
  let kept = [ x; x + 1 ] in
  [%probe "suspends" (note "%s resumed with %d" name (perform (Suspend name) + List.hd kept))];
  List.nth kept 1

let () =
  run (fun () ->
      finished := 0;
      suspended := [];
      List.iter
        (fun (name, x) -> fiber (fun () -> if work name x <> x + 1 then failwith "spoiled"))
        [ "a", 1; "b", 2; "c", 3 ];
      Gc.full_major ();
      List.iter
        (fun (name, k) -> if name = "b" then discontinue k Exit else continue k 10)
        (List.rev !suspended);
      say "finished %d" !finished;
      suspended := [];
      fiber (fun () -> [%probe "dropped" (ignore (perform (Suspend "dropped")))]; decr finished);
      suspended := [];
      Gc.full_major ())

(*expected
> a resumed with 11
> c resumed with 13
finished 3
*)
