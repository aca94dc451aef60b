(* Continuation-passing style: every call is a tail call of an unknown function, and probes stand
   before, in and after them. *)
open Suite

let hits = ref 0
let rec fib n k =
  [%probe "fib" (incr hits)];
  if n < 2 then k n
  else
    fib (n - 1) (fun a ->
        [%probe "after_first" (incr hits)];
        fib (n - 2) (fun b -> k (a + b)))

type 'a parser = string -> int -> ('a -> int -> string) -> (unit -> string) -> string

let char p : char parser =
 fun s i ok fail ->
  if i < String.length s && p s.[i] then begin
    [%probe "accept" (note "%c" s.[i])];
    ok s.[i] (i + 1)
  end
  else begin
    [%probe "reject" (note "no %d" i)];
    fail ()
  end

let either (a : 'a parser) (b : 'a parser) : 'a parser =
 fun s i ok fail ->
  a s i ok (fun () ->
      [%probe "backtrack" (note "back to %d" i)];
      b s i ok fail)

let rec many (a : char parser) : string parser =
 fun s i ok fail ->
  a s i
    (fun c i -> many a s i (fun cs i -> ok (String.make 1 c ^ cs) i) fail)
    (fun () -> ok "" i)

let parse p s = p s 0 (fun x i -> [%probe "done" (note "done at %d" i)]; x) (fun () -> "failure")
let digit = char (fun c -> c >= '0' && c <= '9')
let minus = char (fun c -> c = '-')

let () =
  run (fun () ->
      hits := 0;
      say "%d" (fib 12 Fun.id);
      say "%s" (parse (many (either digit minus)) "1-2x");
      count "hits" !hits)

(*expected
144
> 1
> no 1
> back to 1
> -
> 2
> no 3
> back to 3
> no 3
> done at 3
1-2
# hits 697
*)
