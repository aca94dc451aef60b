// SPDX-License-Identifier: MIT
/*
 * The machine code that counts and times inside a process, as templates with holes. Read
 * templates.h and block.h first.
 *
 * A trampoline is a sequence of templates: count (or count_cpu); with pairs room, enter (or
 * enter_stop), start or stop for each role, leave; gate. With an event, event_room, enter, event,
 * arg for each argument, commit and leave take the place of what is between count and gate. A site
 * whose hits are grouped has group among the roles, and event_room instead of room. Before a start
 * whose times are grouped is by. The trampoline of a window is count (or window_cpu); with pairs
 * window_room, window_gap, enter (or enter_stop), start, stop, frame_start, frame_stop, key_start
 * or key_stop for each role, leave and window_leave; the copy of the window. With an event,
 * window_event_room takes the place of window_room. The trampoline of a window of C code
 * (keeps_r11) has count_cpu instead of window_cpu, and no window_room. Each part of a block has one
 * copy of the routines (templates_routines.h).
 *
 * The templates are data of this program, which never runs them. They are copied, and must work at
 * any address: they jump only within themselves, and reach everything else through holes. A hole is
 * written as the number HOLE, and its value is named in the next line. All code must stay safe,
 * whatever the process or a tool writes into the block: places in a slot are masked, and loops are
 * bounded.
 */
#include "change/inside/templates_code.h"
#include "change/inside/templates_numbers.h"

// clang-format off
/* Macros that make the labels and the table of holes. */
asm(".macro template name\n"
    "	.globl templates_\\name\n"
    "	.hidden templates_\\name\n"
    "templates_\\name:\n"
    ".endm\n"

    /*
     * Record that the last instruction has a hole for VALUE, followed by AFTER bytes of the
     * instruction.
     */
    ".macro hole value, after=0\n"
    ".Lhole\\@:\n"
    "	.pushsection .rodata.templates_holes, \"a\"\n"
    "	.long	.Lhole\\@ - 4 - \\after - templates_text\n"
    "	.short	\\value, \\after\n"
    "	.popsection\n"
    ".endm\n"

    "	.pushsection .rodata.templates_holes, \"a\"\n"
    "	.balign 4\n"
    "	template holes\n"
    "	.popsection\n"
    "	.pushsection .rodata.templates_text, \"a\"\n"
    "	template text\n");

/* ---- trampolines ----------------------------------------------------------------------------- */

/* Count in shard 0, when it is the only shard. */
asm("	template count\n"
    "	lock incq HOLE(%rip)\n"
    "		hole TO_COUNTER\n");

/*
 * Count in the shard of this CPU, in a restartable sequence (rseq(2)). A lock would cost 20 cycles
 * on many processors, even if no other CPU has the counter in its cache. If the thread is
 * interrupted between the first instruction of the sequence and the end of the last one, the kernel
 * makes the thread continue at .Lmoved. So no other thread can count in this shard in the middle of
 * the sequence. Nothing is tried again, so a debugger can step through the sequence.
 *
 * The last shard is counted with a lock. This shard serves threads that were interrupted, CPUs
 * beyond the shards, and threads that the C library has not registered: their cpu_id is -1 or -2.
 *
 * The struct rseq_cs at the beginning describes the sequence; templates.c fills it. The thread's
 * rseq_cs points to this struct only within the trampoline, so that the kernel never reads it after
 * an unmapping.
 *
 * NAME is the name of the template. The code changes register REG, whose lower half is REG32.
 */
