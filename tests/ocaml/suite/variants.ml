(* Matches that become jump tables and binary searches: on constructors, polymorphic variants,
   strings, characters; a probe in every branch and before and after. *)
open Suite

type op =
  | Push of int
  | Add
  | Sub
  | Mul
  | Dup
  | Swap
  | Drop
  | Jump of int
  | Jump_if of int
  | Print
  | Halt

let[@inline never] interpret code =
  let rec go pc stack =
    [%probe "step" (if pc = 3 then note "at 3, stack of %d" (List.length stack))];
    match code.(pc), stack with
    | Push n, s -> [%probe "push" (note "push %d" n)]; go (pc + 1) (n :: s)
    | Add, a :: b :: s -> go (pc + 1) ((a + b) :: s)
    | Sub, a :: b :: s -> [%probe "sub" ()]; go (pc + 1) ((b - a) :: s)
    | Mul, a :: b :: s -> [%probe "mul" (note "%d * %d" b a)]; go (pc + 1) ((a * b) :: s)
    | Dup, a :: s -> go (pc + 1) (a :: a :: s)
    | Swap, a :: b :: s -> [%probe "swap" ()]; go (pc + 1) (b :: a :: s)
    | Drop, _ :: s -> go (pc + 1) s
    | Jump target, s -> go target s
    | Jump_if target, a :: s ->
      [%probe "jump_if" (note "%d" a)];
      go (if a <> 0 then target else pc + 1) s
    | Print, a :: s -> say "%d" a; go (pc + 1) s
    | Halt, s -> [%probe "halt" (note "halt")]; List.length s
    | _ -> [%probe "underflow" (note "underflow")]; -1
  in
  go 0 []

let[@inline never] strings = function
  | "alpha" -> [%probe "alpha" (note "alpha")]; 1
  | "beta" | "gamma" -> [%probe "beta" (note "beta or gamma")]; 2
  | "a much longer string than the others" -> [%probe "long" (note "long")]; 3
  | s -> [%probe "none" (note "%S" s)]; String.length s

let[@inline never] tags = function
  | `Red -> [%probe "red" (note "red")]; 1
  | `Rgb (r, g, b) -> [%probe "rgb" (note "rgb %d" (r + g + b))]; r + g + b
  | `Grey x -> [%probe "grey" (note "grey")]; x

let program =
  [| Push 1; Push 5; Dup; Jump_if 7; Drop; Print; Halt; Dup; Push 1; Swap; Sub; Jump 12; Halt |]

let () =
  run (fun () ->
      say "left %d" (interpret program);
      say "left %d" (interpret [| Push 6; Push 7; Mul; Print; Halt |]);
      say "left %d" (interpret [| Add |]);
      let texts = [ "alpha"; "gamma"; "delta"; "a much longer string than the others" ] in
      say "%d" (List.fold_left (fun n s -> n + strings s) 0 texts);
      say "%d" (tags `Red + tags (`Rgb (1, 2, 3)) + tags (`Grey 9)))

(*expected
> push 1
> push 5
> at 3, stack of 3
> 5
> push 1
> halt
left 3
> push 6
> push 7
> 6 * 7
> at 3, stack of 1
42
> halt
left 0
> underflow
left -1
> alpha
> beta or gamma
> "delta"
> long
11
> grey
> rgb 6
> red
16
*)
