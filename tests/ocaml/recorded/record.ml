(* What the handlers of programs do that recorded_ppx.ml has rewritten: each hit writes a line with its number
   and what Printexc knows of the stack, as tests/ocaml/trees/record.ml does, to the file RECORD_FILE.

   Signals, finalisers and exceptions of others may come in between. The functions of C let none of them run. *)

external write_line : string -> unit = "record_write_line" [@@noalloc]
external start : unit -> unit = "record_start" [@@noalloc]

let () = start ()

(* More than the frames that the tool walks. *)
let deepest = 2000

(* Of each site the first hits have numbers, and some of the next ones; the others have -1. *)
let first = 100
let every = 997
let last = 40_000
let hits = Array.init 8192 (fun _ -> Atomic.make 0)
let numbers = Atomic.make 0

(* With RECORD_WAITS in the environment nothing is recorded before SIGUSR2. *)
let waits = ref (Sys.getenv_opt "RECORD_WAITS" <> None)
let () = if !waits then Sys.set_signal Sys.sigusr2 (Sys.Signal_handle (fun _ -> waits := false))

let next site =
  let hit = if !waits then last else Atomic.fetch_and_add hits.(site land 8191) 1 in
  if hit < first || (hit mod every = 0 && hit < last) then Atomic.fetch_and_add numbers 1 else -1

let describe slot =
  match Printexc.Slot.(location slot, name slot) with
  | Some { filename; line_number; _ }, Some name ->
    Printf.sprintf "%s:%d:%d:%s" filename line_number (Bool.to_int (Printexc.Slot.is_inline slot)) name
  | _ -> "?"

let write number stack =
  let slots = Option.value (Printexc.backtrace_slots stack) ~default:[||] in
  write_line
    (String.concat "|" (string_of_int number :: List.map describe (Array.to_list slots)) ^ "\n")

let[@inline never] here number =
  if number >= 0 then begin
    let stack = Printexc.get_callstack deepest in
    try write number stack with e -> write number stack; raise e
  end

(* It stands behind `here`, which then is no tail call. *)
let[@inline never] nothing () = ()
