/* SPDX-License-Identifier: MIT */
/*
 * The routines that the trampolines of a block call: the part of templates_code.c that each block
 * has once. Only templates_code.c includes this file, since the order of the templates matters.
 */
#ifndef CHANGE_INSIDE_TEMPLATES_ROUTINES_H
#define CHANGE_INSIDE_TEMPLATES_ROUTINES_H

// clang-format off
/*
 * Set rdx to the address of the slot at place eax modulo n_threads, in the area at rdi. Changes
 * rax.
 */
asm(".macro slot_at_eax\n"
    "	and	$HOLE, %eax\n"
    "		hole SLOT_MASK\n"
    "	imul	$SLOT_BYTES, %rax, %rdx\n"
    "	lea	HOLE(%rdi,%rdx), %rdx\n"
    "		hole SLOTS_OFF\n"
    ".endm\n"

    /*
     * Set rax to the address (minus RING_TICKS) of the start at place eax modulo PAIRS_DEPTH of the
     * slot at rdx.
     */
    ".macro start_at_eax\n"
    "	and	$DEPTH_MASK, %eax\n"
    "	shl	$4, %eax\n"			/* sizeof(struct pairs_start) */
    "	add	%rdx, %rax\n"
    ".endm\n"

    /*
     * Add 1 to esi, and jump to LABEL unless the end of the window is reached. The loop began with
     * the thread's id, ecx, in esi. Changes eax.
     */
    ".macro next_in_window label\n"
    "	inc	%esi\n"
    "	mov	%esi, %eax\n"
    "	sub	%ecx, %eax\n"
    "	cmp	$WINDOW, %eax\n"
    "	jne	\\label\n"
    ".endm\n");

/*
 * Set rax to the time from rcx to rax, in nanoseconds: both are in ticks. Changes rcx, rdx.
 */
asm(".macro ns_to_rax\n"
    "	sub	%rcx, %rax\n"
    "	mov	$0, %ecx\n"			/* mov leaves the flags as they are */
    /* the counters of two CPUs may differ a little: take 0 for a negative time */
    "	cmovb	%rcx, %rax\n"
    "	mulq	HOLE(%rip)\n"			/* rdx:rax: nanoseconds as 96.32 fixed point */
    "		hole TO_NS_PER_TICK\n"
    "	shrd	$32, %rdx, %rax\n"		/* rax: nanoseconds */
    ".endm\n"

    /*
     * Add rax nanoseconds to the totals at rsi, which has them at these offsets. Each total changes
     * in one instruction. Without LOCK, only a signal handler may change totals between these
     * instructions. Changes rax, rcx, rdx.
     */
    ".macro add_ns sum, min_not, max, buckets, lock\n"
    "	\\lock add %rax, \\sum(%rsi)\n"
    "	mov	%rax, %rdx\n"
    "	raise	\\max, \\lock\n"
    "	not	%rdx\n"
    "	raise	\\min_not, \\lock\n"
    "	not	%rdx\n" /* undo the complement: rdx has nanoseconds again */

    /* measure_bucket_of(): with log2 at least 3, (log2 - 3) * 8 + (ns >> (log2 - 3)). */
    "	mov	%rdx, %rax\n"
    "	or	$8, %rdx\n"			/* log2 is at least 3 */
    "	bsr	%rdx, %rcx\n"			/* log2 */
    "	sub	$3, %ecx\n"
    "	shr	%cl, %rax\n"
    "	lea	(%rax,%rcx,8), %rax\n"
    "	\\lock incq \\buckets(%rsi,%rax,8)\n"
    ".endm\n"

    /*
     * Add the time from rcx to rax, in ticks, to the totals of the slot at rsi and, if GROUPED, to
     * those of struct value_times number edi, which may be any number: the block has it from the
     * start. Changes rax, rcx, rdx, rdi.
     */
    ".macro add_time grouped, lock\n"
    "	ns_to_rax\n"
    "	.if	\\grouped\n"
    "	push	%rsi\n"
    "	push	%rax\n"
    "	.endif\n"
    "	add_ns	SUM_NS, MIN_NS_NOT, MAX_NS, BUCKETS, \\lock\n"
    "	.if	\\grouped\n"
    "	pop	%rax\n"
    "	cmp	$HOLE, %edi\n"
    "		hole N_TIMES\n"
    "	jae	.Lno_times\\@\n"
    "	imul	$TIMES_BYTES, %rdi, %rdi\n"
    "	lea	HOLE(%rip), %rsi\n"
    "		hole TO_TIMES\n"
    "	add	%rdi, %rsi\n"
    "	add_ns	TIMES_SUM_NS, TIMES_MIN_NS_NOT, TIMES_MAX_NS, TIMES_BUCKETS, lock\n"
    ".Lno_times\\@:\n"
    "	pop	%rsi\n"
    "	.endif\n"
    ".endm\n"

    /*
     * Raise the total at OFF to rdx. The total is never lowered, even if other threads raise it at
     * the same time. Changes rax.
     */
    ".macro raise off, lock\n"
    "	mov	\\off(%rsi), %rax\n"
    ".Lraise\\@:\n"
    "	cmp	%rax, %rdx\n"
    "	jbe	.Lraised\\@\n"
    "	\\lock cmpxchg %rdx, \\off(%rsi)\n"
    "	jne	.Lraise\\@\n"
    ".Lraised\\@:\n"
    ".endm\n");

/*
 * Set rax to the time at which a pair begins or, if REJECTED, to 0. Changes rdx. Each lfence is
 * needed, also that of enter_stop: without it, a test a_pair_... of tests/unit/test_inside_pairs.c
 * fails. A locked instruction does not order rdtsc, and rdtscp takes longer.
 */
asm(".macro begin_to_rax rejected\n"
    "	.if	\\rejected\n"
    "	xor	%eax, %eax\n"
    "	.else\n"
    "	lfence\n"				/* wait until the start has done its work */
    "	rdtsc\n"				/* read the time as late as possible */
    "	lfence\n" /* the program's work must not begin before the time is read */
    "	shl	$32, %rdx\n"
    "	or	%rdx, %rax\n"
    "	.endif\n"
    ".endm\n");

