(* Prints backtraces: for each call its return address, as linked, and its locations as Printexc has them. *)

external return_address : Printexc.raw_backtrace_entry -> string = "frames_return_address"

(* From 5.2 on there are an end line and a column in it. *)
let text (l : Printexc.location) =
  let fields = Obj.repr l in
  let field n : int = Obj.obj (Obj.field fields n) in
  let end_line, end_col = if Obj.size fields > 4 then (field 4, field 5) else (l.line_number, l.end_char) in
  Printf.sprintf "%s %d-%d %d-%d" l.filename l.line_number end_line l.start_char end_col

let rec locations slot =
  let shown = Printexc.convert_raw_backtrace_slot slot in
  let this =
    match (Printexc.Slot.location shown, Printexc.Slot.name shown) with
    | Some l, Some name ->
        Printf.sprintf " | %s %s%s%s" name (text l)
          (if Printexc.Slot.is_inline shown then " inlined" else "")
          (if Printexc.Slot.is_raise shown then " raise" else "")
    | _ -> ""
  in
  this ^ match Printexc.get_raw_backtrace_next_slot slot with None -> "" | Some next -> locations next

let print backtrace =
  let entries = Printexc.raw_backtrace_entries backtrace in
  Array.iteri
    (fun i entry ->
      print_endline (return_address entry ^ locations (Printexc.get_raw_backtrace_slot backtrace i)))
    entries

let here () = print (Printexc.get_callstack 50)

let[@inline] twice f x =
  f x;
  f x

let[@inline] inlined x =
  twice (fun () -> here ()) x;
  x

module type STEP = sig
  val step : unit -> unit
end

module Make (X : STEP) = struct
  module Inner = struct
    let ( @@@ ) a b =
      X.step ();
      a + b
  end

  let run () = ignore (Sys.opaque_identity (Inner.( @@@ ) 1 2))
end

module One = Make (struct
  let step () = here ()
end)

class thing =
  object
    method go =
      here ();
      1
  end

                                                                               let far_right () = here (); ignore (Sys.opaque_identity 1)

let many_lines f =
  ignore
    (Sys.opaque_identity
       (f







          ()))

let raising n = if n > 0 then raise Not_found else failwith "no"

# 600000 "far_below.ml"
let far_below () =
  here ();
  ignore (Sys.opaque_identity 1)

# 5000 "further.mll"
let caught f =
  match Sys.opaque_identity f 1 with
  | _ -> assert false
  | exception Not_found -> print (Printexc.get_raw_backtrace ())

let () =
  Printexc.record_backtrace true;
  twice inlined ();
  One.run ();
  ignore (Sys.opaque_identity (new thing)#go);
  far_right ();
  many_lines here;
  far_below ();
  List.iter (fun f -> f ()) [ here; (fun () -> here (); ignore (Sys.opaque_identity 1)) ];
  caught raising;
  caught (fun n -> if raising n then 1 else 2)
