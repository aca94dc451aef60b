(* How often each marked line was executed, by the program's own count. *)
let counts : (string, int ref) Hashtbl.t = Hashtbl.create 64

let[@inline never] mark file line =
  let key = file ^ ":" ^ string_of_int line in
  match Hashtbl.find_opt counts key with
  | Some n -> incr n
  | None -> Hashtbl.add counts key (ref 1)

let print () =
  Hashtbl.fold (fun key n all -> (key, !n) :: all) counts []
  |> List.sort compare
  |> List.iter (fun (key, n) -> Printf.printf "mark %s %d\n" key n)
