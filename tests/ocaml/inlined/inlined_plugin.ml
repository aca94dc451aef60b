(* The host's probe is in the code of this plugin, once; and once where it asks whether it is on. *)

let () =
  Inlined_host.round :=
    fun () ->
      ignore (Sys.opaque_identity (Inlined_host.step 100));
      if Inlined_host.asked () then Inlined_host.sum := !Inlined_host.sum + 10000
