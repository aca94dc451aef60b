(* SPDX-License-Identifier: MIT *)
(* A program that counts the calls of its own functions. calls ROUNDS THREADS prints "ready", waits for
   a line if there are threads, makes the calls, until the next line if ROUNDS is 0, and prints a line for each function, see calls_stubs.c. A function counts its own
   calls by [hit]; where such a call would change what the compiler makes of the function, its callers
   count. "anonymous" is all functions without a name. *)
open Books

external opaque : 'a -> 'a = "%opaque"

(* ---- plain functions, closures, functors ---- *)

let[@inline never] plain x = hit "plain"; x + 1
let[@inline never] floating x y = hit "floating"; x *. y
let[@inline never] tupled (a, b) = hit "tupled"; a + b
let[@inline never] unit_to_unit () = hit "unit_to_unit"

let[@inline never] many a b c d e f g h i j k l =
  hit "many"; a + b + c + d + e + f + g + h + i + j + k + l

let[@inline never] unused a _b c = hit "unused"; a + c
let[@inline never] rec repeat f n = hit "repeat"; if n = 0 then 0 else f n + repeat f (n - 1)

let[@inline never] labelled ~x ?(y = 1) ?z () =
  hit "labelled_inner"; match z with None -> x + y | Some z -> x + y + z

let[@inline never] ( +++ ) a b = hit "(+++)"; a + b
let[@inline never] ( !? ) a = hit "(!?)"; a + 1
let[@inline never] primed' x = hit "primed'"; x + 1

let[@inline never] make_adder n = hit "make_adder"; fun[@inline never] x -> hit "anonymous"; x + n

module Make (X : sig val n : int end) = struct
  let () = hit "Make"
  let[@inline never] step x = hit "step"; x + X.n
  let[@inline never] twice x = hit "twice"; step (step x)
end [@@inline never]
module One = Make (struct let n = 1 end)
module Two = Make (struct let n = opaque 2 end)

(* Local functions of one name. *)
let[@inline never] local_a x =
  hit "local_a";
  let[@inline never] inner y = hit "inner"; hit "inner.1"; x + y in
  inner 1 + inner 2

let[@inline never] local_b x =
  hit "local_b";
  let[@inline never] inner y = hit "inner"; hit "inner.2"; x * y in
  inner 3 + inner 4

let[@inline never] same x = hit "same"; hit "same.1"; x + 1
let first_same = same
let[@inline never] same x = hit "same"; hit "same.2"; x + 2

class counter = object
  val mutable n = 0
  method bump = hit "anonymous"; n <- n + 1
  method read = hit "anonymous"; n
end

(* ---- what returns at once, loops, or jumps: their callers count them ---- *)

let[@inline never] leaf x = x + 1
let[@inline never] leaf_branch x = if x > 3 then x + 1 else x - 1

let[@inline never] leaf_match x =
  match x with 0 -> 7 | 1 -> 3 | 2 -> x + 9 | 3 -> 1 | 4 -> x * 8 | 5 -> 2 | 6 -> 0 | _ -> -x

let[@inline never] leaf_while x =
  let n = ref x in
  while !n > 0 do n := !n - 3 done;
  !n

let[@inline never] rec self_tail n acc = if n = 0 then acc else self_tail (n - 1) (acc + n)
let[@inline never] jumps x = leaf x
let[@inline never] jumps_unknown f x = f x
let[@inline never] constant () = 42

(* ---- recursion ---- *)

let[@inline never] rec fib n = hit "fib"; if n < 2 then n else fib (n - 1) + fib (n - 2)
let[@inline never] rec even n = hit "even"; if n = 0 then true else odd (n - 1)
and[@inline never] odd n = hit "odd"; if n = 0 then false else even (n - 1)
let[@inline never] rec ping n = hit "ping"; if n = 0 then 0 else 1 + pong (n - 1)
and[@inline never] pong n = hit "pong"; if n = 0 then 0 else 1 + ping (n - 1)

(* A tail call of itself is a loop: one call. *)
let[@inline never] rec looping n = if n = 0 then plain n else if n = 1 then looping 0 else looping (n - 2)

let[@inline never] tail_target x = hit "tail_target"; x + 1
let[@inline never] tail_caller x = hit "tail_caller"; tail_target x
let[@inline never] tail_unknown f x = hit "tail_unknown"; f x
let[@inline never] tail_many x = hit "tail_many"; many x 2 3 4 5 6 7 8 9 10 11 12

(* ---- exceptions ---- *)

exception Deep of int

