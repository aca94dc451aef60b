(* The part of OUnit that the tests of ocaml-re use, so that they can be built by compilers that have no
   OUnit. All tests are run TEST_ROUNDS times. *)

type test =
  | Case of string * (unit -> unit)
  | List of string * test list

let ( >:: ) name run = Case (name, run)
let ( >::: ) name tests = List (name, tests)
let assert_failure message = failwith message
let assert_bool message b = if not b then assert_failure message

let assert_equal ?pp_diff ?(printer = fun _ -> "") ?(msg = "") expected actual =
  if compare expected actual <> 0 then
    assert_failure
      (match pp_diff with
      | Some pp -> Format.asprintf "%s: %a" msg pp (expected, actual)
      | None -> Printf.sprintf "%s: expected %s, not %s" msg (printer expected) (printer actual))

let assert_raises e f =
  match f () with
  | _ -> assert_failure "nothing was raised"
  | exception raised -> if raised <> e then raise raised

let rec run failed path = function
  | List (name, tests) -> List.fold_left (fun (n, failed) t -> let m, failed = run failed (path ^ name ^ "/") t in n + m, failed) (0, failed) tests
  | Case (name, test) -> (
    match test () with
    | () -> 1, failed
    | exception e -> 1, Printf.sprintf "%s%s: %s" path name (Printexc.to_string e) :: failed)

let rounds = match Sys.getenv_opt "TEST_ROUNDS" with Some n -> int_of_string n | None -> 1

let run_test_tt_main tests =
  for _ = 1 to rounds do
    let n, failed = run [] "" tests in
    List.iter print_endline failed;
    if failed <> [] then exit 1;
    Printf.printf "%d tests passed\n" n
  done