/*
 * A filter rejects starts. A rejected start is stored, so that its stop finds it, but it counts
 * nowhere: its time is 0, which no clock returns.
 *
 * Add to the orphan starts of the slot at rdx the newest starts, edi of them, except rejected ones.
 * esi is n and, in its upper half, next of the slot. Changes rax, rdi.
 */
asm(".macro orphan_newest\n"
    ".Lorphan_next\\@:\n"
    "	mov	%esi, %eax\n"
    "	shr	$16, %eax\n"
    "	sub	%edi, %eax\n"
    "	start_at_eax\n"
    "	count_unless_rejected RING_TICKS(%rax), ORPHAN_STARTS(%rdx)\n"
    "	dec	%edi\n"
    "	jnz	.Lorphan_next\\@\n"
    ".endm\n"

    /* Add 1 to the number TO, in one instruction, unless TICKS is the time of a rejected start. */
    ".macro count_unless_rejected ticks, to, lock\n"
    "	cmpq	$1, \\ticks\n"			/* sets the carry flag if the time is 0 */
    "	cmc\n"
    "	\\lock adcq $0, \\to\n"
    ".endm\n");

/*
 * Set REG to the stack pointer by which starts and stops are matched. If FRAMED, it is in r11:
 * routines with these names are for windows, where r11 is not in use.
 */
asm(".macro sp_to reg, framed\n"
    "	.if	\\framed\n"
    "	mov	%r11, \\reg\n"
    "	.else\n"
    "	lea	SP(%rsp), \\reg\n"
    "	.endif\n"
    ".endm\n");

/*
 * Start the pair whose area is at rdi or, if REJECTED, store a rejected start. If GROUPED, eax is
 * the number that `by` has found. Throughout, ecx is the thread's id, rdx the thread's slot, rax
 * the state of the slot before the start, rsi the state after it. Changes rax, rcx, rdx, rsi, rdi.
 */
asm(".macro start_by_thread rejected, framed, grouped\n"
    "	.if	\\grouped\n"
    "	push	%rax\n"
    "	.endif\n"
    ".Lstart\\@:\n"
    "	mov	%fs:HOLE, %ecx\n"		/* the thread's id */
    "		hole TID\n"
    "	test	%ecx, %ecx\n"			/* the thread has no id yet, or no longer */
    "	jz	.Lcollision\\@\n"
    "	mov	%ecx, %eax\n"
    "	slot_at_eax\n"
    "	mov	(%rdx), %rax\n"
    "	cmp	%ecx, %eax\n"			/* does the slot belong to this thread? */
    "	jne	.Lfind\\@\n"

    /* Here the slot is free or belongs to this thread: take it, and add one open start to it. */
    ".Ltake\\@:\n"
    "	mov	%rax, %rsi\n"
    "	shr	$32, %rsi\n"			/* esi: n, and next above it */
    "	shl	$16, %esi\n"			/* n * 65536 */
    "	cmp	$HOLE, %esi\n"
    "		hole DEPTH\n"
    "	jae	.Lfull\\@\n"
    "	mov	%rax, %rsi\n"
    "	shr	$32, %rsi\n"
    "	add	$ONE_MORE, %esi\n"
    "	shl	$32, %rsi\n"
    "	or	%rcx, %rsi\n"
    "	lock cmpxchg %rsi, (%rdx)\n"		/* fails if another thread was faster */
    "	jne	.Lstart\\@\n"

    /*
     * The slot belongs to this thread now. Starts that a signal handler opens from here on come
     * after our start in the ring.
     */
    ".Lopened\\@:\n"
    "	shr	$48, %rsi\n"			/* next: the place of our start plus 1 */
    "	dec	%esi\n"
    ".Lwrite\\@:\n"
    "	mov	%esi, %eax\n"
    "	start_at_eax\n"
    "	.if	\\grouped\n"
    "	pop	%rcx\n"
    "	and	$DEPTH_MASK, %esi\n"
    "	mov	%ecx, STARTED_TIMES(%rdx,%rsi,4)\n"
    "	.endif\n"
    "	.ifeq	\\rejected\n"
    "	incq	STARTS(%rdx)\n"
    "	.endif\n"
    "	mov	%rax, %rsi\n"
    "	sp_to	%rax, \\framed\n"
    "	mov	%rax, RING_SP(%rsi)\n"
    "	begin_to_rax \\rejected\n"
    "	mov	%rax, RING_TICKS(%rsi)\n"
    "	ret\n"

    /*
     * All places are taken: replace the oldest start. A signal handler runs before or after the
     * xadd.
     */
    ".Lfull\\@:\n"
    "	mov	%rax, %rsi\n"
    "	shr	$32, %rsi\n"
    "	shr	$48, %rax\n"
    "	sub	%esi, %eax\n"
    "	start_at_eax\n"
    "	count_unless_rejected RING_TICKS(%rax), ORPHAN_STARTS(%rdx)\n"
    "	mov	$1, %esi\n"
    "	xadd	%si, NEXT(%rdx)\n"		/* si: the place of our start */
    "	jmp	.Lwrite\\@\n"

    /* Look for a slot of this thread in the window. */
    ".Lfind\\@:\n"
    "	mov	%ecx, %esi\n"
    ".Lfind_next\\@:\n"
    "	mov	%esi, %eax\n"
    "	slot_at_eax\n"
    "	mov	(%rdx), %rax\n"
    "	cmp	%ecx, %eax\n"
    "	je	.Ltake\\@\n"
    "	next_in_window .Lfind_next\\@\n"

    /* Look for a free slot in the window. */
    "	mov	%ecx, %esi\n"
    ".Lfree_next\\@:\n"
    "	mov	%esi, %eax\n"
    "	slot_at_eax\n"
    "	mov	(%rdx), %rax\n"
    "	ror	$32, %rax\n"
    "	test	%ax, %ax\n"			/* n */
    "	jz	.Lfree\\@\n"
    "	next_in_window .Lfree_next\\@\n"

    /* Look in the window for a slot whose thread has ended with open starts. */
    "	mov	$HOLE, %eax\n"
    "		hole MAY_CALL\n"
    "	test	%eax, %eax\n"
    "	jz	.Lcollision\\@\n"
    "	mov	%ecx, %esi\n"
    ".Lgone_next\\@:\n"
    "	mov	%esi, %eax\n"
    "	slot_at_eax\n"
    "	mov	(%rdx), %rax\n"
    "	ror	$32, %rax\n"
    "	test	%ax, %ax\n"			/* another thread has freed the slot */
    "	jz	.Lfree\\@\n"
    "	ror	$32, %rax\n"
    "	push	%rax\n"
    "	push	%rsi\n"
    "	push	%rdi\n"
    "	push	%r11\n"				/* syscall changes rcx and r11 */
    "	mov	%eax, %edi\n"
    "	xor	%esi, %esi\n"			/* signal 0: none is sent */
    "	mov	$SYS_TKILL, %eax\n"
    "	syscall\n"
    "	cmp	$-ESRCH, %rax\n"
    "	pop	%r11\n"
    "	pop	%rdi\n"
    "	pop	%rsi\n"
    "	pop	%rax\n"
    "	mov	%fs:HOLE, %ecx\n"		/* mov and pop leave the flags as they are */
    "		hole TID\n"
    "	je	.Lgone\\@\n"
    "	next_in_window .Lgone_next\\@\n"

    ".Lcollision\\@:\n"
    "	.if	\\grouped\n"
    "	pop	%rax\n"
    "	.endif\n"
    "	lock incq COLLISIONS(%rdi)\n"
    "	ret\n"

    ".Lfree\\@:\n"
    "	ror	$32, %rax\n" /* restore the state of the slot, which was rotated */
    "	and	$HOLE, %esi\n"
    "		hole SLOT_MASK\n"
    "	lock bts %rsi, USED(%rdi)\n"		/* a bit string: the bit may be in a later word */
    "	jmp	.Ltake\\@\n"

    /*
     * The thread of the slot is gone, so nobody writes to the slot. Take it: its open starts are
     * orphans, and ours becomes the only one.
     */
    ".Lgone\\@:\n"
    "	mov	%rax, %rsi\n"
    "	shr	$32, %rsi\n"
    "	and	$0xffff0000, %esi\n"		/* n = 0; keep next */
    "	add	$ONE_MORE, %esi\n"
    "	shl	$32, %rsi\n"
    "	or	%rcx, %rsi\n"
    "	lock cmpxchg %rsi, (%rdx)\n"
    "	jne	.Lstart\\@\n"
    "	push	%rsi\n"
    "	mov	%rax, %rsi\n"
    "	shr	$32, %rsi\n"
    "	lea	-1(%rsi), %edi\n"
    "	and	$DEPTH_MASK, %edi\n"
    "	inc	%edi\n"			/* n, which is from 1 to PAIRS_DEPTH */
    "	orphan_newest\n"
    "	pop	%rsi\n"
    "	jmp	.Lopened\\@\n"
    ".endm\n"

    "	template routine_start\n"
    "	start_by_thread 0, 0, 0\n"
    "	template routine_reject\n"
    "	start_by_thread 1, 0, 0\n"
    "	template routine_frame_start\n"
    "	start_by_thread 0, 1, 0\n"
    "	template routine_frame_reject\n"
    "	start_by_thread 1, 1, 0\n"
    "	template routine_by_start\n"
    "	start_by_thread 0, 0, 1\n"
    "	template routine_by_frame_start\n"
    "	start_by_thread 0, 1, 1\n");

