#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""generate.py SEED FOLDER [effects]: write the modules of a random program into FOLDER.

Its functions, `int -> int`, call each other in all the ways that leave something of their own on the
stack: see Body. The argument is how deep the tree may still grow; where it ends, and here and there on
the way, stands the probe `here`. With `effects` the program has handlers of effects, and domains."""

import random
import sys

MODULES = 4
FUNCTIONS = 14

PROBE = '(let n = Record.next () in [%probe "here" ~args:n (Record.here n)])'


class Body:
    """A function's body: one of several expressions, chosen when it runs."""

    def __init__(self, rng, direct, effects):
        self.rng, self.direct, self.effects = rng, direct, effects
        self.names = 0

    def name(self):
        self.names += 1
        return f"x{self.names}"

    def call(self):
        """A call of a function that is known here, or of any."""
        if self.rng.random() < 0.75:
            return f"{self.rng.choice(self.direct)} (d - 1)"
        return "Record.any (d - 1)"

    def expression(self):
        kind = "of_5_" if self.effects and self.rng.random() < 0.35 else "by_"
        forms = [getattr(self, form) for form in sorted(dir(Body)) if form.startswith(kind)]
        return self.rng.choice(forms)()

    def plain(self):
        """What can be inlined."""
        return self.rng.choice([
            f"1 + {self.call()}",
            f"{PROBE}; {self.call()}",
            f"{self.call()} + {self.call()}",
            f"(if d > 3 then {PROBE}); 1 + {self.call()}",
            f"try 1 + {self.call()} with Not_found -> {PROBE}; 2",
            f"let y = {self.call()} in if y > 3 then y else {self.call()}",
        ])

    def by_sum(self):
        return f"1 + {self.call()}"

    def by_tail(self):
        return self.call()

    def by_probe(self):
        return f"{PROBE};\n    1 + {self.call()}"

    def by_try(self):
        return f"(try {self.call()} with Exit -> {self.call()})"

    def by_try_deep(self):
        return (f"(try (try 1 + {self.call()} with Not_found -> 1 + {self.call()})\n"
                f"     with Failure _ -> {PROBE}; {self.call()})")

    def by_raise(self):
        what = self.rng.choice(["raise Exit", "raise_notrace Exit", "raise Not_found",
                                'failwith "no"', "List.hd (Sys.opaque_identity [])"])
        return f"(try if Record.pick 3 = 0 then {what} else {self.call()} with Exit | Failure _ -> {self.call()})"

    def by_raise_out(self):
        return f"(if Record.pick 4 = 0 then raise Not_found); 1 + {self.call()}"

    def by_match_exception(self):
        return f"(match {self.call()} with exception (Exit | Not_found) -> 1 + {self.call()} | y -> y)"

    def by_local_exception(self):
        return (f"(let exception Local of int in\n     try ignore ({self.call()}); raise (Local 1)\n"
                f"     with Local k -> k + {self.call()})")

    def by_fold(self):
        return f"List.fold_left (fun a e ->\n      a + e + {self.call()}) 0 [ 1; 2 ]"

    def by_fold_right(self):
        return f"List.fold_right (fun e a -> a + e + {self.call()}) [ 1; 2 ] 0"

    def by_map(self):
        return f"List.length (List.map (fun e -> e + {self.call()}) [ 1; 2 ])"

    def by_sort(self):
        return f"List.hd (List.sort (fun a b ->\n      ignore ({self.call()});\n      compare a b) [ 3; d; 1 ])"

    def by_array_sort(self):
        return f"(let a = [| 3; d; 2 |] in Array.stable_sort (fun a b -> {self.call()} + a - b) a; a.(0))"

    def by_hashtbl(self):
        return f"(let t = Hashtbl.create 1 in Hashtbl.add t d d; let s = ref 0 in\n     Hashtbl.iter (fun _ v -> s := v + {self.call()}) t; !s)"

    def by_map_module(self):
        return f"Ints.fold (fun k v a -> k + v + a + {self.call()}) Ints.(add 1 2 empty) 0"

    def by_lazy(self):
        return f"1 + Lazy.force (lazy (1 + {self.call()}))"

    def by_seq(self):
        return f"Seq.fold_left (fun a e -> a + e) 0 (Seq.map (fun e -> e + {self.call()}) (List.to_seq [ 1; 2 ]))"

    def by_callback(self):
        return f"Record.callback (fun d -> 1 + {self.call()}) d"

    def by_callback_of(self):
        return f"1 + Record.callback {self.rng.choice(self.direct)} (d - 1)"

    def by_callback3(self):
        return f"1 + Record.callback3 (fun d a b -> a + b + {self.call()}) d"

    def by_callback_partial(self):
        return f"1 + Record.callback3 (fun d a -> let y = a + {self.call()} in fun b -> b + y + {self.call()}) d"

    def by_callback_exn(self):
        return f"(try Record.callback_exn (fun d -> if Record.pick 2 = 0 then raise Exit else {self.call()}) d with Exit -> {self.call()})"

    def by_format(self):
        return f'Printf.ksprintf (fun s -> String.length s + {self.call()}) "%d %s" d "x"'

    def by_format_a(self):
        return f'String.length (Printf.sprintf "%a" (fun () d -> string_of_int ({self.call()})) d)'

    def by_protect(self):
        return f"Fun.protect ~finally:(fun () -> ignore ({self.call()})) (fun () -> {self.call()})"

    def by_object(self):
        return (f"(let o = object (self)\n       method run d = 1 + self#step d\n"
                f"       method private step d = {self.call()} + d\n     end in o#run d)")

    def by_class(self):
        return f"1 + (new counter d)#{self.rng.choice(['run', 'twice'])} (fun d -> {self.call()})"

    def by_functor(self):
        return f"(let module M = Make (struct let step d = 1 + {self.call()} end) in M.run d)"

    def by_first_class(self):
        return f"(let m = (module struct let step d = 1 + {self.call()} end : STEP) in\n     let module M = (val m) in 1 + M.step d)"

    def by_partial(self):
        return f"(let p = three {self.rng.choice(self.direct)} d in 1 + Sys.opaque_identity p (d - 1))"

    def by_partial_map(self):
        return f"List.length (List.map (three {self.rng.choice(self.direct)} 1) [ d - 1; d - 2 ])"

    def by_too_many(self):
        return f"1 + (Sys.opaque_identity returns) 1 {self.rng.choice(self.direct)} (d - 1)"

    def by_labels(self):
        return f"labelled ?more:{self.rng.choice(['None', '(Some 3)'])} ~f:{self.rng.choice(self.direct)} (d - 1)"

    def by_tuple(self):
        return f"1 + (Sys.opaque_identity paired) ({self.rng.choice(self.direct)}, d - 1)"

    def by_local_loop(self):
        return (f"(let rec loop i = if i = 0 then {self.call()} else 1 + loop (i - 1) in\n"
                f"     loop (1 + Record.pick 3))")

    def by_for(self):
        return f"(let s = ref 0 in\n     for i = 1 to 2 do\n       s := !s + i + {self.call()}\n     done; !s)"

    def by_operator(self):
        return f"(let ( +! ) a b = a + b + {self.call()} in 1 + (d +! 2))"

    def by_gc(self):
        return f"(let l = List.init 300 (fun i -> float i) in let y = {self.call()} in y + List.length l)"

    def by_stdlib_find(self):
        return f"(try List.find (fun e -> {self.call()} + e < 0) [ 1; 2 ] with Not_found -> {self.call()})"

    def by_option(self):
        return f"Option.fold ~none:0 ~some:(fun d -> 1 + {self.call()}) (Some d)"

    def by_pipe(self):
        return f"(d - 1 |> {self.rng.choice(self.direct)} |> fun y -> y + {self.call()})"

    def by_thread(self):
        if self.rng.random() < 0.6:
            return self.by_tail()
        return (f"(let y = ref 0 in\n     Thread.join (Thread.create (fun d -> y := (try {self.call()} with _ -> 3)) d);\n"
                f"     1 + !y)")

    def handler(self, body, result, guard, effect):
        return (f"Effect.Deep.match_with (fun () -> {body}) ()\n      {{ retc = (fun y -> {result});\n"
                f"        exnc = (function Exit -> {self.call()} | e -> raise e);\n"
                "        effc = (fun (type c) (e : c Effect.t) ->\n          match e with\n"
                f"          | Ask n when {guard} -> Some (fun (k : (c, int) Effect.Deep.continuation) -> {effect})\n"
                "          | _ -> None) }")

    def of_5_handler(self):
        return self.handler(f"{self.call()} + Effect.perform (Ask d)", "1 + y", "n >= 0",
                            f"{PROBE}; Effect.Deep.continue k ({self.call()})")

    def of_5_other(self):
        return self.handler(f"1 + {self.call()}", f"{PROBE}; y", "n > 99", "Effect.Deep.continue k n")

    def of_5_perform(self):
        return f"(1 + try Effect.perform (Ask d) with Effect.Unhandled _ -> {self.call()})"

    def of_5_discontinue(self):
        return self.handler(f"{self.call()} + Effect.perform (Ask d)", "y", "n mod 2 = 0",
                            "Effect.Deep.discontinue k Exit")

    def of_5_callback(self):
        return self.handler(f"Record.callback (fun d -> 1 + {self.call()}) d", f"y + {self.call()}", "false",
                            "Effect.Deep.continue k n")

    def of_5_domain(self):
        if self.rng.random() < 0.7:
            return self.by_tail()
        return f"(1 + Domain.join (Domain.spawn (fun () -> try {self.call()} with _ -> 3)))"


