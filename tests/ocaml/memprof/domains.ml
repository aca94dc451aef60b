(* OCaml 5: domains that were there before the profile, that come and go during it, and that wait.

     domains checked   each compares its results with those that are right
     domains apart     one that allocates once in a while, one that is busy without it, and one that waits *)

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

let sink = ref (Obj.repr 0)
let[@inline never] keep x = sink := Obj.repr x

let[@inline never] work name n =
  for i = 1 to n do
    ignore (Sys.opaque_identity (List.init 100 (fun j -> name, i + j)))
  done

let[@inline never] old_domain stop =
  while not (Atomic.get stop) do
    work "old" 50;
    Unix.sleepf 0.0005
  done

let[@inline never] young_domain () =
  for _ = 1 to 20 do
    work "young" 50
  done

let[@inline never] rare_domain stop =
  while not (Atomic.get stop) do
    keep (ref 0);
    Unix.sleepf 0.005
  done

let[@inline never] busy_domain stop =
  let n = ref 0 in
  while not (Atomic.get stop) do
    for _ = 1 to 10_000_000 do
      incr n
    done;
    keep (ref !n)
  done

let[@inline never] waiting_domain input stop =
  ignore (Unix.read input (Bytes.create 1) 0 1);
  rare_domain stop

let apart () =
  let stop = Atomic.make false and input, output = Unix.pipe () in
  let domains = List.map Domain.spawn [ (fun () -> rare_domain stop); (fun () -> busy_domain stop); (fun () -> waiting_domain input stop) ] in
  let ids = List.map (fun domain -> string_of_int (Domain.get_id domain :> int)) domains in
  Printf.printf "domains %s\n%!" (String.concat " " ids);
  (* The main domain waits, too, but not for long. *)
  let rec await_line () =
    match Unix.select [ Unix.stdin ] [] [] 0.002 with
    | [], _, _ -> await_line ()
    | _ -> ignore (line_of_stdin ())
  in
  await_line ();
  ignore (Unix.write output (Bytes.create 1) 0 1);
  await_line ();
  Atomic.set stop true;
  List.iter Domain.join domains

external is_sampling : unit -> bool = "ocaml_probes_memprof_is_sampling"

(* Can a profile be started here, without replacing another one? *)
let can_start () =
  (not (is_sampling ()))
  &&
  match Gc.Memprof.start ~sampling_rate:0. Gc.Memprof.null_tracker with
  | _ ->
    Gc.Memprof.stop ();
    true
  | exception Failure _ -> false

let free_or_profiled is_free = if is_free then "free" else "profiled"

(* Some domains work all the time, and others come and go. To each line the program answers what it knows. *)
let come_and_go olds young answer =
  let stop = Atomic.make false in
  let olds = List.map (fun old -> Domain.spawn (fun () -> old stop)) olds in
  Printf.printf "ready\n%!";
  let rec loop () =
    Domain.join (Domain.spawn young);
    match Unix.select [ Unix.stdin ] [] [] 0.002 with
    | [], _, _ -> loop ()
    | _ -> (
      match line_of_stdin () with
      | "quit" | (exception End_of_file) -> ()
      | _ ->
        Printf.printf "%s\n%!" (answer ());
        loop ())
  in
  loop ();
  Atomic.set stop true;
  List.iter Domain.join olds

let together () =
  come_and_go [ old_domain; old_domain ] young_domain (fun () ->
      let mine = can_start () in
      let childs = Domain.join (Domain.spawn can_start) in
      free_or_profiled (mine && childs))

(* ---- domains that check what they do --------------------------------------------------------------- *)

let check name i what is_right =
  if not is_right then (
    Printf.printf "%s, request %d: %s is wrong\n%!" name i what;
    exit 3)

let page_of i = Bytes.make 1000 (Char.unsafe_chr (i land 255))

let[@inline never] checked_request name pages i =
  let texts = List.init 200 (fun j -> string_of_int (i + j)) in
  let sum = List.fold_left (fun sum text -> sum + int_of_string text) 0 texts in
  check name i "the sum" (sum = (200 * i) + 19900);
  let old, page = pages.(i mod 500) in
  check name i "an old page" (old = 0 || page = page_of old);
  pages.(i mod 500) <- i, page_of i

let pages () = Array.make 500 (0, Bytes.create 0)

(* What each old domain was asked the last time, and what it said: whether it has no profile. *)
type answer = { asked : int; is_free : bool }

let old_checked question answer stop =
  let pages = pages () and i = ref 0 in
  while not (Atomic.get stop) do
    incr i;
    checked_request "old" pages !i;
    let asked = Atomic.get question in
    if asked > (Atomic.get answer).asked then Atomic.set answer { asked; is_free = can_start () };
    Unix.sleepf 0.0005
  done

let young_checked () =
  let pages = pages () in
  for i = 1 to 100 do
    checked_request "young" pages i
  done

let rec await question answer =
  let { asked; is_free } = Atomic.get answer in
  if asked = Atomic.get question then is_free
  else (
    Unix.sleepf 0.0005;
    await question answer)

let checked () =
  let question = Atomic.make 0 in
  let answers = List.init 2 (fun _ -> Atomic.make { asked = 0; is_free = false }) in
  come_and_go (List.map (old_checked question) answers) young_checked (fun () ->
      Atomic.incr question;
      let mine = can_start () and theirs = List.map (await question) answers in
      let childs = Domain.join (Domain.spawn can_start) in
      let is_free = mine && childs && List.for_all Fun.id theirs in
      Printf.sprintf "%d %s" (Atomic.get question) (free_or_profiled is_free))

let () =
  match Sys.argv with
  | [| _ |] -> together ()
  | [| _; "checked" |] -> checked ()
  | _ -> apart ()
