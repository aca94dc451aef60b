(* SPDX-License-Identifier: MIT *)
(* A program that changes the code of one of its functions in memory. It prints "ready" and obeys lines:

     change   from now on `victim` adds 2, by its code
     call     prints "victim N other N", with the results for 40 *)
external change : (int -> int) -> unit = "calls_change"
external opaque : 'a -> 'a = "%opaque"

let[@inline never] victim x = x + 1
let[@inline never] other x = if x > 3 then x * 3 else x

let () =
  print_endline "ready";
  try
    while true do
      match input_line stdin with
      | "change" -> change victim; print_endline "changed"
      | "call" -> Printf.printf "victim %d other %d\n%!" ((opaque victim) 40) ((opaque other) 40)
      | _ -> raise End_of_file
    done
  with End_of_file -> ()
