(* Domains: all processors pass the same sites, with handlers that allocate, synchronise, collect,
   and spawn a domain. *)
(*suite: needs 5 *)
open Suite

let hits = Atomic.make 0
let total = Atomic.make 0
let lock = Mutex.create ()
let shared : (int * int) list ref = ref []

let work id () =
  let sum = ref 0 in
  for i = 1 to 300 do
    [%probe "counted" (Atomic.incr hits)];
    sum := !sum + i;
    [%probe "allocates" (ignore (Sys.opaque_identity (List.init 20 string_of_int)))];
    if i mod 100 = 0 then begin
      [%probe "locks" (Mutex.protect lock (fun () -> shared := (id, i) :: !shared))];
      [%probe "collects" (Gc.minor ())]
    end
  done;
  ignore (Atomic.fetch_and_add total !sum)

let () =
  run (fun () ->
      Atomic.set hits 0;
      Atomic.set total 0;
      shared := [];
      let domains = List.init 3 (fun id -> Domain.spawn (work id)) in
      List.iter Domain.join domains;
      say "total %d" (Atomic.get total);
      count "hits" (Atomic.get hits);
      count "shared" (List.length !shared);
      let answer = ref 42 in
      [%probe "spawns"
        (answer :=
           Domain.join
             (Domain.spawn (fun () ->
                  [%probe "in_spawned" (Atomic.incr hits)];
                  42)))];
      say "%d" !answer)

(*expected
total 135450
# hits 900
# shared 9
42
*)
