(* [%probe_is_enabled] in several places: of a probe with sites, of one that starts enabled, of one
   that has no site anywhere. Prints what the queries say and how often the handlers ran. *)

let switched = ref 0
let initial = ref 0

let[@inline always] is_enabled () = [%probe_is_enabled "switched"]

let[@inline never] say name enabled = Printf.printf "%s %b\n" name enabled

let () =
  for _ = 1 to 10 do
    [%probe "switched" (incr switched)];
    [%probe "initial" ~enabled_at_init:true (incr initial)]
  done;
  [%probe "switched" (incr switched)];
  say "switched" (is_enabled ());
  say "switched" [%probe_is_enabled "switched"];
  say "initial" [%probe_is_enabled "initial"];
  say "siteless" [%probe_is_enabled "siteless"];
  Printf.printf "switched handler=%d expected=11\ninitial handler=%d expected=10\n" !switched !initial
