(* Probes in modules that are values: packed, unpacked, chosen at run time, made in a loop. *)
open Suite

module type SHAPE = sig
  val name : string
  val area : int -> int
end

let square =
  (module struct
    let name = "square"
    let area x = [%probe "square" (note "square of %d" x)]; x * x
  end : SHAPE)

let triangle =
  (module struct
    let name = "triangle"
    let area x = [%probe "triangle" (note "triangle of %d" x)]; x * x / 2
  end : SHAPE)

let scaled factor (module S : SHAPE) =
  (module struct
    let name = [%probe "made" (note "made from %s" S.name)]; S.name ^ "'"
    let area x = [%probe "scaled" (note "%s by %d" name factor)]; factor * S.area x
  end : SHAPE)

let[@inline never] total shapes x =
  List.fold_left (fun sum (module S : SHAPE) -> sum + S.area x) 0 shapes

let () =
  run (fun () ->
      let shapes = [ square; triangle; scaled 3 square ] in
      say "total %d" (total shapes 4);
      List.iter (fun (module S : SHAPE) -> say "%s" S.name) shapes)

(*expected
> made from square
> square of 4
> triangle of 4
> square' by 3
> square of 4
total 72
square
triangle
square'
*)
