(* Finalisers: probes in them (they run wherever the collector was called from, handlers
   included), and handlers that attach them. *)
open Suite

let finalised = ref 0
let last = ref 0
let hits = ref 0

let[@inline never] make i =
  let block = ref i in
  Gc.finalise (fun b ->
    [%probe "in_finaliser" (incr hits; ignore (Sys.opaque_identity (ref !b)))];
    incr finalised) block;
  Gc.finalise_last (fun () -> [%probe "in_finalise_last" (incr hits)]; incr last) block;
  i

let[@inline never] make_many n =
  for i = 1 to n do
    ignore (Sys.opaque_identity (make i))
  done

let[@inline never] collects x =
  let kept = string_of_int x in
  [%probe "collects" (Gc.full_major ())];
  kept

let[@inline never] attached_by_handler () =
  let block = ref 0 in
  [%probe "attaches" (Gc.finalise (fun _ -> incr hits) block)];
  !block

let settle () = for _ = 1 to 4 do Gc.full_major () done

let () =
  run (fun () ->
      hits := 0;
      finalised := 0;
      last := 0;
      make_many 30;
      say "%s" (collects 123);
      ignore (attached_by_handler ());
      settle ();
      say "finalised %d, %d" !finalised !last;
      count "hits" !hits)

(*expected
123
finalised 30, 30
# hits 61
*)
