(* What tests/e2e/memprof.sh profiles: subject MODE [ARG...]. *)

let sink = ref (Obj.repr 0)
let[@inline never] keep x = sink := Obj.repr x

(* ---- books: a record of its own of all events ---------------------------------------------------- *)

let kind_name = function
  | Ocaml_probes_memprof.Alloc_minor -> "alloc_minor"
  | Alloc_major -> "alloc_major"
  | Promote -> "promote"
  | Dealloc_minor -> "dealloc_minor"
  | Dealloc_major -> "dealloc_major"

let source_name = function
  | Gc.Memprof.Normal -> "normal"
  | Marshal -> "marshal"
  | Custom -> "custom"

let places callstack =
  match Printexc.backtrace_slots callstack with
  | None -> ""
  | Some slots ->
    Array.to_list slots
    |> List.filter_map (fun slot ->
           Option.map
             (fun { Printexc.filename; line_number; start_char; end_char; _ } ->
               Printf.sprintf "%s:%d:%d-%d" filename line_number start_char end_char)
             (Printexc.Slot.location slot))
    |> String.concat ";"

let n_events = ref 0

let write_books path =
  let books = open_out path in
  Ocaml_probes_memprof.observe
    (Some
       (fun kind id allocation ->
         let { Gc.minor_collections; major_collections; _ } = Gc.quick_stat () in
         incr n_events;
         Printf.fprintf books "%s %d %d %d" (kind_name kind) id minor_collections major_collections;
         Option.iter
           (fun { Gc.Memprof.n_samples; size; source; callstack } ->
             Printf.fprintf books " %d %d %s %s" n_samples size (source_name source)
               (places callstack))
           allocation;
         output_char books '\n'));
  books

(* The number of each new block, and the time behind its event in microseconds since 1970. *)
let write_times path =
  let books = open_out path in
  Ocaml_probes_memprof.observe
    (Some
       (fun kind id _ ->
         match kind with
         | Alloc_minor | Alloc_major ->
           incr n_events;
           Printf.fprintf books "%d %.0f\n" id (1e6 *. Unix.gettimeofday ())
         | Promote | Dealloc_minor | Dealloc_major -> ()));
  books

type tree = Leaf | Node of tree * int * tree

let rec tree depth = if depth = 0 then Leaf else Node (tree (depth - 1), depth, tree (depth - 1))
let text = String.make 40 'x'

let mixed () =
  let kept = Array.make 1000 (Obj.repr 0) in
  let at = ref 0 in
  let hold x =
    kept.(!at) <- Obj.repr x;
    at := (!at + 7919) mod Array.length kept
  in
  fun round ->
    hold (tree 5);
    keep (List.init 30 (fun i -> float_of_int (i + round), string_of_int i));
    hold (text ^ string_of_int round);
    if round mod 5 = 0 then hold (Array.make (300 + (round mod 700)) round);
    if round mod 7 = 0 then hold (Marshal.from_string (Marshal.to_string (tree 4) []) 0 : tree);
    if round mod 11 = 0 then hold (Bigarray.Array1.create Bigarray.char Bigarray.c_layout 4000);
    try ignore (List.find (fun (x, _) -> x < 0) [ round, text ]) with Not_found -> ()

let books books events =
  let round = mixed () in
  let i = ref 0 in
  while !n_events < events do
    incr i;
    round !i;
    if !n_events = 0 then Unix.sleepf 0.0001
  done;
  (* No event may come behind the books. *)
  let rec finish () =
    let n = !n_events in
    flush books;
    if n = !n_events then Unix._exit 0 else finish ()
  in
  finish ()

(* Blocks with deep call stacks, and the number of events of each kind, when it is told to begin. *)
let[@inline never] rec within depth work =
  if depth = 0 then work ()
  else (
    within (depth - 1) work;
    keep depth)

let deep depth blocks =
  let counts = Hashtbl.create 5 and is_over = ref false in
  (* What the observer allocates is no event. *)
  let finish () =
    Hashtbl.iter (fun name n -> Printf.printf "%s %d\n" name n) counts;
    Printf.printf "done\n%!";
    Unix._exit 0
  in
  Ocaml_probes_memprof.observe
    (Some
       (fun kind _ _ ->
         incr n_events;
         let name = kind_name kind in
         Hashtbl.replace counts name (1 + Option.value (Hashtbl.find_opt counts name) ~default:0);
         if !is_over then finish ()));
  while !n_events = 0 do
    keep (ref 0);
    Unix.sleepf 0.0001
  done;
  ignore (input_line stdin);
  within depth (fun () ->
      for i = 1 to blocks do
        keep (ref i)
      done);
  is_over := true;
  while true do
    keep (ref 0)
  done

(* ---- known shares -------------------------------------------------------------------------------- *)

(* Each keeps one of its blocks in ten alive, for the same time. *)
let ring = Array.make 30000 (Bytes.create 0)
let at = ref 0

let[@inline never] hold block =
  ring.(!at) <- block;
  at := (!at + 1) mod Array.length ring

