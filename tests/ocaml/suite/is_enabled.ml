(* [%probe_is_enabled]: in conditions of every kind, as a value, inlined, of a probe elsewhere,
   and of one that has no site at all. *)
open Suite

let yes = ref 0
let[@inline always] inlined () = [%probe_is_enabled "asked"]
let[@inline never] value () = [%probe_is_enabled "asked"]
let[@inline never] negated x = if not [%probe_is_enabled "asked"] then x else x + 1

let[@inline never] conjunction x =
  if x > 1 && [%probe_is_enabled "asked"] && x < 10 then incr yes;
  if x > 100 || [%probe_is_enabled "asked"] then incr yes

let[@inline never] loop n =
  let i = ref 0 in
  while !i < n do
    if inlined () then incr yes;
    incr i
  done

let[@inline never] guarded x = match x with y when [%probe_is_enabled "asked"] -> y * 2 | y -> y
let[@inline never] two () = [%probe_is_enabled "asked"] && [%probe_is_enabled "other"]

let () =
  run (fun () ->
      yes := 0;
      [%probe "asked" (note "asked")];
      [%probe "other" (note "other")];
      if value () then incr yes;
      if negated 5 = 6 then incr yes;
      conjunction 5;
      loop 10;
      if guarded 3 = 6 then incr yes;
      if two () then incr yes;
      say "never %b" [%probe_is_enabled "without_a_site"];
      count "yes" !yes)

(*expected
> asked
> other
never false
# yes 16
*)
