(* Local exceptions: declared around the probe, in its handler, and used as a jump out of the
   handler. ocamlopt compiles some of them to jumps. *)
open Suite

let[@inline never] around x =
  let exception Out of int in
  try
    [%probe "around" (raise_notrace (Out (x + 1)))];
    x
  with Out y -> y * 100

let[@inline never] in_handler l =
  [%probe "in_handler"
    (let exception Found of int in
     match List.iter (fun x -> if x > 2 then raise_notrace (Found x)) l with
     | () -> note "none"
     | exception Found x -> note "found %d" x)];
  List.length l

let[@inline never] in_loop n =
  let exception Break in
  let i = ref 0 in
  (try
     while true do
       [%probe "in_loop" (if !i = 5 then note "at five")];
       if !i = n then raise_notrace Break;
       incr i
     done
   with Break -> ());
  !i

(* One exception, raised by two handlers. *)
let[@inline never] two x =
  let exception Two of string in
  try
    if x then [%probe "first" (raise_notrace (Two "first"))]
    else [%probe "second" (raise_notrace (Two "second"))];
    "none"
  with Two s -> s

let () =
  run (fun () ->
      say "around %d" (around 4);
      say "length %d" (in_handler [ 1; 2; 3 ]);
      say "loop %d" (in_loop 9);
      say "%s" (two true);
      say "%s" (two false))

(*expected
- around 4
+ around 500
> found 3
length 3
> at five
loop 9
- none
+ first
- none
+ second
*)
