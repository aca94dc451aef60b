#!/usr/bin/env bash
# [%probe] on the stock compiler: the ppx, the post-linker, the compiler-driver wrapper. Sites are
# switched on by hand here, in the file, so that nothing but their encoding is under test.
. "$(dirname "$0")/lib.sh"

LINK=$O/ocaml-probes-link
P=$O/tests/ocaml # the OCaml test programs
export OCAMLPATH=$O/ocaml/lib PATH=$O:$PATH

# ---- helpers ----------------------------------------------------------------------------------

# The OCaml notes of FILE, a line each: NAME SITE SEMAPHORE BASE.
notes() { # FILE
	readelf -n "$1" 2>/dev/null | awk '
		/Provider:/ { provider = $2 }
		/Name:/ { name = $2 }
		/Location:/ && provider == "ocaml_1" { gsub(",", ""); print name, $2, $6, $4 }'
}

# The file offset of a link-time address.
offset_of() { # FILE VA
	local va=$(($2)) type off vaddr filesz _
	while read -r type off vaddr _ filesz _; do
		if [[ $type = LOAD ]] && ((va >= vaddr && va < vaddr + filesz)); then
			echo $((va - vaddr + off))
			return
		fi
	done < <(readelf -lW "$1")
	fail "$1: no byte at $2"
}

poke() { # FILE OFFSET HEX...
	local file=$1 off=$2
	shift 2
	printf "$(printf '\\x%s' "$@")" | dd of="$file" bs=1 seek="$off" conv=notrunc status=none
}

peek() { # FILE OFFSET COUNT
	od -An -v -tx1 -j"$2" -N"$3" "$1" | tr -d ' \n'
}

# Switch on the sites of NAME, or all, in FILE.
switch_on() { # FILE [NAME]
	local name site semaphore rest off
	while read -r name site semaphore rest; do
		[[ -z ${2:-} || $name = "$2" ]] || continue
		off=$(offset_of "$1" "$site")
		matches "$(peek "$1" "$off" 2)" '^90(3d|e8)$' "site of $name"
		poke "$1" $((off + 1)) e8
		poke "$1" $(($(offset_of "$1" "$semaphore") + 2)) 01 00
	done < <(notes "$1")
}

# Run a command that must fail with STATUS; its output goes to $TMP/stdout and $TMP/stderr.
fails() { # STATUS COMMAND...
	local expected=$1 status=0
	shift
	"$@" >"$TMP/stdout" 2>"$TMP/stderr" || status=$?
	eq "$status" "$expected" "status of $*"
}

compile() { # FILE.ml [FLAG...]
	local source=$1
	shift
	(cd "$(dirname "$source")" && ocamlfind ocamlopt -thread -g \
		-package threads.posix,ocaml-probes.ppx -linkpkg "$@" "$(basename "$source")" \
		-o "${source%.ml}")
}

# What the program prints with all handlers on.
with_handlers() { # PROGRAM [ARG...]
	local program=$1
	shift
	"$O/ocaml-probes" trace -prog "$program" -enable-all --wait -- "$@"
}

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
		matches "$(cat "$TMP/bpftrace")" '@: 60000' "$program"
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

# ---- arguments --------------------------------------------------------------------------------

args_of() { # FILE
	readelf -n "$1" | sed -n 's/^ *Arguments: //p'
}

# Evaluated at the very site, the operands are what the handlers see, on or off.
test_args_are_exact() {
	local variant
	cc -O1 -D_GNU_SOURCE -shared -fPIC -o "$TMP/at_site.so" "$ROOT/tests/ocaml/args_at_site.c"
	for variant in args args_nopie; do
		AT_SITE=$TMP/off LD_PRELOAD=$TMP/at_site.so "$P/$variant" >"$TMP/out" 2>"$TMP/handlers"
		cmp "$TMP/out" <("$P/args_bare")
		eq "$(cat "$TMP/handlers")" "" "handlers ran"
		eq "$(wc -l <"$TMP/off")" 19 "$variant"
		cp "$P/$variant" "$TMP/on"
		switch_on "$TMP/on"
		AT_SITE=$TMP/at_site LD_PRELOAD=$TMP/at_site.so "$TMP/on" >"$TMP/out" 2>"$TMP/handlers"
		cmp "$TMP/out" <("$P/args_bare")
		cmp "$TMP/handlers" <(grep -v silent "$TMP/at_site")
		# The handler of `nested` passes another probe.
		cmp "$TMP/off" <(grep -v 'inlined_i 4' "$TMP/at_site")
		# The same with the collector at work in every handler.
		OCAMLRUNPARAM=s=512 AT_SITE=$TMP/at_site LD_PRELOAD=$TMP/at_site.so "$TMP/on" \
			>"$TMP/out" 2>"$TMP/again"
		cmp "$TMP/handlers" "$TMP/again"
	done
	for variant in args_plain args_byte; do
		eq "$("$P/$variant" 2>&1)" "$("$P/args_bare")" "$variant"
	done
	cp "$P/args_plain" "$TMP/stripped"
	strip "$TMP/stripped"
	"$LINK" --strict "$TMP/stripped"
	eq "$(args_of "$TMP/stripped")" "$(args_of "$P/args")" "stripped"
}

