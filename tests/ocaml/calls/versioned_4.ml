(* SPDX-License-Identifier: MIT *)
(* OCaml 4 has neither domains nor effects. *)
let[@inline never] one_round _ =
  Books.hit "Versioned.one_round";
  ()
let[@inline never] run_domains _ _ =
  Books.hit "Versioned.run_domains";
  ignore
let timed _ = ()
let fibres _ = ()
let outermost _ = ()
