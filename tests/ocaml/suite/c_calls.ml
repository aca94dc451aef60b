(* Calls of C around probes and in handlers: noalloc and unboxed ones, ones that allocate, that
   call back into OCaml, that give up the runtime's lock. *)
(*suite: stub c_calls_stubs.c *)
open Suite

external sum7 : int -> int -> int -> int -> int -> int -> int -> int = "sum7_bytecode" "sum7"
  [@@noalloc]
external scale : (float[@unboxed]) -> (int64[@unboxed]) -> (float[@unboxed])
  = "scale_bytecode" "scale"
  [@@noalloc]
external tuple : 'a -> 'b -> 'a * 'b = "make_tuple"
external call : ('a -> 'b) -> 'a -> 'b = "call_back"
external blocking : unit -> unit = "blocking"

let hits = ref 0

let[@inline never] noalloc x =
  let y = x + 1 in
  [%probe "before" (incr hits)];
  let s = sum7 x y x y x y x in
  [%probe "after" (note "sum %d" (sum7 s 0 0 0 0 0 y))];
  s + y

let[@inline never] unboxed x =
  let y = scale x 3L in
  [%probe "unboxed" (note "%g" (scale y 2L))];
  scale y 5L +. x

let[@inline never] allocating a b =
  let t = tuple a b in
  [%probe "allocates" (note "%d" (List.length [ tuple t t; tuple t t ]))];
  snd t

let[@inline never] callback x =
  call (fun y -> [%probe "in_callback" (note "called back with %d" (x + y))]; x * y) 6

let[@inline never] raises_through_c x =
  match call (fun y -> [%probe "raises" (if y > 0 then raise_notrace Exit)]; y) x with
  | y -> y
  | exception Exit -> -x

let[@inline never] handler_calls_back x =
  [%probe "calls_back" (note "%d" (call (fun y -> callback y) x))];
  x

let[@inline never] releases () =
  [%probe "blocks" (blocking ())];
  blocking ();
  [%probe "blocked" (incr hits)]

let () =
  run (fun () ->
      hits := 0;
      say "%d" (noalloc 1);
      say "%g" (unboxed 0.5);
      say "%s" (allocating 1 "b");
      say "%d" (callback 7);
      say "%d" (raises_through_c 4);
      say "%d" (handler_calls_back 2);
      releases ();
      count "hits" !hits)

(*expected
> sum 12
12
> 3
8
> 2
b
> called back with 13
42
- 4
+ -4
> called back with 8
> 12
2
# hits 2
*)
