#!/usr/bin/env bash
# Notes of <sys/sdt.h> with the provider of OCaml's probes, which a runtime with probes of its own has: they are no
# damage, and can be counted.
#
# needs: fixtures
# ocaml5: all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# A program whose stubs have such notes: 3 sites of one name, one with a semaphore, and one of another provider. It
# prints its own counts when it is told to go.
build_noted() {
	cat >"$TMP/stubs.c" <<'C'
#define NOTE(provider, name, semaphore)                                                            \
	__asm__ volatile("990: nop\n"                                                              \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n"                              \
			 ".balign 4\n"                                                             \
			 ".4byte 992f-991f, 994f-993f, 3\n"                                        \
			 "991: .asciz \"stapsdt\"\n"                                               \
			 "992: .balign 4\n"                                                        \
			 "993: .8byte 990b\n"                                                      \
			 ".8byte _.stapsdt.base\n"                                                 \
			 ".8byte " semaphore "\n"                                                  \
			 ".asciz \"" provider "\"\n"                                               \
			 ".asciz \"" name "\"\n"                                                   \
			 ".asciz \"\"\n"                                                           \
			 "994: .balign 4\n"                                                        \
			 ".popsection\n")

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
	".weak _.stapsdt.base\n"
	".hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n"
	".size _.stapsdt.base,1\n"
	".popsection\n");

__attribute__((section(".probes"))) unsigned short noted_semaphore;

long noted_minor(long unit)
{
	NOTE("ocaml", "gc__minor__begin", "0");
	NOTE("ocaml", "gc__minor__begin", "0");
	return unit;
}

long noted_guarded(long unit)
{
	if (*(volatile unsigned short *)&noted_semaphore)
		NOTE("ocaml", "gc__slice", "noted_semaphore");
	return unit;
}

long noted_other(long unit)
{
	NOTE("runtime", "event", "0");
	return unit;
}
C
	cat >"$TMP/noted.ml" <<'ML'
external minor : unit -> unit = "noted_minor" [@@noalloc]
external guarded : unit -> unit = "noted_guarded" [@@noalloc]
external other : unit -> unit = "noted_other" [@@noalloc]
let[@inline never] step () = minor (); guarded (); other ()
let () =
  print_endline "ready";
  while read_line () = "go" do
    for _ = 1 to 1234 do step () done;
    print_endline "end"
  done
ML
	(cd "$TMP" && ocamlopt -g -o noted stubs.c noted.ml 2>"$TMP/build.err") || fail "$(<"$TMP/build.err")"
}

test_a_program_with_foreign_notes() {
	need_command python3
	build_noted
	eq "$(readelf -n "$TMP/noted" | grep -c 'Provider: ocaml')" 3 "notes"
	# It has no probes of OCaml, and it is not damaged.
	"$TOOL" functions -prog "$TMP/noted" >"$TMP/out" 2>"$TMP/err" || fail "$(<"$TMP/err")"
	finds 'Noted.step' "$TMP/out"
	start_target "$TMP/noted"
	await_line ready
	start_measuring --json --count=fn:Noted.step,note:gc__minor__begin,note:gc__slice,note:runtime:event
	tell go
	await_line end
	stop_measuring
	eq "$(tail -n 1 "$TMP/counts" | grep -o '"name":"[^"]*","hits":[0-9]*' | LC_ALL=C sort)" '"name":"fn:Noted.step","hits":1234
"name":"note:gc__minor__begin","hits":2468
"name":"note:gc__slice","hits":1234
"name":"note:runtime:event","hits":1234' "counts"
	check_error 2 "'note:gc__major': .*noted has no such note" attach -pid "$TARGET" --for 50ms --count=note:gc__major
	check_error 2 "'note:gc__slice': a note has no duration; name a pair of notes" attach -pid "$TARGET" --for 50ms --time note:gc__slice
}

run_tests "$@"