let[@inline never] most round =
  for i = 1 to 70 do
    let block = Bytes.create 79 in
    if (i + round) mod 10 = 0 then hold block else keep block
  done

let[@inline never] some round =
  for i = 1 to 20 do
    let block = Bytes.create 79 in
    if (i + round) mod 10 = 0 then hold block else keep block
  done

let[@inline never] few round =
  for i = 1 to 10 do
    let block = Bytes.create 79 in
    if (i + round) mod 10 = 0 then hold block else keep block
  done

let shares pause =
  let round = ref 0 in
  while true do
    incr round;
    most !round;
    some !round;
    few !round;
    if pause > 0. then Unix.sleepf pause
  done

(* ---- a service that leaks 1 kB for each request -------------------------------------------------- *)

let leaked = ref []
let[@inline never] leak () = leaked := Bytes.create 1000 :: !leaked

let[@inline never] request i =
  keep (List.init 200 (fun j -> Printf.sprintf "%d %d" i j));
  leak ();
  (* No tail call: it is in the call stack of the leak. *)
  keep i

external is_sampling : unit -> bool = "ocaml_probes_memprof_is_sampling"

(* True if no profile runs in this domain. In OCaml 5.5 and later, a primitive returns this, and the start of another
   profile would replace the profile. In earlier versions, the start of another profile fails. *)
let is_free () =
  (not (is_sampling ()))
  &&
  match Gc.Memprof.start ~sampling_rate:0. Gc.Memprof.null_tracker with
  | _ ->
    Gc.Memprof.stop ();
    true
  | exception Failure _ -> false

let free_or_profiled is_free = if is_free then "free" else "profiled"

(* How far it is, and whether a profile runs. *)
let status n = Printf.printf "%d %s\n%!" n (free_or_profiled (is_free ()))

