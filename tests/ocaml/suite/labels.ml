(* Labels and optional arguments: probes in defaults, in functions whose arguments were erased,
   and that look at optional arguments. *)
open Suite

let[@inline never] greet ?(greeting = [%probe "default" (note "default")]; "hello") ?name ~times () =
  [%probe "optional" (note "%s, %d times" (Option.value name ~default:"nobody") times)];
  let name = match name with Some n -> " " ^ n | None -> "" in
  String.concat " " (List.init times (fun _ -> greeting)) ^ name

let[@inline never] apply (f : a:int -> b:int -> int) = f ~b:1 ~a:2
let[@inline never] wrapped ?x y = greet ?name:x ~times:y ()

let[@inline never] shadow ?(x = 1) () =
  let x = x + 1 in
  [%probe "shadowed" (let x = x * 100 in note "x is %d" x)];
  x

let () =
  run (fun () ->
      say "%s" (greet ~times:2 ());
      say "%s" (greet ~greeting:"hi" ~name:"Ann" ~times:1 ());
      say "%d" (apply (fun ~a ~b -> [%probe "commuted" (note "%d - %d" a b)]; a - b));
      say "%s" (wrapped ~x:"Bob" 1);
      say "%d" (shadow () + shadow ~x:5 ());
      say "%s" (List.fold_left (fun s f -> s ^ f ()) "" [ (fun () -> greet ~times:1 ()) ]))

(*expected
> default
> nobody, 2 times
hello hello
> Ann, 1 times
hi Ann
> 2 - 1
1
> default
> Bob, 1 times
hello Bob
> x is 600
> x is 200
8
> default
> nobody, 1 times
hello
*)
