(* [%probe "name" ~args:(a, b) handler] becomes

     if same (opaque MARKER) (nowhere 0) then (
       (let m = words (opaque ARGS_MARKER) in store m 0 (word a); store m 1 (word b));
       (handler : unit))

   The branch is never taken and costs one predicted jump. Bytecode gives the same result. The
   markers are string constants that the post-linker finds in the data of the executable. See

     src/program/dormant/x86_site.c   how it converts the code that loads MARKER
     src/program/dormant/x86_args.c   how it finds the places of a and b from the stores
     src/program/dormant/marker.c     the format of the markers

   [%probe_is_enabled "name"] reads the 16-bit counter in the third and fourth byte of a marker. The
   post-linker redirects the load to the semaphore of all sites of the name. *)

open Ppxlib

let usage = "[%probe \"name\" handler]"

(* The limit of the post-linker. *)
let max_args = 32

let is_name_char = function
  | 'a' .. 'z' | 'A' .. 'Z' | '0' .. '9' | '_' -> true
  | _ -> false

(* The post-linker accepts markers of up to 4096 bytes: a name of this length, and a path. *)
let max_name = 1000

let check_name ~loc name =
  if name = "" then Location.raise_errorf ~loc "probe: the name is empty";
  if String.length name > max_name then
    Location.raise_errorf ~loc "probe: the name has more than %d characters" max_name;
  String.iter
    (fun c ->
      if not (is_name_char c) then
        Location.raise_errorf ~loc "probe: %C is not allowed in a probe's name, only A-Z a-z 0-9 _"
    c) name

(* The post-linker accepts only printable text: other bytes are written as %XX. It also shows the
   path, so that an editor can open the file. A path that is too long for a marker is cut at its
   beginning. *)
let escape_file file =
  let limit = 900 in
  let n = String.length file in
  let file = if n <= limit then file else "..." ^ String.sub file (n - limit) limit in
  let escaped = Buffer.create (n + 16) in
  String.iter
    (function
      | ('a' .. 'z' | 'A' .. 'Z' | '0' .. '9' | '_' | '.' | '/' | '-' | '+') as c ->
        Buffer.add_char escaped c
      | c -> Printf.bprintf escaped "%%%02X" (Char.code c))
    file;
  Buffer.contents escaped

(* Each marker of a compilation unit must be unique: the compiler would merge equal ones, and load
   the address for two nested probes only once. Other ppxes may copy code with its locations. *)
let places_seen : (string, int) Hashtbl.t = Hashtbl.create 16

let place ~loc =
  let { pos_fname; pos_lnum; pos_cnum; pos_bol } = loc.loc_start in
  let place =
    Printf.sprintf "%s:%d:%d" (escape_file pos_fname) (max 0 pos_lnum) (max 0 (pos_cnum - pos_bol))
  in
  let seen = Option.value (Hashtbl.find_opt places_seen place) ~default:0 in
  Hashtbl.replace places_seen place (seen + 1);
  if seen = 0 then place else Printf.sprintf "%s#%d" place (seen + 1)

let marker ~kind name place = Printf.sprintf "\000\000\000\000P1:%s:%s@%s" kind name place

type probe = {
  name : string;
  args : expression list;
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

(* A single argument needs no tuple. *)
let parse_args arg =
  let args =
    match arg.pexp_desc with
    | Pexp_tuple args -> args
    | Pexp_construct ({ txt = Lident "()"; _ }, None) -> []
    | _ -> [ arg ]
  in
  if List.length args > max_args then
    Location.raise_errorf ~loc:arg.pexp_loc "probe: ~args takes %d arguments at most" max_args;
  args

let parse_probe payload =
  let loc = payload.pexp_loc in
  match payload.pexp_desc with
  | Pexp_apply ({ pexp_desc = Pexp_constant (Pconst_string (name, _, _)); pexp_loc; _ }, args) ->
    check_name ~loc:pexp_loc name;
    let enabled_at_init = ref None and probe_args = ref None and handler = ref None in
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
        | Labelled "args" -> set "~args" probe_args ~loc (parse_args arg)
        | Labelled l -> Location.raise_errorf ~loc "probe: unknown label ~%s" l
        | Optional l -> Location.raise_errorf ~loc "probe: unknown label ?%s" l)
      args;
    (match !handler with
    | None -> Location.raise_errorf ~loc "probe: the handler is missing: %s" usage
    | Some handler ->
      {
        name;
        args = Option.value !probe_args ~default:[];
        enabled_at_init = Option.value !enabled_at_init ~default:false;
        handler;
      })
  | Pexp_constant (Pconst_string _) ->
    Location.raise_errorf ~loc "probe: the handler is missing: %s" usage
  | Pexp_apply (f, _) ->
    Location.raise_errorf ~loc:f.pexp_loc "probe: the name must be a string literal: %s" usage
  | _ -> Location.raise_errorf ~loc "probe: expected %s" usage