asm(".macro count_in_shard name, reg, reg32\n"
    "	.skip	RSEQ_CS_BYTES\n"
    "	.long	RSEQ_SIGNATURE\n" /* the kernel requires the signature before .Lmoved */
    "	template \\name\\()_moved\n"
    ".Lmoved\\name:\n"
    "	lock incq HOLE(%rip)\n"
    "		hole TO_COUNTER\n"
    "	jmp	.Lcounted\\name\n"

    "	template \\name\\()_entry\n"
    "	.ifc	\\name, count_cpu\n"
    "	push	%rax\n"
    "	.endif\n"
    "	lea	HOLE(%rip), \\reg\n"
    "		hole TO_SEQUENCE\n"
    "	mov	\\reg, %fs:HOLE\n"
    "		hole RSEQ_CS\n"
    "	template \\name\\()_sequence\n"
    "	mov	%fs:HOLE, \\reg32\n"
    "		hole CPU_ID\n"
    "	cmp	$HOLE, \\reg32\n"
    "		hole N_CPUS\n"
    "	jae	.Lmoved\\name\n"
    "	imul	$HOLE, \\reg, \\reg\n" /* the distance from shard 0 to the shard of this CPU */
    "		hole SHARD_BYTES\n"
    "	add	HOLE(%rip), \\reg\n"		/* plus the address of the block */
    "		hole TO_BLOCK_ADDR\n"
    "	incq	HOLE(\\reg)\n"
    "		hole COUNTER_OFF\n"
    "	template \\name\\()_sequence_end\n"
    ".Lcounted\\name:\n"
    "	xor	\\reg32, \\reg32\n"
    "	mov	\\reg, %fs:HOLE\n"
    "		hole RSEQ_CS\n"
    ".endm\n"

    "	template count_cpu\n"
    "	count_in_shard count_cpu, %rax, %eax\n"
    "	pop	%rax\n"

    /* In a window, r11 is not in use, and the stack may not be used: see code/window.h. */
    "	template window_cpu\n"
    "	count_in_shard window_cpu, %r11, %r11d\n");

/*
 * Jump to the wrapper or return. The stack is as after the site's call, so the wrapper returns to
 * the site.
 */
asm("	template gate\n"
    "	cmpw	$0, HOLE(%rip)\n"
    "		hole TO_GATE, 1\n"
    "	jne	HOLE + .\n"
    "		hole TO_WRAPPER\n"
    "	ret\n");

/*
 * Check the stack: see routine_room. Without room, skip the roles and jump to TO_REST. At a site,
 * rsp is 8 above a multiple of 16, as after each call: so the call here, and the push of count_cpu,
 * write to the same page as the site's call. At a window, rsp may be anywhere, so nothing is
 * pushed before the check: r11 has the return address. A window of C code has no check: see
 * inside.h. Then the window leaves a gap where a site has its return address.
 */
asm("	template room\n"
    "	test	$IN_LOW_PART, %esp\n"
    "	jnz	.Lroom\n"
    "	call	HOLE + .\n"
    "		hole TO_ROOM\n"
    "	jc	HOLE + .\n"
    "		hole TO_REST\n"
    ".Lroom:\n"

    "	template window_room\n"
    "	test	$IN_LOW_PART, %esp\n"
    "	jnz	.Lwindow_room\n"
    "	lea	.Lwindow_checked(%rip), %r11\n"
    "	jmp	HOLE + .\n"
    "		hole TO_WINDOW_ROOM\n"
    ".Lwindow_checked:\n"
    "	jc	HOLE + .\n"
    "		hole TO_REST\n"
    ".Lwindow_room:\n"

    /* Like room and window_room, but a hit that writes no event is counted. */
    "	template event_room\n"
    "	test	$IN_LOW_PART, %esp\n"
    "	jnz	.Levent_room\n"
    "	call	HOLE + .\n"
    "		hole TO_ROOM\n"
    "	jnc	.Levent_room\n"
    "	lock incq HOLE(%rip)\n"
    "		hole TO_WITHOUT_STACK\n"
    "	jmp	HOLE + .\n"
    "		hole TO_REST\n"
    ".Levent_room:\n"

    "	template window_event_room\n"
    "	test	$IN_LOW_PART, %esp\n"
    "	jnz	.Lwindow_event_room\n"
    "	lea	.Lwindow_event_checked(%rip), %r11\n"
    "	jmp	HOLE + .\n"
    "		hole TO_WINDOW_ROOM\n"
    ".Lwindow_event_checked:\n"
    "	jnc	.Lwindow_event_room\n"
    "	lock incq HOLE(%rip)\n"
    "		hole TO_WITHOUT_STACK\n"
    "	jmp	HOLE + .\n"
    "		hole TO_REST\n"
    ".Lwindow_event_room:\n"

    "	template window_gap\n"
    "	lea	-8(%rsp), %rsp\n");

/*
 * Save what the routines use. In a routine, the stack is:
 *	0 its return address, NOW (8) the time if the site has a stop, 16 rdi, 24 rsi, 32 rdx, 40
 *	rcx, 48 rax, 56 the return address to the site, SP (64) where rsp is at the site
 */
