(* A crew of threads with names, and the books of each.
   crew touch|alloc|grow|step|wait [-- NAME COUNT [NAME COUNT]...]...: each "--" begins a thread. The thread takes a NAME,
   works COUNT times, takes the next NAME and so on. Prints "ready", reads a line, and lets the threads work and end one
   after the other; for each NAME it prints "TID NAME BOOK", the name in hexadecimal. Then it prints "done" and reads a line.
   BOOK is the number of page faults at new pages, of words allocated, of the probe's hits.
   wait: the threads exist from the start, with the last of their names, and "TID NAME 0" precedes "ready". For each line
   that it reads, each thread sleeps COUNT times at the same time as the others, and "done" follows. *)

external tid : unit -> int = "crew_tid"

let hex text = String.concat "" (List.map (fun c -> Printf.sprintf "%02x" (Char.code c)) (List.of_seq (String.to_seq text)))

let tell name book = Printf.printf "%d %s %d\n%!" (tid ()) (hex name) book

(* Each byte of this is in another page, and each page is new. *)
let pages = 20_000 and touched = ref 0

let memory = lazy (
  let path = Filename.temp_file "touched" "" in
  let fd = Unix.openfile path [ Unix.O_RDWR ] 0 in
  let bytes = Unix.map_file fd Bigarray.Char Bigarray.C_layout true [| pages * 4096 |] in
  Unix.unlink path;
  Bigarray.array1_of_genarray bytes)

external page_faults : unit -> int = "page_faults" [@@noalloc]

let[@inline never] touch count =
  let memory : (char, Bigarray.int8_unsigned_elt, Bigarray.c_layout) Bigarray.Array1.t = Lazy.force memory in
  let before = page_faults () in
  for _ = 1 to count do
    assert (!touched < pages);
    Bigarray.Array1.unsafe_set memory (4096 * !touched) 'x';
    incr touched
  done;
  page_faults () - before

let kept = ref []

let[@inline never] alloc count =
  let before = Gc.minor_words () in
  for i = 1 to 1000 * count do kept := [ i; i ] done;
  int_of_float (Gc.minor_words () -. before)

(* What it allocates stays alive, in pages that the collector is the first to touch. *)
let growing = ref []

let[@inline never] grow count =
  for i = 1 to 1000 * count do growing := Array.make 9 i :: !growing done;
  count

let[@inline never] step count =
  for i = 1 to count do [%probe "step" ~args:i ()] done;
  count

(* ---- threads one after the other -------------------------------------------------------------- *)

let rec work f = function
  | (name, count) :: rest ->
    Naming.set name;
    tell name (f count);
    work f rest
  | [] -> ()

let one_by_one f crew =
  print_endline "ready";
  ignore (read_line ());
  List.iter (fun steps -> Thread.join (Thread.create (work f) steps)) crew;
  print_endline "done";
  ignore (read_line ())

(* ---- threads at the same time ----------------------------------------------------------------- *)

let byte = Bytes.make 1 'x'
let send fd = ignore (Unix.write fd byte 0 1)
let receive fd = ignore (Unix.read fd (Bytes.create 1) 0 1)

let sleeper (orders, ended, name, count) =
  Naming.set name;
  tell name 0;
  send ended;
  while true do
    receive orders;
    for _ = 1 to count do Unix.sleepf 0.001 done;
    send ended
  done

let together crew =
  let ended, tell_end = Unix.pipe () in
  let hire steps =
    let name, count = List.nth steps (List.length steps - 1) and orders, order = Unix.pipe () in
    ignore (Thread.create sleeper (orders, tell_end, name, count));
    receive ended;
    order
  in
  let orders = List.map hire crew in
  print_endline "ready";
  while true do
    ignore (read_line ());
    List.iter send orders;
    List.iter (fun _ -> receive ended) orders;
    print_endline "done"
  done

(* ----------------------------------------------------------------------------------------------- *)

let rec steps_of = function
  | name :: count :: rest when name <> "--" ->
    let steps, rest = steps_of rest in
    ((name, int_of_string count) :: steps, rest)
  | rest -> ([], rest)

let rec crew_of = function
  | "--" :: rest ->
    let steps, rest = steps_of rest in
    steps :: crew_of rest
  | _ -> []

let () =
  let crew = crew_of (List.tl (List.tl (Array.to_list Sys.argv))) in
  try
    match Sys.argv.(1) with
    | "touch" -> ignore (Lazy.force memory); one_by_one touch crew
    | "alloc" -> one_by_one alloc crew
    | "grow" -> one_by_one grow crew
    | "step" -> one_by_one step crew
    | _ -> together crew
  with End_of_file -> ()