test_args_operands() {
	matches "$(args_of "$P/args")" '8f@%xmm0 -8@%rdi 8@%rax 8@%rbx'
	matches "$(args_of "$P/args")" '8@16\(%rbx\) 8@32\(%rbx\) 8@24\(%rbx\) 8@%rax'
	# A float is boxed by the handler alone: nothing is allocated in a loop that has it as argument.
	cat >"$TMP/x.ml" <<-'EOF'
		let[@inline never] f n =
		  let sum = ref 0. in
		  for i = 1 to n do
		    sum := !sum +. float_of_int i;
		    [%probe "p" ~args:!sum ()]
		  done;
		  !sum
		let () =
		  let before = Gc.minor_words () in
		  ignore (Sys.opaque_identity (f 100_000));
		  print_endline (if Gc.minor_words () -. before < 1000. then "few" else "many")
	EOF
	compile "$TMP/x.ml"
	"$LINK" --strict "$TMP/x"
	eq "$("$TMP/x")" few
	switch_on "$TMP/x"
	eq "$("$TMP/x")" many
}

# What only the handler computes cannot be noted; the others are, and the handler runs.
test_args_that_are_nowhere() {
	cat >"$TMP/x.ml" <<-'EOF'
		let[@inline never] f x y =
		  [%probe "p" ~args:(x, x * y, y) (Printf.printf "%d %d %d\n" x (x * y) y)]; x + y
		let () = Printf.printf "%d\n" (f 3 (Array.length Sys.argv))
	EOF
	compile "$TMP/x.ml"
	cp "$TMP/x" "$TMP/strict"
	fails 1 "$LINK" --strict "$TMP/strict"
	matches "$(cat "$TMP/stderr")" '1 probe\(s\) cannot be converted'
	cmp "$TMP/x" "$TMP/strict"
	fails 0 "$LINK" "$TMP/x"
	matches "$(cat "$TMP/stderr")" "^ocaml-probes-link: $TMP/x: warning: x.ml:2:2: probe \"p\" at \
0x[0-9a-f]+ in camlX__f_[0-9]+: arg1 is noted as 0: no register or memory holds it"
	eq "$(args_of "$TMP/x")" '8@%rax 8@$0 8@%rbx'
	switch_on "$TMP/x"
	eq "$("$TMP/x")" $'3 3 1\n4'
}