PRELUDE = """module Ints = Map.Make (Int)

module type STEP = sig
  val step : int -> int
end

module Make (S : STEP) = struct
  let run d = 1 + S.step d

  module Within = struct
    let run d = run d + 1
  end
end

class counter n =
  object (self)
    val mutable n = n
    method run f = n <- n + 1; 1 + f (n - 2)
    method twice f = self#run f + 1
  end

let[@inline never] three f a b = a + f b
let[@inline never] returns a = if a > 0 then fun f d -> 1 + f d else fun _ d -> d
let[@inline never] labelled ?(more = 1) ~f d = more + f d
let[@inline never] paired (f, d) = 1 + f d
let _ = (three, returns, (fun f d -> labelled ~f d), paired)
"""


def function(name, body, keyword, attribute=""):
    branches = [body.expression() for _ in range(4)]
    text = f"{keyword.replace(' ', attribute + ' ', 1) if ' ' in keyword else keyword + attribute} {name} (d : int) : int =\n  if d <= 0 then ({PROBE}; d)\n  else if Record.is_over () then 0\n"
    text += f"  else\n    match Record.pick {len(branches)} with\n"
    for number, branch in enumerate(branches):
        pattern = number if number + 1 < len(branches) else "_"
        text += f"    | {pattern} -> {branch}\n"
    return text + "\n"


