(* Answers lines, as target.c does, with calls of functions that have no probes:

     run N WHAT       nanoseconds of the processor for each of N calls of WHAT
     await on|off WHAT  waits until its calls cost a trap, or none *)

external cpu_ns : unit -> (float[@unboxed]) = "byte_unavailable" "bench_cpu_ns" [@@noalloc]

external read_clock_twice : unit -> unit = "bench_read_clock_twice" [@@noalloc]

let total = ref 0

(* The kernel emulates the jump that follows the comparison. *)
let[@inline never] cheap x = if x > 1_000_000_000 then total := 0 else total := !total + x

(* It has no instruction that the kernel emulates. *)
let[@inline never] dear x = total := !total + x

(* A minor heap with one block: an empty one is not collected. *)
let[@inline never] minor x =
  ignore (Sys.opaque_identity (ref x));
  Gc.minor ()

let[@inline never] slice x =
  ignore (Sys.opaque_identity (ref x));
  ignore (Gc.major_slice 1)

(* Its minor heap runs out some thousand times a second. *)
let[@inline never] allocate x = ignore (Sys.opaque_identity (Array.make 100 x))

module Numbers = Map.Make (Int)

(* Most programs allocate like this: small blocks, between other work; some survive. *)
let last = ref Numbers.empty

let[@inline never] tree x =
  let numbers = ref Numbers.empty in
  for i = 1 to 1000 do
    numbers := Numbers.add (((i + x) * 7919) land 0xffff) i !numbers
  done;
  last := !numbers

(* At the bottom of a stack of some thirty frames, for about a tenth of a millisecond. *)
let[@inline never] rec dive frames x =
  if frames = 0 then
    for i = 1 to 100_000 do
      total := !total lxor i
    done
  else begin
    dive (frames - 1) x;
    total := !total + x
  end

let deep x = dive 19 x

(* What the times of a call inside the process cannot do without. *)
let reads _ = read_clock_twice ()

let functions = [ "cheap", cheap; "dear", dear; "minor", minor; "slice", slice; "allocate", allocate; "deep", deep; "tree", tree; "reads", reads ]

let time n f =
  let start = cpu_ns () in
  for i = 1 to n do
    f i
  done;
  (cpu_ns () -. start) /. float_of_int n

(* Of several times the least, so that other load does not look like a trap. *)
let least_time f = List.fold_left min infinity (List.init 20 (fun _ -> time 20 f))

(* A trap costs 500 ns or more. *)
let rec await is_on f base left =
  if left = 0 then "timeout"
  else if least_time f > base +. 300. = is_on then "ok"
  else begin
    Unix.sleepf 0.002;
    await is_on f base (left - 1)
  end

let () =
  let bases = List.map (fun (name, f) -> name, least_time f) functions in
  try
    while true do
      print_endline
        (match String.split_on_char ' ' (read_line ()) with
        | [ "run"; n; name ] -> Printf.sprintf "%.2f" (time (int_of_string n) (List.assoc name functions))
        | [ "await"; state; name ] -> await (state = "on") (List.assoc name functions) (List.assoc name bases) 10_000
        | _ -> "what?")
    done
  with End_of_file -> ()