# The walk from the site to the arguments' stores, over code that this machine's ocamlopt may not emit.
test_args_in_any_code() {
	cat >"$TMP/x.s" <<-'EOF'
		.macro marker label, text, padding=0
		.pushsection .data
		.balign 8
		.quad ((9f - \label) / 8 + 1) << 10 | 252
		\label:
		.ascii "\0\0\0\0P1:\text"
		.fill \padding, 1, 0x3d
		9: .fill 7 - (9b - \label) % 8, 1, 0
		.byte 7 - (9b - \label) % 8
		.popsection
		.endm
		.macro probe name, kind, jump=jne, target=1f
		marker S\name, \kind:\name@x.ml:1:1
		marker A\name, A:\name@x.ml:1:1, 26
		lea S\name(%rip), %rbx
		cmp $1, %rbx
		\jump \target
		.endm
		.globl main
		.text
		main:

		probe moves, 6				# through registers, the stack and spills
		mov %rdi, 40(%rsp)
		mov %rsi, %r10
		lea Amoves(%rip), %rdi
		mov %rdi, 48(%rsp)
		mov 40(%rsp), %rsi
		xor %edi, %edi
		mov 48(%rsp), %rcx
		mov %rsi, (%rcx)
		mov %r10, 8(%rcx)
		mov 56(%rsp), %rax
		mov %rax, 16(%rcx)
		movabs $0x123456789abcdef1, %rax
		mov %rax, 24(%rcx)
		mov -8(%r12), %rax
		mov %rax, 32(%rcx)
		movq $-1, 40(%rcx)
		1: nop

		probe lost, 2				# the marker's own register is no argument
		lea Alost(%rip), %rcx
		mov %rbx, (%rcx)
		mov %rax, 8(%rcx)
		1: nop

		probe jumps, 2, je, 2f			# the condition inverted, the handler elsewhere
		1: nop
		.pushsection .text.cold, "ax", @progbits
		.popsection
		jmp 3f
		2: jmp 4f
		4: lea Ajumps(%rip), %rcx
		mov %rax, (%rcx)
		mov %rdx, 8(%rcx)
		jmp 1b
		3:

		probe branch, 2				# which way is not known
		lea Abranch(%rip), %rcx
		mov %rax, (%rcx)
		test %rdx, %rdx
		je 5f
		mov %rsi, %rdx
		5: mov %rdx, 8(%rcx)
		1: nop

		probe calls, 4				# what a call leaves as it was
		mov %rdx, 8(%rsp)
		call nothing
		lea Acalls(%rip), %rcx
		mov 8(%rsp), %rax
		mov %rax, (%rcx)
		mov 16(%rsp), %rax
		mov %rax, 8(%rcx)
		mov %rsi, 16(%rcx)
		mov 8(%rdi), %rax
		mov %rax, 24(%rcx)
		1: nop

		probe memory, 2				# memory that was written to
		lea Amemory(%rip), %rcx
		mov 8(%rsi), %rax
		mov %rax, (%rcx)
		movq $3, (%rdx)
		mov 8(%rsi), %rax
		mov %rax, 8(%rcx)
		1: nop

		probe blocks, 5				# boxed on the way, one by a call
		lea Ablocks(%rip), %rcx
		sub $40, %r15
		cmp (%r14), %r15
		jb nothing
		lea 8(%r15), %rax
		movq $0x4fd, -8(%rax)
		movsd %xmm7, (%rax)
		mov %rax, (%rcx)
		add $16, %rax
		movq $0x8ff, -8(%rax)
		mov %rsi, 8(%rax)
		mov %rax, 8(%rcx)
		call caml_alloc1
		lea 8(%r15), %rax
		movq $0x4fd, -8(%rax)
		movsd 24(%rsp), %xmm0
		movsd %xmm0, (%rax)
		mov %rax, 16(%rcx)
		call caml_alloc1
		lea 8(%r15), %rax			# a tuple: nobody's before it was made
		movq $0x400, -8(%rax)
		mov %rsi, (%rax)
		mov %rax, 24(%rcx)
		mov %r12, 32(%rcx)
		1: nop

		probe stack, 2				# the frame changes: too far
		lea Astack(%rip), %rcx
		mov 8(%rsp), %rax
		mov %rax, (%rcx)
		push %rax
		mov 8(%rsp), %rax
		mov %rax, 8(%rcx)
		pop %rax
		1: nop

		# A spill before the comparison; its slot and both registers are nobody's.
		marker Sspill, 3:spill@x.ml:1:1
		marker Aspill, A:spill@x.ml:1:1, 26
		lea Sspill(%rip), %rbx
		mov %rbx, 8(%rsp)
		mov 8(%rsp), %r10
		cmp $1, %r10
		jne 1f
		lea Aspill(%rip), %rcx
		mov 8(%rsp), %rdx
		mov %rdx, (%rcx)
		mov %r10, 8(%rcx)
		mov %rsi, 16(%rcx)
		1: nop

		# As flambda does in a module's initialiser: every step is static data.
		marker Slift, 1:lift@x.ml:1:1
		marker Alift, A:lift@x.ml:1:1, 26
		lea Slift(%rip), %rax
		lea opaque(%rip), %rbx
		mov %rax, (%rbx)
		lea intcomp(%rip), %rbx
		lea opaque(%rip), %rax
		mov (%rax), %rax
		cmp $1, %rax
		sete %al
		movzbq %al, %rax
		lea 1(%rax,%rax,1), %rax
		mov %rax, (%rbx)
		lea intcomp(%rip), %rax
		mov (%rax), %rax
		cmp $1, %rax
		je 1f
		lea Alift(%rip), %rcx
		mov %rdx, (%rcx)
		1: nop
		.pushsection .data
		.balign 8
		opaque: .quad 1
		intcomp: .quad 1
		.popsection

		# Not dormant probes: another value decides; a value that is used elsewhere is made.
		marker Sother, 0:other@x.ml:1:1
		lea Sother(%rip), %rbx
		mov 8(%rsp), %r10
		cmp $1, %r10
		jne 1f
		1: nop
		marker Sused, 0:used@x.ml:1:1
		lea Sused(%rip), %rbx
		mov $5, %eax
		cmp $1, %rbx
		jne 1f
		1: nop

		xor %eax, %eax
		nothing: ret
		caml_alloc1:
		sub $16, %r15
		cmp (%r14), %r15
		jb nothing
		ret
		.section .note.GNU-stack
	EOF
	cc -o "$TMP/x" "$TMP/x.s"
	"$TMP/x"
	fails 0 "$LINK" "$TMP/x"
	"$TMP/x"
	eq "$(readelf -n "$TMP/x" | sed -n 's/^ *Name: //p; s/^ *Arguments: //p' | paste -sd ' \n')" \
		"$(cat <<-'EOF'
			moves 8@%rdi 8@%rsi 8@56(%rsp) 8@$1311768467463790321 8@-8(%r12) 8@$-1
			lost 8@$0 8@%rax
			jumps 8@%rax 8@%rdx
			branch 8@%rax 8@$0
			calls 8@%rdx 8@16(%rsp) 8@$0 8@$0
			memory 8@8(%rsi) 8@$0
			blocks 8f@%xmm7 -8@%rsi 8f@24(%rsp) 8@$0 8@%r12
			stack 8@8(%rsp) 8@$0
			spill 8@$0 8@$0 8@%rsi
			lift 8@%rdx
		EOF
		)"
	eq "$(grep -c 'is noted as 0' "$TMP/stderr")" 9
	eq "$(grep -c 'probe "\(other\|used\)" .* stays dormant' "$TMP/stderr")" 2
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
	eq "$(nm "$after" | grep -v caml_probes_semaphore)" "$(nm "$before" | sed 's/ b / d /;s/ B / D /')"
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

