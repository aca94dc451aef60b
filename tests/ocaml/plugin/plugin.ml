(* A plugin with a probe of its own, and one of the same name as its host's. *)

let round () =
  [%probe "plugin_only" (incr Plugin_api.in_plugin)];
  [%probe "reused" (incr Plugin_api.in_plugin)]

let () = Plugin_api.round := round
