(* Prints every public item of the interface files on the command line that has no comment. *)

open Parsetree

let has_doc attributes =
  List.exists
    (fun a -> a.attr_name.txt = "ocaml.doc" || a.attr_name.txt = "ocaml.text")
    attributes

let seen = ref 0

let check attributes (name : string Location.loc) =
  incr seen;
  if not (has_doc attributes) then
    Format.printf "%a: %s@." Location.print_loc name.loc name.txt

let iterator =
  let open Ast_iterator in
  let signature_item it item =
    (match item.psig_desc with
     | Psig_value v -> check v.pval_attributes v.pval_name
     | Psig_type (_, types) ->
       List.iter (fun t -> check t.ptype_attributes t.ptype_name) types
     | Psig_exception { ptyexn_constructor = c; ptyexn_attributes } ->
       check (ptyexn_attributes @ c.pext_attributes) c.pext_name
     | Psig_module { pmd_name = { txt; loc }; pmd_attributes; _ } ->
       check pmd_attributes { txt = Option.value txt ~default:"_"; loc }
     | Psig_modtype m -> check m.pmtd_attributes m.pmtd_name
     | _ -> ());
    default_iterator.signature_item it item
  in
  (* The constructors of [Enable | Disable] and the fields of what is described as a whole speak for
     themselves; constructors with arguments do not. *)
  let constructor_declaration it c =
    (match c.pcd_args with
     | Pcstr_tuple [] -> ()
     | _ -> check c.pcd_attributes c.pcd_name);
    default_iterator.constructor_declaration it c
  in
  { default_iterator with signature_item; constructor_declaration }

let () =
  for i = 1 to Array.length Sys.argv - 1 do
    let file = Sys.argv.(i) in
    let ic = open_in file in
    let lexbuf = Lexing.from_channel ic in
    Location.init lexbuf file;
    iterator.signature iterator (Parse.interface lexbuf);
    close_in ic
  done;
  Printf.printf "%d items\n" !seen
