(* Memory that grows outside of the OCaml heap: each image is a Bigarray of 64 kilobytes, and all are kept. *)

let images = ref []

let[@inline never] load () =
  let image = Bigarray.(Array1.create char c_layout 65536) in
  Bigarray.Array1.fill image 'x';
  images := image :: !images

let () =
  while true do
    load ();
    Unix.sleepf 0.01
  done