/*
 * Stop the pair whose area is at rdi. No locks are needed, because a slot with open starts belongs
 * to its thread. Each total changes in one instruction, because a signal handler may change it
 * between two instructions.
 */
asm(".macro stop_by_thread framed, grouped\n"
    "	mov	%fs:HOLE, %ecx\n"		/* the thread's id */
    "		hole TID\n"
    "	mov	%ecx, %eax\n"
    "	slot_at_eax\n"
    "	mov	(%rdx), %rax\n"
    "	cmp	%ecx, %eax\n"
    "	jne	.Lstop_find\\@\n"

    ".Lstop_found\\@:\n"
    "	mov	%rax, %rsi\n"
    "	shr	$32, %rsi\n" /* esi: n in its lower half, next in its upper half */
    "	test	%si, %si\n"
    "	jz	.Lstop_find\\@\n"
    "	sp_to	%rdi, \\framed\n" /* the address of the pair's area is no longer needed */
    "	mov	%esi, %eax\n"
    "	shr	$16, %eax\n"
    "	dec	%eax\n"				/* the place of the newest start */
    "	start_at_eax\n"
    "	cmp	%rdi, RING_SP(%rax)\n"
    "	jne	.Lother_frame\\@\n"

    /* The start at rax belongs to this stop. */
    ".Lmatched\\@:\n"
    "	mov	RING_TICKS(%rax), %rcx\n"
    "	.if	\\grouped\n"
    "	mov	%rax, %rdi\n"
    "	sub	%rdx, %rdi\n"			/* the place of the start, times 16 */
    "	shr	$2, %edi\n"
    "	mov	STARTED_TIMES(%rdx,%rdi), %edi\n"
    "	.endif\n"
    "	mov	NOW(%rsp), %rax\n"
    "	mov	%rdx, %rsi\n"			/* the slot */
    "	test	%rcx, %rcx\n"
    "	jz	.Lstop_rejected\\@\n"
    "	add_time \\grouped\n"
    ".Lstop_rejected\\@:\n"
    /*
     * Do this last, because the slot may be free afterwards. Write all 64 bits at once, because the
     * next load reads 64 bits.
     */
    "	mov	$ONE_MORE, %ecx\n"
    "	shl	$32, %rcx\n"
    "	sub	%rcx, (%rsi)\n"
    "	ret\n"

    /* The newest start is in another frame. Look for an older start with the stack pointer rdi. */
    ".Lother_frame\\@:\n"
    "	mov	$1, %ecx\n"			/* number of newer starts */
    ".Lframe_next\\@:\n"
    "	cmp	%cx, %si\n"			/* n */
    "	jbe	.Lframe_none\\@\n"
    "	cmp	$DEPTH_MASK, %ecx\n"		/* the ring has no more starts, whatever n is */
    "	ja	.Lframe_none\\@\n"
    "	mov	%esi, %eax\n"
    "	shr	$16, %eax\n"
    "	dec	%eax\n"
    "	sub	%ecx, %eax\n"
    "	start_at_eax\n"
    "	cmp	%rdi, RING_SP(%rax)\n"
    "	je	.Lframe_found\\@\n"
    "	inc	%ecx\n"
    "	jmp	.Lframe_next\\@\n"

    /* add the newer starts to the orphans: an exception has skipped their stops */
    ".Lframe_found\\@:\n"
    "	push	%rax\n"
    "	mov	%ecx, %edi\n"
    "	orphan_newest\n"
    "	pop	%rax\n"
    "	imul	$ONE_MORE, %ecx, %ecx\n"
    "	sub	%ecx, N_AND_NEXT(%rdx)\n"
    "	jmp	.Lmatched\\@\n"

    /* Another function stops: take the newest. */
    ".Lframe_none\\@:\n"
    "	mov	%esi, %eax\n"
    "	shr	$16, %eax\n"
    "	dec	%eax\n"
    "	start_at_eax\n"
    "	jmp	.Lmatched\\@\n"

    /*
     * Look for a slot with an open start. A thread has two slots if a signal handler took one while
     * the thread itself was looking for a slot.
     */
    ".Lstop_find\\@:\n"
    "	mov	%ecx, %esi\n"
    ".Lstop_find_next\\@:\n"
    "	mov	%esi, %eax\n"
    "	slot_at_eax\n"
    "	mov	(%rdx), %rax\n"
    "	cmp	%ecx, %eax\n"
    "	jne	.Lstop_not_it\\@\n"
    "	ror	$32, %rax\n"
    "	test	%ax, %ax\n"			/* n */
    "	ror	$32, %rax\n" /* ror leaves the zero flag as it is */
    "	jnz	.Lstop_found\\@\n"
    ".Lstop_not_it\\@:\n"
    "	next_in_window .Lstop_find_next\\@\n"

    /*
     * Count the stop in the data that the threads share, because the slot may belong to another
     * thread by now.
     */
    ".Lorphan\\@:\n"
    "	lock incq ORPHAN_STOPS(%rdi)\n"
    "	ret\n"
    ".endm\n"

    "	template routine_stop\n"
    "	stop_by_thread 0, 0\n"
    "	template routine_frame_stop\n"
    "	stop_by_thread 1, 0\n"
    "	template routine_by_stop\n"
    "	stop_by_thread 0, 1\n"
    "	template routine_by_frame_stop\n"
    "	stop_by_thread 1, 1\n");