(* Report a payload that is not a single expression here: ppxlib's message would be less clear. *)
let expression_payload ~loc ~usage = function
  | PStr [ { pstr_desc = Pstr_eval (e, []); _ } ] -> e
  | _ -> Location.raise_errorf ~loc "probe: expected %s" usage

(* Arguments that need no computation are stored first. The post-linker cannot follow every
   computation, and finds only the stores before the first one that it cannot follow. *)
let is_at_hand arg =
  match arg.pexp_desc with
  | Pexp_ident _ | Pexp_constant _ | Pexp_construct (_, None) -> true
  | _ -> false

(* In position-independent code, the address of a literal string is known only at run time. The
   post-linker needs the word of a constant that points to the string. *)
let word ~loc arg =
  match arg.pexp_desc with
  | Pexp_constant (Pconst_string _) ->
    [%expr
      Ocaml_probes_runtime.word (Ocaml_probes_runtime.first (Ocaml_probes_runtime.pair ([%e arg],
  0)))] | _ -> [%expr Ocaml_probes_runtime.word [%e arg]]

let store_args ~loc name place args =
  let open Ast_builder.Default in
  let text = marker ~kind:"A" name place in
  let room = 8 * List.length args in
  let text = text ^ String.make (max 0 (room - String.length text)) '=' in
  let words = gen_symbol ~prefix:"probe_args" () in
  let store i arg =
    let loc = { arg.pexp_loc with loc_ghost = true } in
    [%expr
      Ocaml_probes_runtime.store [%e evar ~loc words] [%e eint ~loc i] [%e word ~loc arg]]
  in
  let at_hand, others = List.partition (fun (_, arg) -> is_at_hand arg) args in
  [%expr
    let [%p pvar ~loc words] =
      Ocaml_probes_runtime.words (Ocaml_probes_runtime.opaque [%e estring ~loc text])
    in
    [%e esequence ~loc (List.map (fun (i, arg) -> store i arg) (at_hand @ others))]]

let expand_probe ~ctxt payload =
  let loc = Expansion_context.Extension.extension_point_loc ctxt in
  let probe = parse_probe (expression_payload ~loc ~usage payload) in
  let place = place ~loc in
  let kind =
    string_of_int (List.length probe.args) ^ if probe.enabled_at_init then "i" else ""
  in
  let handler = [%expr ([%e probe.handler] : unit)] in
  let handler =
    match probe.args with
    (* flambda removes a branch that does nothing, and with it the site. *)
    | [] -> [%expr let _ : int = Ocaml_probes_runtime.word 0 in [%e handler]]
    | args ->
      let stores = store_args ~loc probe.name place (List.mapi (fun i arg -> i, arg) args) in
      [%expr [%e stores]; [%e handler]]
  in
  [%expr
    if
      Ocaml_probes_runtime.same
        (Ocaml_probes_runtime.opaque
           [%e Ast_builder.Default.estring ~loc (marker ~kind probe.name place)])
        (Ocaml_probes_runtime.nowhere 0)
    then [%e handler]]

let expand_is_enabled ~ctxt payload =
  let loc = Expansion_context.Extension.extension_point_loc ctxt in
  let usage = "[%probe_is_enabled \"name\"]" in
  match expression_payload ~loc ~usage payload with
  | { pexp_desc = Pexp_constant (Pconst_string (name, _, _)); pexp_loc; _ } ->
    check_name ~loc:pexp_loc name;
    [%expr
      Ocaml_probes_runtime.differ
        (Ocaml_probes_runtime.counter
           (Ocaml_probes_runtime.opaque
              [%e Ast_builder.Default.estring ~loc (marker ~kind:"E" name (place ~loc))])
           2)
        0]
  | { pexp_loc = loc; _ } -> Location.raise_errorf ~loc "probe: expected %s" usage

let extension name expand =
  Context_free.Rule.extension
    (Extension.V3.declare name Extension.Context.expression Ast_pattern.__ expand)

let () =
  Driver.register_transformation "ocaml-probes"
    ~rules:[ extension "probe" expand_probe; extension "probe_is_enabled" expand_is_enabled ]
