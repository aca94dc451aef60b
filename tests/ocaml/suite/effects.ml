(* Effects: probes in the computation, in the effect handler, in what resumes; fibers grow their
   stacks under sites. *)
(*suite: needs 5 *)
open Suite
open Effect
open Effect.Deep

type _ Effect.t += Ask : int -> int Effect.t | Yield : unit Effect.t

let hits = ref 0

let[@inline never] computation n =
  let sum = ref 0 in
  for i = 1 to n do
    [%probe "before_perform" (incr hits)];
    sum := !sum + perform (Ask i);
    [%probe "after_perform" (incr hits)]
  done;
  !sum

let answering f =
  match_with f ()
    {
      retc = (fun x -> [%probe "in_return" (note "returned %d" x)]; x);
      exnc = (fun e -> [%probe "in_exception" (note "raised")]; raise e);
      effc =
        (fun (type a) (e : a Effect.t) ->
          match e with
          | Ask i ->
            Some
              (fun (k : (a, _) continuation) ->
                [%probe "in_effect" (incr hits)];
                let x = continue k (i * 2) in
                [%probe "after_continue" (incr hits)];
                x)
          | _ -> None);
    }

(* A scheduler of fibers that yield. *)
let schedule tasks =
  let queue = Queue.create () in
  let next () = if not (Queue.is_empty queue) then (Queue.take queue) () in
  let spawn task =
    match_with task ()
      {
        retc = (fun () -> [%probe "fiber_ends" (incr hits)]; next ());
        exnc = raise;
        effc =
          (fun (type a) (e : a Effect.t) ->
            match e with
            | Yield ->
              Some
                (fun (k : (a, _) continuation) ->
                  Queue.add (fun () -> [%probe "resumes" (incr hits)]; continue k ()) queue;
                  next ())
            | _ -> None);
      }
  in
  List.iter (fun t -> Queue.add (fun () -> spawn t) queue) tasks;
  next ()

let rec grow n =
  if n = 0 then 0
  else begin
    [%probe "in_growing_stack" (incr hits)];
    1 + grow (n - 1)
  end

let fails () =
  [%probe "raises" (incr hits)];
  ignore (perform (Ask 1));
  failwith "out"

let () =
  run (fun () ->
      hits := 0;
      say "%d" (answering (fun () -> computation 10));
      let order = Buffer.create 10 in
      schedule
        (List.init 3 (fun id () ->
             for _ = 1 to 2 do
               Buffer.add_string order (string_of_int id);
               perform Yield
             done));
      say "%s" (Buffer.contents order);
      say "%d" (answering (fun () -> ignore (perform (Ask 1)); grow 20_000));
      say "%s" (match answering fails with _ -> "no" | exception Failure what -> what);
      count "hits" !hits)

(*expected
> returned 110
110
012012
> returned 20000
20000
> raised
out
# hits 20053
*)
