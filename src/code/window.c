// SPDX-License-Identifier: MIT
#include "code/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "code/window_copy.h"

enum {
	PAGE_BYTES = 4096,
	R11 = 11,
	/*
	 * OCaml 5 checks at the entry of a function that rsp minus a distance is inside of the
	 * stack. The distance is the size of the frame plus at least 256 bytes for a function that
	 * does not check: Stack_threshold in runtime/caml/fiber.h. Such a function has less than
	 * that left. Assume 72 bytes less, since a callback from C may have pushed an exception
	 * handler and the link to the C stack: caml_start_program in runtime/amd64.S.
	 */
	CHECKED_BYTES = 256,
	UNCHECKED_BYTES = CHECKED_BYTES - 72,
	RETURN_ADDRESS_BYTES = 8,
};

static size_t bytes_after(const struct code_flow *flow, size_t i)
{
	return flow->code.n - flow->insns[i].off;
}

/*
 * Return true if instruction I is a nop of one byte before a comparison or a call: the site of a
 * probe, which is patched by its own rules.
 */
static bool is_site(const struct code_flow *flow, size_t i)
{
	enum { NOP = 0x90, CMP_EAX = 0x3d, CALL = 0xe8 };
	const uint8_t *bytes = code_flow_bytes(flow, i);

	return bytes[0] == NOP && bytes_after(flow, i) > 1 &&
	       (bytes[1] == CMP_EAX || bytes[1] == CALL);
}

/* ---- flags ---------------------------------------------------------------------------------- */

/*
 * Return true if no instruction reads a status flag that was written before instruction I. Flags
 * have no meaning at the entry, at calls, at returns, and at jumps to other functions. The search
 * ends at each other branch.
 */
static bool are_flags_dead(const struct code_flow *flow, size_t i)
{
	uint32_t live = INSN_STATUS_FLAGS;

	if (i == 0)
		return true;
	for (; i < flow->n_insns; i++) {
		const struct insn *insn = &flow->insns[i];
		struct insn_flags flags;

		if (code_flow_is_call(insn) || insn->kind == INSN_RET ||
		    insn->kind == FLOW_JMP_POINTER || insn->kind == FLOW_JMP_POPPED)
			return true;
		if (insn->kind == INSN_JMP)
			return insn->value < 0 || (uint64_t)insn->value >= flow->code.n;
		if (insn->kind == INSN_JCC || !code_flow_goes_on(insn))
			return false;
		flags = insn_flags(&flow->decoder, code_flow_bytes(flow, i), bytes_after(flow, i));
		if (flags.read & live)
			return false;
		live &= ~flags.written;
		if (!live)
			return true;
	}
	return false;
}

/* ---- one window ----------------------------------------------------------------------------- */

/*
 * Return true if instruction I may be in a window, with other instructions of the window behind it
 * unless IS_LAST.
 */
static bool may_be_inside(const struct code_flow *flow, size_t i, bool is_last)
{
	const struct insn *insn = &flow->insns[i];

	if (is_site(flow, i) || (i > 0 && is_site(flow, i - 1)) || insn->kind == INSN_TRAP)
		return false;
	return is_last || (code_flow_goes_on(insn) && !code_flow_is_call(insn));
}

/*
 * Return true if the instruction at OFF is never executed: in the function, or in the gap behind
 * it.
 */
static bool is_unused(const struct code_flow *flow, size_t off)
{
	uint32_t i;

	return off >= flow->code.n ||
	       (code_flow_find(flow, (int64_t)off, &i) && !flow->is_target[i] &&
		flow->depths[i].kind == DEPTH_NOT_REACHED);
}

/*
 * Instruction LAST ends its function or jumps away. Return the size of the padding behind it, at
 * least N bytes: whole nops that are never executed. Return 0 if there is no such padding. The gap
 * behind the function is padding if it has nops only.
 */
