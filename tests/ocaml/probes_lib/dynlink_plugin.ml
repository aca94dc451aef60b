(* A plugin with a probe of its own, and one of the same name as its host's. *)

let () =
  Dynlink_api.round :=
    fun () ->
      [%probe "plugin_only" (incr Dynlink_api.in_plugin)];
      [%probe "reused" (incr Dynlink_api.in_plugin)]
