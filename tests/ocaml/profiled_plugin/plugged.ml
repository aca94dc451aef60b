(* A plugin, whose code is by far the most that runs. The test knows these lines. *)

module Inner = struct
  let[@inline never] turn n = n lxor 21

  let[@inline never] spin n =
    let sum = ref 0 in
    for i = 1 to n do
      sum := (!sum lxor i) * 3
    done;
    for i = 1 to n do
      sum := !sum + turn i
    done;
    !sum
end

let[@inline never] start n = 1 + Inner.spin n

let () = Host_api.work := fun n -> 1 + start n