asm("	template enter\n"
    "	push	%rax\n"
    "	push	%rcx\n"
    "	push	%rdx\n"
    "	push	%rsi\n"
    "	push	%rdi\n"
    "	push	%rax\n"				/* makes room for the time */

    "	template enter_stop\n"
    "	push	%rax\n"
    "	push	%rcx\n"
    "	push	%rdx\n"
    "	lfence\n"				/* wait until the program's earlier work is done */
    "	rdtsc\n" /* read the time once and early, for all stops of the site */
    "	push	%rsi\n"
    "	push	%rdi\n"
    "	shl	$32, %rdx\n"
    "	or	%rdx, %rax\n"
    "	push	%rax\n");

asm("	template start\n"
    "	lea	HOLE(%rip), %rdi\n"
    "		hole TO_PAIR\n"
    "	call	HOLE + .\n"
    "		hole TO_START\n"

    "	template stop\n"
    "	lea	HOLE(%rip), %rdi\n"
    "		hole TO_PAIR\n"
    "	call	HOLE + .\n"
    "		hole TO_STOP\n"

    /* ... at a window of a function: r11 is rsp at the entry of the function */
    "	template frame_start\n"
    "	lea	HOLE(%rip), %rdi\n"
    "		hole TO_PAIR\n"
    "	lea	HOLE(%rsp), %r11\n"
    "		hole FRAME_OFF\n"
    "	call	HOLE + .\n"
    "		hole TO_START\n"

    "	template frame_stop\n"
    "	lea	HOLE(%rip), %rdi\n"
    "		hole TO_PAIR\n"
    "	lea	HOLE(%rsp), %r11\n"
    "		hole FRAME_OFF\n"
    "	call	HOLE + .\n"
    "		hole TO_STOP\n"

    /* A pair by key: templates.c writes the code that loads the key into rsi. */
    "	template key_start\n"
    "	lea	HOLE(%rip), %rdi\n"
    "		hole TO_PAIR\n"
    "	template key_start_load\n"
    "	.skip	KEY_BYTES\n"
    "	call	HOLE + .\n"
    "		hole TO_KEY_START\n"

    "	template key_stop\n"
    "	lea	HOLE(%rip), %rdi\n"
    "		hole TO_PAIR\n"
    "	template key_stop_load\n"
    "	.skip	KEY_BYTES\n"
    "	call	HOLE + .\n"
    "		hole TO_KEY_STOP\n"

    /*
     * An event: templates.c writes the code that loads the frame, and each argument, into rsi. The
     * routine sets rdi to the slot, and rcx to what makes the slot whole.
     */
    "	template event\n"
    "	mov	$HOLE, %edi\n"
    "		hole POINT\n"
    "	template event_load\n"
    "	.skip	KEY_BYTES\n"
    "	call	HOLE + .\n"
    "		hole TO_EVENT\n"

    "	template arg\n"
    "	template arg_load\n"
    "	.skip	KEY_BYTES\n"
    "	mov	%rsi, HOLE(%rdi)\n"
    "		hole ARG_OFF\n"

    "	template commit\n"
    "	mov	%rcx, (%rdi)\n"

    /* A group of hits: templates.c writes the code that loads the argument into rsi. */
    "	template group\n"
    "	lea	HOLE(%rip), %rdi\n"
    "		hole TO_GROUP\n"
    "	template group_load\n"
    "	.skip	KEY_BYTES\n"
    "	call	HOLE + .\n"
    "		hole TO_COUNT_GROUP\n"

    /*
     * A start whose times are grouped: set eax to the number of its struct value_times, which the
     * start takes. templates.c writes the code that loads the argument into rsi.
     */
    "	template by\n"
    "	lea	HOLE(%rip), %rdi\n"
    "		hole TO_GROUP\n"
    "	template by_load\n"
    "	.skip	KEY_BYTES\n"
    "	call	HOLE + .\n"
    "		hole TO_FIND_TIMES\n"
    "	mov	$HOLE, %ecx\n"
    "		hole OTHER_TIMES\n"
    "	test	%eax, %eax\n"
    "	cmovz	%ecx, %eax\n"

    "	template leave\n"
    "	pop	%rdi\n"				/* drop the time */
    "	pop	%rdi\n"
    "	pop	%rsi\n"
    "	pop	%rdx\n"
    "	pop	%rcx\n"
    "	pop	%rax\n"

    "	template window_leave\n"
    "	lea	8(%rsp), %rsp\n");

/* ---- routines -------------------------------------------------------------------------------- */

#include "change/inside/templates_routines.h"

/* ---- the end --------------------------------------------------------------------------------- */

asm("	template end\n"
    "	.popsection\n"
    "	.pushsection .rodata.templates_holes, \"a\"\n"
    "	template holes_end\n"
    "	.popsection\n");
// clang-format on
