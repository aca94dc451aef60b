(* SPDX-License-Identifier: MIT *)
(* The first worker is this domain. The domains begin to work when all exist: if one ended before another began, both would
   have the same ring of events. *)
let run n work =
  let mutex = Mutex.create () and condition = Condition.create () and all_exist = ref false in
  let await_all () =
    Mutex.lock mutex;
    while not !all_exist do
      Condition.wait condition mutex
    done;
    Mutex.unlock mutex
  in
  let others = List.init (n - 1) (fun i -> Domain.spawn (fun () -> await_all (); work (i + 1))) in
  Mutex.lock mutex;
  all_exist := true;
  Condition.broadcast condition;
  Mutex.unlock mutex;
  work 0;
  List.iter Domain.join others
