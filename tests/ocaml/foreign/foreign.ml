(* Works in OCaml that C++ calls, and raises there: C++ makes an exception of its own of it, and catches that
   some frames above. With OCaml 5 also in fibres and in a domain.

   foreign: prints "ready", and works until its input ends. *)

external guarded : (int -> int) -> int -> int = "foreign_guarded"

let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
let[@inline never] inside n = if fib (Sys.opaque_identity 18) > n then failwith "enough" else n
let[@inline never] work n = 1 + guarded (fun n -> 1 + inside n) n

let () =
  let has_ended = Atomic.make false in
  print_endline "ready";
  Marks.run
    (fun () ->
      while not (Atomic.get has_ended) do
        if work 5 <> 6 then exit 1
      done)
    (fun () ->
      (try ignore (input_line stdin) with End_of_file -> ());
      Atomic.set has_ended true)
