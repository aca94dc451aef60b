(* SPDX-License-Identifier: MIT *)
(* A program for each feature of the tool, with books of what it does: tests/e2e/features.sh.

   Three workers do the work: domains, or threads on OCaml 4. The first worker is the main one, which reads orders. An
   order is a line; the program prints its books of this order, and "end":

     go N          N rounds: calls of `leaf` by five ways, and pairs, every tenth of which an exception leaves
     nested N      N calls of `leaf` in all, each through C that calls back within a fibre
     touch N       each worker touches N new pages, half of them within a fibre: its page faults
     doze N        each worker waits N times
     allocate N    each worker allocates N blocks of three words; when a profile of Gc.Memprof has begun there
     words N       each worker allocates N small blocks
     grow N        the first worker allocates N blocks that stay alive
     collect N     each worker allocates, and the first one also collects everything N times
     stat          prints "waiting" when the figures of the collector are taken, and waits for another line
     quit *)

external call_back : (int -> int) -> int -> int = "features_call_back"
external clock : unit -> (int[@untagged]) = "features_clock_byte" "features_clock" [@@noalloc]
external doze : unit -> unit = "features_doze"

type books = {
  worker : int;
  mutable hits : int;
  mutable sum : int;
  mutable handled : int;
  mutable direct : int;
  mutable raised : int;
  mutable from_c : int;
  mutable fibre : int;
  mutable c_in_fibre : int;
  mutable passes : int;
  mutable skipped : int;
  mutable within : int;
  mutable around : int;
  mutable call_within : int;
  mutable call_around : int;
  mutable slept : int;
  mutable touched : int;
}

let empty worker =
  { worker; hits = 0; sum = 0; handled = 0; direct = 0; raised = 0; from_c = 0; fibre = 0; c_in_fibre = 0; passes = 0;
    skipped = 0; within = 0; around = 0; call_within = 0; call_around = 0; slept = 0; touched = 0 }

let workers = 3
let books = Array.init workers empty
let sum field = Array.fold_left (fun sum b -> sum + field b) 0 books

(* ---- a probe, called in several ways ----------------------------------------------------------- *)

exception Stop

let[@inline never] leaf b i =
  [%probe "leaf" ~args:(i) (b.handled <- b.handled + 1)];
  b.hits <- b.hits + 1; (* line: leaf *)
  b.sum <- b.sum + i;
  Sys.opaque_identity i

let[@inline never] direct b i =
  b.direct <- b.direct + 1;
  leaf b i + 1

let[@inline never] raising b i = if leaf b i >= 0 then raise Stop else 0

let[@inline never] raised b i =
  b.raised <- b.raised + 1;
  try raising b i + 1 with Stop -> Sys.opaque_identity 1 (* line: handler *)

let[@inline never] from_c b i =
  b.from_c <- b.from_c + 1;
  call_back (fun i -> leaf b i + 1) i + 1

let[@inline never] fibre b i =
  b.fibre <- b.fibre + 1;
  Workers.in_fibre (fun i -> Workers.pause (); let n = leaf b i in Workers.pause (); n + 1) i + 1

let[@inline never] c_in_fibre b i =
  b.c_in_fibre <- b.c_in_fibre + 1;
  Workers.in_fibre (fun i -> Workers.pause (); call_back (fun i -> leaf b i + 1) i + 1) i + 1

(* ---- a pair ------------------------------------------------------------------------------------- *)

let[@inline never] pass b id =
  let before = clock () in
  [%probe "enter" ~args:(id) ()];
  let behind = clock () in
  b.passes <- b.passes + 1; (* line: pass *)
  if id mod 10 = 0 then raise Stop;
  let ahead = clock () in
  [%probe "leave" ~args:(id) ()];
  let after = clock () in
  b.within <- b.within + ahead - behind;
  b.around <- b.around + after - before;
  after - before

let[@inline never] passed b id =
  let start = clock () in
  match pass b id with
  | within ->
    b.call_within <- b.call_within + within;
    b.call_around <- b.call_around + clock () - start
  | exception Stop -> b.skipped <- b.skipped + 1

(* ---- other work --------------------------------------------------------------------------------- *)

let round b i =
  for _ = 1 to 2 do ignore (direct b i) done;
  for _ = 1 to 3 do ignore (raised b i) done;
  for _ = 1 to 4 do ignore (from_c b i) done;
  for _ = 1 to 5 do ignore (fibre b i) done;
  for _ = 1 to 6 do ignore (c_in_fibre b i) done

