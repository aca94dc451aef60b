(* Requests that one thread begins and another ends, with arguments, and the program's own book-keeping
   of what tools find out by looking at them.

     requests N

   Prints "ready" and waits for a line; then N requests, numbered from 0, are served; then it says what
   it did and stays until another line or the end of stdin.

     request_start ID METHOD NAME   ID an int, NAME a string of its own for each ID
     request_stop  ID STATUS NAME   in another thread
     number        N TEXT           N positive and negative, TEXT what no terminal should get to see

   Every 10th request is begun twice, of 20 one is never ended, and of 7 one is ended twice. At most
   max_begun requests wait for their end, so that a tool has room for them. *)

let n_requests = int_of_string Sys.argv.(1)

type request = { id : int; name : string }

let max_begun = 1000
let begun : request Queue.t = Queue.create ()
let mutex = Mutex.create ()
let changed = Condition.create ()

let put request =
  Mutex.lock mutex;
  while Queue.length begun >= max_begun do
    Condition.wait changed mutex
  done;
  Queue.push request begun;
  Condition.signal changed;
  Mutex.unlock mutex

let rec take () =
  if Queue.is_empty begun then begin
    Condition.wait changed mutex;
    take ()
  end
  else begin
    Condition.signal changed;
    Queue.pop begun
  end

let starts = ref 0
let stops = ref 0
let pairs = ref 0
let orphan_starts = ref 0
let orphan_stops = ref 0
let gets_above_100 = ref 0
let sum = ref 0
let smallest = ref max_int
let largest = ref min_int
let negative = ref 0

let[@inline never] start id meth name =
  [%probe "request_start" ~args:(id, meth, name) ()];
  incr starts;
  if id > 100 && meth = "GET" then incr gets_above_100

let[@inline never] stop id status name =
  [%probe "request_stop" ~args:(id, status, name) ()];
  incr stops

let[@inline never] number n text =
  [%probe "number" ~args:(n, text) ()];
  sum := !sum + n;
  smallest := min !smallest n;
  largest := max !largest n;
  if n < 0 then incr negative

let is_ended id = id mod 20 <> 3

let begin_requests () =
  for id = 0 to n_requests - 1 do
    let meth = if id mod 3 = 0 then "POST" else "GET" and name = Printf.sprintf "request %d" id in
    start id meth name;
    if id mod 10 = 0 then begin
      start id meth name;
      incr orphan_starts
    end;
    let text = Printf.sprintf "\027]0;%d\007\r\127\155[2J\xc2\x9b31m\xe2\x80\xae" id in
    number (if id land 1 = 0 then id else -3 * id) text;
    put { id; name }
  done

let end_requests () =
  for _ = 1 to n_requests do
    Mutex.lock mutex;
    let { id; name } = take () in
    Mutex.unlock mutex;
    if is_ended id then begin
      stop id 200 name;
      incr pairs
    end;
    if is_ended id && id mod 7 = 2 then begin
      stop id 500 name;
      incr orphan_stops
    end
  done

let () =
  print_endline "ready";
  ignore (input_line stdin);
  let ending = Thread.create end_requests () in
  begin_requests ();
  Thread.join ending;
  Printf.printf "starts=%d\nstops=%d\npairs=%d\norphan_starts=%d\norphan_stops=%d\nopen=%d\n" !starts
    !stops !pairs !orphan_starts !orphan_stops
    (!starts - !pairs - !orphan_starts);
  Printf.printf "gets_above_100=%d\nsum=%d\nsmallest=%d\nlargest=%d\nnegative=%d\nend\n%!"
    !gets_above_100 !sum !smallest !largest !negative;
  try ignore (input_line stdin) with End_of_file -> ()
