(* SPDX-License-Identifier: MIT *)
(* As gauges.ml, with domains: two that have ended, and three that wait at the moment of the figures.
   Each domain takes its own figures. OCaml tells what ended domains have allocated in sums only. *)

let n = 3
let say text = ignore (Unix.write_substring Unix.stdout text 0 (String.length text))
let minor = Array.make (n + 1) 0.0
let counters = Array.make (n + 1) (0.0, 0.0, 0.0)
let ids = Array.make (n + 1) 0

let work kept =
  for i = 1 to 100_000 do
    let block = Array.make (1 + (i mod 50)) i in
    if i mod 10 = 0 then kept := block :: !kept;
    if i mod 5_000 = 0 then kept := [ Array.make 5_000 i ]
  done

let take i =
  ids.(i) <- (Domain.self () :> int);
  counters.(i) <- Gc.counters ();
  minor.(i) <- Gc.minor_words ()

(* Wait for a byte, in C code: nothing is allocated. *)
let await fd byte = ignore (Unix.read fd byte 0 1)

let domain i started ready (start_in, _) (end_in, _) () =
  let kept = ref [] and byte = Bytes.create 1 in
  work kept;
  ignore (Unix.write started byte 0 1);
  await start_in byte;
  take i;
  ignore (Unix.write ready byte 0 1);
  await end_in byte;
  ignore (Sys.opaque_identity !kept)

let () =
  let byte = Bytes.create 1 and pipe () = Unix.pipe () in
  Domain.join (Domain.spawn (fun () -> work (ref [])));
  let started_in, started = pipe () and ready_in, ready = pipe () in
  let starts = Array.init (n + 1) (fun _ -> pipe ()) and ends = Array.init (n + 1) (fun _ -> pipe ()) in
  let domains =
    List.init n (fun i -> Domain.spawn (domain (i + 1) started ready starts.(i + 1) ends.(i + 1))) in
  for _ = 1 to n do await started_in byte done;
  (* No later domain uses its slot again. *)
  Domain.join (Domain.spawn (fun () -> work (ref [])));
  Gc.full_major ();
  Gc.minor ();
  for i = 1 to n do
    ignore (Unix.write (snd starts.(i)) byte 0 1);
    await ready_in byte
  done;
  let s = Gc.quick_stat () in
  take 0;
  say "waiting\n";
  await Unix.stdin byte;
  for i = 0 to n do
    let _, promoted, major = counters.(i) in
    Printf.printf "domain %d minor_words %.0f promoted_words %.0f major_words %.0f\n" ids.(i) minor.(i)
      promoted major
  done;
  Printf.printf "at least %.0f\n" s.Gc.minor_words;
  Printf.printf "promoted_words %.0f\nheap_words %d\ntop_heap_words %d\n" s.Gc.promoted_words s.Gc.heap_words
    s.Gc.top_heap_words;
  Printf.printf "minor_collections %d\nmajor_collections %d\nend\n%!" s.Gc.minor_collections s.Gc.major_collections;
  for i = 1 to n do ignore (Unix.write (snd ends.(i)) byte 0 1) done;
  List.iter Domain.join domains
