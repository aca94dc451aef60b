(* Values of several types, and how many of them satisfy a filter, as OCaml sees it.

     compared table   prints a line a filter, fields separated by tabs: the filter; of each probe
                      how many hits satisfy it; how many hits in all have another type than it
     compared         prints "ready"; for each line of stdin passes every value to its probe and
                      prints "end"

   The probes are int, float, int64, string and block; arg0 is the value. *)

type literal = Int of int64 | Float of float | String of string

let ints =
  [ min_int; min_int + 1; -1001; -50; -2; -1; 0; 1; 2; 49; 50; 51; 1000; 1 lsl 53; (1 lsl 53) + 1; max_int - 1; max_int ]
  @ List.init 200 (fun i -> (i * 37) - 3000)

let int64s =
  Int64.[ min_int; add min_int 1L; -0x4000000000000001L; -1L; 0L; 1L; 50L; 0x4000000000000000L; sub max_int 1L; max_int ]

let floats =
  [ nan; -.nan; infinity; neg_infinity; 0.; -0.; 0.25; -0.25; 1.; 1.5; -1.5; 49.999; 50.; 50.001; 1e3; 1e300; -1e300;
    max_float; -.max_float; min_float; epsilon_float; Int64.float_of_bits 1L; Int64.float_of_bits 0x8000000000000001L;
    ldexp 1. 53; ldexp 1. 62; ldexp 1. 63; -.ldexp 1. 63 ]
  @ List.init 200 (fun i -> (float_of_int i *. 0.37) -. 30.)
  @ List.init 200 (fun i -> Int64.(float_of_bits (mul (of_int (i + 1)) 0x9E3779B97F4A7C15L)))

let strings = [ ""; "a"; "b"; "50"; "GET"; "GETTING"; String.make 70 'x' ]
let blocks = [ Some 1; Some 50 ]

(* ---- what they should come to ------------------------------------------------------------------ *)

(* As the numbers they are, without rounding. *)
let compare_int_float n x =
  if x >= ldexp 1. 63 then -1
  else if x < -.ldexp 1. 63 then 1
  else
    let whole = Int64.of_float x in
    let order = Int64.compare n whole in
    if order <> 0 then order else compare 0. (x -. Int64.to_float whole)

let operators : (string * (int -> bool) * (float -> float -> bool)) list =
  [ ("==", (fun c -> c = 0), ( = )); ("!=", (fun c -> c <> 0), ( <> )); ("<", (fun c -> c < 0), ( < ));
    ("<=", (fun c -> c <= 0), ( <= )); (">", (fun c -> c > 0), ( > )); (">=", (fun c -> c >= 0), ( >= )) ]

(* None: there is no answer. *)
let int_satisfies (_, order, _) literal n =
  match literal with
  | Int m -> Some (order (Int64.compare n m))
  | Float x -> Some (order (compare_int_float n x))
  | String _ -> None

let float_satisfies (_, _, holds) literal x =
  match literal with
  | Int m -> Some (holds x (Int64.to_float m))
  | Float y -> Some (holds x y)
  | String _ -> None

let string_satisfies (_, order, _) literal s =
  match literal with String t -> Some (order (compare s t)) | Int _ | Float _ -> None

let literals =
  let int text = (text, Int (Int64.of_string text)) and float text = (text, Float (float_of_string text)) in
  List.map int [ "50"; "0"; "-1"; "0x32"; "9007199254740993"; "4611686018427387903"; "9223372036854775807"; "-9223372036854775808" ]
  @ List.map float
      [ "1.5"; "-0.25"; "0.25"; "1e3"; "0.0"; "-0.0"; "49.999"; "-1.5"; "1e300"; "-1e300"; "4611686018427387904.0"; "4.6e18";
        "-9223372036854775808.0"; "9223372036854775808.0"; "1e19"; "-1e19"; "5e-324"; "0x1.8p0"; "infinity" ]
  @ [ ("-inf", Float neg_infinity) ]

let comparisons =
  List.concat_map
    (fun (text, literal) -> List.map (fun ((token, _, _) as op) -> (token ^ " " ^ text, op, literal)) operators)
    literals
  @ List.concat_map
      (fun s ->
        List.filter_map
          (fun ((token, _, _) as op) ->
            if token = "==" || token = "!=" then Some (Printf.sprintf "%s \"%s\"" token s, op, String s) else None)
          operators)
      [ "GET"; "" ]

let print_row (text, op, literal) =
  let mismatches = ref 0 in
  let count satisfies values =
    List.length
      (List.filter
         (fun v ->
           match satisfies v with
           | Some holds -> holds
           | None ->
               incr mismatches;
               false)
         values)
  in
  let of_ints = count (fun n -> int_satisfies op literal (Int64.of_int n)) ints in
  let of_floats = count (float_satisfies op literal) floats in
  let of_int64s = count (int_satisfies op literal) int64s in
  let of_strings = count (string_satisfies op literal) strings in
  let of_blocks = count (fun _ -> None) blocks in
  Printf.printf "arg0 %s\t%d %d %d %d %d\t%d\n" text of_ints of_floats of_int64s of_strings of_blocks !mismatches

(* ---- the hits ---------------------------------------------------------------------------------- *)

let[@inline never] pass_int (n : int) = [%probe "int" ~args:n ()]
let[@inline never] pass_float (x : float) = [%probe "float" ~args:x ()]
let[@inline never] pass_int64 (n : int64) = [%probe "int64" ~args:n ()]
let[@inline never] pass_string (s : string) = [%probe "string" ~args:s ()]
let[@inline never] pass_block (b : int option) = [%probe "block" ~args:b ()]

let rec serve () =
  match input_line stdin with
  | exception End_of_file -> ()
  | _ ->
      List.iter pass_int ints;
      List.iter pass_float floats;
      List.iter pass_int64 int64s;
      List.iter pass_string strings;
      List.iter pass_block blocks;
      print_endline "end";
      serve ()

let () =
  if Array.length Sys.argv > 1 then List.iter print_row comparisons
  else begin
    print_endline "ready";
    serve ()
  end