/*
 * A pair by key: its area is at rdi, its key is in rsi, see block.h. Until the key was found or
 * stored, ecx is the process id, rdx an entry, r8 the offset of the entry from the first one; r9 is
 * 0.
 */
asm(".macro enter_key\n"
    "	push	%r8\n"
    "	push	%r9\n"
    "	xor	%r9d, %r9d\n"
    ".endm\n"

    /* If GROUPED, the number that `by` has found is on the stack, below the return address. */
    ".macro leave_key grouped\n"
    "	pop	%r9\n"
    "	pop	%r8\n"
    "	.if	\\grouped\n"
    "	pop	%rax\n"
    "	.endif\n"
    "	ret\n"
    ".endm\n"

    /*
     * Set ecx to the process id. Jump to NONE if the C library has no id for the thread. Changes
     * rax, rdx.
     */
    ".macro process_to_ecx none\n"
    "	mov	%fs:HOLE, %ecx\n"
    "		hole TID\n"
    "	test	%ecx, %ecx\n"
    "	jz	\\none\n"
    "	mov	%ecx, %eax\n"
    "	and	$PIDS_MASK, %eax\n"
    "	lea	HOLE(%rip), %rdx\n"
    "		hole TO_PIDS\n"
    "	mov	(%rdx,%rax,8), %rdx\n"
    "	cmp	%ecx, %edx\n"
    "	je	.Lknown\\@\n"
    "	call	.Lask_process\n"
    ".Lknown\\@:\n"
    "	shr	$32, %rdx\n"
    "	mov	%edx, %ecx\n"
    ".endm\n"

    /*
     * Set r8 to the offset of the first entry of the key's bucket. The factor is 2^64 divided by
     * the golden ratio, and the highest bits of the product depend on all bits of the key.
     */
    ".macro bucket_to_r8\n"
    "	mov	$0x9e3779b97f4a7c15, %r8\n"
    "	imul	%rsi, %r8\n"
    "	shr	$32, %r8\n"
    "	imul	$HOLE, %r8, %r8\n"
    "		hole N_BUCKETS\n"
    "	shr	$32, %r8\n"
    "	shl	$BUCKET_LOG2, %r8d\n"
    ".endm\n"

    ".macro entry_at_r8\n"
    "	lea	HOLE(%rdi,%r8), %rdx\n"
    "		hole KEYS_OFF\n"
    ".endm\n"

    /*
     * Set rax to the slot for the totals of this thread. Jump to SHARED if it is slot 0, which
     * changes by locked instructions. Changes r8.
     */
    ".macro totals_to_rax shared\n"
    "	mov	%fs:HOLE, %r8d\n"
    "		hole TID\n"
    "	mov	%r8d, %eax\n"
    "	and	$HOLE, %eax\n"
    "		hole TOTALS_MASK\n"
    "	imul	$SLOT_BYTES, %rax, %rax\n"
    "	lea	HOLE(%rdi,%rax), %rax\n"
    "		hole SLOTS_OFF\n"
    "	cmp	%r8d, (%rax)\n"
    "	je	.Ltotals\\@\n"
    "	call	.Ltake_totals\n"
    "	jc	\\shared\n"
    ".Ltotals\\@:\n"
    ".endm\n"

    /* Set r8 to the next entry, and jump to LABEL unless the bucket ends there. */
    ".macro next_in_bucket label\n"
    "	add	$KEYED_BYTES, %r8d\n"
    "	test	$IN_BUCKET, %r8d\n"
    "	jnz	\\label\n"
    ".endm\n"

    /*
     * Set rdx to the entry at r8. Jump to UNUSED if the entry was never used, which ends the
     * search; to OTHER if it does not have the key. Otherwise rax is the key. Changes rax.
     */
    ".macro entry_with_key unused, other\n"
    "	entry_at_r8\n"
    "	mov	(%rdx), %rax\n"
    "	test	%rax, %rax\n"
    "	jz	\\unused\n"
    "	cmp	%ecx, %eax\n"
    "	jne	\\other\n"
    "	mov	%rsi, %rax\n"
    "	cmp	%rax, KEY(%rdx)\n"
    "	jne	\\other\n"
    ".endm\n"

    /*
     * Go to NEXT for the next entry. After the last one, and from UNUSED, which is defined here, go
     * to NONE with r8 at the end of the bucket.
     */
    ".macro end_of_search next, unused, none\n"
    "	next_in_bucket \\next\n"
    "	jmp	\\none\n"
    "\\unused:\n"
    "	or	$IN_BUCKET, %r8d\n"
    "	add	$KEYED_BYTES, %r8d\n"
    "	jmp	\\none\n"
    ".endm\n"

    /*
     * Take the key out of its entry, and set rdx to the entry, which stays taken. Jump to NONE,
     * with r8 at the end of the bucket, if the bucket has no entry with the key. If two threads try
     * to take out the same key, one of them finds no entry. Changes rax.
     */
    ".macro take_key_out none\n"
    ".Ltake\\@:\n"
    "	entry_with_key .Lunused\\@, .Lnot\\@\n"
    "	lock cmpxchg %r9, KEY(%rdx)\n"
    "	je	.Ltaken\\@\n"
    ".Lnot\\@:\n"
    "	end_of_search .Ltake\\@, .Lunused\\@, \\none\n"
    ".Ltaken\\@:\n"
    ".endm\n"

    /*
     * As take_key_out, for a frame. Set rcx to the time of the start and, if GROUPED, esi to its
     * number. The owner of the entry needs no lock: only the thread that executes a frame stops
     * it. Another thread, to which the stack has moved, loads the start before it takes the key
     * out, because the owner may use the entry again from then on.
     */
    ".macro take_frame_out none, grouped\n"
    ".Ltake\\@:\n"
    "	entry_with_key .Lunused\\@, .Lnot\\@\n"
    "	mov	%fs:HOLE, %eax\n"
    "		hole TID\n"
    "	cmp	%eax, OWNER(%rdx)\n"
    "	jne	.Lof_others\\@\n"
    "	mov	KEY_TICKS(%rdx), %rcx\n"
    "	.if	\\grouped\n"
    "	mov	KEY_TIMES(%rdx), %esi\n"
    "	.endif\n"
    "	mov	%r9, KEY(%rdx)\n"
    "	jmp	.Ltaken\\@\n"

    ".Lof_others\\@:\n"
    "	push	%r10\n"
    "	push	%r11\n"
    "	mov	%rsi, %rax\n"
    "	mov	KEY_TICKS(%rdx), %r10\n"
    "	mov	KEY_TIMES(%rdx), %r11d\n"
    "	lock cmpxchg %r9, KEY(%rdx)\n"
    "	cmove	%r10, %rcx\n"			/* cmove and pop leave the flags as they are */
    "	.if	\\grouped\n"
    "	cmove	%r11, %rsi\n"
    "	.endif\n"
    "	pop	%r11\n"
    "	pop	%r10\n"
    "	je	.Ltaken\\@\n"
    ".Lnot\\@:\n"
    "	end_of_search .Ltake\\@, .Lunused\\@, \\none\n"
    ".Ltaken\\@:\n"
    ".endm\n");

