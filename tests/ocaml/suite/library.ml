(* Probes in a library: inlined here, in a functor applied here, asked about there, and a probe
   here of the same name as one there. *)
(*suite: library stock.ml *)
open Suite

module Apples = Stock.Store (struct let name = "apples" end)

let[@inline never] twice net =
  let a = Stock.price ~net in
  let b = Stock.price ~net:(a + 1) in
  a + b

let () =
  Stock.log := note "%s";
  run (fun () ->
      Apples.n := 0;
      say "total %d" (Stock.total [ 2, 10; 1, 50 ]);
      say "twice %d" (twice 100);
      [%probe "price" (note "own")];
      say "apples %d" (Apples.add 3);
      count "enabled" (if Stock.enabled () then 1 else 0))

(*expected
> item 2
> net 10
> item 1
> net 50
total 84
> net 100
> net 121
twice 265
> own
> apples + 3
apples 3
# enabled 1
*)
