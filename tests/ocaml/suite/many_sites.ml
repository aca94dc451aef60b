(* Domains pass 2 200 sites of one probe without end, and check what comes out. Not a round of the suite:
   tests/e2e/stores_kills.sh starts it.

     many_sites DOMAINS

   "check" on stdin: print "ok" when each domain has passed all sites twice since. "quit" ends it. A wrong
   result ends it with status 3. *)
(*suite: needs 5 *)

let n_domains = int_of_string Sys.argv.(1)
let runs = Atomic.make 0
let rounds = Array.init n_domains (fun _ -> Atomic.make 0)
let[@inline always] hit x = [%probe "hit" ~args:(x) (Atomic.incr runs)]; x + 1

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

let[@inline always] hundred x =
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

let[@inline always] two_hundred x = hundred (hundred x)

let functions =
  [ (fun x -> two_hundred x); (fun x -> two_hundred x); (fun x -> two_hundred x);
    (fun x -> two_hundred x); (fun x -> two_hundred x); (fun x -> two_hundred x);
    (fun x -> two_hundred x); (fun x -> two_hundred x); (fun x -> two_hundred x);
    (fun x -> two_hundred x); (fun x -> two_hundred x) ]

let worker mine () =
  while true do
    (* Strings and lists of each round are garbage afterwards: all domains meet for collections. *)
    let words = List.init 20 string_of_int in
    let sum = List.fold_left (fun x f -> f x) 0 functions in
    if sum <> 2200 || List.length words <> 20 then begin
      print_endline "a wrong result";
      exit 3
    end;
    Atomic.incr rounds.(mine);
    if mine > 0 || Atomic.get rounds.(mine) land 31 = 0 then Unix.sleepf 0.0005
  done

let check () =
  let before = Array.map Atomic.get rounds in
  Array.iteri
    (fun i n ->
      while Atomic.get rounds.(i) < n + 2 do
        Unix.sleepf 0.0005
      done)
    before;
  print_endline "ok"

let rec serve () =
  match input_line stdin with
  | "check" -> check (); serve ()
  | "quit" -> exit 0
  | _ -> serve ()

let () =
  for mine = 0 to n_domains - 1 do
    ignore (Domain.spawn (worker mine))
  done;
  print_endline "ready";
  serve ()
