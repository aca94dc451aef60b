(* What Probes_lib.Memprof tells, as the command's --json, and whether its reports are those of the events. *)
open Probes_lib.Memprof

let kind_name = function
  | Alloc_minor _ -> "alloc_minor"
  | Alloc_major _ -> "alloc_major"
  | Promote -> "promote"
  | Dealloc_minor -> "dealloc_minor"
  | Dealloc_major -> "dealloc_major"

let allocation_of = function
  | Alloc_minor allocation | Alloc_major allocation -> Some allocation
  | Promote | Dealloc_minor | Dealloc_major -> None

let print_frame { name; file; line } =
  match file with
  | None -> Printf.sprintf "{\"function\":%S}" name
  | Some file -> Printf.sprintf "{\"function\":%S,\"file\":%S,\"line\":%d}" name file line

let print_event number event =
  let { kind; id; time; domain; minor_collections; major_collections } = event in
  let allocation = allocation_of kind in
  Option.iter
    (fun { callstack; _ } ->
      Printf.printf "{\"event\":\"stack\",\"stack\":%d,\"frames\":[%s]}\n" number
        (String.concat "," (List.map print_frame (Array.to_list callstack))))
    allocation;
  Printf.printf
    "{\"event\":\"%s\",\"block\":%d,\"time\":%f,\"domain\":%d,\"minor_collections\":%d,\"major_collections\":%d"
    (kind_name kind) id time domain minor_collections major_collections;
  Option.iter
    (fun { n_samples; size; source; _ } ->
      Printf.printf ",\"samples\":%d,\"words\":%d,\"source\":\"%s\",\"stack\":%d" n_samples size
        (match source with Normal -> "normal" | Marshal -> "marshal" | Custom -> "custom")
        number)
    allocation;
  print_string "}\n"

let print_end { allocations; lost_samples; promotions; deallocations; unread; damaged; cut; _ } =
  Printf.printf
    "{\"event\":\"end\",\"lost\":{\"alloc\":%d,\"samples\":%d,\"promote\":%d,\"dealloc\":%d,\"unread\":%d},\"damaged\":%b,\"cut\":%b}\n%!"
    allocations lost_samples promotions deallocations unread damaged cut

(* ---- reports from events -------------------------------------------------------------------------- *)

(* Of one key: samples, live ones, blocks, live ones, in the major heap, promoted, freed in the minor heap. *)
type sums = { numbers : int array; deaths : int array; mutable life : float; mutable objects : float }

let new_sums () = { numbers = Array.make 7 0; deaths = Array.make 8 0; life = 0.; objects = 0. }
let add sums i n = sums.numbers.(i) <- sums.numbers.(i) + n

let class_of majors =
  if majors <= 2 then majors
  else if majors <= 4 then 3
  else if majors <= 8 then 4
  else if majors <= 16 then 5
  else if majors <= 32 then 6
  else 7

type block = { born : event; allocation : allocation; mutable in_major : bool }

let sums_by key_of events =
  let table = Hashtbl.create 100 and blocks = Hashtbl.create 1000 in
  let sums_of allocation =
    let key = key_of allocation.callstack in
    match Hashtbl.find_opt table key with
    | Some sums -> sums
    | None ->
      let sums = new_sums () in
      Hashtbl.add table key sums;
      sums
  in
  Array.iter
    (fun event ->
      match allocation_of event.kind, Hashtbl.find_opt blocks event.id with
      | Some allocation, _ ->
        let sums = sums_of allocation and n = allocation.n_samples in
        let in_major = match event.kind with Alloc_major _ -> true | _ -> false in
        Hashtbl.add blocks event.id { born = event; allocation; in_major };
        add sums 0 n;
        add sums 1 n;
        add sums 2 1;
        add sums 3 1;
        if in_major then add sums 4 n;
        sums.objects <- sums.objects +. (float_of_int n /. float_of_int (allocation.size + 1))
      | None, None -> failwith "an unknown block"
      | None, Some block -> (
        let sums = sums_of block.allocation and n = block.allocation.n_samples in
        match event.kind with
        | Promote ->
          block.in_major <- true;
          add sums 5 n
        | _ ->
          Hashtbl.remove blocks event.id;
          add sums 1 (-n);
          add sums 3 (-1);
          sums.life <- sums.life +. ((event.time -. block.born.time) *. float_of_int n);
          if block.in_major then (
            let number = class_of (event.major_collections - block.born.major_collections) in
            sums.deaths.(number) <- sums.deaths.(number) + n)
          else add sums 6 n))
    events;
  table

let samples_of rate words = int_of_float ((words *. rate) +. 0.5)

let is_near a b = Float.abs (a -. b) <= 1e-5 *. (1. +. Float.abs a)

let is_equal rate sums (usage : usage) =
  let samples = samples_of rate in
  sums.numbers
  = [| usage.samples; usage.live_samples; usage.sampled_blocks; usage.live_sampled_blocks;
       samples usage.major_words; samples usage.promoted_words; samples usage.minor_deaths |]
  && sums.deaths = Array.map samples usage.major_deaths
  && samples usage.words = usage.samples
  && samples usage.live_words = usage.live_samples
  && is_near sums.objects (usage.blocks *. rate)
  &&
  let dead = sums.numbers.(0) - sums.numbers.(1) in
  if dead = 0 then Float.is_nan usage.mean_lifetime
  else is_near (sums.life /. float_of_int dead) usage.mean_lifetime

let check what rate table usages =
  if Hashtbl.length table <> Array.length usages then
    failwith (Printf.sprintf "%s: %d, not %d" what (Array.length usages) (Hashtbl.length table));
  Array.iter
    (fun (key, usage) ->
      match Hashtbl.find_opt table key with
      | Some sums when is_equal rate sums usage -> ()
      | Some _ -> failwith (what ^ ": differs")
      | None -> failwith (what ^ ": not in the events"))
    usages

let innermost callstack = callstack.(0)

let rec falls number = function
  | (_, a) :: ((_, b) :: _ as rest) -> number a >= number b && falls number rest
  | _ -> true

(* Raises Failure unless the reports of SESSION, which has ended, are those of EVENTS, all it had. *)
let check_reports session events =
  let report = report session and live = report ~by:Live session in
  check "sites" report.rate (sums_by innermost events) report.sites;
  check "live sites" report.rate (sums_by innermost events) live.sites;
  check "total" report.rate (sums_by ignore events) [| (), report.total |];
  (* Two call stacks may have the same names. *)
  let stacks = Hashtbl.create 100 in
  Array.iter
    (fun (frames, (usage : usage)) ->
      let before = Option.value ~default:0 (Hashtbl.find_opt stacks frames) in
      Hashtbl.replace stacks frames (before + usage.samples))
    report.stacks;
  let expected = sums_by Fun.id events in
  if Hashtbl.length stacks <> Hashtbl.length expected then failwith "stacks: not as many";
  Hashtbl.iter
    (fun frames sums ->
      if Hashtbl.find_opt stacks frames <> Some sums.numbers.(0) then failwith "stacks: differ")
    expected;
  if not (falls (fun (u : usage) -> u.words) (Array.to_list report.sites)) then failwith "no order";
  if not (falls (fun (u : usage) -> u.live_words) (Array.to_list live.sites)) then
    failwith "no order of live words";
  Printf.eprintf "%d events, %d sites, %d stacks\n%!" (Array.length events)
    (Array.length report.sites) (Array.length report.stacks)
