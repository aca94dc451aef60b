(* Probes in a plugin (.cmxs) that the program loads: the plugin's own, and one of a name that the
   program has, too. *)
(*suite: plugin plugged.ml *)
open Suite

let[@inline never] own x = [%probe "reused" (note "the program's %d" x)]; x + 1
let () = Dynlink.loadfile (Filename.concat (Sys.executable_name ^ ".obj") "plugged.cmxs")

let () =
  run (fun () ->
      say "%d" (own 3);
      say "%d" (!plugged 4);
      count "enabled" (if [%probe_is_enabled "reused"] then 1 else 0))

(*expected
> the program's 3
4
> the plugin's 4
> the plugin's own 8
> in its loop 8
> in its loop 9
> in its loop 10
# plugin_enabled 1
34
# enabled 1
*)