test_elf_tools_accept_the_file() {
	local tool
	for tool in 'readelf -aW' 'objdump -x'; do
		$tool "$P/places" >"$TMP/out" 2>"$TMP/err"
		eq "$(cat "$TMP/err")" "" "$tool"
	done
	objcopy "$P/places" "$TMP/copy" 2>"$TMP/err"
	eq "$(cat "$TMP/err")" ""
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
	matches "$(cat "$TMP/stderr")" '^ocaml-probes-link: .*/in: .*/no/such/folder: .*No such file'
}

test_check_changes_nothing() {
	local n
	n=$(notes "$P/places" | wc -l)
	cp "$P/places_plain" "$TMP/x"
	eq "$("$LINK" --check "$TMP/x")" \
		"$TMP/x: $n site(s) of $(notes "$P/places" | cut -d' ' -f1 | sort -u | wc -l) probe(s) can be converted, 1 probe_is_enabled"
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
		matches "$(cat "$TMP/after")" 'their_probe.*-4@%edi'
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
	local warning
	cp "$P/places_plain" "$TMP/x"
	damage_one_site "$TMP/x"
	cp "$TMP/x" "$TMP/before"
	warning="^ocaml-probes-link: $TMP/x: warning: places.ml:[0-9]+:2: probe \"empty\" at 0x[0-9a-f]+ \
in camlPlaces__empty_[0-9]+: stays dormant: the marker's address is not compared right after it was loaded"

	fails 1 "$LINK" --strict "$TMP/x"
	matches "$(head -n1 "$TMP/stderr")" "$warning\$"
	eq "$(tail -n1 "$TMP/stderr")" "ocaml-probes-link: $TMP/x: 1 probe(s) cannot be converted, see above"
	cmp "$TMP/x" "$TMP/before"

	fails 0 "$LINK" "$TMP/x"
	matches "$(cat "$TMP/stderr")" "$warning\$"
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
	matches "$(cat "$TMP/stderr")" \
		'x.ml:[12]:9: probe "p" is ~enabled_at_init:true in some places only: all start enabled'
	eq "$("$TMP/x")" "one two"
}

test_bad_files() {
	local n size
	fails 1 "$LINK" "$TMP/nothing"
	eq "$(cat "$TMP/stderr")" "ocaml-probes-link: $TMP/nothing: No such file or directory"
	fails 1 "$LINK" "$TMP"
	matches "$(cat "$TMP/stderr")" 'not a regular file'
	echo 'some text' >"$TMP/text"
	fails 1 "$LINK" "$TMP/text"
	eq "$(cat "$TMP/stderr")" "ocaml-probes-link: $TMP/text: not an ELF file"
	: >"$TMP/empty"
	fails 1 "$LINK" "$TMP/empty"
	matches "$(cat "$TMP/stderr")" 'not an ELF file'

	cp "$P/places_plain" "$TMP/arm"
	poke "$TMP/arm" 18 b7
	fails 1 "$LINK" "$TMP/arm"
	matches "$(cat "$TMP/stderr")" 'not an x86-64 ELF file'
	(cd "$TMP" && echo 'int x;' >o.c && cc -c o.c)
	fails 1 "$LINK" "$TMP/o.o"
	matches "$(cat "$TMP/stderr")" 'an object file; it has to be linked first'

	size=$(stat -c %s "$P/places_plain")
	for n in 10 63 64 1000 50000 $((size / 2)) $((size - 1)); do
		head -c "$n" "$P/places_plain" >"$TMP/cut"
		cp "$TMP/cut" "$TMP/before"
		fails 1 "$LINK" "$TMP/cut"
		matches "$(cat "$TMP/stderr")" "^ocaml-probes-link: $TMP/cut: [^:]+" "cut after $n"
		eq "$(wc -l <"$TMP/stderr")" 1
		cmp "$TMP/cut" "$TMP/before"
	done
}

