(* A program for `report`, which keeps books of what it does, by function.

     reported [idle]

   Prints "ready", then for each line "run N": serves N requests, prints "NAME NUMBER" for each number of its books, then
   "done". Two threads of it wait all the time in `sleeper`. With "idle", nothing but that.

     hog     touches 16 pages a request that nobody has touched before: its page faults
     filler  10 such pages each 10th request, by C code: its page faults
     pages   how many pages the two have touched
     keeper  allocates 6020 words a request, in large blocks that a function of the standard library allocates

   request_start and request_done are hit once a request. *)

let pages = 20_000
let part_pages = 10 and n_parts = 200

let memory : (char, Bigarray.int8_unsigned_elt, Bigarray.c_layout) Bigarray.Array1.t =
  let path = Filename.temp_file "reported" "" in
  let fd = Unix.openfile path [ Unix.O_RDWR ] 0 in
  let size = (pages + (n_parts * part_pages)) * 4096 in
  let bytes = Unix.map_file fd Bigarray.Char Bigarray.C_layout true [| size |] in
  Unix.unlink path;
  Bigarray.array1_of_genarray bytes

(* They are there before the requests: to make one touches memory, too. *)
let parts =
  Array.init n_parts (fun i ->
      Bigarray.Array1.sub memory ((pages + (i * part_pages)) * 4096) (part_pages * 4096))

let touched = ref 0 and n_filled = ref 0

external page_faults : unit -> int = "page_faults" [@@noalloc]

let hogged = ref 0 and filled = ref 0 and n_pages = ref 0 and kept_words = ref 0 and requests = ref 0

let[@inline never] hog () =
  for _ = 1 to 16 do
    assert (!touched < pages);
    Bigarray.Array1.unsafe_set memory (4096 * !touched) 'x';
    incr touched;
    incr n_pages
  done

let[@inline never] filler () =
  Bigarray.Array1.fill parts.(!n_filled) 'z';
  incr n_filled;
  n_pages := !n_pages + part_pages

let kept = ref [||]

let[@inline never] keeper () =
  for _ = 1 to 20 do
    kept := Sys.opaque_identity (Array.init 300 Fun.id);
    kept_words := !kept_words + 301
  done

let request id =
  [%probe "request_start" ~args:(id) ()];
  let before = page_faults () in
  hog ();
  let between = page_faults () in
  hogged := !hogged + between - before;
  if id mod 10 = 0 then begin
    filler ();
    filled := !filled + page_faults () - between
  end;
  keeper ();
  incr requests;
  [%probe "request_done" ~args:(id) ()]

(* A pipe that nobody writes to. *)
let sleeper () =
  let from, _ = Unix.pipe () in
  ignore (Unix.read from (Bytes.create 1) 0 1)

let say_books () =
  List.iter
    (fun (name, number) -> Printf.printf "%s %d\n" name !number)
    [ ("hog", hogged); ("filler", filled); ("pages", n_pages); ("keeper", kept_words); ("requests", requests) ];
  print_endline "done"

let run n =
  for id = 1 to n do
    request id
  done

let () =
  let threads = List.init 2 (fun _ -> Thread.create sleeper ()) in
  if Array.length Sys.argv < 2 then begin
    (* What is touched for the first time after this is of the requests alone. *)
    run 50;
    List.iter (fun number -> number := 0) [ hogged; filled; n_pages; kept_words; requests ];
    Gc.full_major ()
  end;
  print_endline "ready";
  try
    while true do
      Scanf.sscanf (read_line ()) "run %d" run;
      say_books ()
    done
  with End_of_file -> List.iter Thread.join threads
