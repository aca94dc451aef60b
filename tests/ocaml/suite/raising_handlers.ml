(* Handlers that raise: what they raise is caught outside the function with the probe, in it, far
   above it in the stack, or by another probe's handler. *)
open Suite

exception Stop of int

let[@inline never] raiser x =
  let kept = x * 3 in
  [%probe "raises" (raise (Stop kept))];
  x

let[@inline never] catches x = match raiser x with y -> y | exception Stop k -> k
let[@inline never] inside x = try [%probe "raises_inside" (raise_notrace Exit)]; x with Exit -> -x

let rec far n =
  if n = 0 then [%probe "raises_far" (failwith "far")]
  else begin
    far (n - 1);
    ignore (Sys.opaque_identity n)
  end

let[@inline never] sum l =
  let total = ref 0 in
  (try
     List.iter (fun x ->
       [%probe "raises_in_iter" (if x = 3 then raise (Stop x))];
       total := !total + x) l
   with Stop _ -> ());
  !total

let[@inline never] out_of_bounds a =
  try
    [%probe "out_of_bounds" (a.(Array.length a) <- 1)];
    "within"
  with Invalid_argument what -> what

let[@inline never] caught_by_a_handler x =
  [%probe "catching" (try ignore (raiser x) with Stop k -> ignore k)];
  x

let () =
  run (fun () ->
      say "caught %d" (catches 7);
      say "inside %d" (inside 7);
      say "far %s" (match far 100 with () -> "no" | exception Failure what -> what);
      say "sum %d" (sum [ 1; 2; 3; 4 ]);
      say "%s" (out_of_bounds [| 0 |]);
      say "by a handler %d" (caught_by_a_handler 5))

(*expected
- caught 7
+ caught 21
- inside 7
+ inside -7
- far no
+ far far
- sum 10
+ sum 3
- within
+ index out of bounds
by a handler 5
*)