/*
 * The calls of a function are a pair whose key is the frame of the call, plus 1 because keys are
 * odd. The frame is rsp at the entry of the function. On a stack of OCaml 5, it is the number of
 * the stack, and the distance of this rsp from the handler at the stack's base: as frame_of() in
 * bpf/measure_frames.bpf.h. Set rsi to the key; rsi is the rsp. Changes rax, rdx.
 */
asm(".macro fiber_key_to_rsi\n"
    "	mov	CURRENT_STACK(%r14), %rax\n"
    "	mov	STACK_HANDLER(%rax), %rdx\n"
    "	sub	%esi, %edx\n"
    "	mov	STACK_ID(%rax), %rsi\n"
    "	shl	$32, %rsi\n"
    "	lea	1(%rsi,%rdx), %rsi\n"
    ".endm\n");

/*
 * Start the pair or, if REJECTED, store a rejected start. If the key already has an open start,
 * that start becomes an orphan. If GROUPED, the number that `by` has found is on the stack. Changes
 * rax, rcx, rdx.
 */
asm(".macro start_by_key rejected, grouped, framed\n"
    "	enter_key\n"
    "	.ifeq	\\framed\n"
    "	test	$1, %sil\n"			/* an int is odd, a pointer is even */
    "	jz	.Lnot_keyed\\@\n"
    "	.endif\n"
    ".Lkey_again\\@:\n"
    "	process_to_ecx .Lkey_collision\\@\n"
    "	bucket_to_r8\n"
    "	.if	\\framed\n"
    "	take_frame_out .Lkey_new\\@, 0\n"
    "	.else\n"
    "	take_key_out .Lkey_new\\@\n"
    "	mov	KEY_TICKS(%rdx), %rcx\n"
    "	.endif\n"
    "	lea	HOLE(%rdi), %rax\n"
    "		hole SLOTS_OFF\n"
    "	count_unless_rejected %rcx, ORPHAN_STARTS(%rax), lock\n"
    "	.if	\\framed\n"
    /* An entry of another thread is that thread's to use: start again, without an open start. */
    "	mov	OWNER(%rdx), %eax\n"
    "	test	%eax, %eax\n"
    "	jz	.Lkey_opened\\@\n"
    "	cmp	%fs:HOLE, %eax\n"
    "		hole TID\n"
    "	jne	.Lkey_again\\@\n"
    "	.endif\n"
    "	jmp	.Lkey_opened\\@\n"

    ".Lkey_new\\@:\n"
    "	sub	$BUCKET_BYTES, %r8d\n"		/* back to the first entry of the bucket */
    ".Lkey_free_next\\@:\n"
    "	entry_at_r8\n"
    "	mov	(%rdx), %eax\n"
    "	test	%eax, %eax\n"
    "	jnz	.Lkey_in_use\\@\n"
    "	lock cmpxchg %ecx, (%rdx)\n"
    "	je	.Lkey_claimed\\@\n"
    ".Lkey_in_use\\@:\n"
    "	.if	\\framed\n"
    "	cmp	%ecx, %eax\n"
    "	jne	.Lkey_of_others\\@\n"
    "	mov	%fs:HOLE, %eax\n"
    "		hole TID\n"
    "	cmp	%eax, OWNER(%rdx)\n"
    "	jne	.Lkey_of_others\\@\n"
    "	cmp	%r9, KEY(%rdx)\n"
    "	je	.Lkey_opened\\@\n"
    ".Lkey_of_others\\@:\n"
    "	.endif\n"
    "	next_in_bucket .Lkey_free_next\\@\n"
    ".Lkey_collision\\@:\n"
    "	lock incq COLLISIONS(%rdi)\n"
    "	leave_key \\grouped\n"

    ".Lkey_claimed\\@:\n"
    "	movl	$1, WAS_USED(%rdx)\n"
    "	.if	\\framed\n"
    "	test	$IN_BUCKET, %r8d\n"
    "	jnz	.Lkey_opened\\@\n"
    "	mov	%fs:HOLE, %eax\n"
    "		hole TID\n"
    "	mov	%eax, OWNER(%rdx)\n"		/* keep the first entry of the bucket */
    "	.endif\n"
    ".Lkey_opened\\@:\n"
    "	.ifeq	\\rejected\n"
    "	totals_to_rax .Lkey_start_shared\\@\n"
    "	incq	STARTS(%rax)\n"
    "	.endif\n"
    ".Lkey_begin\\@:\n"
    "	mov	%rdx, %rcx\n"
    "	.if	\\grouped\n"
    "	mov	PUSHED_TIMES(%rsp), %eax\n"
    "	mov	%eax, KEY_TIMES(%rcx)\n"
    "	.endif\n"
    "	begin_to_rax \\rejected\n"
    "	mov	%rax, KEY_TICKS(%rcx)\n"
    "	mov	%rsi, KEY(%rcx)\n"		/* from here on a stop can take the key out */
    "	leave_key \\grouped\n"
    "	.ifeq	\\rejected\n"
    ".Lkey_start_shared\\@:\n"
    "	lock incq STARTS(%rax)\n"
    "	jmp	.Lkey_begin\\@\n"
    "	.endif\n"

    "	.ifeq	\\framed\n"
    ".Lnot_keyed\\@:\n"
    "	.ifeq	\\rejected\n"
    "	lock incq NOT_KEYED(%rdi)\n"
    "	.endif\n"
    "	leave_key \\grouped\n"
    "	.endif\n"
    ".endm\n"

    "	template routine_key_start\n"
    "	start_by_key 0, 0, 0\n"
    "	template routine_by_key_start\n"
    "	push	%rax\n"
    "	start_by_key 0, 1, 0\n"
    "	template routine_key_reject\n"
    "	start_by_key 1, 0, 0\n"
    "	template routine_fiber_start\n"
    "	fiber_key_to_rsi\n"
    "	template routine_call_start\n"
    "	start_by_key 0, 0, 1\n"
    "	template routine_by_fiber_start\n"
    "	push	%rax\n"
    "	fiber_key_to_rsi\n"
    "	jmp	.Lpushed_times\n"
    "	template routine_by_call_start\n"
    "	push	%rax\n"
    ".Lpushed_times:\n"
    "	start_by_key 0, 1, 1\n"
    "	template routine_fiber_reject\n"
    "	fiber_key_to_rsi\n"
    "	template routine_call_reject\n"
    "	start_by_key 1, 0, 1\n"

    /*
     * Give the slot at rax to thread r8d if it belongs to no thread. Otherwise set rax to slot 0,
     * and set the carry flag. Changes r8.
     */
    ".Ltake_totals:\n"
    "	cmpl	$0, (%rax)\n"
    "	jne	.Lshared_totals\n"
    "	push	%rcx\n"
    "	mov	%rax, %rcx\n"
    "	xor	%eax, %eax\n"
    "	lock cmpxchg %r8d, (%rcx)\n"
    "	mov	%rcx, %rax\n"			/* mov and pop leave the flags as they are */
    "	pop	%rcx\n"
    "	jne	.Lshared_totals\n"
    "	and	$HOLE, %r8d\n"
    "		hole TOTALS_MASK\n"
    "	lock bts %r8, USED(%rdi)\n"
    "	clc\n"
    "	ret\n"
    ".Lshared_totals:\n"
    "	lea	HOLE(%rdi), %rax\n"
    "		hole SLOTS_OFF\n"
    "	stc\n"
    "	ret\n"

    /* Set rdx to the word of the pid cache for thread ecx, and store it there. Changes rax. */
    ".Lask_process:\n"
    "	push	%r11\n"				/* syscall changes rcx and r11 */
    "	mov	$SYS_GETPID, %eax\n"
    "	syscall\n"
    "	pop	%r11\n"
    "	mov	%fs:HOLE, %ecx\n"
    "		hole TID\n"
    "	shl	$32, %rax\n"
    "	lea	(%rax,%rcx), %rdx\n"
    "	push	%rcx\n"
    "	and	$PIDS_MASK, %ecx\n"
    "	lea	HOLE(%rip), %rax\n"
    "		hole TO_PIDS\n"
    "	mov	%rdx, (%rax,%rcx,8)\n"
    "	pop	%rcx\n"
    "	ret\n");

