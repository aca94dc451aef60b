(* Marshalling, closures included (code pointers, and a checksum over the code, of which a probe's
   byte must not be a part), in handlers and around probes. *)
open Suite

let[@inline never] adder x = fun y -> [%probe "marshalled" (note "%d + %d" x y)]; x + y

let[@inline never] copy (v : 'a) : 'a =
  let s = Marshal.to_string v [ Marshal.Closures ] in
  [%probe "between" (note "closures: %b" (String.length s > 20))];
  Marshal.from_string s 0

let[@inline never] in_handler v =
  [%probe "marshals"
    (let w = Marshal.from_string (Marshal.to_string v []) 0 in
     note "%b %b" (w = v) (w == v))];
  List.length v

let () =
  run (fun () ->
      say "%d" (copy (adder 3) 4);
      say "%d" (in_handler [ 1.5; 2.5 ]);
      say "%d" (Obj.reachable_words (Obj.repr (copy [ 1; 2 ]))))

(*expected
> closures: true
> 3 + 4
7
> true false
2
> closures: true
6
*)