# Every byte of the headers and of the section table, damaged: no crash, and the file is either
# converted or untouched.
test_damaged_headers() {
	local size shoff at status linker=$LINK
	[[ ! -x $O/asan/ocaml-probes-link ]] || linker=$O/asan/ocaml-probes-link
	cp "$P/queries_plain" "$TMP/whole"
	strip "$TMP/whole"
	size=$(stat -c %s "$TMP/whole")
	shoff=$(readelf -hW "$TMP/whole" | sed -n 's/.*Start of section headers: *\([0-9]*\).*/\1/p')
	for at in $(seq 0 3 800) $(seq "$shoff" 5 $((size - 1))); do
		cp "$TMP/whole" "$TMP/x"
		poke "$TMP/x" "$at" f1
		cp "$TMP/x" "$TMP/before"
		status=0
		"$linker" "$TMP/x" >/dev/null 2>"$TMP/stderr" || status=$?
		if [[ $status -eq 1 ]]; then
			cmp "$TMP/x" "$TMP/before"
			eq "$(wc -l <"$TMP/stderr")" 1 "byte $at"
		else
			eq "$status" 0 "byte $at: $(cat "$TMP/stderr")"
		fi
	done
}

test_usage() {
	fails 2 "$LINK"
	fails 2 "$LINK" a b
	fails 2 "$LINK" --no-such-option a
	fails 2 "$LINK" --verbose --quiet a
	fails 0 "$LINK" --help
	matches "$(cat "$TMP/stdout")" '--strict.*8@\$0.*build-id'
	fails 0 "$LINK" --version
	matches "$(cat "$TMP/stdout")" '^ocaml-probes-link [0-9]'
}

# 100 000 dormant probes of 10 000 names, as ocamlopt lays them out, in under a second.
test_many_sites() {
	local start milliseconds
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
	start=$(date +%s%N)
	"$LINK" --strict "$TMP/many"
	milliseconds=$((($(date +%s%N) - start) / 1000000))
	((milliseconds < 1000)) || fail "took $milliseconds ms"
	eq "$("$LINK" --check "$P/places_bare" | wc -l)" 1
	eq "$(readelf -n "$TMP/many" | grep -c 'Provider: ocaml_1')" 100000
	# main's status says whether all handlers ran: off, none did.
	fails 1 "$TMP/many"
}

# ---- the ppx ----------------------------------------------------------------------------------

ppx_says() { # SOURCE CHARACTERS MESSAGE
	printf '%s\n' "$1" >"$TMP/bad.ml"
	! compile "$TMP/bad.ml" -c >"$TMP/out" 2>&1 || fail "accepted: $1"
	matches "$(head -n1 "$TMP/out")" "File \"bad.ml\", line 1, characters $2:" "$1"
	eq "$(sed -n '/^Error: /,$p' "$TMP/out" | tr -s ' \n' ' ')" "Error: $3 " "$1"
}

