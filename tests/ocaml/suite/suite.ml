(* What the programs of the suite share. A program is one round of something, perhaps repeated; each
   round writes the same lines, of three kinds:

     say     a result of the program: there whatever the probes do
     note    "> ...", from a handler: there if the handler ran
     count   "# NAME N": how many times handlers ran, 0 to N

   A comment at the end of its source tells what a round writes when all handlers are on. Lines that
   start with "- " and, after them, as many with "+ ", are of results that a handler changes: what they
   are without and with it.

     (*expected
     first result
     > the handler's line
     - 0
     + 40
     # hits 10
     *)

   PROGRAM                   one round
   PROGRAM toggled SOURCE    rounds until something can be read from stdin, and one more, which must
                             be that of handlers that are off. Somebody switches the probes meanwhile:
                             every round is checked to be what SOURCE allows. *)

let buffer = Buffer.create 4096

let say fmt =
  Printf.ksprintf
    (fun line ->
      Buffer.add_string buffer line;
      Buffer.add_char buffer '\n')
    fmt

let note fmt = say ("> " ^^ fmt)
let count name n = say "# %s %d" name n

(* What a plugin leaves for the program that loads it. *)
let plugged : (int -> int) ref = ref Fun.id

(* ---- what a source allows ------------------------------------------------------------------- *)

type item =
  | Result of string
  | Handler of string
  | Either of string * string
  | Count of string * int

let starts prefix line =
  String.length line >= String.length prefix
  && String.sub line 0 (String.length prefix) = prefix

let rest line = String.sub line 2 (String.length line - 2)

(* "# NAME N" *)
let parse_count line =
  let space = String.rindex line ' ' in
  ( String.sub line 0 space,
    int_of_string (String.sub line (space + 1) (String.length line - space - 1)) )

let rec items lines =
  match lines with
  | [] -> []
  | line :: _ when starts "- " line ->
    let off = List.filter (starts "- ") (block lines) in
    let on = List.filter (starts "+ ") (block lines) in
    List.map2 (fun off on -> Either (rest off, rest on)) off on @ items (after lines)
  | line :: lines when starts "# " line ->
    let name, n = parse_count line in
    Count (name, n) :: items lines
  | line :: lines when starts "> " line -> Handler line :: items lines
  | line :: lines -> Result line :: items lines

(* The lines up to the end of a group of alternatives, and those after it. *)
and block = function
  | line :: lines when starts "- " line || starts "+ " line -> line :: block lines
  | _ -> []

and after = function
  | line :: lines when starts "- " line || starts "+ " line -> after lines
  | lines -> lines

let read_expected source =
  let file = open_in source in
  let rec skip () = if input_line file <> "(*expected" then skip () in
  let rec read lines =
    match input_line file with
    | "*)" -> List.rev lines
    | line -> read (line :: lines)
  in
  skip ();
  let lines = read [] in
  close_in file;
  items lines

let text ~on items =
  let line = function
    | Result line -> Some line
    | Handler line -> if on then Some line else None
    | Either (without, with_) -> Some (if on then with_ else without)
    | Count (name, n) -> Some (Printf.sprintf "%s %d" name (if on then n else 0))
  in
  String.concat "" (List.filter_map (fun i -> Option.map (fun l -> l ^ "\n") (line i)) items)

let rec allowed items lines =
  match items, lines with
  | [], [] -> true
  | Handler a :: items, b :: lines when a = b -> allowed items lines
  | Handler _ :: items, _ -> allowed items lines
  | Result a :: items, b :: lines -> a = b && allowed items lines
  | Either (a, b) :: items, c :: lines -> (a = c || b = c) && allowed items lines
  | Count (name, n) :: items, b :: lines ->
    starts (name ^ " ") b
    && (let _, ran = parse_count b in
        0 <= ran && ran <= n)
    && allowed items lines
  | _ -> false

(* ---- rounds --------------------------------------------------------------------------------- *)

let expected =
  match Sys.argv with
  | [| _; "toggled"; source |] -> Some (read_expected source)
  | _ -> None

let in_round = ref false
let is_last = ref (expected = None)
let off = ref 0
let on = ref 0
let mixed = ref 0

let check items round =
  if round = text ~on:false items then incr off
  else if !is_last then failwith ("with handlers off again:\n" ^ round)
  else if round = text ~on:true items then incr on
  else if allowed items (List.filter (( <> ) "") (String.split_on_char '\n' round)) then incr mixed
  else failwith ("this round is not allowed:\n" ^ round)

let told_to_stop () =
  match Unix.select [ Unix.stdin ] [] [] 0. with
  | [], _, _ -> false
  | _ -> true
  | exception Unix.Unix_error (Unix.EINTR, _, _) -> false

let finish_round () =
  let round = Buffer.contents buffer in
  Buffer.clear buffer;
  match expected with
  | None -> print_string round
  | Some items -> check items round

let report () =
  if expected <> None then Printf.printf "%d off, %d on, %d mixed\n" !off !on !mixed;
  flush stdout

(** Is there to be another round? Ends the one before. *)
let again () =
  let continues =
    if !in_round then begin
      finish_round ();
      let was_last = !is_last in
      if not was_last then is_last := told_to_stop ();
      not was_last
    end
    else begin
      if expected <> None then print_endline "ready";
      true
    end
  in
  in_round := continues;
  if not continues then report ();
  continues

let run round =
  while again () do
    round ()
  done
