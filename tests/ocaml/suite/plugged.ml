(* What plugins.ml loads. *)
open Suite

let[@inline never] f x =
  [%probe "reused" (note "the plugin's %d" x)];
  let y = x * 2 in
  [%probe "plugin_only" (note "the plugin's own %d" y)];
  let sum = ref 0 in
  for i = y to y + 2 do
    [%probe "in_loop" (note "in its loop %d" i)];
    sum := !sum + i
  done;
  count "plugin_enabled" (if [%probe_is_enabled "reused"] then 1 else 0);
  !sum + 7

let () = plugged := f
