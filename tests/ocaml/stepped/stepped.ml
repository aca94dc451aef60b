(* A short program that test_unwind_steps steps through: recursion, closures, exceptions with and without
   backtraces, callbacks from C, the collector inside of `try`, and calls of C; and what fibres.ml does, which
   is fibres_5.ml with OCaml 5. *)

exception Enough of int

let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
let rec deep n = if n = 0 then raise (Enough 3) else 1 + deep (n - 1)
let rec deep_notrace n = if n = 0 then raise_notrace Exit else 1 + deep_notrace (n - 1)
let[@inline never] catch n = try deep n with Enough k -> k
let[@inline never] catch_notrace n = try deep_notrace n with Exit -> n

let[@inline never] allocate n =
  try
    let kept = ref [] in
    for i = 1 to n do
      kept := (i, float i) :: !kept
    done;
    List.length !kept
  with Not_found -> 0

(* The finaliser is called from C, in the middle of other code. *)
let finalised = ref 0
let finalise () = Gc.finalise (fun r -> incr finalised; ignore (catch !r)) (ref 4)

(* C that calls us, that catches our exceptions, and that has more arguments than registers. *)
external call : (int -> int) -> int -> int = "stepped_call"
external call_caught : (int -> int) -> int -> int = "stepped_call_caught"

external sum : (int -> int) -> int -> int -> int -> int -> int -> int -> int -> int
  = "stepped_sum_byte" "stepped_sum"

external root : (float[@unboxed]) -> (float[@unboxed]) = "stepped_root_byte" "stepped_root" [@@noalloc]

let rec through_c n = if n = 0 then allocate 20 else 1 + call (fun m -> through_c (m - 1)) n

let[@inline never] calls_of_c i =
  ignore (Sys.opaque_identity (through_c 3));
  ignore (Sys.opaque_identity (catch i + try call deep i with Enough k -> k));
  ignore (Sys.opaque_identity (call_caught deep i));
  ignore (Sys.opaque_identity (sum (fun x -> allocate x) 1 2 3 4 5 6 7));
  ignore (Sys.opaque_identity (root (float i)))

let[@inline never] beyond a i = try a.(i) with Invalid_argument _ -> 0

let round i =
  ignore (Sys.opaque_identity (fib 5));
  ignore (Sys.opaque_identity (catch i));
  ignore (Sys.opaque_identity (catch_notrace i));
  finalise ();
  calls_of_c i;
  ignore (Sys.opaque_identity (beyond [| 1 |] i));
  Fibres.run { Tools.allocate; call; call_caught; sum };
  ignore (Sys.opaque_identity (allocate 100));
  ignore (Sys.opaque_identity (List.sort compare [ 3; 1; 2; i ]));
  (try ignore (List.find (fun x -> x > 500) [ 1; 2; 3 ]) with Not_found -> ());
  (try ignore (int_of_string "none") with Failure _ -> ());
  ignore (Sys.opaque_identity (Array.fold_left ( + ) 0 (Array.make 300 i)))

let () =
  Gc.set { (Gc.get ()) with Gc.minor_heap_size = 512 };
  Printexc.record_backtrace false;
  round 1;
  Printexc.record_backtrace true;
  round 2
