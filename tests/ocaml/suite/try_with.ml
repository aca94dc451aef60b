(* Probes inside and around try: in the body, in the exception handler, a whole try in the probe's
   handler, and a body that is nothing but the probe. *)
open Suite

exception Odd of int

let[@inline never] body x =
  try
    [%probe "in_body" (note "body %d" x)];
    if x land 1 = 1 then raise (Odd x);
    x
  with Odd y ->
    [%probe "in_handler_of_try" (note "odd %d" y)];
    y - 1

let[@inline never] try_in_handler x =
  [%probe "try_in_handler"
    (try if x > 5 then raise (Odd x) else note "small %d" x with
    | Odd y -> note "caught %d" y)];
  x

let[@inline never] only_probe x =
  (try [%probe "only_probe" (if x = 3 then raise Not_found)] with Not_found -> note "not found");
  x

let[@inline never] finally x =
  Fun.protect
    ~finally:(fun () -> [%probe "in_finally" (note "finally %d" x)])
    (fun () -> [%probe "protected" (note "protected %d" x)]; x * 2)

let[@inline never] nested x =
  try
    try
      [%probe "deep" (note "deep")];
      if x > 0 then raise (Odd x) else raise Exit
    with Odd y when y > 10 -> [%probe "filtered" (note "filtered")]; y
  with
  | Odd y -> [%probe "outer_handler" (note "outer %d" y)]; -y
  | Exit -> [%probe "exit" (note "exit")]; 0

let () =
  run (fun () ->
      say "body %d %d" (body 4) (body 5);
      say "handler %d" (try_in_handler 3 + try_in_handler 8);
      say "only %d" (only_probe 3);
      say "finally %d" (finally 4);
      List.iter (fun x -> say "nested %d" (nested x)) [ 20; 5; 0 ])

(*expected
> body 5
> odd 5
> body 4
body 4 4
> caught 8
> small 3
handler 11
> not found
only 3
> protected 4
> finally 4
finally 8
> deep
> filtered
nested 20
> deep
> outer 5
nested -5
> deep
> exit
nested 0
*)
