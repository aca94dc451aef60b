// SPDX-License-Identifier: MIT
/*
 * Find the places of a line that begin the line anew. From a place, go back along all paths on
 * which execution can reach it. If all paths end at other kept places of the line, the place
 * continues the line that the other places have begun, and is dropped. If a path leads to the
 * beginning of the function, to an exception handler, or in a circle back to the place itself, the
 * place is kept. Later searches pass through a dropped place, so each circle keeps a place that
 * counts its turns.
 *
 * A function that is inlined twice in a row has its lines twice. A place of inlined code is
 * therefore kept if a path leads back to a place with the same column. In code that is not inlined,
 * columns say nothing: in `x |> f |> g` all calls have the column of x.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "code/code_flow.h"
#include "code/line_places.h"

/* The limit of steps back in one function. Beyond the limit, all places are kept. */
enum { MAX_STEPS = 1 << 27 };

/* The predecessors of instruction I are before[first[i]] to before[first[i + 1] - 1]. */
struct ways {
	const struct code_flow *flow;
	uint32_t *first, *before;
	/* by instruction: the start of the function, or of a handler */
	bool *is_entry;
	const struct line_place **kept; /* the kept places of the current line, by instruction */
	uint32_t *seen, round;		/* by instruction: the last round in which it was seen */
	uint32_t *queue;
	size_t n_steps;
};

/* ---- the ways back -------------------------------------------------------------------------- */

typedef void (*way_fn)(struct ways *ways, uint32_t from, uint32_t to);

static void count_way(struct ways *ways, uint32_t from, uint32_t to)
{
	(void)from;
	ways->first[to + 1]++;
}

static void add_way(struct ways *ways, uint32_t from, uint32_t to)
{
	ways->before[ways->first[to]++] = from;
}

static void each_way(struct ways *ways, way_fn take)
{
	const struct code_flow *flow = ways->flow;
	const struct jump_table *table;
	uint32_t to;

	for (uint32_t i = 0; i < flow->n_insns; i++) {
		const struct insn *insn = &flow->insns[i];

		if (code_flow_goes_on(insn) && i + 1 < flow->n_insns)
			take(ways, i, i + 1);
		if ((insn->kind == INSN_JCC || insn->kind == INSN_JMP) &&
		    code_flow_find(flow, insn->value, &to))
			take(ways, i, to);
		if (insn->kind != FLOW_JMP_TABLE)
			continue;
		table = &flow->tables[insn->value];
		for (size_t k = 0; k < table->n; k++)
			take(ways, i, flow->targets[table->first + k]);
	}
}

static void mark_entries(struct ways *ways)
{
	const struct code_flow *flow = ways->flow;
	uint32_t to;

	ways->is_entry[0] = true;
	for (size_t i = 0; i < flow->n_insns; i++)
		if (flow->insns[i].kind == INSN_LEA_RIP &&
		    code_flow_find(flow, flow->insns[i].value, &to))
			ways->is_entry[to] = true;
}

static void free_ways(struct ways *ways)
{
	free(ways->first);
	free(ways->before);
	free(ways->is_entry);
	free(ways->kept);
	free(ways->seen);
	free(ways->queue);
}

static int find_ways(const struct code_flow *flow, struct ways *ways)
{
	const size_t n = flow->n_insns;

	*ways = (struct ways){
		.flow = flow,
		.first = calloc(n + 2, sizeof(uint32_t)),
		.is_entry = calloc(n + 1, sizeof(bool)),
		.kept = calloc(n + 1, sizeof(struct line_place *)),
		.seen = calloc(n + 1, sizeof(uint32_t)),
		.queue = calloc(n + 1, sizeof(uint32_t)),
	};
	if (!ways->first || !ways->is_entry || !ways->kept || !ways->seen || !ways->queue)
		return -ENOMEM;
	each_way(ways, count_way);
	for (size_t i = 0; i < n; i++)
		ways->first[i + 1] += ways->first[i];
	ways->before = calloc((size_t)ways->first[n] + 1, sizeof(uint32_t));
	if (!ways->before)
		return -ENOMEM;
	/* add_way() has moved each first[i] to the old first[i + 1]: move them back. */
	each_way(ways, add_way);
	memmove(ways->first + 1, ways->first, n * sizeof(uint32_t));
	ways->first[0] = 0;
	mark_entries(ways);
	return 0;
}

