(* Threads pass a hundred sites of one probe without end, and check what comes out.

     hundred THREADS

   "check" on stdin: print "ok" when each thread has passed all sites twice since. "quit" ends it. A wrong result
   ends it with status 3. *)

let n_threads = int_of_string Sys.argv.(1)
let runs = ref 0
let rounds = Array.make n_threads 0
let[@inline always] hit x = [%probe "hit" ~args:(x) (incr runs)]; x + 1

let[@inline always] ten x =
  let x = hit x in
  let x = hit x in
  let x = hit x in
  let x = hit x in
  let x = hit x in
  let x = hit x in
  let x = hit x in
  let x = hit x in
  let x = hit x in
  hit x

let[@inline never] hundred x =
  let x = ten x in
  let x = ten x in
  let x = ten x in
  let x = ten x in
  let x = ten x in
  let x = ten x in
  let x = ten x in
  let x = ten x in
  let x = ten x in
  ten x

let worker mine =
  while true do
    let list = List.init 10 (fun i -> hundred i) in
    if List.fold_left ( + ) 0 list <> 1045 then begin
      print_endline "a wrong result";
      exit 3
    end;
    rounds.(mine) <- rounds.(mine) + 1;
    if mine = 0 then Thread.yield () else Thread.delay 0.0005;
    if rounds.(mine) land 31 = 0 then Thread.delay 0.0005
  done

let check () =
  let before = Array.copy rounds in
  Array.iteri
    (fun i n ->
      while rounds.(i) < n + 2 do
        Thread.delay 0.0005
      done)
    before;
  print_endline "ok"

let rec serve () =
  match input_line stdin with
  | "check" -> check (); serve ()
  | "quit" | (exception End_of_file) -> exit 0
  | _ -> serve ()

(* Tools that call into a process mostly take its first thread. *)
let () =
  for i = 1 to n_threads - 1 do
    ignore (Thread.create worker i)
  done;
  ignore (Thread.create serve ());
  print_endline "ready";
  worker 0
