(* The function that the handlers in the patches call. At its end the program writes to the file $PROBE_LOG how
   often handlers ran, in how many probes, and for how many of the runs the record of their arguments is no
   longer intact. *)

let runs = ref 0
let last : (string, int * int list) Hashtbl.t = Hashtbl.create 16

let hit name value =
  incr runs;
  Hashtbl.replace last name (value, [ value; !runs; value lxor !runs ])

let spoilt () =
  Hashtbl.fold
    (fun _ (value, kept) n ->
      match kept with
      | [ v; run; mixed ] when v = value && mixed = value lxor run -> n
      | _ -> n + 1)
    last 0

let () =
  at_exit (fun () ->
      match Sys.getenv_opt "PROBE_LOG" with
      | None -> ()
      | Some file ->
        let log = open_out file in
        Printf.fprintf log "%d runs of %d probes, %d spoilt\n" !runs (Hashtbl.length last) (spoilt ());
        close_out log)