(* Each pair of the process has another number. *)
let last_pair = ref 0

let go n b =
  for i = 1 to n do
    round b i;
    passed b (!last_pair + (i * workers) + b.worker)
  done

let nested n b =
  for i = 0 to n - 1 do
    if i mod workers = b.worker then ignore (c_in_fibre b i)
  done

(* Each byte of this that is used is in another page. *)
let most_pages = 10_000

let memory : (char, Bigarray.int8_unsigned_elt, Bigarray.c_layout) Bigarray.Array1.t =
  let path = Filename.temp_file "features" "" in
  let fd = Unix.openfile path [ Unix.O_RDWR ] 0 in
  let bytes = Unix.map_file fd Bigarray.Char Bigarray.C_layout true [| workers * most_pages * 4096 |] in
  Unix.unlink path;
  Bigarray.array1_of_genarray bytes

let next_page = Array.init workers (fun worker -> worker * most_pages)

external page_faults : unit -> int = "page_faults" [@@noalloc]

(* Some faults more are of pages that the kernel has taken meanwhile, such as those of code. *)
let[@inline never] touch b n =
  let before = page_faults () in
  for _ = 1 to n do
    assert (next_page.(b.worker) < (b.worker + 1) * most_pages);
    Bigarray.Array1.unsafe_set memory (4096 * next_page.(b.worker)) 'x';
    next_page.(b.worker) <- next_page.(b.worker) + 1
  done;
  b.touched <- b.touched + page_faults () - before

let touch_all n b =
  touch b (n / 2);
  Workers.in_fibre (touch b) (n - (n / 2))

let[@inline never] wait b =
  let start = clock () in
  doze ();
  b.slept <- b.slept + clock () - start

let wait_often n b = for _ = 1 to n do wait b done

type block = { x : int; y : int; z : int }

let kept = Array.make workers []
let block = Array.make workers { x = 0; y = 0; z = 0 }

let[@inline never] allocate b n =
  for i = 1 to n do block.(b.worker) <- Sys.opaque_identity { x = i; y = n; z = i } done

(* Has the profile of Gc.Memprof begun in the domain of this worker? *)
let is_profiled = Array.make workers false

let profiled n b =
  is_profiled.(Workers.self ()) <- false;
  while not is_profiled.(Workers.self ()) do ignore (Sys.opaque_identity (ref n)) done;
  allocate b n

let[@inline never] grow b n =
  for i = 1 to n do kept.(b.worker) <- i :: kept.(b.worker) done

let collect n b =
  for _ = 1 to n do
    for _ = 1 to 10 do
      kept.(b.worker) <- [];
      grow b 5_000;
      allocate b 20_000
    done;
    if b.worker = 0 then Gc.full_major ()
  done;
  kept.(b.worker) <- []

(* ---- workers ------------------------------------------------------------------------------------ *)

let pipes () = Array.init workers (fun _ -> Unix.pipe ())
let starts = pipes () and ends = pipes () and bytes = Array.init workers (fun _ -> Bytes.make 1 '.')
let signal worker pipes = ignore (Unix.write (snd pipes.(worker)) bytes.(worker) 0 1)
let await worker pipes = ignore (Unix.read (fst pipes.(worker)) bytes.(worker) 0 1)
let work = ref ignore

let rec worker i () =
  await i starts;
  !work books.(i);
  signal i ends;
  worker i ()

(* F in each worker. *)
let in_all f =
  work := f;
  for other = 1 to workers - 1 do signal other starts done;
  f books.(0);
  for other = 1 to workers - 1 do await other ends done

(* ---- books -------------------------------------------------------------------------------------- *)

let report () =
  Printf.printf "probe leaf hits=%d sum=%d handled=%d\n" (sum (fun b -> b.hits)) (sum (fun b -> b.sum))
    (sum (fun b -> b.handled));
  Printf.printf "probe enter hits=%d\n" (sum (fun b -> b.passes));
  Printf.printf "probe leave hits=%d\n" (sum (fun b -> b.passes - b.skipped));
  let caller name field = Printf.printf "caller %s hits=%d\n" name (sum field) in
  caller "direct" (fun b -> b.direct);
  caller "raised" (fun b -> b.raised);
  caller "from_c" (fun b -> b.from_c);
  caller "fibre" (fun b -> b.fibre);
  caller "c_in_fibre" (fun b -> b.c_in_fibre);
  Printf.printf "pair enter count=%d skipped=%d within_ns=%d around_ns=%d\n"
    (sum (fun b -> b.passes - b.skipped)) (sum (fun b -> b.skipped)) (sum (fun b -> b.within)) (sum (fun b -> b.around));
  Printf.printf "call pass within_ns=%d around_ns=%d\n" (sum (fun b -> b.call_within)) (sum (fun b -> b.call_around));
  Printf.printf "wait doze ns=%d\npages touch hits=%d\n" (sum (fun b -> b.slept)) (sum (fun b -> b.touched))

