(* What OCaml's Str says of regular expressions.

     str_oracle match        read PATTERN <tab> TEXT, print the same with <tab> yes | no | error
     str_oracle random N     print N such lines of random patterns and texts *)

let verdict pattern text =
  match Str.regexp pattern with
  | exception Failure _ -> "error"
  | re -> if Str.string_match re text 0 then "yes" else "no"

let print pattern text = Printf.printf "%s\t%s\t%s\n" pattern text (verdict pattern text)

let rec match_lines () =
  match input_line stdin with
  | exception End_of_file -> ()
  | line ->
    let tab = String.index line '\t' in
    print (String.sub line 0 tab)
      (String.sub line (tab + 1) (String.length line - tab - 1));
    match_lines ()

let pieces =
  [| "a"; "b"; "a"; "b"; "c"; "*"; "+"; "?"; "."; "^"; "$"; "\\b"; "\\("; "\\("; "\\)"; "\\)";
     "\\|"; "\\|"; "["; "]"; "[ab]"; "[^a]"; "[a-c]"; "[]-]"; "-"; "("; ")"; "|"; "{"; "}"; "\\.";
     "\\*"; "\\"; "_" |]

let random n =
  for _ = 1 to n do
    let several most alphabet =
      String.concat ""
        (List.init (Random.int (most + 1)) (fun _ ->
             alphabet.(Random.int (Array.length alphabet))))
    in
    let pattern = several 8 pieces in
    print pattern (several 5 [| "a"; "b"; "c"; "a"; "b"; "_"; "*"; "|"; "("; "-"; "]"; "\\" |])
  done

let () =
  match Sys.argv with
  | [| _; "match" |] -> match_lines ()
  | [| _; "random"; n |] -> Random.init 3; random (int_of_string n)
  | _ -> exit 2