/* Stop the pair. Changes rax, rcx, rdx, rsi and, if GROUPED, rdi. */
asm(".macro stop_by_key grouped, framed\n"
    "	enter_key\n"
    "	.ifeq	\\framed\n"
    "	test	$1, %sil\n"
    "	jz	.Lkey_orphan\\@\n"
    "	.endif\n"
    "	process_to_ecx .Lkey_orphan\\@\n"
    "	bucket_to_r8\n"
    "	.if	\\framed\n"
    "	take_frame_out .Lkey_orphan\\@, \\grouped\n"
    "	cmp	%r9d, OWNER(%rdx)\n"
    "	jne	.Lkey_kept\\@\n"
    "	.else\n"
    "	take_key_out .Lkey_orphan\\@\n"
    "	mov	KEY_TICKS(%rdx), %rcx\n"
    "	.if	\\grouped\n"
    "	mov	KEY_TIMES(%rdx), %esi\n"	/* the key is no longer needed */
    "	.endif\n"
    "	.endif\n"
    "	mov	%r9d, (%rdx)\n"			/* the entry is free now */
    ".Lkey_kept\\@:\n"
    "	test	%rcx, %rcx\n"
    "	jz	.Lkey_stop_rejected\\@\n"
    "	totals_to_rax .Lkey_stop_shared\\@\n"
    "	key_time \\grouped\n"
    ".Lkey_stop_rejected\\@:\n"
    "	leave_key 0\n"
    ".Lkey_stop_shared\\@:\n"
    "	key_time \\grouped, lock\n"
    "	leave_key 0\n"

    ".Lkey_orphan\\@:\n"
    "	lock incq ORPHAN_STOPS(%rdi)\n"
    "	leave_key 0\n"
    ".endm\n"

    /* Add the time since rcx to the totals at rax and, if GROUPED, to those of number esi. */
    ".macro key_time grouped, lock\n"
    "	.if	\\grouped\n"
    "	mov	%esi, %edi\n"
    "	.endif\n"
    "	mov	%rax, %rsi\n"
    "	mov	KEY_NOW(%rsp), %rax\n"
    "	add_time \\grouped, \\lock\n"
    ".endm\n"

    "	template routine_key_stop\n"
    "	stop_by_key 0, 0\n"
    "	template routine_by_key_stop\n"
    "	stop_by_key 1, 0\n"
    "	template routine_fiber_stop\n"
    "	fiber_key_to_rsi\n"
    "	template routine_call_stop\n"
    "	stop_by_key 0, 1\n"
    "	template routine_by_fiber_stop\n"
    "	fiber_key_to_rsi\n"
    "	template routine_by_call_stop\n"
    "	stop_by_key 1, 1\n");

