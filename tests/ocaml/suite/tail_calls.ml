(* A probe before a tail call, in tail position itself, and with a tail call in its handler. *)
open Suite

let hits = ref 0

let rec sum acc n =
  [%probe "before_tail_call" (incr hits)];
  if n = 0 then acc else sum (acc + n) (n - 1)

let rec tail n = if n > 0 then tail (n - 1) else [%probe "in_tail_position" (note "bottom %d" n)]
let[@inline never] report x = note "reported %d" x
let[@inline never] handler_tail x = [%probe "handler_is_a_tail_call" (report (x * 2))]

let[@inline never] both x =
  if x > 2 then [%probe "then" (report x)] else [%probe "else" (report (-x))]

(* So many arguments that some are passed in memory. *)
let rec many a b c d e f g h i j k l =
  [%probe "many_arguments" (incr hits)];
  if a = 0 then b + c + d + e + f + g + h + i + j + k + l
  else many (a - 1) c d e f g h i j k l (b + 1)

let () =
  run (fun () ->
      hits := 0;
      say "sum %d" (sum 0 1000);
      tail 10;
      handler_tail 21;
      both 3;
      both 2;
      say "many %d" (many 50 1 2 3 4 5 6 7 8 9 10 11);
      count "hits" !hits)

(*expected
sum 500500
> bottom 0
> reported 42
> reported 3
> reported -2
many 116
# hits 1052
*)
