(* Probes in functions passed to the standard library: iterators, folds, sorting, maps, hash
   tables, sequences, queues. *)
open Suite

module M = Map.Make (struct
  type t = string

  let hits = ref 0
  let compare a b = [%probe "compare_keys" (incr hits)]; String.compare a b
end)

let compared = ref 0

let[@inline never] sorted l =
  List.sort (fun a b -> [%probe "sorting" (incr compared)]; compare b a) l

let[@inline never] sequence n =
  Seq.fold_left ( + ) 0
    (Seq.filter (fun x -> [%probe "filter" (if x = 5 then note "five")]; x land 1 = 1)
       (Seq.unfold
          (fun i ->
             [%probe "unfold" (if i = n then note "end of %d" n)];
             if i = n then None else Some (i, i + 1))
           0))

let[@inline never] table l =
  let t = Hashtbl.create 1 in
  List.iter (fun x ->
    [%probe "replace" (note "%d in it" (Hashtbl.length t))];
    Hashtbl.replace t (x mod 3) x) l;
  Hashtbl.fold (fun k v sum -> [%probe "fold" ()]; sum + (k * v)) t 0

let[@inline never] heapified n =
  let a = Array.init n (fun i -> (i * 7919) mod 1009) in
  Array.sort (fun a b -> [%probe "heap" (ignore (Sys.opaque_identity [ a; b ]))]; a - b) a;
  let ordered = ref true in
  Array.iteri (fun i x -> if i > 0 && a.(i - 1) > x then ordered := false) a;
  !ordered

let () =
  run (fun () ->
      compared := 0;
      let m = List.fold_left (fun m (k, v) -> M.add k v m) M.empty [ "b", 1; "a", 2; "c", 3 ] in
      say "%d" (M.fold (fun k v n -> [%probe "map" (note "%s: %d" k v)]; (n * 10) + v) m 0);
      say "%s" (String.concat " " (List.map string_of_int (sorted [ 3; 1; 2 ])));
      say "%d" (sequence 8);
      say "%d" (table [ 1; 2; 4; 5 ]);
      say "ordered %b" (heapified 500))

(*expected
> a: 2
> b: 1
> c: 3
213
3 2 1
> five
> end of 8
16
> 0 in it
> 1 in it
> 2 in it
> 2 in it
14
ordered true
*)
