#!/usr/bin/env bash
# [%probe] on the stock compiler: what the post-linker makes of a file. Sites are switched on by hand
# here, in the file, so that nothing but their encoding is under test.
#
#   STEPS    of the damaged bytes of the headers of segments and of sections (default: 7 11; all: 1 1)
#
# needs: link asan ocaml fixtures
# smoke: test_readelf_lists_the_notes
# takes: 50 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/link_lib.sh"

# ---- what the tools see -----------------------------------------------------------------------

test_readelf_lists_the_notes() {
	local program name site semaphore base
	for program in counted counted_nopie; do
		eq "$(notes "$P/$program" | cut -d' ' -f1 | sort | uniq -c | sed 's/^ *//')" \
			$'1 in_functor\n1 in_loop\n1 in_try\n3 inlined\n1 nested\n1 outer\n1 raising\n1 tail' \
			"$program"
		eq "$(notes "$P/$program" | cut -d' ' -f2)" \
			"$(notes "$P/$program" | cut -d' ' -f2 | sort)" "order of the notes"
		base=0x$(readelf -SW "$P/$program" | sed -n 's/.*\.stapsdt\.base *PROGBITS *\([0-9a-f]*\).*/\1/p')
		eq "$(notes "$P/$program" | cut -d' ' -f4 | sort -u)" "$base" "base address"
		# One semaphore a name.
		eq "$(notes "$P/$program" | cut -d' ' -f1,3 | sort -u | wc -l)" 8
	done
	eq "$(notes "$P/counted_plain")" ""
}

test_gdb_lists_the_probes() {
	need_command gdb
	eq "$(gdb -batch -nx -ex 'info probes stap ocaml_1' "$P/queries" | awk '/ocaml_1/ { print $3 }')" \
		$'initial\nswitched\nswitched'
}

test_bpftrace_lists_the_probes() {
	need_command bpftrace
	need_root
	eq "$(bpftrace -l "usdt:$P/loop:*")" \
		"$(printf "usdt:$P/loop:ocaml_1:%s\n" alpha beta gamma)"
}

