(* A library with probes, for library.ml: some of its functions are inlined there. *)

let log : (string -> unit) ref = ref ignore

let[@inline always] price ~net =
  [%probe "price" (!log (Printf.sprintf "net %d" net))];
  net + (net / 5)

let[@inline never] total items =
  List.fold_left (fun sum (n, net) ->
    [%probe "total" (!log (Printf.sprintf "item %d" n))];
    sum + (n * price ~net)) 0 items

module type ITEM = sig
  val name : string
end

module Store (Item : ITEM) = struct
  let n = ref 0
  let add k = [%probe "add" (!log (Printf.sprintf "%s + %d" Item.name k))]; n := !n + k; !n
end

let enabled () = [%probe_is_enabled "price"]
