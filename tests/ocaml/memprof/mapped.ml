(* Maps a file of a MiB, then allocates, as often as it is told to: from OCaml 5.4 on, the file is a source of its own. *)

let[@inline never] map path =
  let file = Unix.(openfile path [ O_RDWR; O_CREAT ] 0o600) in
  ignore (Sys.opaque_identity (Unix.map_file file Bigarray.char Bigarray.c_layout true [| 1 lsl 20 |]));
  Unix.close file

let[@inline never] allocate () =
  for i = 1 to 100_000 do
    ignore (Sys.opaque_identity (ref i))
  done

let () =
  print_endline "ready";
  let rec go () =
    match read_line () with
    | "go" ->
        map Sys.argv.(1);
        allocate ();
        print_endline "done";
        go ()
    | _ | (exception End_of_file) -> ()
  in
  go ()