static size_t padding_behind(const struct code_flow *flow, size_t last, size_t n)
{
	const size_t start = flow->insns[last].off + flow->insns[last].n_bytes;
	const size_t end = flow->code.n + flow->code.n_gap;
	size_t off = start, taken = 0;
	struct insn insn;

	for (; taken < n || (off >= flow->code.n && off < end); off += insn.n_bytes) {
		if (!is_unused(flow, off) ||
		    !insn_decode(&flow->decoder, flow->code.bytes + off, end - off, (uint32_t)off,
				 &insn) ||
		    insn.kind != INSN_NOP)
			return 0;
		if (taken < n)
			taken += insn.n_bytes;
	}
	return taken;
}

/*
 * Set *OUT to the window from instruction FIRST to instruction LAST; padding may follow the end of
 * the code. Return false if these instructions cannot be a window: they are too short, something
 * leads into them, flags are live, or they cannot be copied.
 */
static bool make_window(const struct code_flow *flow, size_t first, size_t last,
			struct code_window *out)
{
	const uint32_t off = flow->insns[first].off;
	size_t n = flow->insns[last].off + flow->insns[last].n_bytes - off;
	const struct depth *depth = &flow->depths[first];
	struct window_copy copy;

	if (n < WINDOW_JUMP_BYTES && !code_flow_goes_on(&flow->insns[last]))
		n += padding_behind(flow, last, WINDOW_JUMP_BYTES - n);
	if (n < WINDOW_JUMP_BYTES || n > WINDOW_MAX_BYTES ||
	    (flow->code.va + off) % PAGE_BYTES > PAGE_BYTES - WINDOW_FIRST_BYTES)
		return false;
	for (size_t i = first; i <= last; i++)
		if (!may_be_inside(flow, i, i == last) || (i > first && flow->is_target[i]))
			return false;
	if (!are_flags_dead(flow, first) ||
	    !window_copy_make(&flow->decoder, flow->code.bytes + off, n, 0, 0, true, &copy))
		return false;
	*out = (struct code_window){ .off = off,
				     .n_bytes = (uint8_t)n,
				     .depth = depth->value,
				     .depth_known = depth->kind == DEPTH_KNOWN };
	/* The call to the code that counts pushes a return address. */
	if (window_is_call(*code_flow_bytes(flow, first)))
		out->depth += RETURN_ADDRESS_BYTES;
	if (first == 0)
		out->start = flow->insns[0].n_bytes >= WINDOW_JUMP_BYTES ? WINDOW_LONG_ENTRY
									 : WINDOW_SHORT_ENTRY;
	return true;
}

/* Return the number of the last instruction of the shortest window that begins with FIRST. */
static size_t last_of(const struct code_flow *flow, size_t first)
{
	size_t n = 0, i = first;

	while (n += flow->insns[i].n_bytes, n < WINDOW_JUMP_BYTES && i + 1 < flow->n_insns)
		i++;
	return i;
}

/* ---- where calls are counted ---------------------------------------------------------------- */

/* How good a window is to count calls; the lowest is the best. */
enum rank {
	RANK_BEHIND_ENTRY,
	RANK_AT_UPROBE,
	RANK_CALLS,
	RANK_LONG_ENTRY,
	RANK_SHORT_ENTRY,
	RANK_NONE,
};

/* Return true if uprobes of this project can be on an instruction of WINDOW. */
static bool has_uprobe_place(const struct code_function *function, const struct code_window *window)
{
	const uint32_t end = window->off + window->n_bytes;

	if (function->place >= window->off && function->place < end)
		return true;
	for (size_t i = 0; i < function->n_exits; i++)
		if (function->exits[i].off >= window->off && function->exits[i].off < end)
			return true;
	return false;
}

/*
 * Rank WINDOW, whose last instruction is LAST. A copied call costs more than others, unless it is
 * all of the window: the processor does not predict its return.
 */
