(* Loops over strings and bytes, checked and unchecked, with multi-byte reads, buffers, and
   handlers that look at or change what the loop works on. *)
open Suite

let hits = ref 0

let[@inline never] words s =
  let n = ref 0 and inside = ref false in
  for i = 0 to String.length s - 1 do
    match s.[i] with
    | ' ' | '\t' -> inside := false
    | c ->
      if not !inside then begin
        [%probe "word" (note "word at %d: %c" i c)];
        incr n
      end;
      inside := true
  done;
  !n

let[@inline never] upper b =
  for i = 0 to Bytes.length b - 1 do
    [%probe "upper" (incr hits)];
    Bytes.unsafe_set b i (Char.uppercase_ascii (Bytes.unsafe_get b i))
  done;
  Bytes.to_string b

let[@inline never] hash s =
  let h = ref 5381L in
  for i = 0 to (String.length s / 8) - 1 do
    let word = String.get_int64_le s (i * 8) in
    [%probe "word64" (note "%Lx" word)];
    h := Int64.add (Int64.mul !h 33L) word
  done;
  !h

let[@inline never] reverse s =
  let b = Buffer.create 4 in
  for i = String.length s - 1 downto 0 do
    [%probe "buffer" (if i = 0 then note "so far %s" (Buffer.contents b))];
    Buffer.add_char b s.[i]
  done;
  Buffer.contents b

let[@inline never] past_end s i =
  try
    [%probe "bounds" (incr hits)];
    String.make 1 s.[i]
  with Invalid_argument what -> what

let[@inline never] blanked s =
  let b = Bytes.of_string s in
  [%probe "blank" (Bytes.fill b 0 2 '_')];
  Bytes.sub_string b 0 4

let () =
  run (fun () ->
      hits := 0;
      say "words %d" (words "a few  words");
      say "%s" (upper (Bytes.of_string "shout"));
      say "%Lx" (hash "0123456789abcdef");
      say "%s" (reverse "drawer");
      say "%s" (past_end "abc" 3);
      say "%s" (blanked "blank");
      count "hits" !hits)

(*expected
> word at 0: a
> word at 2: f
> word at 7: w
words 3
SHOUT
> 3736353433323130
> 6665646362613938
8462401dfc32faad
> so far rewar
reward
index out of bounds
- blan
+ __an
# hits 6
*)