(* A profile of the program's own, while the tool may have one. *)
let own_samples = ref 0

let own_tracker =
  let alloc _ =
    incr own_samples;
    None
  in
  { Gc.Memprof.null_tracker with alloc_minor = alloc; alloc_major = alloc }

let start_own () =
  match Gc.Memprof.start ~sampling_rate:0.01 ~callstack_size:5 own_tracker with
  | _ -> Printf.printf "started\n%!"
  | exception Failure _ -> Printf.printf "refused\n%!"

let stop_own () =
  match Gc.Memprof.stop () with
  | () -> Printf.printf "stopped\n%!"
  | exception Failure _ -> Printf.printf "not running\n%!"

(* The next line of the standard input. What lies behind it stays in the pipe, where select sees it. *)
let line_of_stdin () =
  let byte = Bytes.create 1 and line = Buffer.create 16 in
  let rec next () =
    match Unix.read Unix.stdin byte 0 1 with
    | 0 -> raise End_of_file
    | _ ->
      if Bytes.get byte 0 = '\n' then Buffer.contents line
      else (
        Buffer.add_bytes line byte;
        next ())
    | exception Unix.Unix_error (Unix.EINTR, _, _) -> next ()
  in
  next ()

(* Lines of the standard input, while the program goes on. *)
let answer_while work =
  let n = ref 0 in
  let rec loop () =
    incr n;
    work !n;
    match Unix.select [ Unix.stdin ] [] [] 0.0005 with
    | [], _, _ -> loop ()
    | _ -> (
      match line_of_stdin () with
      | "quit" | (exception End_of_file) -> ()
      | "exec" -> Unix.execv Sys.executable_name [| Sys.executable_name; "leak" |]
      | "fork" ->
        if Unix.fork () = 0 then (
          Printf.printf "child %d\n%!" (Unix.getpid ());
          for i = 1 to 200_000 do
            request i;
            Unix.sleepf 0.001
          done;
          exit 0);
        loop ()
      | "start" ->
        start_own ();
        loop ()
      | "stop" ->
        stop_own ();
        loop ()
      | "count" ->
        Printf.printf "own %d\n%!" !own_samples;
        loop ()
      | _ ->
        status !n;
        loop ())
  in
  loop ()

(* ---- others -------------------------------------------------------------------------------------- *)

(* A profile of its own. *)
let own () =
  start_own ();
  answer_while (fun i ->
      request i;
      if i mod 10 = 0 then Printf.printf "own %d\n%!" !own_samples);
  Gc.Memprof.stop ()

(* What daemons do: another process, no files but new ones with the old numbers. *)
let daemon () =
  if Unix.fork () > 0 then exit 0;
  ignore (Unix.setsid ());
  Printf.printf "daemon %d\n%!" (Unix.getpid ());
  for i = 3 to 1023 do
    try Unix.close (Obj.magic i : Unix.file_descr) with Unix.Unix_error _ -> ()
  done;
  for _ = 3 to 300 do
    ignore (Unix.openfile "/dev/zero" [ Unix.O_RDWR ] 0)
  done;
  for i = 1 to 100_000 do
    request i;
    Unix.sleepf 0.001
  done

let threads () =
  let worker () =
    let i = ref 0 in
    while true do
      incr i;
      request !i;
      Unix.sleepf 0.0005
    done
  in
  for _ = 1 to 3 do
    ignore (Thread.create worker ())
  done;
  answer_while ignore

(* Many requests, each of which compares its results with those that are right. Nothing is leaked. *)
let[@inline never] checked_request pages i =
  let is_page_of i page = Bytes.length page = 1000 && page = Bytes.make 1000 (Char.unsafe_chr (i land 255)) in
  let check i what is_right =
    if not is_right then (
      Printf.printf "request %d: %s is wrong\n%!" i what;
      exit 3)
  in
  let texts = List.init 200 (fun j -> string_of_int (i + j)) in
  let sum = List.fold_left (fun sum text -> sum + int_of_string text) 0 texts in
  check i "the sum" (sum = (200 * i) + 19900);
  let old, page = pages.(i mod 500) in
  check i "an old page" (old = 0 || is_page_of old page);
  pages.(i mod 500) <- i, Bytes.make 1000 (Char.unsafe_chr (i land 255));
  let rec nodes = function Leaf -> 0 | Node (left, _, right) -> 1 + nodes left + nodes right in
  check i "the tree" (nodes (tree 6) = 63)

let checked () = answer_while (checked_request (Array.make 500 (0, Bytes.create 0)))

(* The same in several threads, all of which go on until the end. *)
let checked_threads () =
  let is_over = ref false in
  let worker () =
    let pages = Array.make 500 (0, Bytes.create 0) and i = ref 0 in
    while not !is_over do
      incr i;
      checked_request pages !i;
      Unix.sleepf 0.0005
    done
  in
  let workers = List.init 3 (fun _ -> Thread.create worker ()) in
  checked ();
  is_over := true;
  List.iter Thread.join workers

(* Blocks of several kinds and sizes, in an order that looks random. *)
let[@inline never] pairs i = keep (i, Some i)
let[@inline never] texts i = keep (Bytes.create (40 + (i land 7)))
let[@inline never] arrays i = keep (Array.make 30 i)
let[@inline never] large i = keep (Array.make 2000 i)
let[@inline never] reversed i = keep (List.rev [ i; i; i; i; i; i ])

let kinds () =
  let x = ref 1 in
  while true do
    x := ((!x * 1103515245) + 12345) land 0x3fffffff;
    match (!x lsr 10) land 255 with
    | 0 -> large !x
    | n when n < 30 -> arrays !x
    | n when n < 80 -> texts !x
    | n when n < 150 -> reversed !x
    | _ -> pairs !x
  done

(* Busy for seconds of the processor, without allocation and without calls that block. *)
let rec spin until = if Sys.time () < until then spin until

let spinning () =
  while true do
    Printf.printf "spinning\n%!";
    spin (Sys.time () +. 2.5);
    Printf.printf "left\n%!";
    for i = 1 to 1000 do
      request i
    done
  done

(* Hardly allocates, and never collects. Tells the words allocated and the collections so far, and those when
   the first block was sampled since it was asked last. *)
let rare () =
  let progress () =
    Printf.sprintf "%.0f %d" (Gc.minor_words ()) (Gc.quick_stat ()).minor_collections
  in
  let first = ref "never" in
  let note _ _ _ = if !first = "never" then first := progress () in
  Ocaml_probes_memprof.observe (Some note);
  let rec loop () =
    keep (ref 0);
    match Unix.select [ Unix.stdin ] [] [] 0.005 with
    | [], _, _ -> loop ()
    | _ -> (
      match line_of_stdin () with
      | "quit" | (exception End_of_file) -> ()
      | _ ->
        Printf.printf "now %s first %s\n%!" (progress ()) !first;
        first := "never";
        loop ())
  in
  loop ()

let () =
  Printf.printf "ready\n%!";
  match Array.to_list Sys.argv |> List.tl with
  | [ "books"; path; events ] -> books (write_books path) (int_of_string events)
  | [ "times"; path; events ] -> books (write_times path) (int_of_string events)
  | [ "deep"; depth; blocks ] -> deep (int_of_string depth) (int_of_string blocks)
  | [ "shares"; pause ] -> shares (float_of_string pause)
  | [ "leak" ] -> answer_while request
  | [ "own" ] -> own ()
  | [ "checked" ] -> checked ()
  | [ "checked_threads" ] -> checked_threads ()
  | [ "kinds" ] -> kinds ()
  | [ "spinning" ] -> spinning ()
  | [ "daemon" ] -> daemon ()
  | [ "threads" ] -> threads ()
  | [ "rare" ] -> rare ()
  | "part" :: _ -> () (* of another program *)
  | [ "blocked" ] ->
    (* Not into a buffer: select would not see the line behind this one. *)
    let byte = Bytes.create 1 in
    while Unix.read Unix.stdin byte 0 1 = 1 && Bytes.get byte 0 <> '\n' do
      ()
    done;
    answer_while request
  | _ -> exit 2
