(* Deep recursion, near the stack's limit and into it. An enabled site pushes one word that a
   disabled one does not (OCaml 5 sees to it that 256 bytes are left below any function without a
   check of its own, of which frames use at most 240). The function that runs into the limit makes
   no call to C and does not allocate: OCaml 4 turns a fault in OCaml code into Stack_overflow,
   but not one in C. *)
(*suite: overflows endless *)
open Suite

let hits = ref 0

let rec depth n = if n = 0 then 0 else begin [%probe "deep" (incr hits)]; 1 + depth (n - 1) end

let rec build n =
  if n = 0 then []
  else
    let x = n * 2 in
    let rest = build (n - 1) in
    [%probe "on_the_way_back" (if x = 20_000 then note "half-way %d" (List.length rest))];
    x :: rest

let rec endless n = [%probe "endless" (incr hits)]; 1 + endless (n + 1)
let[@inline never] overflows () = match endless 0 with _ -> false | exception Stack_overflow -> true

(* Handlers that recurse on top of a deep stack. *)
let rec down n =
  if n > 0 then begin
    if n land 4095 = 0 then [%probe "recursing_handler" (ignore (depth 10_000))];
    down (n - 1);
    ignore (Sys.opaque_identity n)
  end

let () =
  run (fun () ->
      hits := 0;
      say "depth %d" (depth 20_000);
      say "build %d" (List.length (build 20_000));
      down 20_000;
      count "deep" !hits;
      say "overflows %b" (overflows ()))

(*expected
depth 20000
> half-way 9999
build 20000
# deep 60000
overflows true
*)
