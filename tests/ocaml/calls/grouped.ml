(* SPDX-License-Identifier: MIT *)
(* Calls that are grouped by an argument: grouped ROUNDS THREADS DOMAINS prints "ready", waits for a line, and makes so many
   rounds in each thread and domain. Then it prints its books, "value NAME VALUE CALLS", and waits for another line or the
   end of stdin. A VALUE that is not an int is "?". *)

exception Escape

let counter = ref 0

let[@inline never] pick n flag = counter := !counter + n; if flag then print_string ""
let[@inline never] second text n = counter := !counter + 1; if n = max_int then print_string text
let[@inline never] some x = counter := !counter + 1; if x == Obj.repr "" then print_string ""

(* Exceptions end some of these calls. *)
let[@inline never] rec deep n =
  counter := !counter + 1;
  if n = 7 then raise Escape;
  if n > 0 then 1 + deep (n - 1) else 0

type books = (string * int option, int) Hashtbl.t

let note (books : books) name value =
  Hashtbl.replace books (name, value) (1 + Option.value ~default:0 (Hashtbl.find_opt books (name, value)))

let run rounds number (books : books) =
  for i = 0 to rounds - 1 do
    note books "pick" (Some (i mod 17 - 8)); pick (i mod 17 - 8) false;
    let wide = (i * 1_000_003) lxor (number lsl 40) in
    note books "second" (Some wide); second "" wide;
    if i mod 5 = 0 then begin note books "some" None; some (Obj.repr (ref i)) end
    else begin note books "some" (Some (i mod 3)); some (Obj.repr (i mod 3)) end;
    let top = i mod 11 in
    for n = top downto (if top >= 7 then 7 else 0) do note books "deep" (Some n) done;
    (try ignore (deep top) with Escape -> ());
    if i mod 100 = 0 then Thread.yield ()
  done

let () =
  let rounds = int_of_string Sys.argv.(1) and n_threads = int_of_string Sys.argv.(2) and n_domains = int_of_string Sys.argv.(3) in
  print_endline "ready";
  ignore (input_line stdin);
  let all = Array.init (n_threads + n_domains) (fun _ : books -> Hashtbl.create 100) in
  let threads = List.init n_threads (fun i -> Thread.create (fun () -> run rounds i all.(i)) ()) in
  let next = Mutex.create () and taken = ref n_threads in
  let join =
    Versioned.run_domains n_domains (fun () ->
      Mutex.lock next;
      let number = !taken in
      incr taken;
      Mutex.unlock next;
      run rounds number all.(number))
  in
  List.iter Thread.join threads;
  join ();
  let sums : books = Hashtbl.create 1000 in
  let add (name, value) n =
    Hashtbl.replace sums (name, value) (n + Option.value ~default:0 (Hashtbl.find_opt sums (name, value))) in
  Array.iter (Hashtbl.iter add) all;
  Hashtbl.iter
    (fun (name, value) n ->
      Printf.printf "value %s %s %d\n" name (match value with Some v -> string_of_int v | None -> "?") n)
    sums;
  print_endline "end";
  try ignore (input_line stdin) with End_of_file -> ()
