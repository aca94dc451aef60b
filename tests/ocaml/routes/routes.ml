(* A service whose requests have routes, and its own books of them.

     routes

   Reads commands, a line each, and prints "done" after each; at the end of stdin it ends.

     go N ROUTES   N requests, of the routes "/r/0" to "/r/ROUTES-1", in an order that looks random
     hostile       a request for each of the routes in [hostile]
     numbers       hits of "number" with ints, and of "anything" with values of several types
     books         what it did since the last time: "route NAME started=N failed=N done=N", and
                   "number N hits=N"

   The probes: request_started (rid, route), request_failed (route, status), request_done (rid, status),
   number (route) and anything (route). *)

type book = { mutable started : int; mutable failed : int; mutable finished : int }

let books : (string, book) Hashtbl.t = Hashtbl.create 1000
let numbers : (int, int) Hashtbl.t = Hashtbl.create 10

let book route =
  match Hashtbl.find_opt books route with
  | Some book -> book
  | None ->
      let book = { started = 0; failed = 0; finished = 0 } in
      Hashtbl.add books route book;
      book

let[@inline never] started rid (route : string) = [%probe "request_started" ~args:(rid, (route : string)) ()]
let[@inline never] failed (route : string) status = [%probe "request_failed" ~args:((route : string), status) ()]
let[@inline never] finished rid status = [%probe "request_done" ~args:(rid, status) ()]
let[@inline never] number (route : int) = [%probe "number" ~args:(route : int) ()]
let[@inline never] anything (route : Obj.t) = [%probe "anything" ~args:route ()]
let rid = ref 0

let request route fails =
  let book = book route in
  incr rid;
  let id = Sys.opaque_identity !rid in
  started id route;
  book.started <- book.started + 1;
  if fails then (
    failed route 500;
    book.failed <- book.failed + 1);
  finished id (if fails then 500 else 200);
  book.finished <- book.finished + 1

(* The generator of Numerical Recipes. *)
let state = ref 1

let random limit =
  state := ((!state * 1664525) + 1013904223) land 0xffffffff;
  (!state lsr 8) mod limit

let go n routes =
  let names = Array.init routes (Printf.sprintf "/r/%d") in
  for _ = 1 to n do
    request names.(random routes) (random 10 = 0)
  done

let hostile =
  [
    "";
    "other";
    "5";
    "true";
    "a\"b\\c\nd";
    "a=\"x\"} 7\nocaml_probes_hits_total{probe=\"made up\"} 9";
    "caf\xc3\xa9";
    "\xff\xfe";
    "\xc3";
    "nul\000nul";
    "\027[31mred";
    String.make 64 'x';
    String.make 65 'x';
    String.make 100000 'x';
    String.make 63 'y' ^ "\xc3\xa9\xc3\xa9";
    String.make 62 'z' ^ "\xe2\x82\xac" ^ "z";
  ]

let tell () =
  Hashtbl.iter
    (fun route { started; failed; finished } ->
      Printf.printf "route %S started=%d failed=%d done=%d\n" route started failed finished)
    books;
  Hashtbl.iter (fun n hits -> Printf.printf "number %d hits=%d\n" n hits) numbers;
  Hashtbl.reset books;
  Hashtbl.reset numbers

let count n =
  number n;
  Hashtbl.replace numbers n (1 + Option.value ~default:0 (Hashtbl.find_opt numbers n))

let numbers () =
  List.iter count [ 5; 5; -3; max_int; min_int; 0 ];
  anything (Obj.repr 5);
  anything (Obj.repr "5");
  anything (Obj.repr 1.5);
  anything (Obj.repr (1, 2));
  anything (Obj.repr [ "x" ]);
  anything (Obj.repr (fun () -> !rid))

let () =
  print_endline "ready";
  try
    while true do
      (match String.split_on_char ' ' (read_line ()) with
      | [ "go"; n; routes ] -> go (int_of_string n) (int_of_string routes)
      | [ "hostile" ] -> List.iter (fun route -> request route false) hostile
      | [ "numbers" ] -> numbers ()
      | [ "books" ] -> tell ()
      | _ -> exit 2);
      print_endline "done"
    done
  with End_of_file -> ()
