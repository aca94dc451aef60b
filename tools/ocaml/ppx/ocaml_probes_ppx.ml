(* [%probe "name" ~args:(a, b) handler] becomes

     if same (opaque MARKER) (nowhere 0) then (
       (let m = words (opaque ARGS_MARKER) in store m 0 (word a); store m 1 (word b));
       (handler : unit))

   The branch is never taken and costs one predicted jump. Bytecode gives the same result. The
   markers are string constants that the post-linker finds in the data of the executable. They also
   hold the names and types of the arguments, so that these change no code. See

     src/program/dormant/x86_site.c   how it converts the code that loads MARKER
     src/program/dormant/x86_args.c   how it finds the places of a and b from the stores
     src/program/dormant/marker.c     the format of the markers
     src/program/arg_names.c          the format of the names and types

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

(* An argument, and what tracers know of it: a name, and a type if the source shows it. *)
type arg = {
  value : expression;
  arg_name : string option;
  arg_type : string option;
}

type probe = {
  name : string;
  args : arg list;
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

(* The limit of the filters. *)
let max_arg_name = 63

(* arg0, arg1 ... are positions. *)
let is_position name =
  String.length name > 3
  && String.sub name 0 3 = "arg"
  && String.for_all (function '0' .. '9' -> true | _ -> false)
       (String.sub name 3 (String.length name - 3))

let is_arg_name name =
  name <> ""
  && String.length name <= max_arg_name
  && (match name.[0] with 'a' .. 'z' | 'A' .. 'Z' | '_' -> true | _ -> false)
  && String.for_all (fun c -> is_name_char c || c = '\'') name
  && not (is_position name)

let last_of { txt; _ } =
  match txt with
  | Lident name | Ldot (_, name) -> Some name
  | Lapply _ -> None

let types = [ "bool"; "char"; "int"; "float"; "string" ]

let rec bare arg =
  match arg.pexp_desc with
  | Pexp_constraint (arg, _) -> bare arg
  | _ -> arg

(* The name of a variable or of a record's field. *)
let name_of arg =
  let name =
    match (bare arg).pexp_desc with
    | Pexp_ident name | Pexp_field (_, name) -> last_of name
    | _ -> None
  in
  match name with
  | Some name when is_arg_name name -> Some name
  | _ -> None

let type_of arg =
  match arg.pexp_desc with
  | Pexp_constraint (_, { ptyp_desc = Ptyp_constr ({ txt = Lident name; _ }, []); _ })
    when List.mem name types ->
    Some name
  | Pexp_constant (Pconst_integer (_, None)) -> Some "int"
  | Pexp_constant (Pconst_char _) -> Some "char"
  | Pexp_constant (Pconst_float (_, None)) -> Some "float"
  | Pexp_constant (Pconst_string _) -> Some "string"
  | Pexp_construct ({ txt = Lident ("true" | "false"); _ }, None) -> Some "bool"
  | _ -> None

(* The string of the attribute [@name "..."]. *)
let read_name_attribute { attr_payload; attr_loc = loc; _ } =
  match attr_payload with
  | PStr
      [ { pstr_desc =
            Pstr_eval ({ pexp_desc = Pexp_constant (Pconst_string (name, _, _)); _ }, _);
          _;
        };
      ] ->
    if not (is_arg_name name) then
      Location.raise_errorf ~loc
        "probe: %S is no name for an argument: letters, digits, _ and ', at most %d, and not \
         arg0, arg1 ..."
        name max_arg_name;
    name
  | _ -> Location.raise_errorf ~loc "probe: expected [@name \"...\"]"

(* Take the attribute [@name] from an argument. *)
let parse_arg arg =
  let ours, others =
    List.partition (fun { attr_name; _ } -> attr_name.txt = "name") arg.pexp_attributes
  in
  let arg_name =
    match ours with
    | [] -> name_of arg
    | [ attribute ] -> Some (read_name_attribute attribute)
    | _ :: { attr_loc = loc; _ } :: _ ->
      Location.raise_errorf ~loc "probe: an argument has one name at most"
  in
  ours <> [], { value = { arg with pexp_attributes = others }; arg_name; arg_type = type_of arg }

(* The names of a probe's arguments differ. Of equal ones that the source does not give by [@name],
   the first remains. *)
let make_names_unique args =
  let given = Hashtbl.create 8 in
  let check (is_given, arg) =
    match arg.arg_name with
    | Some name when is_given ->
      if Hashtbl.mem given name then
        Location.raise_errorf ~loc:arg.value.pexp_loc
          "probe: two arguments have the name %s" name;
      Hashtbl.add given name ()
    | _ -> ()
  in
  let drop (is_given, arg) =
    match arg.arg_name with
    | Some name when not is_given ->
      if Hashtbl.mem given name then { arg with arg_name = None }
      else (
        Hashtbl.add given name ();
        arg)
    | _ -> arg
  in
  List.iter check args;
  List.map drop args

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
  make_names_unique (List.map parse_arg args)

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
  match (bare arg).pexp_desc with
  | Pexp_ident _ | Pexp_constant _ | Pexp_construct (_, None) -> true
  | _ -> false

(* In position-independent code, the address of a literal string is known only at run time. The
   post-linker needs the word of a constant that points to the string. *)
let word ~loc arg =
  match (bare arg).pexp_desc with
  | Pexp_constant (Pconst_string _) ->
    [%expr
      Ocaml_probes_runtime.word
        (Ocaml_probes_runtime.first (Ocaml_probes_runtime.pair ([%e arg], 0)))]
  | _ -> [%expr Ocaml_probes_runtime.word [%e arg]]

let store_args ~loc name place args =
  let open Ast_builder.Default in
  let text = marker ~kind:"A" name place in
  let room = 8 * List.length args in
  let text = text ^ String.make (max 0 (room - String.length text)) '=' in
  let words = gen_symbol ~prefix:"probe_args" () in
  let store i arg =
    let loc = { arg.value.pexp_loc with loc_ghost = true } in
    [%expr
      Ocaml_probes_runtime.store [%e evar ~loc words] [%e eint ~loc i] [%e word ~loc arg.value]]
  in
  let at_hand, others = List.partition (fun (_, arg) -> is_at_hand arg.value) args in
  [%expr
    let [%p pvar ~loc words] =
      Ocaml_probes_runtime.words (Ocaml_probes_runtime.opaque [%e estring ~loc text])
    in
    [%e esequence ~loc (List.map (fun (i, arg) -> store i arg) (at_hand @ others))]]

(* The place with the names and types of ARGS behind it: "PLACE#1(id,price:float)". Names that do not
   fit into a marker are left out, the last ones first. *)
let max_marker = 4000

let describe_args name place args =
  let room = ref (max_marker - String.length name - String.length place) in
  let describe { arg_name; arg_type; _ } =
    let text =
      Option.value arg_name ~default:"" ^ Option.fold arg_type ~none:"" ~some:(( ^ ) ":")
    in
    room := !room - String.length text - 1;
    if !room < 0 then "" else text
  in
  let texts = List.map describe args in
  if List.for_all (( = ) "") texts then place
  else
    Printf.sprintf "%s%s(%s)" place
      (if String.contains place '#' then "" else "#1")
      (String.concat "," texts)

let expand_probe ~ctxt payload =
  let loc = Expansion_context.Extension.extension_point_loc ctxt in
  let probe = parse_probe (expression_payload ~loc ~usage payload) in
  let place = describe_args probe.name (place ~loc) probe.args in
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
