(* deep DEPTH: prints "ready", and works for ever below DEPTH calls of a function by itself. *)

let rec work () =
  if Sys.opaque_identity true then work ()

let rec call depth =
  if depth > 1 then begin
    call (depth - 1);
    ignore (Sys.opaque_identity depth)
  end
  else work ()

let () =
  print_endline "ready";
  call (int_of_string Sys.argv.(1))
