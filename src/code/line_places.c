// SPDX-License-Identifier: MIT
/*
 * Read the rows of the line tables of all units once, and keep the rows that may belong to the
 * requested source. Several sources can have the requested name: choose one, and drop the rows of
 * the others. Then decode each function that has rows, to find the rows that are places.
 */
#include "code/line_places.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/base_name.h"
#include "base/sanitize.h"
#include "base/search.h"
#include "base/suggest.h"
#include "code/code_flow.h"
#include "code/frametable.h"
#include "code/runtime.h"
#include "code/window.h"
#include "elf/lines.h"

/* ---- source files ---------------------------------------------------------------------------- */

/*
 * Find the source of each row. A unit is compiled from a file with a name such as "src/service.ml",
 * relative to the folder in which the compiler runs. In the rows of a unit, the unit's own code has
 * this name, and the unit's folder is known. Code that was inlined from another unit has the name
 * with which the other unit was compiled, but the folder of the other unit is not known. So inlined
 * code is taken to belong to the unit whose own code has this name, if there is only one such unit.
 */

/* A file whose last path component equals the last component of the requested name. */
struct line_source {
	char *path; /* includes the folder of the compiler, if that is known */
	char *name; /* the path as given to the compiler */
	/*
	 * true if a unit is compiled from this file; false if code of this file was inlined into a
	 * unit
	 */
	bool is_own;
	/*
	 * the number of path components, counted from the end, that equal those of the requested
	 * name
	 */
	size_t n_equal;
};

struct line_sources {
	char *wanted;
	enum line_match match;
	struct line_source *list;
	size_t n;
	/*
	 * The file and the unit of the previous row, and the index in `list` of the source of that
	 * row; -1 if that source does not have the requested name.
	 */
	const char *last_file;
	size_t last_unit;
	ptrdiff_t last;
	char *nearest;
	size_t nearest_distance;
};

/* The choice among the sources. */
struct line_choice {
	/* index of the chosen source, and of another source that fits as well; -1: none */
	ptrdiff_t chosen, other;
	/* inlined code with the name of the chosen source belongs to the chosen source */
	bool takes_inlined;
	bool has_inlined;
};

enum { MAX_SOURCES = 256 };