test_ppx_errors() {
	local usage='[%probe "name" handler]'
	ppx_says 'let () = [%probe]' 9-17 "probe: expected $usage"
	ppx_says 'let () = [%probe 3]' 17-18 "probe: expected $usage"
	ppx_says 'let () = [%probe "a"]' 17-20 "probe: the handler is missing: $usage"
	ppx_says 'let () = [%probe "a" ~enabled_at_init:true]' 17-42 \
		"probe: the handler is missing: $usage"
	ppx_says 'let n = "a" let () = [%probe n ()]' 29-30 \
		"probe: the name must be a string literal: $usage"
	ppx_says 'let () = [%probe "a-b" ()]' 17-22 \
		"probe: '-' is not allowed in a probe's name, only A-Z a-z 0-9 _"
	ppx_says 'let () = [%probe "a" print_endline "x"]' 35-38 \
		"probe: more than one handler; put parentheses around the handler: $usage"
	ppx_says 'let () = [%probe "a" ~args:(1, 2) ~args:3 ()]' 40-41 "probe: ~args is given twice"
	ppx_says "let () = [%probe \"a\" ~args:($(seq -s, 33)) ()]" 27-118 \
		"probe: ~args takes 32 arguments at most"
	ppx_says 'let () = [%probe "a" ~args:(1, 2)]' 17-33 "probe: the handler is missing: $usage"
	ppx_says 'let () = [%probe "a" ?args:None ()]' 27-31 "probe: unknown label ?args"
	ppx_says 'let () = [%probe "a" () ~args:(1, x)]' 34-35 'Unbound value x'
	ppx_says 'let () = [%probe "a";; "b"]' 9-27 "probe: expected $usage"
	ppx_says 'let () = [%probe: int]' 9-22 "probe: expected $usage"
	ppx_says 'let () = [%probe let x = 1]' 9-27 "probe: expected $usage"
	ppx_says 'let () = [%probe "a" ~once:true ()]' 27-31 "probe: unknown label ~once"
	ppx_says 'let () = [%probe "a" ~enabled_at_init:1 ()]' 38-39 \
		"probe: ~enabled_at_init takes the literal true or false"
	ppx_says 'let () = [%probe "a" ~enabled_at_init:true ~enabled_at_init:true ()]' 60-64 \
		"probe: ~enabled_at_init is given twice"
	ppx_says 'let b = [%probe_is_enabled 1]' 27-28 'probe: expected [%probe_is_enabled "name"]'
	ppx_says 'let b = [%probe_is_enabled]' 8-27 'probe: expected [%probe_is_enabled "name"]'
	ppx_says 'let b = [%probe_is_enabled "a b"]' 27-32 \
		"probe: ' ' is not allowed in a probe's name, only A-Z a-z 0-9 _"
	# A handler of another type is the type checker's to report.
	printf 'let () = [%%probe "a" 3]\n' >"$TMP/bad.ml"
	fails 2 compile "$TMP/bad.ml" -c
	matches "$(cat "$TMP/stderr")" 'line 1, characters 21-22:.*type int.*expected.*type.*unit'
}

# Names at the edges, and a file whose name would break the marker.
test_odd_names() {
	local long file="$TMP/o dd:#@%.ml"
	long=$(printf 'x%.0s' {1..300})
	cat >"$file" <<-EOF
		let n = ref 0
		let () = [%probe "" (incr n)]; [%probe "$long" (incr n)]; [%probe "0" (incr n)]
		let () = print_int !n
	EOF
	(cd "$TMP" && ocamlfind ocamlopt -w -24 -package ocaml-probes.ppx -linkpkg "$(basename "$file")" -o odd)
	"$LINK" --strict "$TMP/odd"
	eq "$(readelf -n "$TMP/odd" | grep -c 'Provider: ocaml_1')" 3
	matches "$("$LINK" --help; readelf -n "$TMP/odd")" "Name: $long"
	switch_on_all_but_empty "$TMP/odd"
	eq "$("$TMP/odd")" 2
}

# awk cannot tell an empty name from none: switch on what has one.
switch_on_all_but_empty() { # FILE
	local name
	for name in $(readelf -n "$1" | awk '/Name: ./ { print $2 }'); do
		switch_on "$1" "$name"
	done
}

# ---- ways to compile and link -----------------------------------------------------------------

test_ways_to_compile() {
	local off on flags
	off=$("$P/places_bare")
	on=$(with_handlers "$P/places")
	cp "$ROOT/tests/ocaml/places.ml" "$TMP"
	while read -r flags; do
		rm -f "$TMP/places"
		# shellcheck disable=SC2086 # several flags
		OCAML_PROBES_LINK_FLAGS=--strict compile "$TMP/places.ml" -cc ocaml-probes-cc $flags \
			2>"$TMP/warnings"
		eq "$("$TMP/places")" "$off" "$flags"
		eq "$(with_handlers "$TMP/places")" "$on" "$flags"
	done <<-'EOF'
		-inline 0
		-inline 1000 -unsafe
		-O3 -unboxed-types
		-opaque -function-sections
		-function-sections -ccopt -Wl,--gc-sections
		-noassert -principal -rectypes
		-ccopt -static
		-ccopt -static -ccopt -s
		-ccopt -s
		-runtime-variant _pic
		-ccopt -fuse-ld=gold
		-ccopt -Wl,-z,noseparate-code -ccopt -Wl,-z,norelro
		-ccopt -Wl,--build-id=none -ccopt -Wl,-q
	EOF
	# Without -g.
	(cd "$TMP" && OCAML_PROBES_LINK_FLAGS=--strict ocamlfind ocamlopt -package ocaml-probes.ppx \
		-linkpkg -cc ocaml-probes-cc places.ml -o places)
	eq "$(with_handlers "$TMP/places")" "$on" "without -g"
}

