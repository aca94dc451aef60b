(* A program that spends 70, 20 and 10 % of its time in three functions, and keeps books of it.
   profiled cpu|wait|alloc|large|collect|grow|touch [SEVENTY TWENTY TEN (shares in tenths)]: prints "ready", then for each line
   "run SECONDS" works so long (of CPU time, but for wait) and prints "NAME NANOSECONDS", or for alloc and large "NAME WORDS", of
   each function, "all: " and the sum with what is between the functions, then "done". "touch" counts page faults instead: it works for a thousand new pages a "second", and prints
   "NAME FAULTS". *)

let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)

(* The CPU time that can be sampled, without what passes between two calls which follow at once: the virtual machine stood
   still, or the kernel did something for others in an interrupt. *)
let last = ref 0. and stolen = ref 0.

let cpu_time () =
  let now = Sys.time () in
  if now -. !last > 0.001 then stolen := !stolen +. now -. !last;
  last := now;
  now -. !stolen

let spin seconds =
  let until = cpu_time () +. seconds in
  while cpu_time () < until do
    ignore (Sys.opaque_identity (fib 12))
  done

exception Done

(* The work begins below an exception handler, and an exception ends it. *)
let spin_and_raise seconds = try spin seconds; raise_notrace Done with Done -> ()

let books = Hashtbl.create 3

let book name clock work seconds =
  let start = clock () in
  work seconds;
  let before = try Hashtbl.find books name with Not_found -> 0. in
  Hashtbl.replace books name (before +. clock () -. start)

let share i default =
  if Array.length Sys.argv > 4 then float_of_string Sys.argv.(i) /. 1e3 else default

let of_seventy = share 2 0.007 and of_twenty = share 3 0.002 and of_ten = share 4 0.001

let[@inline never] seventy clock work =
  book "seventy" clock work of_seventy;
  ignore (Sys.opaque_identity 70)

let[@inline never] twenty clock work =
  book "twenty" clock work of_twenty;
  ignore (Sys.opaque_identity 20)

let[@inline never] ten clock work =
  book "ten" clock work of_ten;
  ignore (Sys.opaque_identity 10)

(* What the books have not is between them, and is theirs. *)
let all = ref 0.

let run time clock work seconds =
  let until = time () +. seconds and start = clock () in
  Hashtbl.reset books;
  while time () < until do
    seventy clock work;
    twenty clock work;
    ten clock work
  done;
  all := clock () -. start

(* Small blocks, and now and then a large one. *)
let kept = ref []
let allocate seconds =
  for i = 1 to truncate (seconds *. 1e5) do kept := [ i; i ] done;
  if seconds > 0.005 then kept := Array.to_list (Sys.opaque_identity (Array.make 1000 0))

(* Twice as many words in small blocks as in large ones, and many of both. *)
let allocate_large seconds =
  for _ = 1 to truncate (seconds *. 1e5) do
    for i = 1 to 200 do kept := [ i ] done;
    kept := [ Array.length (Sys.opaque_identity (Array.make 300 0)) ]
  done

(* What it allocates stays alive, in pages that the collector is the first to touch. *)
let growing = ref []
let grow seconds =
  for i = 1 to truncate (seconds *. 1e5) do growing := Array.make 9 i :: !growing done

(* The collector takes nearly all of its time. *)
let collect seconds =
  let until = Sys.time () +. seconds in
  while Sys.time () < until do
    for i = 1 to 100 do kept := [ i; i ] done;
    Gc.full_major ()
  done

(* Each byte of this is in another page, and each page is new. *)
let pages = 20_000 and touched = ref 0

let memory = lazy (
  let path = Filename.temp_file "touched" "" in
  let fd = Unix.openfile path [ Unix.O_RDWR ] 0 in
  let bytes = Unix.map_file fd Bigarray.Char Bigarray.C_layout true [| pages * 4096 |] in
  Unix.unlink path;
  Bigarray.array1_of_genarray bytes)

let touch seconds =
  let memory : (char, Bigarray.int8_unsigned_elt, Bigarray.c_layout) Bigarray.Array1.t = Lazy.force memory in
  for _ = 1 to Float.to_int (Float.round (seconds *. 1e3)) do
    assert (!touched < pages);
    Bigarray.Array1.unsafe_set memory (4096 * !touched) 'x';
    incr touched
  done

external page_faults : unit -> int = "page_faults" [@@noalloc]

let faults () = float_of_int (page_faults ()) /. 1e9
let rounds_touched () = float_of_int !touched /. 1e3

let words () =
  let minor, promoted, major = Gc.counters () in
  (minor +. major -. promoted) /. 1e9

let wait seconds = ignore (Unix.select [] [] [] (10. *. seconds))

(* What it touches for the first time after this is of the work alone: its code, and the minor heap, are there already. *)
let warm_up work =
  run rounds_touched faults work 0.1;
  let collections = (Gc.quick_stat ()).minor_collections in
  while (Gc.quick_stat ()).minor_collections = collections do kept := [ 1 ] done;
  Gc.full_major ()

let () =
  let time, clock, work =
    match Sys.argv.(1) with
    | "cpu" -> (Sys.time, cpu_time, spin_and_raise)
    | "alloc" -> (Sys.time, words, allocate)
    | "large" -> (Sys.time, words, allocate_large)
    | "collect" -> (Sys.time, Sys.time, collect)
    | "grow" -> ((fun () -> words () *. 1e2), words, grow)
    | "touch" -> warm_up touch; (rounds_touched, faults, touch)
    | _ -> (Unix.gettimeofday, Unix.gettimeofday, wait)
  in
  print_endline "ready";
  try
    while true do
      Scanf.sscanf (read_line ()) "run %f" (run time clock work);
      Hashtbl.iter (fun name s -> Printf.printf "%s %.0f\n" name (s *. 1e9)) books;
      Printf.printf "all: %.0f\n" (!all *. 1e9);
      print_endline "done"
    done
  with End_of_file -> ()
