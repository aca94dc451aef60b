(* Probes in the code of the module's initialisation: between definitions, in a loop, in
   submodules, in the initialiser of a value. *)
open Suite

let hits = ref 0

let value =
  [%probe "in_definition" (note "defining")];
  17

module Inner = struct
  let () = [%probe "in_submodule" (incr hits)]
  let list = List.map (fun x -> [%probe "in_initialiser" (note "element %d" x)]; x * x) [ 1; 2; 3 ]
end

let pair, (_ : int list) = [%probe "in_pattern" (note "pattern")]; (1, 2), []
;;

[%probe "item" (note "item of the structure")]
;;

say "value %d" value;
say "list %s" (String.concat " " (List.map string_of_int Inner.list));
say "pair %d" (fst pair)

(* The first round is what came above and one turn of this loop; the others are turns. Its results are
   the same, so the part above is written again. *)
let first = ref true

let () =
  while again () do
    if not !first then begin
      hits := 0;
      [%probe "in_definition" (note "defining")];
      [%probe "in_submodule" (incr hits)];
      for x = 1 to 3 do
        [%probe "in_initialiser" (note "element %d" x)]
      done;
      [%probe "in_pattern" (note "pattern")];
      [%probe "item" (note "item of the structure")];
      say "value %d" value;
      say "list %s" (String.concat " " (List.map string_of_int Inner.list));
      say "pair %d" (fst pair)
    end;
    first := false;
    [%probe "in_loop" (note "loop %d" value)];
    count "in_submodule" !hits
  done

(*expected
> defining
> element 1
> element 2
> element 3
> pattern
> item of the structure
value 17
list 1 4 9
pair 1
> loop 17
# in_submodule 1
*)
