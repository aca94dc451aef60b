(* Weak arrays, ephemerons and weak hash sets, with collections in handlers that empty them. *)
open Suite

module H = Weak.Make (struct
  type t = string ref

  let equal a b = !a = !b
  let hash a = Hashtbl.hash !a
end)

let[@inline never] fill w =
  for i = 0 to Weak.length w - 1 do
    Weak.set w i (Some (ref i))
  done

let alive w = List.length (List.filter (Weak.check w) (List.init (Weak.length w) Fun.id))

let[@inline never] weak_array () =
  let w = Weak.create 10 in
  fill w;
  let kept = ref 77 in
  Weak.set w 3 (Some kept);
  [%probe "collects" (Gc.full_major ())];
  Gc.full_major ();
  let n = alive w in
  (match Weak.get w 3 with
  | Some r -> [%probe "alive" (note "alive %d" !r)]
  | None -> [%probe "dead" (note "dead")]);
  n + !(Sys.opaque_identity kept)

let[@inline never] kept_by_handler () =
  let w = Weak.create 1 and root = ref None in
  let block = ref (ref 5) in
  Weak.set w 0 (Some !block);
  [%probe "keeps" (root := Weak.get w 0)];
  block := ref 0;
  Gc.full_major ();
  let is_alive = Weak.check w 0 in
  ignore (Sys.opaque_identity (!root, !block));
  is_alive

let[@inline never] set () =
  let h = H.create 8 in
  let a = ref "a" in
  H.add h a;
  [%probe "merge" (note "%b" (H.merge h (ref "a") == a))];
  H.count h + String.length !(Sys.opaque_identity a)

let () =
  run (fun () ->
      say "%d" (weak_array ());
      say "%b" (kept_by_handler ());
      say "%d" (set ()))

(*expected
> alive 77
78
- false
+ true
> true
2
*)