# ocamlopt -shared, by the wrapper: Dynlink loads the plugin; host and plugin have their own.
test_plugin() {
	eq "$(notes "$P/plugin.cmxs" | cut -d' ' -f1 | sort)" $'plugin_only\nreused'
	eq "$(readelf -hW "$P/plugin.cmxs" | grep -c 'DYN (Shared object')" 1
	matches "$(readelf -sW "$P/plugin.cmxs")" ' 4 OBJECT +WEAK +HIDDEN +[0-9]+ caml_probes_semaphore_reused'
	cp "$P/plugin_host" "$P/plugin.cmxs" "$TMP"
	eq "$(echo go | "$TMP/plugin_host" "$TMP/plugin.cmxs")" $'ready\nhost=0 plugin=0'
	switch_on "$TMP/plugin.cmxs"
	eq "$(echo go | "$TMP/plugin_host" "$TMP/plugin.cmxs")" $'ready\nhost=0 plugin=2'
	switch_on "$TMP/plugin_host"
	eq "$(echo go | "$TMP/plugin_host" "$TMP/plugin.cmxs")" $'ready\nhost=1 plugin=2'
	# By hand, without the wrapper; stripped; with arguments, whose marker is in the GOT.
	sed 's/"reused"/"reused" ~args:(Plugin_api.in_plugin, 3)/' "$ROOT/tests/ocaml/plugin/plugin.ml" \
		>"$TMP/plugin.ml"
	(cd "$TMP" && ocamlfind ocamlopt -shared -I "$P/obj/plugin" -package ocaml-probes.ppx plugin.ml \
		-o plugin.cmxs)
	strip "$TMP/plugin.cmxs"
	"$LINK" "$TMP/plugin.cmxs" 2>"$TMP/stderr"
	matches "$(args_of "$TMP/plugin.cmxs")" ' 8@\$7$'
	switch_on "$TMP/plugin.cmxs"
	eq "$(echo go | "$TMP/plugin_host" "$TMP/plugin.cmxs")" $'ready\nhost=1 plugin=2'
}

# OCaml code in a shared object that a C program uses.
test_shared_object() {
	cat >"$TMP/l.ml" <<-'EOF'
		let f x = [%probe "in_object" ~args:x (Printf.printf "handler %d\n%!" x)]; x + 1
		let () = Callback.register "f" f
	EOF
	cat >"$TMP/stub.c" <<-'EOF'
		#include <caml/callback.h>
		int start(char **argv, int x)
		{
			caml_startup(argv);
			return Int_val(caml_callback(*caml_named_value("f"), Val_int(x)));
		}
	EOF
	cat >"$TMP/main.c" <<-'EOF'
		int start(char **argv, int x);
		int main(int argc, char **argv) { return start(argv, argc) == 2 ? 0 : 1; }
	EOF
	cd "$TMP"
	ocamlfind ocamlopt -output-obj -runtime-variant _pic -cc ocaml-probes-cc \
		-package ocaml-probes.ppx -linkpkg l.ml stub.c -o libl.so
	eq "$(notes libl.so | cut -d' ' -f1)" in_object
	cc -o main main.c ./libl.so
	eq "$(./main)" ""
	switch_on libl.so
	eq "$(./main)" "handler 1"
}

# ---- how people build -------------------------------------------------------------------------

test_dune_profiles() {
	local profile
	for profile in dev release; do
		cp -r "$ROOT/tests/ocaml/service" "$TMP/$profile"
		(cd "$TMP/$profile" && dune build --root . --profile "$profile" --no-print-directory \
			./service.exe)
		eq "$(notes "$TMP/$profile/_build/default/service.exe" | cut -d' ' -f1 | sort)" \
			$'cache_evict\ncache_hit\ncache_miss\ngc_minor\nqueue_full\nrequest_done\nrequest_start' \
			"$profile"
	done
}

test_service() {
	cp "$P/service" "$TMP/service"
	start_target "$TMP/service" 2
	await_line 'service: pid [0-9]*, 2 workers, running until SIGTERM'
	kill -TERM "$TARGET"
	wait "$TARGET"
	eq "$(wc -l <"$(output_of)")" 2
	switch_on "$TMP/service"
	start_target "$TMP/service" 2
	wait_for "grep -q 'queue: full' '$(output_of)' && grep -q 'gc: ' '$(output_of)' &&
		grep -q 'is done' '$(output_of)' && grep -q 'cache: full' '$(output_of)' &&
		grep -q 'is there' '$(output_of)' && grep -q 'is missing' '$(output_of)'" 20
	kill -TERM "$TARGET"
	wait "$TARGET"
}

# The library's own build knows nothing of probes beyond the ppx.
test_library() {
	mkdir "$TMP/lib"
	cat >"$TMP/lib/l.ml" <<-'EOF'
		let n = ref 0
		let[@inline always] f x = [%probe "in_library" (incr n)]; x + 1
	EOF
	printf 'let () = ignore (L.f 1 + L.f 2); print_int !L.n\n' >"$TMP/lib/m.ml"
	cd "$TMP/lib" || exit
	ocamlfind ocamlopt -package ocaml-probes.ppx -a l.ml -o l.cmxa
	ocamlfind ocamlopt -cc ocaml-probes-cc -package ocaml-probes.runtime -linkpkg l.cmxa m.ml -o m
	eq "$(notes m | cut -d' ' -f1 | uniq -c | sed 's/^ *//')" "3 in_library"
	switch_on m
	eq "$(./m)" 2
}