/* ---- passes --------------------------------------------------------------------------------- */

/*
 * Append the predecessors of I to the queue, whose length is *N. Return false if END is one of
 * them.
 */
static bool step_back(struct ways *ways, uint32_t i, uint32_t end, size_t *n)
{
	for (uint32_t k = ways->first[i]; k < ways->first[i + 1]; k++) {
		const uint32_t before = ways->before[k];

		if (before == end)
			return false;
		if (ways->seen[before] == ways->round)
			continue;
		ways->seen[before] = ways->round;
		ways->queue[(*n)++] = before;
	}
	return true;
}

/* Return true if PLACE, at instruction NUMBER, begins its line anew. */
static bool begins(struct ways *ways, const struct line_place *place, uint32_t number)
{
	size_t n = 0;

	if (ways->is_entry[number] || ways->n_steps > MAX_STEPS)
		return true;
	ways->round++;
	if (!step_back(ways, number, number, &n))
		return true;
	for (size_t at = 0; at < n; at++) {
		const uint32_t i = ways->queue[at];
		const struct line_place *kept = ways->kept[i];

		ways->n_steps++;
		if (kept && !(place->is_inlined && kept->column == place->column))
			continue;
		if (kept || ways->is_entry[i] || !step_back(ways, i, number, &n))
			return true;
	}
	return false;
}

static uint32_t insn_number_of(const struct code_flow *flow, const struct line_place *place)
{
	uint32_t number = 0;

	code_flow_find(flow, (int64_t)(place->va - flow->code.va), &number);
	return number;
}

/*
 * LIST[0..N) are the places of one line, sorted by address. Move the places that begin the line to
 * the front, and return how many there are.
 */
static size_t reduce_line(struct ways *ways, struct line_place *list, size_t n)
{
	size_t n_left = 0;

	for (size_t i = 0; n > 1 && i < n; i++)
		ways->kept[insn_number_of(ways->flow, &list[i])] = &list[i];
	for (size_t i = 0; i < n; i++)
		if (n > 1 && !begins(ways, &list[i], insn_number_of(ways->flow, &list[i]))) {
			ways->kept[insn_number_of(ways->flow, &list[i])] = NULL;
			list[i].line = 0;
		}
	for (size_t i = 0; i < n; i++) {
		ways->kept[insn_number_of(ways->flow, &list[i])] = NULL;
		if (list[i].line)
			list[n_left++] = list[i];
	}
	return n_left;
}

static int compare_lines(const void *a, const void *b)
{
	const struct line_place *x = a, *y = b;

	if (x->line != y->line)
		return COMPARE(x->line, y->line);
	return COMPARE(x->va, y->va);
}

static ptrdiff_t reduce_lines(const struct code_flow *flow, struct line_place *list, size_t n)
{
	struct ways ways;
	size_t n_left = 0, end;

	if (find_ways(flow, &ways)) {
		free_ways(&ways);
		return -ENOMEM;
	}
	qsort(list, n, sizeof(*list), compare_lines);
	for (size_t first = 0; first < n; first = end) {
		size_t n_its;

		for (end = first; end < n && list[end].line == list[first].line; end++)
			;
		n_its = reduce_line(&ways, list + first, end - first);
		memmove(list + n_left, list + first, n_its * sizeof(*list));
		n_left += n_its;
	}
	free_ways(&ways);
	return (ptrdiff_t)n_left;
}

/* ---- tables of cases ------------------------------------------------------------------------ */

/*
 * Return true if the code of PLACE is only the jump through a table: `lea`, `movslq`, `add` and
 * `jmp`, and perhaps an instruction before them, which computes the index.
 */
