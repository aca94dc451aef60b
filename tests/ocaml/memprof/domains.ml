(* OCaml 5: domains that were there before the profile, that come and go during it, and that wait. With
   an argument: one that allocates once in a while, one that is busy without it, and one that waits. *)

let sink = ref (Obj.repr 0)
let[@inline never] keep x = sink := Obj.repr x

let[@inline never] work name n =
  for i = 1 to n do
    ignore (Sys.opaque_identity (List.init 100 (fun j -> name, i + j)))
  done

let[@inline never] old_domain stop =
  while not (Atomic.get stop) do
    work "old" 50;
    Unix.sleepf 0.0005
  done

let[@inline never] young_domain () =
  for _ = 1 to 20 do
    work "young" 50
  done

let[@inline never] rare_domain stop =
  while not (Atomic.get stop) do
    keep (ref 0);
    Unix.sleepf 0.005
  done

let[@inline never] busy_domain stop =
  let n = ref 0 in
  while not (Atomic.get stop) do
    for _ = 1 to 10_000_000 do
      incr n
    done;
    keep (ref !n)
  done

let[@inline never] waiting_domain input stop =
  ignore (Unix.read input (Bytes.create 1) 0 1);
  rare_domain stop

let apart () =
  let stop = Atomic.make false and input, output = Unix.pipe () in
  let domains = List.map Domain.spawn [ (fun () -> rare_domain stop); (fun () -> busy_domain stop); (fun () -> waiting_domain input stop) ] in
  let ids = List.map (fun domain -> string_of_int (Domain.get_id domain :> int)) domains in
  Printf.printf "domains %s\n%!" (String.concat " " ids);
  (* The main domain waits, too, but not for long. *)
  let rec await_line () =
    match Unix.select [ Unix.stdin ] [] [] 0.002 with
    | [], _, _ -> await_line ()
    | _ -> ignore (input_line stdin)
  in
  await_line ();
  ignore (Unix.write output (Bytes.create 1) 0 1);
  await_line ();
  Atomic.set stop true;
  List.iter Domain.join domains

let together () =
  let stop = Atomic.make false in
  let olds = List.init 2 (fun _ -> Domain.spawn (fun () -> old_domain stop)) in
  Printf.printf "ready\n%!";
  let rec loop () =
    Domain.join (Domain.spawn young_domain);
    match Unix.select [ Unix.stdin ] [] [] 0.002 with
    | [], _, _ -> loop ()
    | _ -> (
      match input_line stdin with
      | "quit" | (exception End_of_file) -> ()
      | _ ->
        let can_start () =
          match Gc.Memprof.start ~sampling_rate:0. Gc.Memprof.null_tracker with
          | _ -> Gc.Memprof.stop (); true
          | exception Failure _ -> false
        in
        let mine = can_start () in
        let childs = Domain.join (Domain.spawn can_start) in
        Printf.printf "%s\n%!" (if mine && childs then "free" else "profiled");
        loop ())
  in
  loop ();
  Atomic.set stop true;
  List.iter Domain.join olds

let () = if Array.length Sys.argv > 1 then apart () else together ()
