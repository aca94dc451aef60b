(* Functions with probes that the compiler inlines into other modules, a plugin's too. *)

let sum = ref 0
let[@inline] step x =
  [%probe "inlined" ~args:(x) (sum := !sum + x)];
  x + 1

let[@inline] asked () = [%probe_is_enabled "inlined"]
let round = ref (fun () -> ())