/* Return PATH without "./" at its start. */
static const char *plain(const char *path)
{
	while (path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	return path;
}

/*
 * Return how many components at the ends of the paths A and B are equal. Set *ALL_A to whether
 * these are all components of A, and *ALL_B to whether these are all components of B.
 */
static size_t count_equal(const char *a, const char *b, bool *all_a, bool *all_b)
{
	size_t i = strlen(a), k = strlen(b), n = 0;

	*all_a = *all_b = false;
	while (i && k && a[i - 1] == b[k - 1]) {
		i--;
		k--;
		if (a[i] == '/')
			n++;
	}
	*all_a = i == 0 && (k == 0 || b[k - 1] == '/');
	*all_b = k == 0 && (i == 0 || a[i - 1] == '/');
	return *all_a || *all_b ? n + 1 : n;
}

static int line_sources_open(struct ocp_ctx *ctx, const char *file, enum line_match match,
			     struct line_sources *sources)
{
	*sources = (struct line_sources){
		.wanted = strdup(plain(file)), .match = match, .last_unit = SIZE_MAX, .last = -1
	};
	return sources->wanted ? 0 : ctx_no_memory(ctx);
}

static void line_sources_close(struct line_sources *sources)
{
	for (size_t i = 0; i < sources->n; i++) {
		free(sources->list[i].path);
		free(sources->list[i].name);
	}
	free(sources->list);
	free(sources->wanted);
	free(sources->nearest);
	*sources = (struct line_sources){ 0 };
}

/* ---- the source of a row -------------------------------------------------------------------- */

/* Return FILE without "FOLDER/" at its start; all of FILE if it does not begin with "FOLDER/". */
static const char *without_folder(const char *file, const char *folder)
{
	const size_t bytes = folder ? strlen(folder) : 0;

	if (bytes && strncmp(file, folder, bytes) == 0 && file[bytes] == '/')
		return plain(file + bytes + 1);
	return plain(file);
}

static char *with_folder(const char *name, const char *folder)
{
	char *path;

	if (*name == '/' || !folder || !*folder)
		return strdup(name);
	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/*
 * Keep the last component of PATH if it is more similar to the requested name than the component
 * that was kept before. The kept component is suggested to the user if no source has the requested
 * name.
 */
static int offer(struct ocp_ctx *ctx, struct line_sources *sources, const char *path)
{
	struct suggestion suggestion = suggestion_for(base_name(sources->wanted));
	char *copy;

	suggestion_offer(&suggestion, base_name(path));
	if (!suggestion.best ||
	    (sources->nearest && suggestion.distance >= sources->nearest_distance))
		return 0;
	copy = strdup(base_name(path));
	if (!copy)
		return ctx_no_memory(ctx);
	make_one_line(copy);
	free(sources->nearest);
	sources->nearest = copy;
	sources->nearest_distance = suggestion.distance;
	return 0;
}

static ptrdiff_t find_line_source(const struct line_sources *sources, const char *path,
				  const char *name, bool is_own)
{
	for (size_t i = 0; i < sources->n; i++) {
		const struct line_source *it = &sources->list[i];

		if (it->is_own == is_own &&
		    strcmp(is_own ? it->path : it->name, is_own ? path : name) == 0)
			return (ptrdiff_t)i;
	}
	return -1;
}

static int add_line_source(struct ocp_ctx *ctx, struct line_sources *sources, const char *path,
			   const char *name, bool is_own)
{
	struct line_source *it = array_add(sources->list, sources->n);
	bool all_wanted, all;

	if (!it)
		return ctx_no_memory(ctx);
	*it = (struct line_source){ strdup(path), strdup(name), is_own, 0 };
	if (!it->path || !it->name) {
		free(it->path);
		free(it->name);
		sources->n--;
		return ctx_no_memory(ctx);
	}
	it->n_equal = count_equal(sources->wanted, is_own ? path : name, &all_wanted, &all);
	/*
	 * The folder of an inlined source is not known. So accept the source also if its name is
	 * shorter than the requested name and equals the end of the requested name.
	 */
	if (sources->match == LINE_FILE && !all_wanted && !(all && !is_own))
		it->n_equal = 0;
	return 0;
}

static int know(struct ocp_ctx *ctx, struct line_sources *sources, const struct line_row *row,
		ptrdiff_t *number)
{
	const char *name = without_folder(row->file, row->folder);
	const bool is_own =
		row->unit_file && strcmp(name, without_folder(row->unit_file, row->folder)) == 0;
	char *path;
	int err = 0;

	*number = -1;
	if (strcmp(base_name(name), base_name(sources->wanted)) != 0)
		return 0;
	path = is_own ? with_folder(name, row->folder) : strdup(name);
	if (!path)
		return ctx_no_memory(ctx);
	*number = find_line_source(sources, path, name, is_own);
	if (*number < 0 && sources->n == MAX_SOURCES)
		err = ctx_error(ctx, -EBADMSG, "'%s': more than %d source files have this name",
				sources->wanted, MAX_SOURCES);
	else if (*number < 0)
		err = add_line_source(ctx, sources, path, name, is_own);
	if (!err && *number < 0)
		*number = (ptrdiff_t)sources->n - 1;
	free(path);
	return err;
}

/*
 * Set *NUMBER to the index of the source of ROW; -1 if that source does not have the requested
 * name. Returns 0, -ENOMEM or -EBADMSG.
 */
static int line_sources_of(struct ocp_ctx *ctx, struct line_sources *sources,
			   const struct line_row *row, ptrdiff_t *number)
{
	int err = 0;

	if (sources->last_unit != row->unit && row->unit_file)
		err = offer(ctx, sources, row->unit_file);
	if (!err && (sources->last_unit != row->unit || sources->last_file != row->file))
		err = know(ctx, sources, row, &sources->last);
	sources->last_unit = row->unit;
	sources->last_file = row->file;
	*number = sources->last;
	return err;
}

/* ---- the choice ----------------------------------------------------------------------------- */

/*
 * Of the sources whose is_own is IS_OWN, choose the best one, and set `other` if another source is
 * as good. Return false if none of these sources fits the requested name.
 */
static bool choose_line_source(const struct line_sources *sources, bool is_own,
			       struct line_choice *choice)
{
	choice->chosen = choice->other = -1;
	for (size_t i = 0; i < sources->n; i++) {
		const struct line_source *it = &sources->list[i];
		const size_t best = choice->chosen < 0 ? 0 : sources->list[choice->chosen].n_equal;

		if (it->is_own != is_own || !it->n_equal)
			continue;
		if (choice->chosen < 0 || (sources->match == LINE_PATH && it->n_equal > best)) {
			choice->chosen = (ptrdiff_t)i;
			choice->other = -1;
		} else if (sources->match == LINE_FILE || it->n_equal == best) {
			choice->other = (ptrdiff_t)i;
		}
	}
	return choice->chosen >= 0;
}

static void line_sources_choose(const struct line_sources *sources, struct line_choice *choice)
{
	const char *name;
	size_t n_own = 0;

	*choice = (struct line_choice){ 0 };
	if (!choose_line_source(sources, true, choice) &&
	    !choose_line_source(sources, false, choice))
		return;
	name = sources->list[choice->chosen].name;
	for (size_t i = 0; i < sources->n; i++) {
		if (strcmp(sources->list[i].name, name) != 0)
			continue;
		n_own += sources->list[i].is_own;
		choice->has_inlined |= !sources->list[i].is_own;
	}
	choice->takes_inlined = n_own < 2;
}

/* Return true if the rows of source number I belong to the chosen source. */
static bool line_sources_takes(const struct line_sources *sources, const struct line_choice *choice,
			       size_t i)
{
	if (choice->chosen < 0)
		return false;
	return (ptrdiff_t)i == choice->chosen ||
	       (!sources->list[i].is_own && choice->takes_inlined &&
		strcmp(sources->list[i].name, sources->list[choice->chosen].name) == 0);
}

/* ---- passes of a line ------------------------------------------------------------------------ */

/*
 * Find the places of a line that begin the line anew. From a place, go back along all paths on
 * which execution can reach it. If all paths end at other kept places of the line, the place
 * continues the line that the other places have begun, and is dropped. If a path leads to the
 * beginning of the function, to an exception handler, or in a loop back to the place itself, the
 * place is kept. Later searches pass through a dropped place. So at least one place in each loop is
 * kept, and this place counts the iterations.
 *
 * A function that is inlined twice in a row has its lines twice. A place of inlined code is
 * therefore kept if a path leads back to a place with the same column. In code that is not inlined,
 * columns say nothing: in `x |> f |> g` all calls have the column of x.
 */

/* The limit of steps back in one function. Beyond the limit, all places are kept. */
enum { MAX_STEPS = 1 << 27 };

/*
 * The predecessors of each instruction: those of instruction I are before[first[i]] to
 * before[first[i + 1] - 1].
 */
struct ways {
	const struct code_flow *flow;
	uint32_t *first, *before;
	/* for each instruction: it is the start of the function or of an exception handler */
	bool *is_entry;
	/* for each instruction: the kept place of the current line at this instruction, or NULL */
	const struct line_place **kept;
	/* for each instruction: the most recent round in which it was seen */
	uint32_t *seen, round;
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
	/*
	 * In the second pass, add_way() has moved each first[i] to the old value of first[i + 1].
	 * Undo this.
	 */
	each_way(ways, add_way);
	memmove(ways->first + 1, ways->first, n * sizeof(uint32_t));
	ways->first[0] = 0;
	mark_entries(ways);
	return 0;
}

/* ---- passes --------------------------------------------------------------------------------- */

/*
 * Append the predecessors of instruction I to the queue, whose length is *N. Return false if END is
 * one of the predecessors.
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
 * Keep the rows at which a line begins, and the row after a table jump of the same line. In inlined
 * code, also keep a row that returns to the column with which the line began: it shows that the
 * code is inlined twice in a row.
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

/* Return the reason why no uprobe can count PLACE; NULL if a uprobe can. Set the cost of PLACE. */
static const char *check_place(const struct code_flow *flow, struct line_place *place)
{
	const uint64_t off = place->va - flow->code.va;
	const uint8_t *bytes = flow->code.bytes + off;
	const size_t n = flow->code.n - off;
	enum insn_cost cost;
	uint32_t number;

	/* Even if the code cannot be decoded, an instruction begins at the entry. */
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

/*
 * Reduce LIST[0..N), the rows of the lines of FUNCTION in FILE, sorted by address, to the rows that
 * are places, and set their cost and fault. Returns how many places there are, or -ENOMEM.
 */
static ptrdiff_t line_passes_reduce(struct code_file *file, const struct function *function,
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

/* ---- places ---------------------------------------------------------------------------------- */

enum { MAX_PLACES = 1 << 20 }; /* limit for the rows of the source */

struct gatherer {
	struct ocp_ctx *ctx;
	const struct functions *functions;
	const struct line_spans *spans;
	enum window_language windows; /* WINDOW_C: no windows are needed */
	struct line_sources sources;
	struct line_place *list;
	/* for each element of `list`, the index of the element's source in the list of sources */
	uint32_t *source;
	size_t n;
	size_t n_ended; /* places whose `end_va` is known */
	uint64_t last_va;
	bool has_rows;
	/*
	 * `function` is the function that contains the previous row, or NULL. its_file and its_line
	 * are the source place where `function` begins, or NULL and 0. last_file and last_line are
	 * the source place of the previous row.
	 */
	const struct function *function;
	const char *its_file, *last_file;
	size_t unit;
	int its_line, last_line;
};

/*
 * Return true if the frame tables, which stay when a file is stripped, have places in the source.
 */
static bool was_compiled_with_g(struct ocp_ctx *ctx, struct elf_file *elf)
{
	struct frametable *table;
	const struct frame_descr *list;
	size_t n, i = 0;

	if (frametable_read(ctx, elf, &table))
		return false;
	list = frametable_list(table, &n);
	while (i < n && !list[i].debuginfo_va)
		i++;
	frametable_free(table);
	return i < n;
}

int line_places_no_tables(struct ocp_ctx *ctx, struct elf_file *elf, const char *who)
{
	if (!was_compiled_with_g(ctx, elf))
		return ctx_error(ctx, -ENODATA,
				 "%s has no debug information of OCaml code (ocamlopt -g)", who);
	ctx_set_error(ctx, "%s was compiled with -g, then stripped: it has no line table", who);
	ctx_hint(ctx, "run the unstripped program; functions (fn:NAME) need no line table");
	return -ENODATA;
}

void line_places_free(struct line_places *places)
{
	free(places->list);
	free(places->file);
	free(places->other);
	free(places->nearest);
	*places = (struct line_places){ 0 };
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int make_room_for_place(struct gatherer *g)
{
	struct line_place *list = array_grow(g->list, g->n, sizeof(*list));
	uint32_t *sources;

	if (!list)
		return ctx_no_memory(g->ctx);
	g->list = list;
	sources = array_grow(g->source, g->n, sizeof(*sources));
	if (!sources)
		return ctx_no_memory(g->ctx);
	g->source = sources;
	return 0;
}

static int add_line_place(struct gatherer *g, const struct line_row *row, size_t source,
			  bool goes_on)
{
	if (g->n == MAX_PLACES)
		return ctx_error(g->ctx, -EBADMSG, "'%s': its lines begin at more than %d places",
				 g->sources.wanted, MAX_PLACES);
	if (make_room_for_place(g))
		return -ENOMEM;
	g->source[g->n] = (uint32_t)source;
	g->list[g->n++] = (struct line_place){
		.va = row->va,
		.end_va = UINT64_MAX,
		.goes_on = goes_on,
		.function = g->function,
		.line = row->line,
		.column = row->column,
		.is_inlined = g->its_line && (row->line < g->its_line || g->its_file != row->file),
	};
	return 0;
}

/*
 * Make the function that contains ROW the current function. If it is an initialiser, its_file and
 * its_line stay unknown: the code of a top level may begin with the code of an inlined function.
 */
static void enter_function(struct gatherer *g, const struct line_row *row)
{
	const struct function *function = functions_at(g->functions, row->va);
	const bool is_ocaml = function && function->language == FUNCTION_OCAML;

	g->unit = row->unit;
	g->function = is_ocaml ? function : NULL;
	g->last_file = g->its_file = NULL;
	g->last_line = g->its_line = 0;
	if (is_ocaml && function->va == row->va && !function->is_initialiser) {
		g->its_file = row->file;
		g->its_line = row->line;
	}
}

/* Set end_va of the places before ROW to the start of ROW. */
static void end_rows(struct gatherer *g, const struct line_row *row)
{
	if (row->va == g->last_va)
		return;
	for (; g->n_ended < g->n; g->n_ended++)
		if (g->list[g->n_ended].va < row->va)
			g->list[g->n_ended].end_va = row->va;
	g->last_va = row->va;
}

static bool is_in_span(const struct line_spans *spans, const struct line_row *row)
{
	size_t next = SEARCH(i, spans ? spans->n : 0, spans->list[i].line < row->line);

	for (; spans && next < spans->n && spans->list[next].line == row->line; next++)
		if (row->column >= spans->list[next].from && row->column < spans->list[next].to)
			return true;
	return false;
}

static int take_line_row(void *data, const struct line_row *row)
{
	struct gatherer *g = data;
	ptrdiff_t source;
	bool goes_on;
	int err;

	end_rows(g, row);
	if (!g->function || g->unit != row->unit || row->va - g->function->va >= g->function->bytes)
		enter_function(g, row);
	if (!g->function)
		return 0;
	g->has_rows = true;
	goes_on = row->line == g->last_line && row->file == g->last_file;
	g->last_line = row->line;
	g->last_file = row->file;
	if (!row->is_statement || row->line == 0)
		return 0;
	err = line_sources_of(g->ctx, &g->sources, row, &source);
	if (!err && source >= 0 && is_in_span(g->spans, row)) {
		g->last_line = 0;
		return 0;
	}
	return err || source < 0 ? err : add_line_place(g, row, (size_t)source, goes_on);
}

/* ---- places --------------------------------------------------------------------------------- */

static int compare_addresses(const void *a, const void *b)
{
	const struct line_place *x = a, *y = b;

	if (x->va != y->va)
		return COMPARE(x->va, y->va);
	if (x->line != y->line)
		return COMPARE(x->line, y->line);
	return x->goes_on - y->goes_on;
}

static bool are_one(const struct line_place *a, const struct line_place *b)
{
	return a->va == b->va && a->line == b->line;
}

/* Keep the places of the chosen source, sorted by address, each once. */
static void keep_chosen(struct gatherer *g, const struct line_choice *choice)
{
	size_t n = 0, n_different = 0;

	for (size_t i = 0; i < g->n; i++)
		if (line_sources_takes(&g->sources, choice, g->source[i]))
			g->list[n++] = g->list[i];
	if (n)
		qsort(g->list, n, sizeof(*g->list), compare_addresses);
	for (size_t i = 0; i < n; i++)
		if (!i || !are_one(&g->list[n_different - 1], &g->list[i]))
			g->list[n_different++] = g->list[i];
	g->n = n_different;
}

/* Find the window of PLACE in RUNS, those of its function. */
static void find_window(struct code_runs *runs, struct line_place *place)
{
	const uint64_t va = place->function->va;
	struct code_window window;

	place->no_window = place->fault;
	if (!place->fault)
		place->no_window = code_runs_window(runs, (uint32_t)(place->va - va), &window);
	if (place->no_window)
		return;
	place->window_va = va + window.off;
	place->n_window = window.n_bytes;
}

/* Find the windows of LIST[0..N), which are places of FUNCTION. Returns 0 or -ENOMEM. */
static int find_windows(struct gatherer *g, struct code_file *file, const struct function *function,
			struct line_place *list, size_t n)
{
	struct code_function decoded = { 0 };
	struct code_bytes bytes;
	struct code_runs runs;
	int err = code_file_function(file, function->va, function->bytes, &bytes);

	if (err == -ENOMEM)
		return err;
	if (err) {
		for (size_t i = 0; i < n; i++)
			list[i].no_window = list[i].fault ?: "the file lacks its code";
		return 0;
	}
	err = code_function_find_place(g->ctx, &bytes, file, &decoded);
	if (!err)
		code_runs_init(&runs, code_file_flow(file), &decoded, g->windows);
	for (size_t i = 0; !err && i < n; i++)
		find_window(&runs, &list[i]);
	code_function_free(&decoded);
	return err;
}

/*
 * Reduce the rows to the places of each function. The rows must be sorted by address; the places
 * are sorted by line.
 */
static int reduce(struct gatherer *g, struct code_file *file)
{
	size_t n = 0, end;

	for (size_t first = 0; first < g->n; first = end) {
		const struct function *function = g->list[first].function;
		ptrdiff_t n_left;

		for (end = first; end < g->n && g->list[end].function == function; end++)
			;
		n_left = line_passes_reduce(file, function, g->list + first, end - first);
		if (n_left < 0)
			return ctx_no_memory(g->ctx);
		if (g->windows != WINDOW_C && n_left &&
		    find_windows(g, file, function, g->list + first, (size_t)n_left))
			return ctx_no_memory(g->ctx);
		memmove(g->list + n, g->list + first, (size_t)n_left * sizeof(*g->list));
		n += (size_t)n_left;
	}
	g->n = n;
	if (n)
		qsort(g->list, n, sizeof(*g->list), compare_lines);
	return 0;
}

/* Return the language of the code of ELF, of which FUNCTIONS are the functions. */
static enum window_language language_of(struct ocp_ctx *ctx, struct elf_file *elf,
					const struct functions *functions)
{
	struct runtime runtime;
	const bool has_runtime = runtime_recognise(ctx, elf, &runtime) == 0;

	return (has_runtime ? runtime.has_domains : functions_have_ocaml_stacks(functions))
		       ? WINDOW_OCAML_5
		       : WINDOW_OCAML_4;
}

static int name_sources(struct gatherer *g, const struct line_choice *choice,
			struct line_places *out)
{
	const struct line_source *list = g->sources.list;

	out->file = choice->chosen < 0 ? NULL : strdup(list[choice->chosen].path);
	out->other = choice->other < 0 ? NULL : strdup(list[choice->other].path);
	if (out->file && out->other && strcmp(out->file, out->other) > 0) {
		char *first = out->other;

		out->other = out->file;
		out->file = first;
	}
	if (!out->file != (choice->chosen < 0) || !out->other != (choice->other < 0))
		return ctx_no_memory(g->ctx);
	if (out->file)
		make_one_line(out->file);
	if (out->other)
		make_one_line(out->other);
	if (!out->file) {
		out->nearest = g->sources.nearest;
		g->sources.nearest = NULL;
	}
	out->lacks_inlined = choice->has_inlined && !choice->takes_inlined;
	return 0;
}

static int find_line_places(struct gatherer *g, struct elf_file *elf, int fd,
			    struct line_places *out)
{
	struct code_file *file = NULL;
	struct line_choice choice;
	const uint64_t *entries;
	size_t n_entries;
	int err = lines_each(g->ctx, fd, elf_file_name(elf), take_line_row, g);

	if (err)
		return err;
	line_sources_choose(&g->sources, &choice);
	keep_chosen(g, &choice);
	entries = functions_entries(g->functions, &n_entries);
	err = code_file_open(g->ctx, elf, entries, n_entries, &file);
	if (!err)
		err = reduce(g, file);
	code_file_close(file);
	return err ? err : name_sources(g, &choice, out);
}

int line_places_read(struct ocp_ctx *ctx, struct elf_file *elf, int fd,
		     const struct functions *functions, const char *file, enum line_match match,
		     const struct line_spans *spans, bool windows, struct line_places *out)
{
	struct gatherer g = { .ctx = ctx,
			      .functions = functions,
			      .spans = spans,
			      .windows = windows ? language_of(ctx, elf, functions) : WINDOW_C };
	int err = line_sources_open(ctx, file, match, &g.sources);

	*out = (struct line_places){ 0 };
	if (!err)
		err = find_line_places(&g, elf, fd, out);
	line_sources_close(&g.sources);
	free(g.source);
	out->has_rows = g.has_rows;
	out->list = g.list;
	out->n = g.n;
	if (err)
		line_places_free(out);
	return err;
}

/* ---- searching ------------------------------------------------------------------------------ */

/* Return the index of the first place whose line is LINE or greater. */
static size_t first_from(const struct line_places *places, int line)
{
	return SEARCH(i, places->n, places->list[i].line < line);
}

const struct line_place *line_places_find(const struct line_places *places, int line, size_t *n)
{
	const size_t first = first_from(places, line);

	for (*n = 0; first + *n < places->n && places->list[first + *n].line == line; ++*n)
		;
	return *n ? &places->list[first] : NULL;
}

void line_places_around(const struct line_places *places, int line, int *before, int *after)
{
	size_t at = first_from(places, line);

	*before = at ? places->list[at - 1].line : 0;
	while (at < places->n && places->list[at].line == line)
		at++;
	*after = at < places->n ? places->list[at].line : 0;
}
