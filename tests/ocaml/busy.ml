(* Does the same thing as fast as it can, until it is killed:

     busy calls   calls the function `step`
     busy hits    passes the probe `hit`
     busy spins   does neither

   or does what it is told:

     busy told    passes the probe `begins` at each line "begin" and `ends` at each other one, and tells how often the
                  handlers of both have run

   About ten times a second a line tells how often it did that in a second of its CPU time: "rate N". *)

let[@inline never] step x = x + 1

let[@inline never] pass x =
  [%probe "hit" (ignore x)];
  x + 1

let chunk = 10_000

let calls n =
  for _ = 1 to chunk do
    n := step !n
  done

let hits n =
  for _ = 1 to chunk do
    n := pass !n
  done

let spins n =
  for _ = 1 to chunk do
    n := Sys.opaque_identity (!n + 1)
  done

let begins = ref 0
let ends = ref 0

let rec be_told () =
  (match read_line () with
   | "begin" -> [%probe "begins" (incr begins)]
   | _ -> [%probe "ends" (incr ends)]);
  Printf.printf "begins %d ends %d\n%!" !begins !ends;
  be_told ()

let () =
  if Sys.argv.(1) = "told" then begin
    print_endline "ready";
    be_told ()
  end;
  let work = match Sys.argv.(1) with "calls" -> calls | "hits" -> hits | _ -> spins in
  let n = ref 0 and before = ref 0 and cpu = ref (Sys.time ()) in
  print_endline "ready";
  while true do
    work n;
    let now = Sys.time () in
    if now -. !cpu >= 0.1 then begin
      Printf.printf "rate %.0f\n%!" (float (!n - !before) /. (now -. !cpu));
      before := !n;
      cpu := now
    end
  done
