(* Probes in lazy values, forced by the program, by a handler, twice, and with an exception. *)
open Suite

let hits = ref 0

let rec primes n =
  lazy ([%probe "stream" (incr hits)];
        if is_prime n then `Cons (n, primes (n + 1)) else Lazy.force (primes (n + 1)))

and is_prime n = not (List.exists (fun d -> n mod d = 0) (List.init (n - 2) (fun i -> i + 2)))

let rec take n s = if n = 0 then [] else match Lazy.force s with `Cons (x, s) -> x :: take (n - 1) s

let[@inline never] forced_by_handler () =
  let computed = ref 0 in
  let l = lazy (incr computed; 42) in
  [%probe "forces" (note "forced %d" (Lazy.force l))];
  let value = Lazy.force l in
  say "computed %d time, %d" !computed value

let[@inline never] fails () =
  let tries = ref 0 in
  let l = lazy ([%probe "failing" (note "failing")]; incr tries; failwith "never") in
  (try ignore (Lazy.force l) with Failure _ -> ());
  (try ignore (Lazy.force l : int) with Failure what -> say "%s" what);
  say "tries %d" !tries

let[@inline never] pattern = function
  | (lazy x), _ when x > 1 -> [%probe "lazy_pattern" (note "pattern %d" x)]; x
  | _, (lazy y) -> y

let () =
  run (fun () ->
      hits := 0;
      say "%s" (String.concat " " (List.map string_of_int (take 8 (primes 2))));
      forced_by_handler ();
      fails ();
      say "%d" (pattern (lazy ([%probe "in_lazy" (note "thunk")]; 5), lazy 6));
      count "stream" !hits)

(*expected
2 3 5 7 11 13 17 19
> forced 42
computed 1 time, 42
> failing
never
tries 1
> thunk
> pattern 5
5
# stream 18
*)
