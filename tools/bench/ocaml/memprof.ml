(* Allocates, and answers lines:

     run N WHAT     nanoseconds of the processor for each of N calls of WHAT
     own RATE       starts a profile by itself, with five callbacks that do nothing
     stop           stops it
     rare           hardly allocates and never collects, until the program is killed
     busy           allocates once in ten seconds of the processor, until the program is killed *)

external cpu_ns : unit -> (float[@unboxed]) = "byte_unavailable" "bench_cpu_ns" [@@noalloc]

module Numbers = Map.Make (Int)

(* Most programs allocate like this: small blocks, between other work; some survive. *)
let last = ref Numbers.empty

let[@inline never] tree x =
  let numbers = ref Numbers.empty in
  for i = 1 to 1000 do
    numbers := Numbers.add (((i + x) * 7919) land 0xffff) i !numbers
  done;
  last := !numbers

(* Hardly anything but allocation. *)
let[@inline never] list x =
  let rec make list n = if n = 0 then list else make (x :: list) (n - 1) in
  ignore (Sys.opaque_identity (make [] 1000))

let functions = [ "tree", tree; "list", list ]

(* At the bottom of a stack of twenty frames more, as in a program. *)
let rec deep frames n f =
  if frames = 0 then
    for i = 1 to n do
      f i
    done
  else begin
    deep (frames - 1) n f;
    ignore (Sys.opaque_identity frames)
  end

let time n f =
  let start = cpu_ns () in
  deep 20 n f;
  (cpu_ns () -. start) /. float_of_int n

let empty_callbacks =
  let nothing () = () in
  let keep _ = Some () in
  {
    Gc.Memprof.alloc_minor = keep;
    alloc_major = keep;
    promote = (fun () -> Some ());
    dealloc_minor = nothing;
    dealloc_major = nothing;
  }

(* The depth is that of our tool. *)
let start_own rate =
  ignore (Sys.opaque_identity (Gc.Memprof.start ~sampling_rate:rate ~callstack_size:128 empty_callbacks))

let rec rare x =
  ignore (Sys.opaque_identity (ref x));
  Unix.sleepf 0.005;
  rare (x + 1)

let rec busy until =
  if cpu_ns () < until then busy until
  else begin
    ignore (Sys.opaque_identity (ref 0));
    busy (cpu_ns () +. 1e10)
  end

let () =
  try
    while true do
      print_endline
        (match String.split_on_char ' ' (read_line ()) with
        | [ "run"; n; name ] -> Printf.sprintf "%.2f" (time (int_of_string n) (List.assoc name functions))
        | [ "own"; rate ] ->
          start_own (float_of_string rate);
          "started"
        | [ "stop" ] ->
          Gc.Memprof.stop ();
          "stopped"
        | [ "rare" ] ->
          print_endline "ok";
          rare 0
        | [ "busy" ] ->
          print_endline "ok";
          busy 0.
        | _ -> "what?")
    done
  with End_of_file -> ()
