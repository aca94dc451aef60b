(* A ppx for the tests of stacks. It comes before that of probes, with which it is linked. Each probe becomes
   the probe `here`, and the body of each function begins with one, too. Its argument is the number of the hit,
   and its handler records the stack: see record.ml. functions.ml is a copy of functions_VERSION.ml, whose VERSION
   is that of the first ppxlib that has such syntax trees. *)
open Ppxlib
open Ast_builder.Default

let sites = ref 0

(* All of a probe is on one line, that of its beginning. *)
let start loc = { loc with loc_end = loc.loc_start }

(* The probe `here`, the rest of whose handler is REST. *)
let here ~loc rest =
  let loc = start loc in
  incr sites;
  let site = eint ~loc (Hashtbl.hash (loc.loc_start.pos_fname, !sites)) in
  let number = gen_symbol ~prefix:"number" () in
  let handler = [%expr Record.here [%e evar ~loc number]; [%e rest]] in
  let probe =
    pexp_apply ~loc (estring ~loc "here")
      [
        Labelled "args", evar ~loc number;
        Labelled "enabled_at_init", [%expr true];
        Nolabel, handler;
      ]
  in
  let probe = pexp_extension ~loc ({ txt = "probe"; loc }, PStr [ pstr_eval ~loc probe [] ]) in
  pexp_let ~loc Nonrecursive
    [ value_binding ~loc ~pat:(pvar ~loc number) ~expr:[%expr Record.next [%e site]] ]
    probe

let handler_of args =
  List.fold_left (fun last (label, arg) -> if label = Nolabel then Some arg else last) None args

(* A body is what a function computes when it has all arguments. *)
let with_probe body =
  let loc = start body.pexp_loc in
  match body.pexp_desc with
  | Pexp_newtype _ | Pexp_unreachable -> body
  | _ when Functions.is_function body -> body
  | _ -> pexp_sequence ~loc (here ~loc [%expr Record.nothing ()]) body

let rewriter =
  object (self)
    inherit Ast_traverse.map as super

    method! expression e =
      let loc = e.pexp_loc in
      match e.pexp_desc with
      | Pexp_extension
          ({ txt = "probe"; _ }, PStr [ { pstr_desc = Pstr_eval ({ pexp_desc = Pexp_apply (_, args); _ }, _); _ } ]) ->
        here ~loc (self#expression (Option.get (handler_of args)))
      | Pexp_extension ({ txt = "probe_is_enabled"; _ }, _) -> [%expr [%probe_is_enabled "here"]]
      | _ -> Functions.map_bodies with_probe (super#expression e)
  end

let () =
  Driver.register_transformation "recorded" ~preprocess_impl:rewriter#structure;
  Driver.standalone ()
