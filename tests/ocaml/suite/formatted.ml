(* Printf and Format: probes in functions that formatting calls (%a, %t), whose handlers format,
   in the same and in another buffer. *)
open Suite

let[@inline never] pair () (a, b) =
  [%probe "percent_a" (note "printing %d" a)];
  Printf.sprintf "<%d,%s>" a b

let pp_list ppf l =
  Format.fprintf ppf "@[<h>[%a]@]"
    (Format.pp_print_list ~pp_sep:(fun ppf () ->
      [%probe "separator" (note "sep")];
      Format.fprintf ppf ";@ ") (fun ppf x ->
         [%probe "element" (note "%s" (Format.asprintf "<%d>" x))];
         Format.pp_print_int ppf x))
    l

let[@inline never] scan s =
  Scanf.sscanf s "%d-%s@!" (fun n rest ->
      [%probe "scanned" (note "%d and %S" n rest)];
      n + String.length rest)

let[@inline never] continuation x =
  Printf.ksprintf (fun s ->
    [%probe "kprintf" (note "continued with %s" s)];
    String.length s) "%05d|%-6s|%h" x "ab" 1.5

let () =
  run (fun () ->
      say "%s" (Printf.sprintf "%a and %a" pair (1, "x") pair (2, "y"));
      say "%s" (Format.asprintf "%a" pp_list [ 1; 2; 3 ]);
      say "%d" (scan "12-abc!");
      say "%d" (continuation 42);
      say "%t" (fun () -> [%probe "percent_t" (note "t")]; "end"))

(*expected
> printing 1
> printing 2
<1,x> and <2,y>
> <1>
> sep
> <2>
> sep
> <3>
[1; 2; 3]
> 12 and "abc"
15
> continued with 00042|ab    |0x1.8p+0
21
> t
end
*)
