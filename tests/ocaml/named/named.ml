(* Probes whose arguments have names, and the program's own books of them.

     named N

   Prints "ready" and waits for a line; then N orders are taken, and each is answered later, by another
   one's end; then it says what it did, and waits for another line or the end of stdin.

     order     id, customer, price, rush, grade and total, at two places in the source and in two orders
     begun     rid and size
     computed  arguments that have no place, and scaled; kept has them
     answered  size and rid, in a function that has captured rid, after it has called others

   The books have a line for each filter, with the number of orders for which it is true, and a line for
   each order. *)

let n_orders = int_of_string Sys.argv.(1)

type order = {
  id : int;
  customer : string;
  price : float;
  rush : bool;
  grade : char;
  total : float option;
}

let value o = Option.value o.total ~default:0.

let filters =
  [
    ("price > 50.0 && customer == \"x\"", fun o -> o.price > 50.0 && o.customer = "x");
    ("arg2 > 50.0 && arg1 == \"x\"", fun o -> o.id land 1 = 0 && o.price > 50.0 && o.customer = "x");
    ("id >= 30", fun o -> o.id >= 30);
    ("rush == true", fun o -> o.rush);
    ("rush != true || grade == 'b'", fun o -> (not o.rush) || o.grade = 'b');
    ("grade > 'b'", fun o -> o.grade > 'b');
    ("customer ^= \"cu\"", fun o -> String.length o.customer > 1 && String.sub o.customer 0 2 = "cu");
    ( "(id < 10 || price <= 20.25) && !(rush = true)",
      fun o -> (o.id < 10 || o.price <= 20.25) && not o.rush );
    ("amount >= 1.5", fun o -> value o >= 1.5);
    ("amount < 1", fun o -> value o < 1.);
  ]

let[@inline never] work text = ignore (Sys.opaque_identity (String.length text))

(* Floats that functions take or return are boxed, and so are those of a record that has other fields. *)
let[@inline never] even id customer price rush grade amount =
  [%probe "order" ~args:(id, customer, (price : float), (rush : bool), (grade : char), amount) ()]

let[@inline never] odd o amount =
  work o.customer;
  [%probe "order"
    ~args:
      ( (amount : float),
        (o.grade : char),
        o.id,
        (o.customer : string),
        (o.rush : bool),
        o.price,
        "literal",
        o.id + 0 [@name "same_id"] )
    ()]

(* No tool can read these: one is computed by the handler alone, one is in a floating-point register. *)
let[@inline never] nowhere o by =
  let scaled = o.price *. by in
  [%probe "computed" ~args:(o.id, String.length o.customer [@name "length"]) ()];
  [%probe "scaled" ~args:scaled ()];
  (* This is the remedy. *)
  let length = Sys.opaque_identity (String.length o.customer) in
  let boxed = Sys.opaque_identity scaled in
  [%probe "kept" ~args:(length, boxed) ()];
  scaled +. 1.

let[@inline never] take o =
  ignore (Sys.opaque_identity (nowhere o 2.));
  if o.id land 1 = 0 then
    even o.id o.customer o.price o.rush o.grade (value o)
  else odd o (value o)

(* ---- answers --------------------------------------------------------------------------------- *)

let waiting : (string -> unit) Queue.t = Queue.create ()
let log = Buffer.create 100
let answers = ref 0

(* Nothing but the closure has rid when the answer comes. *)
let[@inline never] ask rid size =
  [%probe "begun" ~args:(rid, size) ()];
  Queue.push
    (fun text ->
      work text;
      let size = String.length text + rid in
      [%probe "answered" ~args:(size, rid, text) (Printf.bprintf log "%d %s" rid text)];
      incr answers)
    waiting

let orders =
  List.init n_orders (fun id ->
      {
        id;
        customer = [| "x"; "cu"; "customer"; "" |].(id mod 4);
        price = float id *. 3.25;
        rush = id mod 3 = 0;
        grade = Char.chr (Char.code 'a' + (id mod 5));
        total = (if id mod 7 = 0 then None else Some (float (id mod 7) /. 2.));
      })

let serve o =
  take o;
  ask o.id 1;
  (* Three requests are open at any time. *)
  if Queue.length waiting > 3 then Queue.pop waiting o.customer

let tell o =
  Printf.printf "order %d %S %.17g %b %C %.17g\n" o.id o.customer o.price o.rush o.grade (value o)

let () =
  print_endline "ready";
  ignore (read_line ());
  List.iter serve orders;
  Queue.iter (fun answer -> answer "end") waiting;
  List.iter
    (fun (text, is_true) ->
      Printf.printf "filter %d %s\n" (List.length (List.filter is_true orders)) text)
    filters;
  List.iter tell orders;
  Printf.printf "answers=%d\nsum=%d\n" !answers (List.fold_left (fun sum o -> sum + o.id) 0 orders);
  print_endline "end";
  try ignore (read_line ()) with End_of_file -> ()