(* What the first domain, or the process on OCaml 4, has allocated since its start; each worker takes its own. *)
let minor = Array.make workers 0. and major = Array.make workers 0. and promoted = Array.make workers 0.

let take b =
  let _, its_promoted, its_major = Gc.counters () in
  promoted.(b.worker) <- its_promoted;
  major.(b.worker) <- its_major;
  minor.(b.worker) <- Gc.minor_words ()

let words () =
  in_all take;
  Workers.sum minor +. Workers.sum major -. Workers.sum promoted

let report_words f =
  let before = words () in
  f ();
  Printf.printf "words all n=%.0f\n" (words () -. before)

let report_collections f =
  let before = Gc.quick_stat () in
  f ();
  let after = Gc.quick_stat () in
  let minor = after.Gc.minor_collections - before.Gc.minor_collections in
  Printf.printf "collections minor n=%d each=%d\ncollections major n=%d\n" minor (minor * Workers.collectors workers)
    (after.Gc.major_collections - before.Gc.major_collections)

let say text = ignore (Unix.write_substring Unix.stdout text 0 (String.length text))
let byte = Bytes.create 1

(* A line, byte by byte: a channel would read more. *)
let read_order () =
  let line = Buffer.create 16 in
  while Unix.read Unix.stdin byte 0 1 = 1 && Bytes.get byte 0 <> '\n' do Buffer.add_char line (Bytes.get byte 0) done;
  Buffer.contents line

let rec await_line () = if Unix.read Unix.stdin byte 0 1 = 1 && Bytes.get byte 0 <> '\n' then await_line ()

(* Nothing is allocated between the figures and the end of the wait. *)
let stat () =
  Gc.full_major ();
  Gc.minor ();
  in_all take;
  let s = Gc.quick_stat () in
  take books.(0);
  say "waiting\n";
  await_line ();
  Printf.printf
    "minor_words %.0f\npromoted_words %.0f\nmajor_words %.0f\nminor_collections %d\nmajor_collections %d\n\
     compactions %d\nheap_words %d\ntop_heap_words %d\n"
    (Workers.sum minor) s.Gc.promoted_words (Workers.sum major) s.Gc.minor_collections s.Gc.major_collections
    s.Gc.compactions s.Gc.heap_words s.Gc.top_heap_words

let forget () = Array.iteri (fun i _ -> books.(i) <- empty i) books

let obey order n =
  match order with
  | "go" -> in_all (go n); last_pair := !last_pair + ((n + 1) * workers)
  | "nested" -> in_all (nested n)
  | "touch" -> in_all (touch_all n)
  | "doze" -> in_all (wait_often n)
  | "allocate" -> in_all (profiled n)
  | "words" -> report_words (fun () -> in_all (fun b -> allocate b n))
  | "grow" -> grow books.(0) n
  (* All cycles are whole in the end: the tool counts where marking ends, the collector where sweeping ends. *)
  | "collect" -> report_collections (fun () -> in_all (collect n); Gc.full_major ())
  | "stat" -> stat ()
  | _ -> exit 0

let rec serve () =
  (match String.split_on_char ' ' (read_order ()) with
   | [ order; n ] -> obey order (int_of_string n)
   | order :: _ -> obey order 0
   | [] -> ());
  report ();
  forget ();
  Printf.printf "end\n%!";
  serve ()

let () =
  Ocaml_probes_memprof.observe (Some (fun _ _ _ -> is_profiled.(Workers.self ()) <- true));
  for other = 1 to workers - 1 do Workers.spawn other (worker other) done;
  (* The pages of the code are there, and each worker has begun. *)
  in_all (fun b -> touch_all 20 b; go 10 b; wait b);
  last_pair := 100;
  forget ();
  say "ready\n";
  serve ()