def module(rng, number, earlier, effects):
    text = PRELUDE
    if effects:
        text += "open Common\n"
    known, own = list(earlier), []
    if number == 2:
        text += '\n# 70000 "far/away.ml"\n'
    groups = ["", "Inner", "Inner.Deep", ""]
    for level, path in enumerate(groups):
        indent = path.count(".") + 1 if path else 0
        for part in path.split(".") if path else []:
            text += f"module {part}{level} = struct\n"
        prefix = "".join(f"{part}{level}." for part in path.split(".")) if path else ""
        names = [f"f{level}_{i}" + ("'" if i == 2 else "") for i in range(FUNCTIONS // 4)]
        inlined = [f"i{level}_{i}" for i in range(3)]
        here = []
        for name in inlined:
            if not known and not here:
                continue
            body = Body(rng, known + here, effects)
            text += f"let[@inline] {name} (d : int) : int = if d <= 0 then ({PROBE}; d) else ({body.plain()})\n"
            here.append(name)
        for i, name in enumerate(names):
            body = Body(rng, known + here + names, effects)
            text += function(name, body, "and" if i else "let rec", rng.choice(["", "[@inline never]"]))
        here += names
        text += "end\n" * indent
        known += [prefix + name for name in here]
        own += [prefix + name for name in here]
    text += "let all = [| " + "; ".join(own) + " |]\n"
    return text, [f"M{number}.{name}" for name in own]


def main():
    seed, folder = int(sys.argv[1]), sys.argv[2]
    effects = sys.argv[3:] == ["effects"]
    rng = random.Random(seed)
    known, texts = [], []
    for number in range(MODULES):
        text, names = module(rng, number, known, effects)
        known += rng.sample(names, min(len(names), 12))
        texts.append((f"m{number}", text))
    if effects:
        texts.append(("common", "type _ Effect.t += Ask : int -> int Effect.t\n"))
    alls = "; ".join(f"M{number}.all" for number in range(MODULES))
    texts.append(("trees", f"let () =\n  Record.to_any := Array.concat [ {alls} ];\n  Record.main ()\n"))
    for name, text in texts:
        with open(f"{folder}/{name}.ml", "w", encoding="ascii") as file:
            file.write(text)


main()
