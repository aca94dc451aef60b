(* Branches, loops, handlers, closures, functors, calls that are inlined. A line with `here __LINE__` counts
   itself: it is executed as often as ocaml-probes says, and those that are never executed say 0.
   (* at most *) stands where a compiler can leave out code, or mix it. *)
let[@inline never] here line = Marks.mark "lines.ml" line

exception Odd of int
exception Other

let if_else n =
  if n land 1 = 1 then
    (here __LINE__; n * 3 + 1)
  else if n land 3 = 2 then
    (here __LINE__; n / 2)
  else
    (here __LINE__; n - 1)

(* A jump table, whose jump the compiler gives the line of the first case. *)
let table n =
  match n mod 7 with
  | 0 -> here __LINE__; n
  | 1 -> here __LINE__; n + 2
  | 2 ->
    here __LINE__; n * n
  | 3 -> here __LINE__; n lsr 1
  | 4 -> here __LINE__; 4
  | _ -> here __LINE__; -n

type shape = Dot | Line of int | Box of int * int | Ball of float | Path of shape list

let rec size = function
  | Dot -> here __LINE__; 0
  | Line n -> here __LINE__; n
  | Box (w, h) when w = h ->
    here __LINE__; w * w
  | Box (w, h) ->
    here __LINE__; w * h
  | Ball r ->
    here __LINE__; int_of_float r
  | Path l ->
    here __LINE__;
    List.fold_left (fun all shape ->
      here __LINE__; all + size shape) 0 l

(* Tests of several patterns together: the number of each case is that of what is done. *)
let items l =
  match List.filter (fun n -> n > 1) l with
  | [ a; b ] -> here __LINE__; a + b
  | [ a ] -> here __LINE__; a
  | [] -> here __LINE__; 0
  | a :: _ when a > 9 -> here __LINE__; a
  | a :: _ -> here __LINE__; a
let number text =
  try here __LINE__; int_of_string text
  with Failure _ | Not_found -> here __LINE__; 0

let word = function
  | "one" -> here __LINE__; 1
  | "two" -> here __LINE__; 2
  | "three" | "drei" -> here __LINE__; 3
  | _ -> here __LINE__; 0

let rec raises depth n =
  if depth > 0 then begin
    let below = raises (depth - 1) n in
    here __LINE__; (* no call returns from an exception *)
    below + 1
  end else if n land 1 = 1 then begin
    here __LINE__; raise (Odd n)
  end else if n mod 10 = 4 then begin
    here __LINE__; raise Other
  end else begin
    here __LINE__; n
  end

let handles n =
  try
    here __LINE__;
    let deep = raises 10 n in
    here __LINE__; deep
  with
  | Odd m when m > 10 ->
    here __LINE__; m
  | Odd _ ->
    here __LINE__; 1
  | Other ->
    here __LINE__; 2

let loops n =
  let sum = ref 0 in
  for i = 1 to n do
    here __LINE__; sum := !sum + i
  done;
  for i = n downto 1 do
    for k = i to n do
      here __LINE__; sum := !sum + k
    done
  done;
  let i = ref 0 in
  while (here __LINE__; !i < n) do
    here __LINE__; incr i;
    if !i mod 3 = 0 then
      (here __LINE__; sum := !sum - 1)
  done;
  !sum

let rec tail n all =
  here __LINE__;
  if n = 0 then (
    here __LINE__; all
  ) else
    tail (n - 1) (all + n)

let rec fib n =
  here __LINE__;
  if n < 2 then n else fib (n - 1) + fib (n - 2)

let closures n =
  let add = fun k ->
    here __LINE__; n + k in
  let twice f x =
    here __LINE__; f (f x) in
  let partial = List.map (twice add) in
  here __LINE__; List.length (partial [ 1; 2; n ])

module type Number = sig val value : int end
module Make (N : Number) = struct
  let scale n =
    here __LINE__; n * N.value
  let shrink n =
    if n > N.value then ( (* at most *)
      here __LINE__; n - N.value
    ) else (
      here __LINE__; n
    )
end
module Two = Make (struct let value = 2 end)
module Nine = Make (struct let value = 9 end)

(* Inlined: three times, and twice in a row. *)
let[@inline] small n =
  here __LINE__; n * 3 + 1
let[@inline] in_a_row n =
  here __LINE__; n * 5 + 1 (* at most *)

let inlines n =
  let a = small n in
  here __LINE__;
  let b = small a + in_a_row (in_a_row n) in
  if b land 1 = 0 then
    (here __LINE__; small b)
  else
    (here __LINE__; b)

let[@inline never] pass n = n

(* The compiler comes back to these lines. Each is executed once a call. *)
let interleaved n =
  here __LINE__; let all = pass n
  |> ( + ) (pass 1)
  |> pass
  |> ( + ) (pass 2) in
  let list = [
    (here __LINE__; pass n);
    (here __LINE__; pass 2);
    (here __LINE__; pass all) ] in
  let text = (here __LINE__; string_of_int (pass n)) ^
    (here __LINE__; string_of_int (pass 3)) ^ "!" in
  here __LINE__; String.length text + List.length list

let never n =
  here __LINE__; n

let all n =
  let sum = ref 0 in
  let add k = sum := !sum + k in
  for i = 1 to n do
    add (if_else i);
    add (table i);
    add (size (Path [ Dot; Line i; Box (i, 3); Box (3, i); Ball 2.; Path [ Dot; Dot ] ]));
    List.iter (fun w -> add (word w)) [ "one"; "three"; "drei"; "none" ];
    add (items [ i mod 3; i mod 2; 5 ] + items [ i; 7; 8 ] + items [ i mod 2 ]);
    add (number (if i mod 3 = 0 then "x" else "12"));
    add (handles i);
    add (loops (i mod 5));
    add (tail (i mod 4) 0);
    add (fib (i mod 9));
    add (closures i);
    add (Two.scale i + Two.shrink i + Nine.scale i + Nine.shrink i + Nine.shrink 1);
    add (inlines i);
    add (interleaved i)
  done;
  if !sum = 42 then add (never 1);
  !sum

let () =
  let n = int_of_string Sys.argv.(1) in
  print_endline "ready";
  ignore (read_line ());
  let sum = all n in
  here __LINE__;
  Printf.printf "sum %d\n" sum;
  Marks.print ()

let () = print_endline "end"
let () = if Array.length Sys.argv > 2 then ignore (read_line ())
