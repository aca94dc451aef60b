(* A Gc alarm and a sampling memory profiler: OCaml code with probes, called by the runtime at the
   end of major cycles and in the middle of allocations. *)
open Suite

let alarms = ref 0
let samples = ref 0
let spoiled = ref 0
let in_alarm = ref false
let in_sampler = ref false

let[@inline never] allocate n =
  let l = ref [] in
  for i = 1 to n do
    [%probe "allocating" (l := (i, string_of_int i) :: List.tl ((0, "") :: !l))];
    l := (i, "") :: !l
  done;
  List.length (List.filter (fun (_, s) -> s = "") !l)

let sampled (a : Gc.Memprof.allocation) =
  [%probe "sampled"
    (in_sampler := true;
     if a.size <= 0 then incr spoiled;
     ignore (Sys.opaque_identity [ a ]))];
  incr samples;
  None

let () =
  run (fun () ->
      alarms := 0;
      samples := 0;
      in_alarm := false;
      in_sampler := false;
      let alarm = Gc.create_alarm (fun () ->
        [%probe "in_alarm" (in_alarm := true; ignore (Sys.opaque_identity [ !alarms ]))];
        incr alarms) in
      let tracker = { Gc.Memprof.null_tracker with alloc_minor = sampled; alloc_major = sampled } in
      ignore (Gc.Memprof.start ~sampling_rate:0.5 ~callstack_size:10 tracker);
      let n = allocate 200 in
      Gc.Memprof.stop ();
      Gc.full_major ();
      Gc.delete_alarm alarm;
      say "%d" n;
      say "alarms %b, samples %b, spoiled %d" (!alarms > 0) (!samples > 0) !spoiled;
      say "in alarm %b" !in_alarm;
      say "in sampler %b" !in_sampler)

(*expected
200
alarms true, samples true, spoiled 0
- in alarm false
+ in alarm true
- in sampler false
+ in sampler true
*)
