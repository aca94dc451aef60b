(* An index that never changes in place: each insertion makes new nodes, which live for long, so the collector copies
   and marks them. *)

module Index = Map.Make (Int)

let size = 200_000

let[@inline never] insert index key = Index.add key key index
let[@inline never] forget index key = Index.remove key index

(* The keys come in no order. *)
let key n = n * 7919 land 0xfffff

let rec run index n = run (forget (insert index (key n)) (key (n - size))) (n + 1)
let () = run Index.empty 0
