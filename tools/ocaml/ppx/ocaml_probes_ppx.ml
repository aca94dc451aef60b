(* [%probe "name" handler] becomes

     if same (opaque MARKER) (nowhere 0) then (handler : unit)

   which is never taken, costs one predicted branch, and means the same to bytecode. MARKER is a string
   constant that the post-linker recognises in the executable's data; what it does with the code
   that loads the marker is told in src/link/x86_site.c, the marker's format in src/link/marker.c.

   [%probe_is_enabled "name"] reads the 16-bit counter in a marker's third and fourth byte; the
   post-linker redirects the load to the one marker that serves all sites of the name. *)

open Ppxlib

let usage = "[%probe \"name\" handler]"

let is_name_char = function
  | 'a' .. 'z' | 'A' .. 'Z' | '0' .. '9' | '_' -> true
  | _ -> false

let check_name ~loc name =
  String.iter
    (fun c ->
      if not (is_name_char c) then
        Location.raise_errorf ~loc "probe: %C is not allowed in a probe's name, only A-Z a-z 0-9 _" c)
    name

(* The post-linker takes printable text of a moderate length. Of a long path the end tells most. *)
let escape_file file =
  let limit = 200 in
  let n = String.length file in
  let file = if n <= limit then file else "..." ^ String.sub file (n - limit) limit in
  String.map
    (function
      | ('a' .. 'z' | 'A' .. 'Z' | '0' .. '9' | '_' | '.' | '/' | '-' | '+') as c -> c
      | _ -> '?')
    file

(* No two markers of a compilation unit may be equal: the compiler would merge them, and load the
   address for two nested probes only once. Other ppxes duplicate code with its locations. *)
let places_seen : (string, int) Hashtbl.t = Hashtbl.create 16

let place ~loc =
  let { pos_fname; pos_lnum; pos_cnum; pos_bol } = loc.loc_start in
  let place =
    Printf.sprintf "%s:%d:%d" (escape_file pos_fname) (max 0 pos_lnum) (max 0 (pos_cnum - pos_bol))
  in
  let seen = Option.value (Hashtbl.find_opt places_seen place) ~default:0 in
  Hashtbl.replace places_seen place (seen + 1);
  if seen = 0 then place else Printf.sprintf "%s#%d" place (seen + 1)

let marker ~loc ~kind name =
  Ast_builder.Default.estring ~loc
    (Printf.sprintf "\000\000\000\000P1:%s:%s@%s" kind name (place ~loc))

type probe = {
  name : string;
  enabled_at_init : bool;
  handler : expression;
}

let parse_bool arg =
  match arg with
  | [%expr true] -> true
  | [%expr false] -> false
  | _ ->
    Location.raise_errorf ~loc:arg.pexp_loc
      "probe: ~enabled_at_init takes the literal true or false"

let parse_probe payload =
  let loc = payload.pexp_loc in
  match payload.pexp_desc with
  | Pexp_apply ({ pexp_desc = Pexp_constant (Pconst_string (name, _, _)); pexp_loc; _ }, args) ->
    check_name ~loc:pexp_loc name;
    let enabled_at_init = ref None and handler = ref None in
    let set what cell ~loc value =
      if !cell <> None then Location.raise_errorf ~loc "probe: %s is given twice" what;
      cell := Some value
    in
    List.iter
      (fun (label, arg) ->
        let loc = arg.pexp_loc in
        match label with
        | Nolabel when !handler = None -> handler := Some arg
        | Nolabel ->
          Location.raise_errorf ~loc
            "probe: more than one handler; put parentheses around the handler: %s" usage
        | Labelled "enabled_at_init" ->
          set "~enabled_at_init" enabled_at_init ~loc (parse_bool arg)
        | Labelled "args" -> Location.raise_errorf ~loc "probe: ~args is not supported yet"
        | Labelled l -> Location.raise_errorf ~loc "probe: unknown label ~%s" l
        | Optional l -> Location.raise_errorf ~loc "probe: unknown label ?%s" l)
      args;
    (match !handler with
    | None -> Location.raise_errorf ~loc "probe: the handler is missing: %s" usage
    | Some handler ->
      { name; enabled_at_init = Option.value !enabled_at_init ~default:false; handler })
  | Pexp_constant (Pconst_string _) ->
    Location.raise_errorf ~loc "probe: the handler is missing: %s" usage
  | Pexp_apply (f, _) ->
    Location.raise_errorf ~loc:f.pexp_loc "probe: the name must be a string literal: %s" usage
  | _ -> Location.raise_errorf ~loc "probe: expected %s" usage

(* A payload that is no single expression must get a message of ours as well. *)
let expression_payload ~loc ~usage = function
  | PStr [ { pstr_desc = Pstr_eval (e, []); _ } ] -> e
  | _ -> Location.raise_errorf ~loc "probe: expected %s" usage

let expand_probe ~ctxt payload =
  let loc = Expansion_context.Extension.extension_point_loc ctxt in
  let probe = parse_probe (expression_payload ~loc ~usage payload) in
  let kind = if probe.enabled_at_init then "0i" else "0" in
  [%expr
    if
      Ocaml_probes_runtime.same
        (Ocaml_probes_runtime.opaque [%e marker ~loc ~kind probe.name])
        (Ocaml_probes_runtime.nowhere 0)
    then ([%e probe.handler] : unit)]

let expand_is_enabled ~ctxt payload =
  let loc = Expansion_context.Extension.extension_point_loc ctxt in
  let usage = "[%probe_is_enabled \"name\"]" in
  match expression_payload ~loc ~usage payload with
  | { pexp_desc = Pexp_constant (Pconst_string (name, _, _)); pexp_loc; _ } ->
    check_name ~loc:pexp_loc name;
    [%expr
      Ocaml_probes_runtime.differ
        (Ocaml_probes_runtime.counter
           (Ocaml_probes_runtime.opaque [%e marker ~loc ~kind:"E" name])
           2)
        0]
  | { pexp_loc = loc; _ } -> Location.raise_errorf ~loc "probe: expected %s" usage

let extension name expand =
  Context_free.Rule.extension
    (Extension.V3.declare name Extension.Context.expression Ast_pattern.__ expand)

let () =
  Driver.register_transformation "ocaml-probes"
    ~rules:[ extension "probe" expand_probe; extension "probe_is_enabled" expand_is_enabled ]
