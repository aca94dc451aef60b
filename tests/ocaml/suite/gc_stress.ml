(* Handlers that allocate, promote, compact, while the function around them is in the middle of
   building a structure; and what they have kept is intact later. *)
open Suite

let kept : (int * string) list ref = ref []
let total = ref 0

let[@inline never] build n =
  let rec go i acc =
    if i = 0 then acc
    else begin
      let cell = ref (string_of_int i) in
      [%probe "building"
        (kept := (i, "kept " ^ !cell) :: !kept;
         ignore (Sys.opaque_identity (Array.make 300 cell)))];
      go (i - 1) (cell :: acc)
    end
  in
  go n []

let[@inline never] collect x =
  let before = [ x; x ^ "!" ] in
  [%probe "minor" (Gc.minor ())];
  let during = "." :: before in
  [%probe "major" (Gc.full_major ())];
  let after = Array.of_list during in
  [%probe "slice" (ignore (Gc.major_slice 1000))];
  String.concat "" (Array.to_list after)

let[@inline never] old_to_young () =
  let table = Array.make 100 [] in
  for i = 0 to 999 do
    table.(i mod 100) <- i :: table.(i mod 100);
    [%probe "table" (table.(i mod 100) <- List.rev (List.rev table.(i mod 100)))]
  done;
  Array.iter (List.iter (fun x -> total := !total + x)) table

let () =
  run (fun () ->
      kept := [];
      total := 0;
      let cells = build 200 in
      say "cells %d" (List.fold_left (fun n c -> n + String.length !c) 0 cells);
      say "%s" (collect "x");
      old_to_young ();
      say "total %d" !total;
      let good = List.filter (fun (i, s) -> s = "kept " ^ string_of_int i) !kept in
      say "spoiled %d" (List.length !kept - List.length good);
      count "kept" (List.length good))

(*expected
cells 492
.xx!
total 499500
spoiled 0
# kept 200
*)
