(* A program without probes that counts the calls of its own functions:

     unprobed

   It takes these lines: `go N` calls `find` N times, `risky` N times, half of which raise, and `work`
   once, which takes two milliseconds. `threads N` does that in each of two threads, `fork N` in a child. `hold`
   stays in a call of `held` until the next line. `quit`, or the end of stdin, prints a line a
   function: NAME calls=N, without those of children. *)

let found = ref 0
let risks = ref 0
let works = ref 0
let holds = ref 0
let table = Array.init 64 (fun i -> i * i)

let[@inline never] find i =
  incr found;
  table.(i land 63)

let[@inline never] risky i =
  incr risks;
  if i land 1 = 1 then raise Not_found else find i

let[@inline never] work () =
  incr works;
  Unix.sleepf 0.002

let[@inline never] held () =
  incr holds;
  print_endline "held";
  let line = read_line () in
  print_endline "released";
  line

let go n =
  for i = 1 to n do
    ignore (Sys.opaque_identity (find i));
    match risky i with
    | v -> ignore (Sys.opaque_identity v)
    | exception Not_found -> ()
  done;
  work ()

let fork n =
  match Unix.fork () with
  | 0 ->
      go n;
      Unix._exit 0
  | pid -> ignore (Unix.waitpid [] pid)

let rec obey line =
  match String.split_on_char ' ' line with
  | [ "go"; n ] ->
      go (int_of_string n);
      print_endline "done"
  | [ "threads"; n ] ->
      List.iter Thread.join (List.init 2 (fun _ -> Thread.create go (int_of_string n)));
      print_endline "done"
  | [ "fork"; n ] ->
      fork (int_of_string n);
      print_endline "done"
  | [ "hold" ] -> obey (held ())
  | _ -> raise End_of_file

let () =
  print_endline "ready";
  try
    while true do
      obey (read_line ())
    done
  with End_of_file ->
    List.iter
      (fun (name, calls) -> Printf.printf "%s calls=%d\n" name calls)
      [ "find", !found; "held", !holds; "risky", !risks; "work", !works ]