static bool is_table_jump(const struct code_flow *flow, const struct line_place *place)
{
	enum { SHORTEST = 4, LONGEST = 5 };
	const uint64_t end = place->end_va - flow->code.va;
	uint32_t number;

	if (!code_flow_find(flow, (int64_t)(place->va - flow->code.va), &number))
		return false;
	for (uint32_t n = 1; n <= LONGEST && number < flow->n_insns; n++, number++) {
		const struct insn *insn = &flow->insns[number];

		if (insn->off >= end)
			return false;
		if (insn->kind == FLOW_JMP_TABLE)
			return n >= SHORTEST;
		if (insn->kind != INSN_OTHER && insn->kind != INSN_LEA_RIP)
			return false;
	}
	return false;
}

/*
 * Keep the rows at which a line begins, and the row behind a table jump of the same line. In
 * inlined code, also keep a row that returns to the column with which the line began: the code is
 * inlined twice in a row.
 */
static size_t keep_beginnings(const struct code_flow *flow, struct line_place *list, size_t n)
{
	bool was_jump = false;
	size_t n_left = 0;
	int first_column = 0, last_column = 0;

	for (size_t i = 0; i < n; i++) {
		const struct line_place it = list[i];
		const bool is_jump = is_table_jump(flow, &it);
		const bool returns =
			it.is_inlined && it.column == first_column && it.column != last_column;

		if (!is_jump && (!it.goes_on || was_jump || returns))
			list[n_left++] = it;
		if (!it.goes_on)
			first_column = it.column;
		last_column = it.column;
		was_jump = is_jump;
	}
	return n_left;
}

/* ---- the function --------------------------------------------------------------------------- */

/* Return why no uprobe can count PLACE, or NULL if one can. Set the cost of PLACE. */
static const char *check_place(const struct code_flow *flow, struct line_place *place)
{
	const uint64_t off = place->va - flow->code.va;
	const uint8_t *bytes = flow->code.bytes + off;
	const size_t n = flow->code.n - off;
	enum insn_cost cost;
	uint32_t number;

	/* The entry is the start of an instruction even if the rest is not understood. */
	if (flow->problem && (off != 0 || !flow->is_decoded))
		return flow->problem;
	if (!code_flow_find(flow, (int64_t)off, &number))
		return "its place is inside of an instruction";
	cost = insn_cost(&flow->decoder, bytes, n);
	place->cost = cost == INSN_EMULATED ? CODE_EMULATED : CODE_STEPPED;
	if (cost == INSN_REFUSED)
		return "the kernel cannot probe its first instruction";
	return insn_repeats(&flow->decoder, bytes, n) ? "its first instruction repeats itself"
						      : NULL;
}

static ptrdiff_t refuse_all(struct line_place *list, size_t n, const char *fault)
{
	for (size_t i = 0; i < n; i++)
		list[i].fault = fault;
	return (ptrdiff_t)n;
}

ptrdiff_t line_passes_reduce(struct code_file *file, const struct function *function,
			     struct line_place *list, size_t n)
{
	struct code_flow *flow = code_file_flow(file);
	struct code_bytes bytes;
	uint32_t number;
	bool is_sound;
	int err;

	if (!function->bytes || function->bytes > FUNCTION_BYTES_MAX)
		return refuse_all(list, n, "its function is larger than 4 MiB");
	err = code_file_bytes(file, true, function->va, function->bytes, &bytes);
	if (err == -ENODATA)
		return refuse_all(list, n, "the file lacks its code");
	if (err || code_flow_read(flow, &bytes, file))
		return -ENOMEM;
	n = keep_beginnings(flow, list, n);
	is_sound = !flow->problem;
	for (size_t i = 0; i < n; i++) {
		list[i].cost = CODE_STEPPED;
		list[i].fault = check_place(flow, &list[i]);
		is_sound &= code_flow_find(flow, (int64_t)(list[i].va - function->va), &number);
	}
	return is_sound ? reduce_lines(flow, list, n) : (ptrdiff_t)n;
}