/*
 * Write the event of point edi, whose frame is rsi, except its arguments and its sequence: see
 * rings.h. Set rdi to the slot and rcx to the sequence. Changes rax, rdx, rsi.
 */
asm("	template routine_fiber_event\n"
    "	fiber_key_to_rsi\n"

    "	template routine_event\n"
    "	mov	%fs:HOLE, %eax\n"
    "		hole RING_HINT\n"
    "	and	$HOLE, %eax\n"
    "		hole RING_MASK\n"
    "	imul	$HOLE, %rax, %rdx\n"
    "		hole RING_BYTES\n"
    "	lea	HOLE(%rip), %rax\n"
    "		hole TO_RINGS\n"
    "	add	%rdx, %rax\n"			/* the ring */
    "	mov	RING_HEAD(%rax), %rcx\n"
    "	sub	RING_TAIL(%rax), %rcx\n"
    "	cmp	$HOLE, %rcx\n"
    "		hole RING_FULL\n"
    "	jae	.Levent_lost\n"
    "	mov	$1, %ecx\n"
    "	lock xadd %rcx, RING_HEAD(%rax)\n"	/* the position */
    "	mov	%ecx, %edx\n"
    "	and	$HOLE, %edx\n"
    "		hole RING_SLOT_MASK\n"
    "	imul	$HOLE, %rdx, %rdx\n"
    "		hole RING_SLOT_BYTES\n"
    "	lea	RING_HEAD_BYTES(%rax,%rdx), %rax\n" /* the slot */
    "	inc	%rcx\n"
    ".Levent_fill:\n"
    "	mov	%rsi, EVENT_FRAME(%rax)\n"
    "	mov	%edi, EVENT_POINT(%rax)\n"
    "	mov	%rax, %rdi\n"
    "	mov	%fs:HOLE, %eax\n"
    "		hole TID\n"
    "	mov	%eax, EVENT_TID(%rdi)\n"
    "	rdtsc\n"
    "	shl	$32, %rdx\n"
    "	or	%rdx, %rax\n"
    "	mov	%rax, EVENT_TICKS(%rdi)\n"
    "	ret\n"

    ".Levent_lost:\n"
    "	lock incq RING_LOST(%rax)\n"
    "	lea	HOLE(%rax), %rax\n"
    "		hole TRASH_OFF\n"
    "	xor	%ecx, %ecx\n"
    "	jmp	.Levent_fill\n");

/*
 * Set rdx to the entry of value rsi in the group at rdi: see groups.h. A new value takes the first
 * free entry of its bucket, by one atomic exchange. If the bucket is full, jump to NONE. Changes
 * rax, rcx.
 */
