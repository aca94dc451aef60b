#!/usr/bin/env bash
# The arguments of [%probe]: the operands that the post-linker notes for them.
#
# needs: link ocaml fixtures
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/link_lib.sh"

# Evaluated at the very site, the operands are what the handlers see, on or off.
test_args_are_exact() {
	local variant
	cc -O1 -D_GNU_SOURCE -shared -fPIC -o "$TMP/at_site.so" "$ROOT/tests/ocaml/args_at_site.c"
	for variant in args args_nopie; do
		AT_SITE=$TMP/off LD_PRELOAD=$TMP/at_site.so "$P/$variant" >"$TMP/out" 2>"$TMP/handlers"
		cmp "$TMP/out" <("$P/args_bare")
		eq "$(<"$TMP/handlers")" "" "handlers ran"
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
	matches "$(<"$TMP/stderr")" '1 probe cannot be converted'
	cmp "$TMP/x" "$TMP/strict"
	fails 0 "$LINK" "$TMP/x"
	matches "$(<"$TMP/stderr")" "^File \"x.ml\", line 2:
ocaml-probes-link: $TMP/x: warning: probe \"p\" at \
0x[0-9a-f]+ in camlX(__|\.)f_[0-9]+: arg1 is noted as 0: no register or memory holds it"
	eq "$(args_of "$TMP/x")" '8@%rax 8@$0 8@%rbx'
	switch_on "$TMP/x"
	eq "$("$TMP/x")" $'3 3 1\n4'
}

# A float that is local and in a register is noted, for debuggers. The kernel does not show it, and the remedy works.
test_args_in_float_registers() {
	cat >"$TMP/x.ml" <<-'EOF'
		let[@inline never] f i x y =
		  let z = x *. y +. 1.0 in
		  [%probe "local" ~args:(i, z) ()];
		  let kept = Sys.opaque_identity z in
		  [%probe "kept" ~args:(i, kept) ()];
		  z +. 1.0
		let () = ignore (Sys.opaque_identity (f 1 2. 3.))
	EOF
	compile "$TMP/x.ml"
	fails 0 "$LINK" --strict "$TMP/x"
	eq "$(grep -c warning "$TMP/stderr")" 1 "$(<"$TMP/stderr")"
	matches "$(<"$TMP/stderr")" "^File \"x.ml\", line 3:
ocaml-probes-link: $TMP/x: warning: probe \"local\" at 0x[0-9a-f]+ in camlX[_.]+f_[0-9]+: arg1 is in a floating-point register at \
the probe, which the kernel does not show: tools print \? \(let x = Sys.opaque_identity ... before the probe keeps it readable\)"
	matches "$(args_of "$TMP/x")" '8f@%xmm[0-9]+'
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

run_tests "$@"