test_bpftrace_counts_every_hit() {
	local program tracer
	need_command bpftrace
	need_root
	for program in counted counted_nopie; do
		start_target "$P/$program" 20000 3
		await_line ready
		# It prints only when all is attached; the site's int3 is there before that.
		background bpftrace -p "$TARGET" -e "usdt:$P/$program:ocaml_1:in_loop { @ = count(); }
			interval:ms:50 { printf(\"attached\n\"); }" >"$TMP/bpftrace"
		tracer=$!
		wait_for 'grep -q ^attached "$TMP/bpftrace"' 20
		tell go
		await_line '# in_loop was seen enabled 0 times' 20
		quit_target
		eq "$TARGET_STATUS" 0
		kill -INT "$tracer" 2>/dev/null || :
		wait "$tracer" || :
		matches "$(<"$TMP/bpftrace")" '@: 60000' "$program"
		# The tracer's half of the semaphore went up, OCaml's did not, and no handler ran.
		matches "$(cat "$(output_of)")" 'in_loop handler=0 expected=60000'
	done
}

# ---- probes off -------------------------------------------------------------------------------

test_output_with_probes_off() {
	local expected variant
	expected=$("$P/places_bare")
	matches "$expected" 'result 66025'
	for variant in places places_nopie places_plain places_byte; do
		eq "$("$P/$variant")" "$expected" "$variant"
	done
	for variant in counted counted_nopie counted_plain counted_byte counted_bare; do
		eq "$(echo go | "$P/$variant" 1000 3 | grep -c ' handler=0 ')" 8 "$variant"
	done
}

# ---- probes switched on by hand ---------------------------------------------------------------

test_handlers_run_in_every_place() {
	local program expected
	expected=$(cat <<-'EOF'
		toplevel
		result 2
		tail 5
		result -7
		matched 2
		result two
		result 40
		descending
		result 5
		float 3
		result 6.5
		closure 3 4
		result 7
		live 55
		result 66025
		same 1
		outer
		same 2
		outer ends
		same 3
		long 169
		result 135845567648
		boolean
		and again
		result true
		sum 9
		result 2
		shadow
		shadow enabled
		EOF
	)
	for program in places places_nopie; do
		cp "$P/$program" "$TMP/on"
		switch_on "$TMP/on"
		eq "$("$TMP/on")" "$expected" "$program"
		# The same with the collector at work in every handler.
		eq "$(OCAMLRUNPARAM=s=512 "$TMP/on")" "$expected" "$program, small heap"
	done
}

test_handlers_run_at_every_hit() {
	local program
	for program in counted counted_nopie; do
		cp "$P/$program" "$TMP/on"
		switch_on "$TMP/on"
		eq "$(echo go | "$TMP/on" 20000 3 | sed -n 's/ handler=\([0-9]*\) expected=\1$//p')" \
			"$(cut -d' ' -f1 < <(notes "$P/$program") | sort -u)" "$program"
	done
}

test_one_probe_alone() {
	local name
	for name in in_loop inlined raising outer; do
		cp "$P/counted" "$TMP/on"
		switch_on "$TMP/on" "$name"
		eq "$(echo go | "$TMP/on" 1000 2 | grep -v ' handler=0 ' | grep -v '^#\|^ready')" \
			"$name handler=2000 expected=2000"
	done
}

test_is_enabled() {
	local program
	for program in queries queries_nopie; do
		cp "$P/$program" "$TMP/on"
		eq "$("$TMP/on" | tr '\n' ' ')" "switched false switched false initial true siteless false \
switched handler=0 expected=11 initial handler=10 expected=10 "
		switch_on "$TMP/on" switched
		eq "$("$TMP/on" | tr '\n' ' ')" "switched true switched true initial true siteless false \
switched handler=11 expected=11 initial handler=10 expected=10 "
	done
	# Dormant: nothing is enabled, ~enabled_at_init or not.
	eq "$("$P/queries_plain")" "$("$P/queries_byte")"
	matches "$("$P/queries_plain")" 'initial false'
}

# ---- the file ---------------------------------------------------------------------------------

test_stripped_keeps_its_probes() {
	cp "$P/counted" "$TMP/stripped"
	strip "$TMP/stripped"
	eq "$(readelf -SW "$TMP/stripped" | grep -c symtab || :)" 0
	eq "$(notes "$TMP/stripped")" "$(notes "$P/counted")"
	switch_on "$TMP/stripped"
	matches "$(echo go | "$TMP/stripped" 1000 2)" 'in_loop handler=2000 expected=2000'
	# Stripped first, converted then.
	cp "$P/counted_plain" "$TMP/first"
	strip "$TMP/first"
	"$LINK" --strict "$TMP/first"
	eq "$(notes "$TMP/first" | wc -l)" 10
}

test_semaphores() {
	local program section off name site semaphore rest
	for program in counted counted_nopie; do
		section=$(readelf -SW "$P/$program" | sed -n 's/^.*] \(\.probes .*\)/\1/p')
		matches "$section" '^\.probes +PROGBITS +[0-9a-f]+ [0-9a-f]+ 000080 00 +WA '
		read -r _ _ rest off _ <<<"$section"
		eq $((16#$off)) "$(offset_of "$P/$program" "0x$rest")"
		while read -r name site semaphore rest; do
			((semaphore > 16#$rest && semaphore < 16#$rest + 128)) || :
			eq "$(readelf -sW "$P/$program" | awk -v name="caml_probes_semaphore_$name" \
				'$8 == name { print $2, $3, $4, $5, $6 }')" \
				"$(printf '%016x 4 OBJECT WEAK HIDDEN' "$semaphore")"
			# Zeros, in a static OCaml string.
			eq "$(peek "$P/$program" $(($(offset_of "$P/$program" "$semaphore") - 8)) 16)" \
				"fc07000000000000""0000000000000003" "$name"
		done < <(notes "$P/$program" | sort -u -k1,1)
	done
	matches "$(gdb -batch -nx -ex 'info symbol &caml_probes_semaphore_in_loop' "$P/counted")" \
		'caml_probes_semaphore_in_loop in section .probes'
}

# Everything but the semaphores, the symbols and the notes is where and what it was.
test_nothing_moves() {
	local before=$P/counted_plain after=$TMP/after id
	cp "$before" "$after"
	"$LINK" "$after"
	eq "$(readelf -SW "$after" | grep -c ' \.debug_info ')" 1
	for section in .rodata .data .dynamic .eh_frame .debug_info .debug_line .comment .bss; do
		objcopy -O binary --only-section="$section" --set-section-flags "$section=alloc" \
			"$before" "$TMP/section" 2>/dev/null
		objcopy -O binary --only-section="$section" --set-section-flags "$section=alloc" \
			"$after" "$TMP/section2" 2>/dev/null
		[[ $section = .bss ]] || cmp "$TMP/section" "$TMP/section2"
	done
	eq "$(nm "$after" | grep -v caml_probes_semaphore)" "$(nm "$before" | sed '/^0\{13\}/! { s/ b / d /;s/ B / D / }')"
	# The debug information that was split off before still belongs to it.
	id=$(readelf -n "$before" | sed -n 's/.*Build ID: //p')
	eq "$(readelf -n "$after" | sed -n 's/.*Build ID: //p')" "$id"
	matches "$id" '^[0-9a-f]{40}$'
	# An archive behind the program stays behind the program.
	{ cat "$before"; printf 'the end'; } >"$TMP/payload"
	"$LINK" "$TMP/payload"
	eq "$(tail -c7 "$TMP/payload")" 'the end'
	# .bss of 200 MB is a hole in the file.
	cat >"$TMP/store.c" <<<'char big[200 << 20]; int big_size(void) { return big[sizeof big - 1]; }'
	printf 'external f : unit -> int = "big_size" [@@noalloc]\nlet () = [%%probe "p" ()]; ignore (f ())' \
		>"$TMP/big.ml"
	compile "$TMP/big.ml" store.c
	"$LINK" "$TMP/big"
	"$TMP/big"
	[[ $(du -k "$TMP/big" | cut -f1) -lt 10000 ]] || fail "$(du -k "$TMP/big")"
}

# What comes out is bounded by what goes in.
test_small_files_stay_small() {
	local status=0
	gcc -nostdlib -static -o "$TMP/small" "$ROOT/tests/fixtures/binaries/dormant.S"
	edit_elf "$TMP/small" 'last["memsz"].set(last["filesz"].get() + (256 << 20))'
	cp "$TMP/small" "$TMP/before"
	"$LINK" "$TMP/small" 2>"$TMP/err" || status=$?
	[[ $status -ne 0 ]] || fail "$(ls -ls "$TMP/small")"
	finds 'no room for semaphores: its .bss would make the file more than 256 times as long' <"$TMP/err" ||
		fail "$(<"$TMP/err")"
	cmp "$TMP/small" "$TMP/before"
	# A note of 4 KB for every 22 bytes.
	{
		printf '\t.data\n\t.balign 8\n\t.quad 502 << 10 | 252\nlong: .ascii "\\0\\0\\0\\0P1:0:%s@f:1:1"\n' \
			"$(printf 'x%.0s' {1..4000})"
		printf '\t.byte 0\n\t.text\n\t.globl _start\n_start:\n'
		printf '\t.rept 1000\n\tleaq long(%%rip), %%rax\n\tcmpq $1, %%rax\n\tjne 1f\n\tincl %%ecx\n1:\tret\n\t.endr\n'
	} >"$TMP/names.s"
	gcc -nostdlib -static -o "$TMP/names" "$TMP/names.s"
	status=0
	"$LINK" "$TMP/names" 2>"$TMP/err" || status=$?
	finds 'damaged: the notes of its probes would make the file more than 16 times as long' <"$TMP/err" ||
		fail "$(cat "$TMP/err" "$TMP/names.s" | cut -c1-200; ls -ls "$TMP/names")"
	[[ $status -ne 0 ]] || fail "it was written"
}

# Change the last PT_LOAD segment of FILE, its PT_NOTE segment, or a section, as PYTHON says.
edit_elf() { # FILE PYTHON
	python3 - "$1" "$2" <<'END'
import struct, sys
path, edit = sys.argv[1:]
elf = bytearray(open(path, "rb").read())
class Field:
    def __init__(self, at): self.at = at
    def get(self): return struct.unpack_from("<Q", elf, self.at)[0]
    def set(self, value): struct.pack_into("<Q", elf, self.at, value)
table, n = Field(32).get(), struct.unpack_from("<H", elf, 56)[0]
def segments(kind):
    return sorted((dict(off=Field(at + 8), va=Field(at + 16), filesz=Field(at + 32), memsz=Field(at + 40))
                   for at in range(table, table + 56 * n, 56) if struct.unpack_from("<I", elf, at)[0] == kind),
                  key=lambda segment: segment["va"].get())
last, note = segments(1)[-1], segments(4)[0]
end = last["off"].get() + last["filesz"].get()
headers, n_sections = Field(40).get(), struct.unpack_from("<H", elf, 60)[0]
sections = [dict(type=struct.unpack_from("<I", elf, at + 4)[0], flags=Field(at + 8), off=Field(at + 24), align=Field(at + 48))
            for at in range(headers, headers + 64 * n_sections, 64)]
unloaded = [s for s in sections if s["type"] not in (0, 8) and not s["flags"].get() & 2]
exec(edit)
open(path, "wb").write(elf)
END
}

# Post-link $TMP/program, a copy of $TMP/small that was changed as PYTHON says, in $TMP/out's place.
link_edited() { # PYTHON
	cp "$TMP/small" "$TMP/program"
	edit_elf "$TMP/program" "$1"
	rm -f "$TMP/out"
	"$LINK" "$TMP/program" -o "$TMP/out" 2>"$TMP/err"
}

# It is refused, for the reason WHY.
refused() { # PYTHON WHY
	! link_edited "$1" || fail "it was linked: $1"
	finds "$2" <"$TMP/err" || fail "$1: $(<"$TMP/err")"
	[[ ! -e $TMP/out ]] || fail "$1: something was written"
}

test_limits_of_the_layout() {
	local offset gap=$((1 << 30))
	gcc -nostdlib -static -o "$TMP/small" "$ROOT/tests/fixtures/binaries/dormant.S"
	# A segment that is behind the last one in the file, or ends there.
	refused 'note["off"].set(end + 1)' 'the last segment in memory is not last in the file'
	refused 'note["filesz"].set(end - note["off"].get() + 1)' 'the last segment in memory is not last in the file'
	link_edited 'note["filesz"].set(end - note["off"].get())'
	# What is not loaded is aligned as it asks, up to a page. 0 is no alignment.
	for offset in 0 1 2 64 4096 8192 $((1 << 40)); do
		link_edited "unloaded[0]['align'].set($offset)" || fail "alignment $offset: $(<"$TMP/err")"
		[[ $offset -eq 0 || $offset -gt 4096 ]] ||
			edit_elf "$TMP/out" "assert unloaded[0]['off'].get() % $offset == 0, unloaded[0]['off'].get()"
		[[ $(stat -c %s "$TMP/out") -lt 40000 ]] || fail "alignment $offset: $(ls -ls "$TMP/out")"
	done
	# A .bss of a gigabyte, in a file of more than the 256th part of that; not one of a byte more.
	truncate -s 8M "$TMP/small"
	link_edited "last['memsz'].set(last['filesz'].get() + $gap)" || fail "$(<"$TMP/err")"
	[[ $(stat -c %b "$TMP/out") -lt 40000 ]] || fail "$(ls -ls "$TMP/out")"
	refused "last['memsz'].set(last['filesz'].get() + $gap + 1)" 'more than 1 GiB of .bss'
}

test_elf_tools_accept_the_file() {
	local tool
	for tool in 'readelf -aW' 'objdump -x'; do
		$tool "$P/places" >"$TMP/out" 2>"$TMP/err"
		eq "$(<"$TMP/err")" "" "$tool"
	done
	objcopy "$P/places" "$TMP/copy" 2>"$TMP/err"
	eq "$(<"$TMP/err")" ""
	eq "$("$TMP/copy")" "$("$P/places")"
	eq "$(notes "$TMP/copy")" "$(notes "$P/places")"
}

test_idempotent() {
	cp "$P/places_plain" "$TMP/x"
	eq "$("$LINK" "$TMP/x")" ""
	cp "$TMP/x" "$TMP/once"
	eq "$("$LINK" "$TMP/x")" "$TMP/x: was converted before, nothing to do"
	eq "$("$LINK" --quiet --strict "$TMP/x")" ""
	cmp "$TMP/x" "$TMP/once"
}

test_mode_owner_and_links() {
	local plain
	plain=$(md5sum <"$P/places_plain")
	cp "$P/places_plain" "$TMP/real"
	chmod 4751 "$TMP/real"
	[[ $EUID -ne 0 ]] || { chown 65534:65534 "$TMP/real" && chmod 4751 "$TMP/real"; }
	ln "$TMP/real" "$TMP/hard"
	ln -s real "$TMP/symbolic"
	"$LINK" "$TMP/symbolic"
	[[ -L $TMP/symbolic ]]
	eq "$(notes "$TMP/real" | wc -l)" "$(notes "$P/places" | wc -l)"
	eq "$(stat -c '%a %u' "$TMP/real")" "$(stat -c '%a %u' "$TMP/hard")"
	# dune's cache holds hard links: the other name keeps the old bytes.
	eq "$(md5sum <"$TMP/hard")" "$plain"
	eq "$(ls -A "$TMP")" $'hard\nreal\nsymbolic'
}

test_running_program() {
	cp "$P/loop_plain" "$TMP/loop"
	start_target "$TMP/loop"
	await_line ready
	"$LINK" "$TMP/loop"
	eq "$(notes "$TMP/loop" | wc -l)" "$(notes "$P/loop" | wc -l)"
	quit_target
	eq "$TARGET_STATUS" 0
}

test_output_option() {
	cp "$P/places_plain" "$TMP/in"
	"$LINK" -o "$TMP/out" "$TMP/in"
	cmp "$TMP/in" "$P/places_plain"
	eq "$("$TMP/out")" "$("$P/places")"
	eq "$(notes "$TMP/out" | wc -l)" "$(notes "$P/places" | wc -l)"
	# The output appears also where there is nothing to do.
	"$LINK" --quiet -o "$TMP/same" "$TMP/out"
	cmp "$TMP/same" "$TMP/out"
	"$LINK" --quiet -o "$TMP/none" "$P/places_bare"
	cmp "$TMP/none" "$P/places_bare"
	fails 1 "$LINK" -o "$TMP/no/such/folder" "$TMP/in"
	matches "$(<"$TMP/stderr")" '^ocaml-probes-link: .*/in: .*/no/such/folder: .*No such file'
}

test_check_changes_nothing() {
	local n
	n=$(notes "$P/places" | wc -l)
	cp "$P/places_plain" "$TMP/x"
	eq "$("$LINK" --check "$TMP/x")" \
		"$TMP/x: $n sites of $(notes "$P/places" | cut -d' ' -f1 | sort -u | wc -l) probes can be converted, 1 probe_is_enabled"
	eq "$("$LINK" --check --verbose "$TMP/x" | grep -c ' in caml.*: can be converted$')" "$n"
	cmp "$TMP/x" "$P/places_plain"
	eq "$("$LINK" --check "$P/places_bare")" "$P/places_bare: no probes, nothing to do"
}

# C code in the program may have probes of its own.
test_other_notes_are_kept() {
	cp "$ROOT/tests/ocaml/queries.ml" "$TMP"
	cat >"$TMP/stub.s" <<-'EOF'
		.text
		990: nop
		.section .note.stapsdt,"","note"
		.balign 4
		.long 8, 992f-991f, 3
		.asciz "stapsdt"
		991: .quad 990b, 0, 0
		.asciz "elsewhere", "their_probe", "-4@%edi"
		992: .balign 4
		.section .note.GNU-stack
	EOF
	cc -c -o "$TMP/stub.o" "$TMP/stub.s"
	for flag in '' -static; do
		compile "$TMP/queries.ml" stub.o ${flag:+-ccopt "$flag"} 2>/dev/null
		readelf -n "$TMP/queries" | grep -A3 'Provider: elsewhere' >"$TMP/before"
		"$LINK" --strict "$TMP/queries"
		readelf -n "$TMP/queries" | grep -A3 'Provider: elsewhere' >"$TMP/after"
		cmp "$TMP/before" "$TMP/after"
		matches "$(<"$TMP/after")" 'their_probe.*-4@%edi'
		eq "$(readelf -SW "$TMP/queries" | grep -c 'note.stapsdt')" 1
		eq "$(notes "$TMP/queries" | wc -l)" 3
		switch_on "$TMP/queries"
		matches "$("$TMP/queries")" 'switched handler=11 expected=11'
	done
}

# Not only what this linker makes of the GOT by default.
test_unrelaxed_loads() {
	local flags
	cp "$ROOT/tests/ocaml/queries.ml" "$TMP"
	for flags in '-ccopt -Wl,--no-relax' '-ccopt -no-pie -ccopt -Wl,--no-relax' \
		'-nodynlink -fno-PIC -ccopt -no-pie' '-ccopt -Wl,--gc-sections' '-function-sections'; do
		# shellcheck disable=SC2086 # several flags
		compile "$TMP/queries.ml" $flags
		"$LINK" --strict "$TMP/queries"
		switch_on "$TMP/queries"
		eq "$("$TMP/queries" | tr '\n' ' ')" "switched true switched true initial true siteless \
false switched handler=11 expected=11 initial handler=10 expected=10 " "$flags"
	done
}

# ---- what cannot be converted -----------------------------------------------------------------

# Damage the dormant code of probe `empty` so that it is not what ocamlopt emits.
damage_one_site() { # FILE
	local site
	site=$("$LINK" --check --verbose "$1" | sed -n 's/.*probe "empty" at \(0x[0-9a-f]*\) in.*/\1/p')
	poke "$1" $(($(offset_of "$1" "$site") + 10)) 03
}

test_site_that_does_not_match() {
	local warning line
	cp "$P/places_plain" "$TMP/x"
	damage_one_site "$TMP/x"
	cp "$TMP/x" "$TMP/before"
	line=$(grep -n '\[%probe "empty"' "$ROOT/tests/ocaml/places.ml" | cut -d: -f1)
	warning="^File \"places.ml\", line $line:
ocaml-probes-link: $TMP/x: warning: probe \"empty\" at 0x[0-9a-f]+ \
in camlPlaces(__|\.)empty_[0-9]+: stays dormant: the marker's address is not compared right after it was loaded"

	fails 1 "$LINK" --strict "$TMP/x"
	matches "$(head -n2 "$TMP/stderr")" "$warning\$"
	eq "$(tail -n1 "$TMP/stderr")" "ocaml-probes-link: $TMP/x: 1 probe cannot be converted, see above"
	cmp "$TMP/x" "$TMP/before"

	fails 0 "$LINK" "$TMP/x"
	matches "$(<"$TMP/stderr")" "$warning\$"
	eq "$(notes "$TMP/x" | cut -d' ' -f1 | sort -u)" \
		"$(notes "$P/places" | cut -d' ' -f1 | sort -u | grep -vx empty)"
	eq "$("$TMP/x")" "$("$P/places")"
}

test_enabled_at_init_that_differs() {
	cat >"$TMP/x.ml" <<-'EOF'
		let () = [%probe "p" ~enabled_at_init:true (print_string "one ")]
		let () = [%probe "p" (print_endline "two")]
	EOF
	compile "$TMP/x.ml"
	fails 0 "$LINK" "$TMP/x"
	matches "$(<"$TMP/stderr")" \
		'^File "x.ml", line [12]:
ocaml-probes-link: .*/x: warning: probe "p" is ~enabled_at_init:true in some places only: all start enabled'
	eq "$("$TMP/x")" "one two"
}

# A query whose name no probe in the file has: always false. It is no failure.
test_query_without_a_probe() {
	local always='is always false: no probe in this file has that name (probes of other files do not count)'
	cat >"$TMP/x.ml" <<-'EOF'
		let[@inline always] asked () = [%probe_is_enabled "reqest"]
		let () = if asked () || asked () then print_string "never"
		let () =
		  [%probe "request" ()];
		  if [%probe_is_enabled "request"] then print_string "on";
		  print_endline "done"
	EOF
	compile "$TMP/x.ml"
	cp "$TMP/x" "$TMP/plain"
	fails 0 "$LINK" --strict "$TMP/x"
	eq "$(<"$TMP/stderr")" "$(printf 'File "x.ml", line 1:\n%s' \
		"ocaml-probes-link: $TMP/x: warning: probe_is_enabled \"reqest\" $always")"
	eq "$("$TMP/x")" "done"
	# Known before the file is written, and not said of a converted one again.
	fails 0 "$LINK" --check "$TMP/plain"
	eq "$(grep -c 'probe_is_enabled "reqest" is always' "$TMP/stderr")" 1
	eq "$("$LINK" --quiet "$TMP/x" 2>&1)" ""
	# Only queries.
	printf 'let () = print_endline (if [%%probe_is_enabled "alone"] then "on" else "off")\n' >"$TMP/y.ml"
	compile "$TMP/y.ml"
	fails 0 "$LINK" "$TMP/y"
	eq "$(<"$TMP/stderr")" "$(printf 'File "y.ml", line 1:\n%s' \
		"ocaml-probes-link: $TMP/y: warning: probe_is_enabled \"alone\" $always")"
	# A plugin answers for its own probes.
	(cd "$TMP" && ocamlfind ocamlopt -shared -package ocaml-probes.ppx y.ml -o y.cmxs)
	fails 0 "$LINK" "$TMP/y.cmxs"
	matches "$(<"$TMP/stderr")" '"alone" is always false: no probe in this file '
}

test_bad_files() {
	local n size
	fails 1 "$LINK" "$TMP/nothing"
	eq "$(<"$TMP/stderr")" "ocaml-probes-link: $TMP/nothing: No such file or directory"
	fails 1 "$LINK" "$TMP"
	matches "$(<"$TMP/stderr")" 'not a regular file'
	echo 'some text' >"$TMP/text"
	fails 1 "$LINK" "$TMP/text"
	eq "$(<"$TMP/stderr")" "ocaml-probes-link: $TMP/text: not an ELF file"
	: >"$TMP/empty"
	fails 1 "$LINK" "$TMP/empty"
	matches "$(<"$TMP/stderr")" 'not an ELF file'

	cp "$P/places_plain" "$TMP/arm"
	poke "$TMP/arm" 18 b7
	fails 1 "$LINK" "$TMP/arm"
	matches "$(<"$TMP/stderr")" 'not an x86-64 ELF file'
	(cd "$TMP" && echo 'int x;' >o.c && cc -c o.c)
	fails 1 "$LINK" "$TMP/o.o"
	matches "$(<"$TMP/stderr")" 'an object file; it has to be linked first'

	size=$(stat -c %s "$P/places_plain")
	for n in 10 63 64 1000 50000 $((size / 2)) $((size - 1)); do
		head -c "$n" "$P/places_plain" >"$TMP/cut"
		cp "$TMP/cut" "$TMP/before"
		fails 1 "$LINK" "$TMP/cut"
		matches "$(<"$TMP/stderr")" "^ocaml-probes-link: $TMP/cut: [^:]+" "cut after $n"
		eq "$(wc -l <"$TMP/stderr")" 1
		cmp "$TMP/cut" "$TMP/before"
	done
}

# Bytes of the headers and of the section table, in each kind of field, damaged: no crash, and the file is
# either converted or untouched. A look for leaks takes longer than all the rest: one run of eight has it.
test_damaged_headers() {
	local shoff linker=$LINK
	[[ ! -x $O/asan/ocaml-probes-link ]] || linker=$O/asan/ocaml-probes-link
	cp "$P/queries_plain" "$TMP/whole"
	strip "$TMP/whole"
	shoff=$(readelf -hW "$TMP/whole" | sed -n 's/.*Start of section headers: *\([0-9]*\).*/\1/p')
	# shellcheck disable=SC2086 # two words
	holds python3 - "$linker" "$TMP/whole" "$TMP/x" "$shoff" ${STEPS:-7 11} <<-'END'
		import os, subprocess, sys
		linker, whole, path, shoff, step, section_step = *sys.argv[1:4], *map(int, sys.argv[4:])
		elf = open(whole, "rb").read()
		places = [*range(0, 801, step), *range(shoff, len(elf), section_step)]
		assert len(places) > 100 and shoff > 801, (places, shoff)
		for n, at in enumerate(places):
		    damaged = bytearray(elf)
		    damaged[at] = 0xf1
		    open(path, "wb").write(damaged)
		    run = subprocess.run([linker, path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
		                         env={**os.environ, "ASAN_OPTIONS": f"detect_leaks={int(n % 8 == 0)}"})
		    assert run.returncode in (0, 1), (at, run)
		    if run.returncode == 1:
		        assert open(path, "rb").read() == damaged, (at, "the file has changed", run)
		        assert run.stderr.count(b"\n") == 1, (at, run)
	END
}

test_usage() {
	fails 2 "$LINK"
	fails 2 "$LINK" a b
	fails 2 "$LINK" --no-such-option a
	fails 2 "$LINK" --verbose --quiet a
	fails 0 "$LINK" --help
	matches "$(<"$TMP/stdout")" '--strict.*8@\$0.*build-id'
	fails 0 "$LINK" --version
	matches "$(<"$TMP/stdout")" '^ocaml-probes-link [0-9]'
}

# 100 000 dormant probes of 10 000 names, as ocamlopt lays them out, in under a second.
test_many_sites() {
	local TIMEFORMAT='%U %S' times
	awk 'BEGIN {
		print ".text\n.globl main\nmain:"
		for (i = 0; i < 100000; i++) {
			printf "lea M%d(%%rip),%%rbx\ncmp $1,%%rbx\njne 1f\nincl runs(%%rip)\n1:\n", i
		}
		print "mov runs(%rip),%eax\ncmp $100000,%eax\nsetne %al\nmovzbl %al,%eax\nret\n.data"
		for (i = 0; i < 100000; i++) {
			text = sprintf("P1:0:p%d@many.ml:%d:2", i % 10000, i)
			words = int((4 + length(text) + 8) / 8)
			padding = words * 8 - 1 - 4 - length(text)
			printf ".balign 8\n.quad %d\nM%d: .ascii \"\\0\\0\\0\\0%s\"\n.space %d\n.byte %d\n",
				words * 1024 + 252, i, text, padding, padding
		}
		print "runs: .quad 0\n.section .probes,\"aw\"\n.quad 0\n.section .note.GNU-stack"
	}' >"$TMP/many.s"
	cc -o "$TMP/many" "$TMP/many.s"
	# A second of work: what others do meanwhile is no part of it.
	times=$({ time "$LINK" --strict "$TMP/many" >&3 2>&4; } 3>&1 4>&2 2>&1)
	awk '{ exit !($1 + $2 < 1) }' <<<"$times" || fail "took $times s"
	eq "$("$LINK" --check "$P/places_bare" | wc -l)" 1
	eq "$(readelf -n "$TMP/many" | grep -c 'Provider: ocaml_1')" 100000
	# main's status says whether all handlers ran: off, none did.
	fails 1 "$TMP/many"
}

run_tests "$@"