static enum rank rank_of(const struct code_flow *flow, const struct code_function *function,
			 const struct code_window *window, size_t last)
{
	if (window->start != WINDOW_BEHIND_ENTRY)
		return window->start == WINDOW_LONG_ENTRY ? RANK_LONG_ENTRY : RANK_SHORT_ENTRY;
	if (code_flow_is_call(&flow->insns[last]))
		return RANK_CALLS;
	return has_uprobe_place(function, window) ? RANK_AT_UPROBE : RANK_BEHIND_ENTRY;
}

/* Return true if every call that executes instruction I executes the next one, too. */
static bool always_continues(const struct insn *insn)
{
	return code_flow_goes_on(insn) && insn->kind != INSN_JCC && !code_flow_is_call(insn);
}

/*
 * Return true if an instruction in the copy of WINDOW, whose first one is number I, writes to the
 * stack. A direct call is not copied.
 */
static bool writes_stack(const struct code_flow *flow, const struct code_window *window, size_t i)
{
	if (window_is_call(*code_flow_bytes(flow, i)))
		return false;
	for (; i < flow->n_insns && flow->insns[i].off < window->off + window->n_bytes; i++) {
		if (insn_writes_stack(&flow->decoder, code_flow_bytes(flow, i),
				      bytes_after(flow, i)))
			return true;
	}
	return false;
}

/*
 * Return true if no uprobe on the entry and, in OCaml 4, no end of the stack endangers WINDOW. Its
 * first instruction is number FIRST.
 */
static bool is_safe(const struct code_flow *flow, enum window_language language,
		    const struct code_window *window, size_t first)
{
	if (language == WINDOW_C)
		return true;
	return window->off && (language != WINDOW_OCAML_4 || !writes_stack(flow, window, first));
}

/*
 * Return true if not every call executes what follows instruction I exactly once, or if I writes
 * one of the registers KEPT, or r11, which code that counts changes.
 */
static bool ends_search(const struct code_flow *flow, enum window_language language, size_t i,
			uint32_t kept)
{
	return language == WINDOW_C || !always_continues(&flow->insns[i]) ||
	       (insn_written(&flow->decoder, code_flow_bytes(flow, i), bytes_after(flow, i)) &
		(kept | 1U << R11));
}

/*
 * Find the best window in the straight-line code at the entry, which each call executes exactly
 * once, and where the registers KEPT have their values of the entry. In C code, only the entry is
 * considered: later, the red zone may be in use.
 */
static bool find_count_window(const struct code_flow *flow, const struct code_function *function,
			      enum window_language language, uint32_t kept, struct code_window *out)
{
	enum rank best = RANK_NONE;

	for (size_t i = 0; i < flow->n_insns && !flow->is_target[i]; i++) {
		const size_t last = last_of(flow, i);
		struct code_window window;
		enum rank rank;

		rank = make_window(flow, i, last, &window) && is_safe(flow, language, &window, i)
			       ? rank_of(flow, function, &window, last)
			       : RANK_NONE;
		if (rank < best) {
			best = rank;
			*out = window;
		}
		if (best == RANK_BEHIND_ENTRY || ends_search(flow, language, i, kept))
			break;
	}
	return best != RANK_NONE;
}

/* ---- where calls end ------------------------------------------------------------------------ */

/*
 * Return true if an instruction from FIRST to LAST reads r11. Code that counts changes r11 before
 * FIRST, and code that times changes it before LAST.
 */
static bool reads_r11(const struct code_flow *flow, size_t first, size_t last)
{
	for (size_t i = first; i <= last; i++)
		if (insn_reads(&flow->decoder, code_flow_bytes(flow, i), bytes_after(flow, i), R11))
			return true;
	return false;
}

/*
 * Find the shortest window that ends with instruction EXIT, or with padding behind it, that is
 * executed only as a whole, and where r11 is not in use.
 */