test_compiler_driver() {
	cp "$ROOT/tests/ocaml/queries.ml" "$TMP"
	# A failing link keeps its status and message.
	fails 2 compile "$TMP/queries.ml" -cc ocaml-probes-cc -ccopt -lno_such_library
	matches "$(cat "$TMP/stderr")" 'cannot find -lno_such_library'
	# Without post-linker the link fails, for its output would not be what was asked for.
	OCAML_PROBES_LINK=$TMP/none fails 2 compile "$TMP/queries.ml" -cc ocaml-probes-cc
	matches "$(cat "$TMP/stderr")" 'ocaml-probes-cc: cannot find ocaml-probes-link; set OCAML_PROBES_LINK'
	OCAML_PROBES_CC="cc -DUNUSED" compile "$TMP/queries.ml" -cc ocaml-probes-cc
	eq "$(notes "$TMP/queries" | wc -l)" 3
	# What is no final link is passed through.
	cat >"$TMP/stub.c" <<<'int stub(void) { return 0; }'
	(cd "$TMP" && ocamlfind ocamlopt -cc ocaml-probes-cc -c stub.c &&
		ocaml-probes-cc -shared -o stub.so stub.o && ocaml-probes-cc --version >/dev/null)
	eq "$(readelf -SW "$TMP/stub.so" | grep -c stapsdt || :)" 0
	# The distribution's link flags survive -cc.
	compile "$TMP/queries.ml"
	readelf -dW "$TMP/queries" | grep -E 'FLAGS|BIND_NOW' | sed 's/^ 0x[0-9a-f]* //' >"$TMP/without"
	compile "$TMP/queries.ml" -cc ocaml-probes-cc
	readelf -dW "$TMP/queries" | grep -E 'FLAGS|BIND_NOW' | sed 's/^ 0x[0-9a-f]* //' >"$TMP/with"
	cmp "$TMP/without" "$TMP/with"
	OCAML_PROBES_LINK_FLAGS='--strict --no-such' fails 2 compile "$TMP/queries.ml" -cc ocaml-probes-cc
}

# The recipes of the README, word for word.
test_readme_recipes() {
	cat >"$TMP/service.ml" <<-'EOF'
		let n = ref 0
		let () = [%probe "recipe" ~args:(!n) (incr n)]; Printf.printf "%d\n" !n
	EOF
	mkdir "$TMP/dune" "$TMP/make"
	cp "$TMP/service.ml" "$TMP/dune"
	cp "$TMP/service.ml" "$TMP/make"
	sed -n 's/^    //; /^(executable$/,/^ (link_flags/p' "$ROOT/README.md" >"$TMP/dune/dune"
	eq "$(wc -l <"$TMP/dune/dune")" 4
	echo '(lang dune 2.9)' >"$TMP/dune/dune-project"
	# The wrapper needs nothing that a sandbox would hide, and a cached link is the converted one.
	for profile in dev release; do
		(cd "$TMP/dune" && rm -rf _build && XDG_CACHE_HOME=$TMP/cache DUNE_CACHE=enabled \
			DUNE_SANDBOX=symlink dune build --root . --profile "$profile" ./service.exe 2>&1)
		eq "$(notes "$TMP/dune/_build/default/service.exe" | cut -d' ' -f1)" recipe "$profile"
	done
	(cd "$TMP/make" && eval "$(sed -n 's/^    \(ocamlfind ocamlopt .*service.ml -o service\)$/\1/p' \
		"$ROOT/README.md")")
	eq "$(notes "$TMP/make/service" | cut -d' ' -f1)" recipe
	eq "$(with_handlers "$TMP/make/service")" 1
}

# Somebody's -ppx duplicates code with its locations, or nests a probe in itself by inlining.
test_same_place_twice() {
	cat >"$TMP/x.ml" <<-'EOF'
		# 1 "same.ml"
		let n = ref 0 let f () = [%probe "p" (incr n)]
		# 1 "same.ml"
		let n = n     let g () = [%probe "p" (incr n)]
		let () = f (); g (); print_int !n
	EOF
	compile "$TMP/x.ml"
	matches "$("$LINK" --verbose "$TMP/x")" 'same.ml:1:25: .*same.ml:1:25#2: '
	switch_on "$TMP/x"
	eq "$("$TMP/x")" 2
}

TEST_TIMEOUT=120
run_tests "$@"
