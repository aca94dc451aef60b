(* Functions of many kilobytes, and handlers longer than a short jump reaches, inside loops whose
   branches are long as well. *)
open Suite

let hits = ref 0

let[@inline always] scramble x =
  let x = x lxor (x lsl 13) in
  let x = x lxor (x lsr 7) in
  let x = x lxor (x lsl 17) in
  (x * 0x9E3779B9) land 0xFFFFFFFFFFFF

let[@inline always] s4 x = scramble (scramble (scramble (scramble x)))
let[@inline always] s16 x = s4 (s4 (s4 (s4 x)))
let[@inline always] s64 x = s16 (s16 (s16 (s16 x)))

let[@inline never] long_body x =
  let y = s64 (s64 x) in
  [%probe "in_the_middle" (incr hits)];
  s64 (s64 y)

let[@inline never] long_handler x =
  let y = ref x in
  [%probe "long_handler" (y := s64 (s64 !y); y := s64 !y; incr hits)];
  !y

let[@inline never] long_loop n =
  let x = ref 1 in
  for i = 1 to n do
    if i land 1 = 0 then x := s64 !x
    else [%probe "long_branch" (if s64 (s64 !x) = s64 (s64 !x) then incr hits)];
    x := s16 !x
  done;
  !x

let[@inline never] both x =
  let a = s64 x in
  [%probe "outer"
    (if s64 (s64 a) >= 0 then begin
       [%probe "inner" (if s64 a >= 0 then incr hits)];
       incr hits
     end)];
  a

let () =
  run (fun () ->
      hits := 0;
      say "%x" (long_body 1);
      say "%x" (long_handler 2);
      say "%x" (long_loop 10);
      say "%x" (both 3);
      count "hits" !hits)

(*expected
564f8b8be67c
- 2
+ c8d0da61c1db
5f13ba29a29a
2acbfa2c521a
# hits 9
*)