static bool find_exit_window(const struct code_flow *flow, enum window_language language,
			     size_t exit, struct code_window *out)
{
	size_t first = exit, n = flow->insns[exit].n_bytes;

	while (n < WINDOW_JUMP_BYTES && first > 0 && !flow->is_target[first] &&
	       always_continues(&flow->insns[first - 1]))
		n += flow->insns[--first].n_bytes;
	if (!make_window(flow, first, exit, out) || reads_r11(flow, first, exit) ||
	    (language == WINDOW_OCAML_4 && writes_stack(flow, out, first)))
		return false;
	out->n_before = (uint8_t)(flow->insns[exit].off - out->off);
	out->depth = 0;
	out->depth_known = true;
	return true;
}

static bool is_behind(const struct code_window *window, const struct code_window *before)
{
	return window->off >= before->off + before->n_bytes;
}

/* Find a window for each exit of FUNCTION. Return NULL, or why an exit has no window. */
static const char *find_exit_windows(const struct code_flow *flow, enum window_language language,
				     const struct code_function *function, struct code_windows *out)
{
	const struct code_window *before = &out->count;

	for (size_t i = 0; i < function->n_exits; i++) {
		struct code_window *window = &out->exits[out->n_exits];
		uint32_t number;

		if (function->exits[i].kind == CODE_RAISE)
			continue;
		if (!code_flow_find(flow, function->exits[i].off, &number) ||
		    !find_exit_window(flow, language, number, window))
			return "a jump does not fit where it ends";
		if (!is_behind(window, before))
			return "its code is too short for two jumps";
		before = window;
		out->n_exits++;
	}
	return NULL;
}

/*
 * If the code at the entry of the function checks that rsp minus a distance is inside of the stack,
 * return the distance, otherwise 0. The check begins with lea -DISTANCE(%rsp), %r10: see
 * asmcomp/amd64/emit.mlp of OCaml 5.
 */
static int64_t checked_distance(const struct code_flow *flow)
{
	static const uint8_t lea[] = { 0x4c, 0x8d, 0x94, 0x24 };
	int32_t displacement;

	for (size_t i = 0; i < flow->n_insns && always_continues(&flow->insns[i]); i++) {
		if (flow->insns[i].n_bytes != sizeof(lea) + sizeof(displacement) ||
		    memcmp(code_flow_bytes(flow, i), lea, sizeof(lea)) != 0)
			continue;
		memcpy(&displacement, code_flow_bytes(flow, i) + sizeof(lea), sizeof(displacement));
		return -(int64_t)displacement;
	}
	return 0;
}

/*
 * Return true if code that times has WINDOW_STACK_BYTES of an OCaml 5 stack below rsp at WINDOW.
 */
static bool has_stack(const struct code_flow *flow, const struct code_window *window)
{
	return window->depth + RETURN_ADDRESS_BYTES + WINDOW_STACK_BYTES <= UNCHECKED_BYTES ||
	       window->depth + CHECKED_BYTES <= checked_distance(flow);
}

int code_windows_find(struct ocp_ctx *ctx, const struct code_flow *flow,
		      const struct code_function *function, enum window_language language,
		      uint32_t kept, struct code_windows *out)
{
	/* A C function may jump to its parts elsewhere, and to stubs of other files. */
	const bool is_understood = !flow->problem || (language == WINDOW_C && flow->only_leaves);

	*out = (struct code_windows){ .no_count = function->no_count ? function->no_count
						  : is_understood    ? NULL
								     : flow->problem };
	if (!out->no_count && function->entry_is_loop)
		out->no_count = "a jump in it leads to its first instruction";
	if (!out->no_count && !find_count_window(flow, function, language, kept, &out->count))
		out->no_count = kept && find_count_window(flow, function, language, 0, &out->count)
					? "a jump does not fit where its arguments are in registers"
					: "a jump does not fit into its first instructions";
	out->no_stack = out->no_count;
	if (!out->no_stack && language == WINDOW_C)
		out->no_stack = "it is C code, whose stack may be in use below rsp where it ends";
	if (!out->no_stack && !out->count.depth_known)
		out->no_stack = "its stack depth is unknown where a jump fits";
	if (!out->no_stack && language == WINDOW_OCAML_5 && !has_stack(flow, &out->count))
		out->no_stack = "the stack may be full where a jump fits";
	out->no_time = out->no_count	   ? out->no_count
		       : function->no_time ? function->no_time
					   : out->no_stack;
	if (out->no_time)
		return 0;
	out->exits = calloc(function->n_exits + 1, sizeof(*out->exits));
	if (!out->exits)
		return ctx_no_memory(ctx);
	out->no_time = find_exit_windows(flow, language, function, out);
	if (out->no_time)
		code_windows_free(out);
	return 0;
}