let[@inline never] rec frames n = hit "frames"; if n = 0 then raise (Deep n) else 1 + frames (n - 1)
let[@inline never] catching n = hit "catching"; try frames n with Deep _ -> n
let[@inline never] raising x = hit "raising"; raise_notrace (Deep x)
let[@inline never] reraising x = hit "reraising"; try raising x with Deep n when n < 0 -> n
let[@inline never] failing a i = hit "failing"; (a : int array).(i)
let[@inline never] dividing a b = hit "dividing"; a / b

(* ---- partial and over-application ---- *)

let[@inline never] three a b c = hit "three"; a + b + c

let[@inline never] gives_function a =
  hit "gives_function";
  if a > 0 then fun[@inline never] b c -> hit "anonymous"; a + b + c else fun[@inline never] b c -> hit "anonymous"; b - c

let[@inline never] applied_to_two f = hit "applied_to_two"; f 1 2
let[@inline never] applied_to_three f = hit "applied_to_three"; f 1 2 3
let[@inline never] called_from_c x = hit "called_from_c"; x + 1
let[@inline never] compared a b = hit "compared"; compare (a : int) b
let[@inline never] lazily () = hit "lazily"; lazy (hit "anonymous"; 3)

let[@inline never] use (x : int) = hit "use"; ignore (opaque x)

let[@inline never] one_round i =
  hit "one_round";
  let int = use in
  int (plain i);
  ignore (opaque (floating 2. (float i)));
  int (tupled (i, 2));
  int ((opaque tupled) (opaque (i, 3)));
  unit_to_unit ();
  int (many 1 2 3 4 5 6 7 8 9 10 11 12);
  int ((opaque many) 1 2 3 4 5 6 7 8 9 10 11 12);
  int (unused i 2 3); int ((opaque unused) 1 2 3);
  int (repeat plain 2); int (repeat ( !? ) 3); int ((opaque repeat) plain 1);
  int (labelled ~x:i ()); int (labelled ~x:i ~y:2 ()); int (labelled ~x:i ~z:3 ());
  int (i +++ 1); int (List.fold_left (+++) 0 [1; 2; 3]);
  int !?i; int (primed' i);
  let f = make_adder i in
  int (f 1); int (f 2); int ((make_adder 2) 3);
  int (One.step i); int (One.twice i); int (Two.twice i);
  int (local_a i); int (local_b i); int (first_same i); int (same i);
  (* A function of the class makes the object. *)
  hit "anonymous";
  let o = new counter in
  o#bump; o#bump; int o#read;
  for j = 0 to 7 do
    hit "leaf"; int (leaf j);
    hit "leaf_branch"; int (leaf_branch j);
    hit "leaf_match"; int (leaf_match j);
    hit "leaf_while"; int (leaf_while j);
    hit "self_tail"; int (self_tail j 0);
    hit "looping"; int (looping j)
  done;
  hit "leaf"; hit "jumps"; int (jumps i);
  hit "jumps_unknown"; int (jumps_unknown (opaque plain) i);
  hit "constant"; int (constant ());
  int (fib 6); ignore (opaque (even 9)); int (ping 8);
  int (tail_caller i); int (tail_unknown (opaque plain) i); int (tail_many i);
  int (catching 10);
  (try int (reraising i) with Deep _ -> ());
  (try int (failing [| 1; 2 |] (opaque 2)) with Invalid_argument _ -> ());
  int (failing [| 1; 2 |] (opaque 1));
  (try int (dividing 1 (opaque 0)) with Division_by_zero -> ());
  let p = (opaque three) 1 in
  int (p 2 3); let q = p 2 in int (q 3); int (q 4);
  int (applied_to_two (fun[@inline never] b c -> hit "anonymous"; three 4 b c)); int (applied_to_three three);
  int (applied_to_three gives_function); int (gives_function 0 1 2);
  int (call called_from_c i);
  ignore (opaque (List.sort compared [3; 1; 2]));
  let l = lazily () in
  int (Lazy.force l + Lazy.force l);
  Versioned.one_round i

let stopped = Atomic.make false

let () =
  let rounds = int_of_string Sys.argv.(1) and threads = int_of_string Sys.argv.(2) in
  print_endline "ready";
  if threads > 0 then ignore (input_line stdin);
  let[@inline never] run () =
    hit "run";
    if rounds > 0 then for i = 1 to rounds do one_round i done
    else while not (Atomic.get stopped) do one_round 7 done in
  if threads <= 1 then run ()
  else begin
    let join = Versioned.run_domains threads run in
    let threads = List.init threads (fun _ -> hit "anonymous"; Thread.create (fun () -> hit "anonymous"; run ()) ()) in
    if rounds = 0 then begin
      ignore (input_line stdin);
      Atomic.set stopped true
    end;
    List.iter Thread.join threads;
    join ()
  end;
  print ()
