(* Functions in the syntax trees of ppxlib 0.27 to 0.35: a function of two arguments is a function whose body
   is a function. *)
open Ppxlib

let is_function e =
  match e.pexp_desc with
  | Pexp_fun _ | Pexp_function _ -> true
  | _ -> false

(* Change the bodies of a function by F. *)
let map_bodies f e =
  match e.pexp_desc with
  | Pexp_fun (label, default, pattern, body) ->
    { e with pexp_desc = Pexp_fun (label, default, pattern, f body) }
  | Pexp_function cases ->
    { e with pexp_desc = Pexp_function (List.map (fun c -> { c with pc_rhs = f c.pc_rhs }) cases) }
  | _ -> e
