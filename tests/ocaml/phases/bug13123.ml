(* SPDX-License-Identifier: MIT *)
(* The program of OCaml's bug 13123, written anew: beside a large array, a thread sleeps for short times,
   while the first thread collects everything again and again. bug13123 ROUNDS prints "ready", waits for a
   line, and prints how often it called its functions. *)

let large = Array.make 1_000_000 (Some 0)
let collections = ref 0
let sleeps = ref 0
let stop = ref false

let[@inline never] collect () =
  incr collections;
  Gc.full_major ()

let[@inline never] doze () =
  incr sleeps;
  Thread.delay 0.0005

let[@inline never] doze_on () = while not !stop do doze () done

let[@inline never] fill round =
  for i = 0 to 9_999 do
    large.(i * 100) <- Some (round + i)
  done

let () =
  print_endline "ready";
  ignore (input_line stdin);
  let sleeper = Thread.create doze_on () in
  for round = 1 to int_of_string Sys.argv.(1) do
    fill round;
    collect ()
  done;
  stop := true;
  Thread.join sleeper;
  Printf.printf "collect %d\ndoze %d\ndoze_on 1\nfill %s\n%!" !collections !sleeps Sys.argv.(1)