asm(".macro entry_to_rdx none\n"
    "	mov	$0x9e3779b97f4a7c15, %rax\n"	/* as for the keys of pairs */
    "	imul	%rsi, %rax\n"
    "	shr	$32, %rax\n"
    "	imul	$HOLE, %rax, %rax\n"
    "		hole N_GROUP_BUCKETS\n"
    "	shr	$32, %rax\n"
    "	shl	$GROUP_BUCKET_LOG2, %eax\n"
    "	lea	GROUP_BYTES(%rdi,%rax), %rdx\n"
    "	mov	$GROUP_BUCKET_VALUES, %ecx\n"
    ".Lentry_next\\@:\n"
    "	mov	(%rdx), %rax\n"
    "	cmp	%rsi, %rax\n"
    "	je	.Lentry_found\\@\n"
    "	test	%rax, %rax\n"
    "	jnz	.Lentry_other\\@\n"
    "	lock cmpxchg %rsi, (%rdx)\n"
    "	je	.Lentry_found\\@\n"
    "	cmp	%rsi, %rax\n"			/* another thread took it, perhaps for this value */
    "	je	.Lentry_found\\@\n"
    ".Lentry_other\\@:\n"
    "	add	$GROUP_ENTRY_BYTES, %rdx\n"
    "	dec	%ecx\n"
    "	jnz	.Lentry_next\\@\n"
    "	jmp	\\none\n"
    ".Lentry_found\\@:\n"
    ".endm\n"

    /* Count a hit in the group at rdi, by the value rsi. Changes rax, rcx, rdx. */
    "	template routine_group\n"
    "	test	$1, %sil\n"			/* an int is odd, a pointer is even */
    "	jz	.Lgroup_not_int\n"
    "	entry_to_rdx .Lgroup_none\n"
    "	lock incq GROUP_HITS(%rdx)\n"
    "	ret\n"
    ".Lgroup_none:\n"
    "	lock incq GROUP_OTHERS(%rdi)\n"
    "	ret\n"
    ".Lgroup_not_int:\n"
    "	lock incq GROUP_NOT_INTS(%rdi)\n"
    "	template routine_no_group\n"		/* of hits that a filter rejects */
    "	ret\n"

    /*
     * Set eax to the number of the struct value_times of value rsi in the group at rdi. If all
     * numbers are taken, set eax to 0. Two threads can take a number for the same new value: then
     * one of the two numbers stays unused. Changes rcx, rdx, rsi.
     */
    "	template routine_times\n"
    "	test	$1, %sil\n"
    "	jnz	.Ltimes_of_int\n"
    "	mov	$NOT_INT, %esi\n"
    ".Ltimes_of_int:\n"
    "	entry_to_rdx .Ltimes_none\n"
    "	mov	GROUP_TIMES(%rdx), %rax\n"
    "	test	%rax, %rax\n"
    "	jnz	.Ltimes_known\n"
    "	cmpq	$MOST_TIMES, HOLE(%rip)\n"
    "		hole TO_TIMES_USED, 4\n"
    "	jae	.Ltimes_none\n"
    "	mov	$1, %ecx\n"
    "	lock xadd %rcx, HOLE(%rip)\n"
    "		hole TO_TIMES_USED\n"
    "	cmp	$MOST_TIMES, %rcx\n"
    "	jae	.Ltimes_none\n"
    "	add	$HOLE, %ecx\n"
    "		hole FIRST_TIMES\n"
    "	lock cmpxchg %rcx, GROUP_TIMES(%rdx)\n"	/* rax is 0 */
    "	cmovz	%rcx, %rax\n"
    ".Ltimes_known:\n"
    "	ret\n"
    ".Ltimes_none:\n"
    "	xor	%eax, %eax\n"
    "	ret\n");

/*
 * Set the carry flag if the page below the page of rsp is not mapped: the program, and not the
 * trampoline, must fault at the end of a stack. OCaml 4 turns a fault of OCaml code into
 * Stack_overflow, and dies of other faults. rt_sigpending(2) fails if it cannot write to the page
 * below. Nothing can be saved on the stack, so the MMX registers are used: OCaml does not use them,
 * and C leaves them empty at calls. LEAVE is the instruction that returns.
 */
asm(".macro check_room leave:vararg\n"
    "	movq	%rax, %mm0\n"
    "	mov	$HOLE, %eax\n"
    "		hole MAY_CALL\n"
    "	test	%eax, %eax\n"
    "	jz	.Lroom_end\\@\n"
    "	mov	%rsp, %rax\n"
    "	and	$PAGE_MASK, %rax\n"
    "	cmp	HOLE(%rip), %rax\n" /* is this the page that was examined most recently? */
    "		hole TO_STACK_PAGE\n"
    "	je	.Lroom_end\\@\n"
    "	movq	%rcx, %mm1\n"
    "	movq	%rsi, %mm2\n"
    "	movq	%rdi, %mm3\n"
    "	movq	%r11, %mm4\n"
    "	lea	-SIGSET_BYTES(%rax), %rdi\n"
    "	mov	$SIGSET_BYTES, %esi\n"
    "	mov	$SYS_RT_SIGPENDING, %eax\n"
    "	syscall\n"
    "	lea	SIGSET_BYTES(%rdi), %rcx\n"	/* the address of the page again */
    "	test	%eax, %eax\n"
    "	jnz	.Lroom_none\\@\n"
    "	mov	%rcx, HOLE(%rip)\n"
    "		hole TO_STACK_PAGE\n"
    ".Lroom_none\\@:\n"
    "	movq	%mm1, %rcx\n"
    "	movq	%mm2, %rsi\n"
    "	movq	%mm3, %rdi\n"
    "	movq	%mm4, %r11\n"
    "	jz	.Lroom_end\\@\n"		/* movq leaves the flags as they are */
    "	stc\n"
    /* The carry flag is set only by the stc above; all jumps to here leave it clear. */
    ".Lroom_end\\@:\n"
    "	movq	%mm0, %rax\n"
    "	emms\n"
    "	\\leave\n"
    ".endm\n"

    "	template routine_room\n"
    "	check_room ret\n"

    "	template routine_window_room\n"
    "	check_room jmp *%r11\n");
// clang-format on

#endif
