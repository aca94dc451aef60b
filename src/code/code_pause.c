// SPDX-License-Identifier: MIT
/*
 * Calls are timed between two instructions that the kernel emulates, since a return probe costs
 * twice as much as a probe on an emulated instruction, and a probe on a single-stepped entry ten
 * times as much. Functions of the runtime have branches, which are emulated, near their beginning
 * and their end. The few moves and pops before the first branch and behind the last one are not
 * timed.
 *
 * The search follows all paths of the function. Some paths are never taken, such as the path behind
 * a call that never returns. Because of such a path the search may find no instructions, or
 * instructions that are less near to the beginning or the end, but never wrong ones.
 */
#include "code/code_pause.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "code/code_flow.h"

#define NOWHERE SIZE_MAX

struct pause_search {
	const struct code_flow *flow;
	bool *seen; /* by instruction: the search has visited it */
	uint32_t *queue;
	size_t n_queued;
	size_t avoided;
};

static void visit(struct pause_search *s, size_t i)
{
	if (i < s->flow->n_insns && i != s->avoided && !s->seen[i]) {
		s->seen[i] = true;
		s->queue[s->n_queued++] = (uint32_t)i;
	}
}

/*
 * Visit the instructions that can be executed right after I. Returns whether a call can end with I.
 */
static bool visit_next(struct pause_search *s, size_t i)
{
	const struct code_flow *flow = s->flow;
	const struct insn *insn = &flow->insns[i];
	uint32_t number;

	if (code_flow_goes_on(insn))
		visit(s, i + 1);
	switch (insn->kind) {
	case INSN_JCC:
	case INSN_JMP:
		if (!code_flow_find(flow, insn->value, &number))
			return true;
		visit(s, number);
		return false;
	case FLOW_JMP_TABLE:
		for (size_t k = 0; k < flow->tables[insn->value].n; k++)
			visit(s, flow->targets[flow->tables[insn->value].first + k]);
		return false;
	case INSN_TRAP:
		return false;
	default:
		return !code_flow_goes_on(insn);
	}
}

/*
 * Mark in `seen` all instructions on paths from FIRST that avoid AVOIDED. If LEAVE_OUT, the paths
 * start at the successors of FIRST. Returns whether a call can end on one of these paths.
 */
static bool explore(struct pause_search *s, size_t first, bool leave_out, size_t avoided)
{
	bool ends = false;

	memset(s->seen, 0, s->flow->n_insns * sizeof(*s->seen));
	s->n_queued = 0;
	s->avoided = avoided;
	if (leave_out)
		ends = visit_next(s, first);
	else
		visit(s, first);
	while (s->n_queued)
		ends |= visit_next(s, s->queue[--s->n_queued]);
	return ends;
}

static bool is_usable(struct pause_search *s, size_t i)
{
	const struct depth *depth = &s->flow->depths[i];

	if (!s->flow->insns[i].is_emulated || depth->kind != DEPTH_KNOWN || depth->is_doubtful)
		return false;
	explore(s, i, true, NOWHERE);
	return !s->seen[i];
}

/* Return true if a call can execute J after I. */
static bool leads_to(struct pause_search *s, size_t i, size_t j)
{
	explore(s, i, true, NOWHERE);
	return s->seen[j];
}

/*
 * If THROUGH is NOWHERE, return true if each call executes I. Otherwise return true if the calls
 * that execute I are exactly the calls that execute THROUGH, and if they execute I before THROUGH,
 * or I is THROUGH.
 */
static bool begins(struct pause_search *s, size_t i, size_t through)
{
	if (through == NOWHERE)
		return !explore(s, 0, false, i);
	if (i == through)
		return true;
	explore(s, 0, false, i);
	return !s->seen[through] && !explore(s, i, true, through);
}

/* Like begins(), except that if THROUGH is not NOWHERE, I must be executed after THROUGH. */
static bool ends(struct pause_search *s, size_t i, size_t through)
{
	if (through == NOWHERE)
		return !explore(s, 0, false, i);
	if (explore(s, through, true, i))
		return false;
	explore(s, 0, false, through);
	return !s->seen[i];
}

/* Return the only call of the function at VA, or NOWHERE if there are none or several. */
static size_t find_call(const struct code_flow *flow, uint64_t va)
{
	size_t found = NOWHERE;

	for (size_t i = 0; i < flow->n_insns; i++) {
		if (flow->insns[i].kind != INSN_CALL ||
		    flow->code.va + (uint64_t)flow->insns[i].value != va)
			continue;
		if (found != NOWHERE)
			return NOWHERE;
		found = i;
	}
	return found;
}

static int find_pause_bounds(struct pause_search *s, size_t through, struct code_pause *out)
{
	const struct code_flow *flow = s->flow;
	size_t begin = NOWHERE, end = NOWHERE;

	for (size_t i = 0; i < flow->n_insns; i++) {
		if (!is_usable(s, i))
			continue;
		if (begins(s, i, through) && (begin == NOWHERE || leads_to(s, i, begin)))
			begin = i;
		if (ends(s, i, through) && (end == NOWHERE || leads_to(s, end, i)))
			end = i;
	}
	if (begin == NOWHERE || end == NOWHERE || !leads_to(s, begin, end))
		return -ENODATA;
	*out = (struct code_pause){ .begin = flow->insns[begin].off,
				    .end = flow->insns[end].off,
				    .begin_depth = flow->depths[begin].value,
				    .end_depth = flow->depths[end].value };
	return 0;
}

int code_pause_find(struct ocp_ctx *ctx, const struct code_bytes *function, struct code_file *file,
		    uint64_t through_va, struct code_pause *out)
{
	enum { MOST_BYTES = 16384 };
	struct code_flow *flow = code_file_flow(file);
	struct pause_search search = { .flow = flow };
	size_t through = NOWHERE;
	int err;

	if (!function->n || function->n > MOST_BYTES)
		return -ENODATA;
	if (code_flow_read(flow, function, file))
		return ctx_no_memory(ctx);
	if (through_va)
		through = find_call(flow, through_va);
	if (flow->problem || !flow->n_insns || (through_va && through == NOWHERE))
		return -ENODATA;
	search.seen = calloc(flow->n_insns, sizeof(*search.seen));
	search.queue = calloc(flow->n_insns, sizeof(*search.queue));
	err = search.seen && search.queue ? find_pause_bounds(&search, through, out)
					  : ctx_no_memory(ctx);
	free(search.seen);
	free(search.queue);
	return err;
}
