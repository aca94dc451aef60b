(* A ppx that takes all probes out: what a program would be without them. *)
open Ppxlib

let rule name expand =
  Context_free.Rule.extension
    (Extension.V3.declare name Extension.Context.expression Ast_pattern.__ (fun ~ctxt _ ->
         expand (Expansion_context.Extension.extension_point_loc ctxt)))

let () =
  Driver.register_transformation "no-probes"
    ~rules:
      [
        rule "probe" (fun loc -> [%expr ()]);
        rule "probe_is_enabled" (fun loc -> [%expr false]);
      ];
  Driver.standalone ()