void code_windows_free(struct code_windows *windows)
{
	free(windows->exits);
	windows->exits = NULL;
	windows->n_exits = 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Return true if instruction I is the last one of its run, whatever follows it. */
static bool ends_run(const struct code_flow *flow, size_t i)
{
	/* The handler of a probe may raise an exception: the site may become a call. */
	return !always_continues(&flow->insns[i]) || (i > 0 && is_site(flow, i - 1));
}

/* Set *FIRST and *LAST to the first and the last instruction of the run of instruction I. */
static void find_run(const struct code_flow *flow, size_t i, size_t *first, size_t *last)
{
	for (*first = i; *first > 0 && !flow->is_target[*first]; --*first)
		if (ends_run(flow, *first - 1))
			break;
	for (*last = i; *last + 1 < flow->n_insns && !ends_run(flow, *last); ++*last)
		if (flow->is_target[*last + 1])
			break;
}

static bool insn_reads_r11(const struct code_flow *flow, size_t i)
{
	return insn_reads(&flow->decoder, code_flow_bytes(flow, i), bytes_after(flow, i), R11);
}

static bool insn_writes_r11(const struct code_flow *flow, size_t i)
{
	return insn_writes(&flow->decoder, code_flow_bytes(flow, i), bytes_after(flow, i), R11);
}

/*
 * Return true if an instruction of FLOW reads a value of r11 that its run has not written before.
 */
static bool function_reads_r11(const struct code_flow *flow)
{
	bool is_written = false;

	for (size_t i = 0; i < flow->n_insns; i++) {
		if (flow->is_target[i] || (i > 0 && ends_run(flow, i - 1)))
			is_written = false;
		if (!is_written && insn_reads_r11(flow, i))
			return true;
		is_written |= insn_writes_r11(flow, i);
	}
	return false;
}

/*
 * Return true if no instruction reads a value of r11 from before instruction I, whose run ends with
 * LAST. A called function gets no value in r11, but may keep it, as caml_call_gc does.
 */
static bool is_r11_dead(struct code_runs *runs, size_t i, size_t last)
{
	const struct code_flow *flow = runs->flow;

	for (; i <= last; i++) {
		if (insn_reads_r11(flow, i))
			return false;
		if (flow->insns[i].kind == INSN_RET || insn_writes_r11(flow, i))
			return true;
	}
	if (!runs->knows_r11)
		runs->reads_r11 = function_reads_r11(flow);
	runs->knows_r11 = true;
	return !runs->reads_r11;
}

static bool overlaps_entry(const struct code_runs *runs, const struct code_window *window)
{
	return runs->has_entry && window->off < runs->entry.off + runs->entry.n_bytes &&
	       runs->entry.off < window->off + window->n_bytes;
}

/*
 * Return true if there is a window that begins with instruction I of the run that ends with LAST.
 */
static bool find_run_window(struct code_runs *runs, size_t i, size_t last, struct code_window *out)
{
	const struct code_flow *flow = runs->flow;
	const size_t end = last_of(flow, i);

	return end <= last && make_window(flow, i, end, out) &&
	       is_safe(flow, runs->language, out, i) && !overlaps_entry(runs, out) &&
	       is_r11_dead(runs, i, last);
}

void code_runs_init(struct code_runs *runs, const struct code_flow *flow,
		    const struct code_function *function, enum window_language language)
{
	*runs = (struct code_runs){ .flow = flow, .language = language };
	runs->has_entry = !flow->problem && !function->no_count && !function->entry_is_loop &&
			  find_count_window(flow, function, language, 0, &runs->entry);
}

const char *code_runs_window(struct code_runs *runs, uint32_t off, struct code_window *out)
{
	const struct code_flow *flow = runs->flow;
	size_t first, last;
	uint32_t number;

	if (flow->problem)
		return flow->problem;
	if (!code_flow_find(flow, off, &number))
		return "its place is inside of an instruction";
	find_run(flow, number, &first, &last);
	if (first == 0 && runs->has_entry && runs->entry.off <= flow->insns[last].off) {
		*out = runs->entry;
		return NULL;
	}
	for (size_t i = first; i <= last; i++)
		if (find_run_window(runs, i, last, out))
			return NULL;
	return "a jump does not fit into the instructions that are executed with it";
}

/* ---- C code that reports and executes phases ------------------------------------------------- */

bool code_window_of_call(const struct code_flow *flow, size_t i, struct code_window *out)
{
	enum { MOV_EDI = 0xbf };
	const size_t before = i - 1;

	if (!flow->is_decoded)
		return false;
	if (i > 0 && !flow->is_target[i] && flow->insns[before].n_bytes == WINDOW_JUMP_BYTES &&
	    *code_flow_bytes(flow, before) == MOV_EDI && make_window(flow, before, before, out))
		return true;
	return make_window(flow, i, i, out);
}

/*
 * Return true if instruction I may use memory below rsp, or may let another register point to the
 * stack.
 */
static bool may_use_red_zone(const struct code_flow *flow, size_t i)
{
	const uint8_t *bytes = code_flow_bytes(flow, i);
	struct insn_memory memory;

	switch (flow->insns[i].kind) {
	case INSN_RSP_ADD:
		return false;
	case INSN_RSP_RESTORE:
	case INSN_RSP_LOAD:
	case INSN_RSP_LOST:
		return true;
	default:
		return insn_reads_rsp(&flow->decoder, bytes, bytes_after(flow, i)) &&
		       (!insn_memory(&flow->decoder, bytes, bytes_after(flow, i), &memory) ||
			memory.base != INSN_RSP || memory.off < 0);
	}
}

/* Return true if the best window that begins with instruction I can be a bound of a pause. */
static bool is_pause_window(const struct code_flow *flow, size_t i, const void *data)
{
	const uint32_t *keep_off = data;
	struct code_window window;

	if (i == 0 || !make_window(flow, i, last_of(flow, i), &window))
		return false;
	for (int k = 0; k < 2; k++)
		if (keep_off[k] >= window.off && keep_off[k] < window.off + window.n_bytes)
			return false;
	return true;
}

int code_windows_find_pause(struct ocp_ctx *ctx, const struct code_flow *flow, uint64_t through_va,
			    const uint32_t keep_off[2], struct code_pause_windows *out)
{
	struct code_bounds bounds;
	int err;

	*out = (struct code_pause_windows){ 0 };
	for (size_t i = 0; i < flow->n_insns; i++)
		if (may_use_red_zone(flow, i))
			return -ENODATA;
	err = code_bounds_find(ctx, flow, through_va, is_pause_window, keep_off, &bounds);
	if (err)
		return err;
	make_window(flow, bounds.begin, last_of(flow, bounds.begin), &out->begin);
	out->has_end = bounds.end != CODE_NOWHERE &&
		       make_window(flow, bounds.end, last_of(flow, bounds.end), &out->end) &&
		       (is_behind(&out->end, &out->begin) || is_behind(&out->begin, &out->end));
	return 0;
}
