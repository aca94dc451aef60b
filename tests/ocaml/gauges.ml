(* SPDX-License-Identifier: MIT *)
(* A program that says what its collector has done at a moment at which it then stays.

   It reads lines. "work" allocates, "major" and "compact" collect, "go" allocates for ever, "exec"
   becomes another program, and "stat" takes the figures, writes "waiting", waits for a line, and prints
   the figures. Nothing is allocated between the figures and the end of the wait. *)

let one = Bytes.create 1
let words = Array.make 1 0.0
let say text = ignore (Unix.write_substring Unix.stdout text 0 (String.length text))

(* A line, read byte by byte: a channel would read more. *)
let read_line () =
  let line = Buffer.create 16 in
  while Unix.read Unix.stdin one 0 1 = 1 && Bytes.get one 0 <> '\n' do
    Buffer.add_char line (Bytes.get one 0)
  done;
  Buffer.contents line

let rec wait () = if Unix.read Unix.stdin one 0 1 = 1 && Bytes.get one 0 <> '\n' then wait ()

let kept = ref []

let work () =
  for i = 1 to 200_000 do
    let block = Array.make (1 + (i mod 50)) i in
    if i mod 10 = 0 then kept := block :: !kept;
    if i mod 5_000 = 0 then kept := [ Array.make 5_000 i ]
  done

let stat () =
  (* What OCaml 5 samples in minor collections is then what holds. *)
  Gc.minor ();
  (* OCaml 4 has words that were allocated since the last slice, then. *)
  if Sys.ocaml_version.[0] = '4' then kept := Array.make 1_000 0 :: !kept;
  let _, _, major_words = Gc.counters () in
  let s = Gc.quick_stat () in
  words.(0) <- Gc.minor_words ();
  say "waiting\n";
  wait ();
  Printf.printf
    "quick_minor_words %.0f\nquick_major_words %.0f\nminor_words %.0f\npromoted_words %.0f\nmajor_words %.0f\n\
     minor_collections %d\nmajor_collections %d\ncompactions %d\nheap_words %d\ntop_heap_words %d\nend\n%!"
    s.Gc.minor_words s.Gc.major_words words.(0) s.Gc.promoted_words major_words s.Gc.minor_collections
    s.Gc.major_collections s.Gc.compactions s.Gc.heap_words s.Gc.top_heap_words

let rec serve () =
  match read_line () with
  | "work" -> work (); say "finished\n"; serve ()
  | "major" -> Gc.full_major (); say "finished\n"; serve ()
  | "compact" -> Gc.compact (); say "finished\n"; serve ()
  | "stat" -> stat (); serve ()
  | "exec" -> Unix.execv "/bin/sleep" [| "sleep"; "1000" |]
  | "go" -> say "going\n"; while true do work () done
  | _ -> ()

let () = say "ready\n"; serve ()
