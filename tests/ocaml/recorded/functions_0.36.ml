(* Functions in the syntax trees of ppxlib 0.36 and later: a function has a list of parameters. *)
open Ppxlib

let is_function e =
  match e.pexp_desc with
  | Pexp_function _ -> true
  | _ -> false

(* [fun (type a) -> e] computes when it has no argument. *)
let has_arguments = List.exists (fun { pparam_desc; _ } -> match pparam_desc with Pparam_val _ -> true | _ -> false)

(* Change the bodies of a function by F. *)
let map_bodies f e =
  match e.pexp_desc with
  | Pexp_function (parameters, result, Pfunction_body body) when has_arguments parameters ->
    { e with pexp_desc = Pexp_function (parameters, result, Pfunction_body (f body)) }
  | Pexp_function (parameters, result, Pfunction_cases (cases, loc, attributes)) ->
    let cases = List.map (fun c -> { c with pc_rhs = f c.pc_rhs }) cases in
    { e with pexp_desc = Pexp_function (parameters, result, Pfunction_cases (cases, loc, attributes)) }
  | _ -> e
