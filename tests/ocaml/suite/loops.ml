(* Probes in loops of every kind: for, downto, while, nested, with an early exit, and with a loop
   in the handler. *)
open Suite

let hits = ref 0

let[@inline never] nested n =
  let sum = ref 0 in
  for i = 1 to n do
    for j = n downto i do
      [%probe "inner" (incr hits)];
      sum := !sum + (i * j)
    done;
    [%probe "outer" (note "row %d: %d" i !sum)]
  done;
  !sum

let[@inline never] collatz n =
  let x = ref n and steps = ref 0 in
  while !x <> 1 do
    [%probe "while" (if !x > 30 then note "high: %d" !x)];
    x := if !x land 1 = 0 then !x / 2 else (3 * !x) + 1;
    incr steps
  done;
  !steps

let[@inline never] find a x =
  try
    for i = 0 to Array.length a - 1 do
      if a.(i) = x then raise_notrace Exit;
      [%probe "searching"
        (for j = 0 to i do
           if j = i then note "not at %d" j
         done)]
    done;
    false
  with Exit -> true

let () =
  run (fun () ->
      hits := 0;
      say "nested %d" (nested 4);
      say "collatz %d" (collatz 11);
      say "found %b" (find [| 3; 1; 4; 1; 5 |] 4);
      count "inner" !hits)

(*expected
> row 1: 10
> row 2: 28
> row 3: 49
> row 4: 65
nested 65
> high: 34
> high: 52
> high: 40
collatz 14
> not at 0
> not at 1
found true
# inner 10
*)
