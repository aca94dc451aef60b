(* Backtraces and call stacks: the runtime walks the stack through frames in the middle of a
   handler, which it finds by their return addresses. *)
open Suite

exception Deep

let depth stack =
  match Printexc.backtrace_slots stack with
  | Some slots -> Array.length slots
  | None -> 0

let[@inline never] from_handler n =
  let seen = ref 0 in
  let rec go i =
    if i = 0 then [%probe "callstack" (seen := depth (Printexc.get_callstack 1000))]
    else begin
      go (i - 1);
      ignore (Sys.opaque_identity i)
    end
  in
  go n;
  !seen

let[@inline never] raised_through n =
  let rec go i =
    if i = 0 then raise Deep;
    [%probe "through" (ignore (go (i - 1)))];
    1 + go (i - 1)
  in
  match go n with
  | _ -> 0
  | exception Deep -> depth (Printexc.get_raw_backtrace ())

let[@inline never] reraised x =
  match
    try [%probe "raises" (raise Not_found)]; x with
    | Not_found as e ->
      let b = Printexc.get_raw_backtrace () in
      [%probe "reraises" (Printexc.raise_with_backtrace e b)];
      x + 1
  with
  | x -> x
  | exception Not_found -> -1

let () =
  Printexc.record_backtrace true;
  run (fun () ->
      say "%b" (from_handler 50 > 40);
      say "%b" (raised_through 10 > 3);
      say "reraised %b" (List.mem (reraised 1) [ 1; 2; -1 ]))

(*expected
- false
+ true
true
reraised true
*)
