(* What the handlers of random call trees do: each hit writes a line with its number and what Printexc
   knows of the stack, "NUMBER|FILE:LINE:INLINED:NAME|...", and "?" for what has no place in a source. *)

let out = ref stdout
let numbers = Atomic.make 0
let left = Atomic.make 0

let next () =
  Atomic.decr left;
  Atomic.fetch_and_add numbers 1

let is_over () = Atomic.get left <= 0

(* Called in the handler, to be seen in stacks of allocations too. *)
external large_block : int -> unit = "trees_large_block"

let describe slot =
  match Printexc.Slot.(location slot, name slot) with
  | Some { filename; line_number; _ }, Some name ->
    Printf.sprintf "%s:%d:%d:%s" filename line_number (Bool.to_int (Printexc.Slot.is_inline slot)) name
  | _ -> "?"

let blocks = ref false

let[@inline never] here number =
  let stack = Printexc.get_callstack 1000 in
  if !blocks then large_block 1;
  let slots = Option.value (Printexc.backtrace_slots stack) ~default:[||] in
  let line = String.concat "|" (string_of_int number :: List.map describe (Array.to_list slots)) in
  output_string !out (line ^ "\n")

(* A generator of numbers that is the same for all compilers. *)
let state = ref 1

let pick n =
  state := ((!state * 1103515245) + 12345) land 0x3fffffff;
  (!state lsr 8) mod n

let to_any : (int -> int) array ref = ref [||]

(* A call of any function of all modules. *)
let any d = !to_any.(pick (Array.length !to_any)) d

external callback : (int -> int) -> int -> int = "trees_callback"
external callback3 : (int -> int -> int -> int) -> int -> int = "trees_callback3"
external callback_exn : (int -> int) -> int -> int = "trees_callback_exn"

(* FILE N SEED DEEPEST [blocks]: grow trees until there are N hits. Each time after some hundred of them it
   prints how many there are, and waits for a line: so that a reader of hits can keep up. *)
let main () =
  let number i = int_of_string Sys.argv.(i) in
  let total = number 2 and deepest = number 4 and told = ref 0 in
  let tell what = Printf.printf "%s\n%!" what; ignore (input_line stdin) in
  state := number 3;
  blocks := Array.length Sys.argv > 5;
  tell "ready";
  out := open_out_bin Sys.argv.(1);
  while Atomic.get numbers < total do
    Atomic.set left 40;
    (try ignore (Sys.opaque_identity (any (1 + pick deepest))) with _ -> ());
    if Atomic.get numbers - !told >= 500 then begin
      told := Atomic.get numbers;
      tell (Printf.sprintf "hits %d" !told)
    end
  done;
  close_out !out;
  tell (Printf.sprintf "done %d" (Atomic.get numbers))
