(* SPDX-License-Identifier: MIT *)
(* What only OCaml 5 has: effects and domains. *)
open Books
open Effect
open Effect.Deep

type _ Effect.t += Ask : int -> int Effect.t

let[@inline never] asks x = hit "Versioned.asks"; let y = perform (Ask x) in y + 1
let rec asks_deep n = hit "Versioned.asks_deep"; if n = 0 then asks n else 1 + asks_deep (n - 1)
let[@inline never] discarded x = hit "Versioned.discarded"; let y = perform (Ask x) in y + 1

let[@inline never] answered f x =
  hit "Versioned.answered";
  try_with f x
    { effc = fun (type a) (e : a Effect.t) ->
        match e with
        | Ask n -> Some (fun (k : (a, _) continuation) -> continue k (n + 1))
        | _ -> None }

let[@inline never] refused f x =
  hit "Versioned.refused";
  match_with f x
    { retc = (fun y -> y); exnc = (fun _ -> 0);
      effc = fun (type a) (e : a Effect.t) ->
        match e with
        | Ask _ -> Some (fun (k : (a, _) continuation) -> discontinue k Exit)
        | _ -> None }

let[@inline never] one_round i =
  hit "Versioned.one_round";
  ignore (Sys.opaque_identity (answered asks i));
  ignore (Sys.opaque_identity (answered asks_deep 5));
  ignore (Sys.opaque_identity (refused discarded i))

let[@inline never] run_domains n run =
  hit "Versioned.run_domains";
  let domains = List.init n (fun _ -> Domain.spawn run) in
  fun () -> List.iter Domain.join domains

(* ---- for timed.ml ---- *)

type _ Effect.t += Park : unit Effect.t

let[@inline never] performs us =
  hit "Versioned.performs";
  let start = clock () in
  burn us;
  perform Park;
  burn us;
  inner "Versioned.performs" (clock () - start)

type fibre = Done | Parked of (unit, fibre) continuation

(* Start [performs] in a fibre, up to its effect. *)
let started us =
  match_with (fun () -> around "Versioned.performs" performs us) ()
    { retc = (fun () -> Done); exnc = raise;
      effc = fun (type a) (e : a Effect.t) ->
        match e with
        | Park -> Some (fun (k : (a, _) continuation) -> Parked k)
        | _ -> None }

(* Its fibres end by an exception, some of them many. *)
let[@inline never] abandons us =
  hit "Versioned.abandons";
  hit "Versioned.abandons:raised";
  burn us;
  ignore (perform (Ask us))

let go_on = function Done -> () | Parked k -> ignore (continue k ())

let timed us =
  for _ = 1 to 20 do ignore (refused (fun us -> abandons us; 0) us) done;
  (* Fibres in turns, the first ended first, then last. *)
  for _ = 1 to 5 do
    let a = started us in
    let b = started us in
    go_on a; go_on b;
    let a = started us in
    let b = started us in
    go_on b; go_on a
  done;
  (* They end in another domain than they began in. *)
  for _ = 1 to 5 do
    let a = started us in
    let b = started us in
    Domain.join (Domain.spawn (fun () -> go_on a; go_on b))
  done

(* For slow_calls.ml: calls that last 1000 + 2 * I microseconds and more, I below N. Each ends after another one that began
   later, in another domain. *)
let fibres n =
  for i = 0 to (n / 2) - 1 do
    let a = started (500 + (2 * i)) in
    let b = started (501 + (2 * i)) in
    Domain.join (Domain.spawn (fun () -> go_on b; go_on a))
  done

(* For outermost.ml: calls in a fibre are inner calls if its parent is in a call. Calls in fibres that wait are not around those in other
   fibres. *)
let rec nests top us n =
  if top then hit "Versioned.nests";
  let start = clock () in
  burn us;
  let deeper () = match_with (nests false us) (n - 1) { retc = (fun m -> m); exnc = raise; effc = (fun _ -> None) } in
  let m = if n = 0 then 0 else 1 + deeper () in
  if top then inner "Versioned.nests" (clock () - start);
  m

let outermost us =
  for _ = 1 to 5 do ignore (around "Versioned.nests" (nests true us) 3) done;
  timed us
