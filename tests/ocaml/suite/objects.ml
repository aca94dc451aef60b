(* Probes in methods, initialisers, inherited and virtual methods, in class bodies, with self
   captured. *)
open Suite

class virtual shape (name : string) =
  let () = [%probe "class_body" (note "new %s" name)] in
  object (self)
    val mutable uses = 0
    method virtual area : int
    method describe =
      [%probe "method" (note "describing %s of %d" name self#area)];
      uses <- uses + 1; name
    method uses = uses
    initializer [%probe "initializer" (note "initialised %s" name)]
  end

class square side =
  object
    inherit shape "square"
    method area = side * side
  end

class cube side =
  object (self)
    inherit square side as super
    method! area = [%probe "override" (note "side %d, face %d" side super#area)]; 6 * super#area
    method volume = [%probe "calls_self" (note "area %d" self#area)]; side * side * side
  end

let[@inline never] twice o = o#describe ^ o#describe

let () =
  run (fun () ->
      let s = new square 3 and c = new cube 2 in
      say "%s %d" (twice s) s#uses;
      say "%d %d" c#area c#volume;
      let immediate = object method get x = [%probe "immediate" (note "get %d" x)]; x + 1 end in
      say "%d" (immediate#get 4))

(*expected
> new square
> initialised square
> new square
> initialised square
> describing square of 9
> describing square of 9
squaresquare 0
> side 2, face 4
> area 24
> side 2, face 4
24 8
> get 4
5
*)
