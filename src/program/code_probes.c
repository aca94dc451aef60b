// SPDX-License-Identifier: MIT
/*
 * Turns requested names into probes with sites, in three steps: find the requested functions and
 * other code; group the code that was found by the name of its probe; decode each function to find
 * its sites.
 */
#include "program/code_probes.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/base_name.h"
#include "base/hash.h"
#include "base/search.h"
#include "base/str_regexp.h"
#include "base/suggest.h"
#include "code/code_file.h"
#include "code/function_paths.h"
#include "code/functions.h"
#include "code/gc_phases.h"
#include "code/runtime.h"
#include "program/code_sites.h"
#include "program/foreign_notes.h"
#include "program/function_lines.h"
#include "program/item.h"

/* ---- lines ----------------------------------------------------------------------------------- */

/* When converting a site, the post-linker overwrites at most this many bytes. */
enum { MARKER_BYTES = 32 };

struct code_source {
	char *file;
	struct line_places places;
};

/*
 * A cache of the source files that were requested, with the places of their lines. Initialise it
 * with zeros.
 */
struct code_lines {
	struct code_source *list;
	size_t n;
};

static void code_lines_free(struct code_lines *lines)
{
	for (size_t i = 0; i < lines->n; i++) {
		free(lines->list[i].file);
		line_places_free(&lines->list[i].places);
	}
	free(lines->list);
	*lines = (struct code_lines){ 0 };
}

/* ---- places in the sites of probes ---------------------------------------------------------- */

static int compare_site_addresses(const void *a, const void *b)
{
	const struct site *x = *(const struct site *const *)a, *y = *(const struct site *const *)b;

	return COMPARE(x->va, y->va);
}

/*
 * Return the *N sites of PROG that have code, sorted by address. If IS_TRACED, return only sites
 * that have a tracers' semaphore. The caller frees the list. Return NULL if there is no memory.
 */
static const struct site **sites_by_address(const struct ocp_program *prog, bool is_traced,
					    size_t *n)
{
	const struct site **sites = calloc(prog->n_sites + 1, sizeof(void *));

	*n = 0;
	for (size_t i = 0; sites && i < prog->n_sites; i++)
		if (prog->sites[i].has_code && (!is_traced || prog->sites[i].tracer_semaphore_va))
			sites[(*n)++] = &prog->sites[i];
	if (sites)
		qsort(sites, *n, sizeof(void *), compare_site_addresses);
	return sites;
}

/*
 * SITES[0..N) are sorted by address. Return the last site that begins below VA; NULL if there is
 * none.
 */
static const struct site *site_below(const struct site *const *sites, size_t n, uint64_t va)
{
	const size_t next = SEARCH(i, n, sites[i]->va < va);

	return next ? sites[next - 1] : NULL;
}

/*
 * Mark the places that are inside a probe's site as faulty, since enabling and disabling the probe
 * change bytes of the site. A uprobe at such a place would change them, too.
 */
static int refuse_in_sites(struct ocp_ctx *ctx, const struct ocp_program *prog,
			   struct line_places *places)
{
	size_t n;
	const struct site **sites = sites_by_address(prog, false, &n);

	if (!sites)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < places->n; i++) {
		struct line_place *place = &places->list[i];
		const struct site *site = site_below(sites, n, place->va);

		if (!site)
			continue;
		if (place->va - site->va < site->n_bytes)
			place->fault = "its first instruction is part of a probe";
		else if (place->fault && place->va - site->va < MARKER_BYTES)
			place->fault = "its code has become a probe, which can be counted by name";
	}
	free(sites);
	return 0;
}

/* ---- sources -------------------------------------------------------------------------------- */

static int read_source(struct ocp_ctx *ctx, const struct ocp_program *prog,
		       const struct functions *functions, const struct line_spans *spans,
		       bool windows, struct code_source *source)
{
	int err = line_places_read(ctx, prog->elf, prog->fd, functions, source->file, LINE_FILE,
				   spans, windows, &source->places);

	if (err)
		return err;
	if (source->places.other)
		return ctx_error(ctx, -EINVAL, "'%s%s': several files have this name: %s, %s",
				 ITEM_LINE_PREFIX, source->file, source->places.file,
				 source->places.other);
	if (source->places.lacks_inlined)
		ctx_log(ctx, OCP_LOG_WARN,
			"'%s%s': its code that was inlined elsewhere is not counted, because "
			"another file has the same name there",
			ITEM_LINE_PREFIX, source->file);
	for (size_t i = 0; windows && i < source->places.n; i++)
		source->places.list[i].fault = source->places.list[i].no_window;
	return refuse_in_sites(ctx, prog, &source->places);
}

static struct code_source *find_source(const struct code_lines *lines, const char *file,
				       size_t bytes)
{
	for (size_t i = 0; i < lines->n; i++)
		if (strncmp(lines->list[i].file, file, bytes) == 0 && !lines->list[i].file[bytes])
			return &lines->list[i];
	return NULL;
}

/*
 * Find the source file that the item TEXT names, and set *OUT to the list of the places where the
 * lines of this file begin, without the places inside SPANS. If WINDOWS, a place without a window
 * has a fault. The list is empty if PROG has no such source. FUNCTIONS are the functions of PROG.
 * Return -EINVAL if several sources have the name in TEXT. *OUT is valid until the next call of
 * this function; the list of places that *OUT contains is valid until code_lines_free().
 */
static int code_lines_of(struct ocp_ctx *ctx, struct code_lines *lines,
			 const struct ocp_program *prog, const struct functions *functions,
			 const char *text, const struct line_spans *spans, bool windows,
			 const struct line_places **out)
{
	int line;
	const char *file = item_body(text);
	const size_t bytes = item_line_file(text, &line) - (size_t)(file - text);
	struct code_source *found = find_source(lines, file, bytes);
	int err;

	if (!found) {
		found = array_add(lines->list, lines->n);
		if (!found)
			return ctx_no_memory(ctx);
		*found = (struct code_source){ .file = strndup(file, bytes) };
		if (!found->file) {
			lines->n--;
			return ctx_no_memory(ctx);
		}
		err = read_source(ctx, prog, functions, spans, windows, found);
		if (err)
			return err;
	}
	*out = &found->places;
	return 0;
}

/* ---- lines that are not there --------------------------------------------------------------- */

static int no_tables(struct ocp_ctx *ctx, const struct ocp_program *prog, const char *text,
		     const char *where)
{
	char *who;
	int err;

	if (asprintf(&who, "'%s': %s", text, where) < 0)
		return ctx_no_memory(ctx);
	err = line_places_no_tables(ctx, prog->elf, who);
	free(who);
	return err;
}

static int unknown_file(struct ocp_ctx *ctx, const struct line_places *places, const char *text,
			size_t file_bytes, const char *where)
{
	ctx_error(ctx, -ENOENT, "'%s': %s has no code of a source file of this name", text, where);
	if (places->nearest)
		ctx_hint(ctx, "did you mean '%.*s%s%s'?", (int)(item_body(text) - text), text,
			 places->nearest, text + file_bytes);
	else
		ctx_hint(ctx, "`ocaml-probes functions` shows the source files");
	return -ENOENT;
}

static int unknown_line(struct ocp_ctx *ctx, const struct line_places *places, const char *text,
			int line)
{
	int before, after;

	line_places_around(places, line, &before, &after);
	ctx_error(ctx, -ENOENT, "'%s': no code begins at this line of %s", text, places->file);
	if (before && after)
		ctx_hint(ctx, "the nearest lines that have code are %d and %d", before, after);
	else if (before || after)
		ctx_hint(ctx, "the nearest line that has code is %d", before ? before : after);
	return -ENOENT;
}

bool code_lines_has_source(struct ocp_ctx *ctx, const struct ocp_program *prog,
			   const struct functions *functions, const char *text)
{
	const struct line_places *places;
	struct code_lines lines = { 0 };
	const bool has =
		code_lines_of(ctx, &lines, prog, functions, text, NULL, false, &places) == 0 &&
		places->file;

	code_lines_free(&lines);
	return has;
}

int code_lines_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog,
		       const struct functions *functions, const char *text, const char *where)
{
	const struct line_places *places;
	struct code_lines lines = { 0 };
	int line, err = code_lines_of(ctx, &lines, prog, functions, text, NULL, false, &places);
	const size_t file_bytes = item_line_file(text, &line);

	if (!err && !places->has_rows)
		err = no_tables(ctx, prog, text, where);
	else if (!err && !places->file)
		err = unknown_file(ctx, places, text, file_bytes, where);
	else if (!err && text[file_bytes])
		err = unknown_line(ctx, places, text, line);
	else if (!err)
		err = ctx_error(ctx, -EINVAL, "'%s': not one line, such as %s:%d", text, text,
				places->n ? places->list[0].line : 1);
	code_lines_free(&lines);
	return err;
}

/* ---- probes in code -------------------------------------------------------------------------- */

enum { HASHED_BYTES = 16, MAX_NOTE_BYTES = 1 << 28 };

/*
 * The code that a wish has chosen: a function, a phase, a place where a line begins, or a note
 * (note_va). Exactly one of the members for these four is set. The flags say what to measure.
 */
struct chosen {
	const struct function *function;
	const struct gc_phase_place *phase;
	const struct line_place *place; /* points into `lines` of the finder */
	uint64_t note_va, semaphore_va;
	char *name; /* the name of the probe */
	bool is_timed, has_args, wants_args, uses_stack, has_bounds, by_window;
	/*
	 * The user gave the exact name of the code, not a regular expression or the name of a file.
	 */
	bool is_named;
};

struct code_probes {
	struct probe *probes;
	size_t n_probes;
	struct site *sites;
	uint64_t *hashes; /* for each site, the hash of the code at the site */
	size_t n_sites;
	struct chosen *chosen; /* sorted by name of the probe; the elements own these names */
	size_t n_chosen;
	struct functions *functions;
	struct gc_phase_place phases[N_GC_PHASES];
};

struct code_finder {
	struct ocp_ctx *ctx;
	const struct ocp_program *prog;
	struct code_probes *code;
	struct code_sites sites;
	struct code_lines lines;
	const char *left_out; /* the name of the first function that is left out */
	char *why_left_out;
	size_t n_left_out;
	const char *without_args; /* the first function that is measured without its arguments */
	size_t n_without_args;
};

void code_probes_free(struct code_probes *code)
{
	if (!code)
		return;
	for (size_t i = 0; i < code->n_chosen; i++)
		free(code->chosen[i].name);
	for (size_t i = 0; i < code->n_sites; i++)
		free(code->sites[i].window);
	free(code->probes);
	free(code->sites);
	free(code->hashes);
	free(code->chosen);
	functions_free(code->functions);
	free(code);
}

struct probe_set code_probes_set(const struct code_probes *code)
{
	return code ? (struct probe_set){ code->probes, code->n_probes, code->sites, code->n_sites }
		    : (struct probe_set){ 0 };
}

/* ---- finding functions ---------------------------------------------------------------------- */

static int choose_code(struct code_finder *f, const struct chosen *what, struct code_wish *wish,
		       const char *name)
{
	struct code_probes *code = f->code;
	struct chosen *chosen;

	chosen = array_add(code->chosen, code->n_chosen);
	if (!chosen)
		return ctx_no_memory(f->ctx);
	*chosen = *what;
	chosen->name = strdup(name);
	chosen->is_timed = wish->is_timed;
	chosen->has_args = wish->has_args;
	chosen->wants_args = wish->wants_args;
	chosen->uses_stack = wish->uses_stack;
	chosen->has_bounds = wish->has_bounds;
	chosen->by_window = wish->by_window;
	if (!chosen->name) {
		code->n_chosen--;
		return ctx_no_memory(f->ctx);
	}
	wish->was_found = true;
	return 0;
}

static int choose_functions(struct code_finder *f, struct code_wish *wish,
			    const struct function *const *found, size_t n)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = choose_code(f, &(struct chosen){ .function = found[i], .is_named = true },
				  wish, wish->text);
	return err;
}

static int choose_named(struct code_finder *f, struct code_wish *wish)
{
	size_t n;
	const struct function *initialiser;
	const struct function *const *found =
		functions_find(f->code->functions, item_body(wish->text), &n);
	int err;

	if (found)
		return choose_functions(f, wish, found, n);
	err = function_paths_find_initialiser(f->ctx, f->prog->elf, f->code->functions,
					      item_body(wish->text), &initialiser);
	return err ? err : choose_functions(f, wish, &initialiser, initialiser != NULL);
}

static int choose_of_line(struct code_finder *f, struct code_wish *wish)
{
	const struct function **found;
	size_t n;
	int err;

	if (functions_ocaml_count(f->code->functions) == 0)
		return 0;
	err = function_lines_find(f->ctx, f->prog, f->code->functions, wish->text, &found, &n);
	if (!err)
		err = choose_functions(f, wish, found, n);
	free(found);
	return err;
}

static int choose_matching(struct code_finder *f, struct code_wish *wish)
{
	char name[FUNCTION_TEXT_BYTES + sizeof(ITEM_FUNCTION_PREFIX)];
	const struct function *const *all;
	struct str_regexp *re;
	size_t n;
	int err = str_regexp_new(f->ctx, item_body(wish->text), &re);

	if (err)
		return err;
	all = functions_by_name(f->code->functions, &n);
	for (size_t i = 0; !err && i < n; i++) {
		if (!str_regexp_match(re, all[i]->name))
			continue;
		snprintf(name, sizeof(name), ITEM_FUNCTION_PREFIX "%s", all[i]->name);
		err = choose_code(f, &(struct chosen){ .function = all[i] }, wish, name);
	}
	str_regexp_free(re);
	return err;
}

/*
 * Choose a C function. c:NAME is a function of the program; c:LIBRARY:NAME is a function of the
 * file called LIBRARY. Static functions of several sources may have the name: choose all of them.
 */
static int choose_c(struct code_finder *f, struct code_wish *wish)
{
	const char *body = item_body(wish->text), *colon = strchr(body, ':');
	const char *base = base_name(elf_file_name(f->prog->elf));
	const struct function *const *list, *found;
	size_t n;
	int err = 0;

	if (colon ? strncmp(base, body, (size_t)(colon - body)) != 0 || base[colon - body]
		  : f->prog->is_library)
		return 0;
	found = functions_find_c(f->code->functions, colon ? colon + 1 : body);
	list = found ? functions_versions(f->code->functions, found->name, &n) : NULL;
	for (size_t i = 0; list && !err && i < n; i++)
		if (list[i]->version_index == found->version_index)
			err = choose_functions(f, wish, &list[i], 1);
	return err;
}

/*
 * Choose a phase of the garbage collector, if this file contains the collector. The collector is in
 * the program or, if the runtime is a shared library, in that library.
 */
static int choose_phase(struct code_finder *f, struct code_wish *wish)
{
	struct gc_phase_place *phases = f->code->phases;
	struct runtime runtime;
	int err = runtime_recognise(f->ctx, f->prog->elf, &runtime);

	if (err)
		return err == -ENODATA ? 0 : err;
	/* All code of the file is searched: once is enough. */
	if (!phases[0].name)
		err = gc_phases_find(f->ctx, f->prog->elf, &runtime, phases);
	for (size_t i = 0; !err && i < N_GC_PHASES; i++) {
		if (strcmp(phases[i].name, wish->text) != 0)
			continue;
		err = gc_phase_check(f->ctx, f->prog->elf, &runtime, &phases[i]);
		if (!err)
			err = choose_code(f,
					  &(struct chosen){ .phase = &phases[i], .is_named = true },
					  wish, wish->text);
	}
	return err;
}

/*
 * If one of PLACES[0..N) cannot be counted, return the reason; otherwise return NULL. The places
 * can only be counted together: if some were missing, the count of the line would be wrong.
 */
static const char *fault_of(const struct line_place *places, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (places[i].fault)
			return places[i].fault;
	return NULL;
}

static int choose_places(struct code_finder *f, struct code_wish *wish, const char *name,
			 const struct line_place *places, size_t n)
{
	const bool is_named = name == wish->text;
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = choose_code(f, &(struct chosen){ .place = &places[i], .is_named = is_named },
				  wish, name);
	return err;
}

/*
 * WISH names a file without a line. Choose each line of the file that has code, as a probe
 * FILE:LINE. Leave out the lines that cannot be counted, with one warning for all of them.
 */
static int choose_file(struct code_finder *f, struct code_wish *wish,
		       const struct line_places *places)
{
	size_t n, n_left_out = 0;
	const char *why = NULL;
	int err = 0, first = 0;

	for (size_t i = 0; !err && i < places->n; i += n) {
		const int line = places->list[i].line;
		const struct line_place *its = line_places_find(places, line, &n);
		const char *fault = fault_of(its, n);
		char *name;

		if (fault && !n_left_out++) {
			first = line;
			why = fault;
		}
		if (fault)
			continue;
		if (asprintf(&name, "%s:%d", wish->text, line) < 0)
			return ctx_no_memory(f->ctx);
		err = choose_places(f, wish, name, its, n);
		free(name);
	}
	if (n_left_out)
		ctx_log(f->ctx, OCP_LOG_WARN,
			"'%s': %zu lines cannot be counted; the first one is %d: %s", wish->text,
			n_left_out, first, why);
	return err;
}

static int choose_lines(struct code_finder *f, struct code_wish *wish)
{
	const struct line_places *places;
	const struct line_place *its;
	size_t n;
	int line, err;

	if (functions_ocaml_count(f->code->functions) == 0)
		return 0;
	err = code_lines_of(f->ctx, &f->lines, f->prog, f->code->functions, wish->text, wish->spans,
			    wish->by_window, &places);
	if (err)
		return err;
	if (!wish->text[item_line_file(wish->text, &line)])
		return choose_file(f, wish, places);
	its = line_places_find(places, line, &n);
	return choose_places(f, wish, wish->text, its, n);
}

/* Choose the notes that WISH names. BYTES are the contents of SECTION. */
static int choose_noted(struct code_finder *f, struct code_wish *wish, const uint8_t *bytes,
			const struct elf_section *section)
{
	struct foreign_notes *foreign = malloc(sizeof(*foreign));
	struct note_reader reader;
	struct note note;
	int err = foreign ? foreign_notes_open(f->prog->elf, foreign) : ctx_no_memory(f->ctx);

	note_reader_init(&reader, bytes, section->bytes);
	while (!err && note_next(&reader, &note) > 0) {
		struct chosen chosen = { .is_named = true };

		if (!foreign_notes_is(foreign, &note, item_body(wish->text)))
			continue;
		chosen.note_va = foreign_notes_va(foreign, &note);
		if (note.semaphore_va)
			chosen.semaphore_va = note.semaphore_va + (chosen.note_va - note.site_va);
		err = choose_code(f, &chosen, wish, wish->text);
	}
	free(foreign);
	return err;
}

static int choose_note(struct code_finder *f, struct code_wish *wish)
{
	struct elf_section section;
	uint8_t *bytes = NULL;
	int err = elf_file_find_section(f->prog->elf, ".note.stapsdt", SHT_NOTE, &section);

	if (err <= 0)
		return err;
	err = elf_file_read_section(f->prog->elf, &section, MAX_NOTE_BYTES, &bytes);
	if (!err)
		err = choose_noted(f, wish, bytes, &section);
	free(bytes);
	return err;
}

static int choose_all(struct code_finder *f, struct code_wish *wishes, size_t n)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		switch (item_kind_of(wishes[i].text)) {
		case ITEM_FUNCTION:
			err = item_is_function_line(wishes[i].text) ? choose_of_line(f, &wishes[i])
								    : choose_named(f, &wishes[i]);
			break;
		case ITEM_FUNCTION_REGEXP:
			err = choose_matching(f, &wishes[i]);
			break;
		case ITEM_GC_PHASE:
			err = choose_phase(f, &wishes[i]);
			break;
		case ITEM_LINE:
		case ITEM_FILE_LINES:
			err = choose_lines(f, &wishes[i]);
			break;
		case ITEM_NOTE:
			err = choose_note(f, &wishes[i]);
			break;
		default:
			err = choose_c(f, &wishes[i]);
		}
	return err;
}

static uint64_t address_of_chosen(const struct chosen *chosen)
{
	return chosen->function ? chosen->function->va
	       : chosen->place	? chosen->place->va
				: chosen->note_va;
}

/* Compare by the name of the probe, then by address. */
static int compare_chosen(const void *a, const void *b)
{
	const struct chosen *x = a, *y = b;
	const int order = strcmp(x->name, y->name);

	if (order)
		return order;
	return COMPARE(address_of_chosen(x), address_of_chosen(y));
}

/*
 * If several wishes have chosen the same code for the same probe, merge their entries into one with
 * all their flags.
 */
static void join_chosen(struct code_probes *code)
{
	size_t n = 0;

	qsort(code->chosen, code->n_chosen, sizeof(*code->chosen), compare_chosen);
	for (size_t i = 0; i < code->n_chosen; i++) {
		struct chosen *last = n ? &code->chosen[n - 1] : NULL, *next = &code->chosen[i];

		if (!last || compare_chosen(last, next) != 0) {
			code->chosen[n++] = *next;
			continue;
		}
		last->is_timed |= next->is_timed;
		last->has_args |= next->has_args;
		last->wants_args |= next->wants_args;
		last->uses_stack |= next->uses_stack;
		last->has_bounds |= next->has_bounds;
		last->is_named |= next->is_named;
		free(next->name);
	}
	code->n_chosen = n;
}

/* ---- sites ---------------------------------------------------------------------------------- */

/*
 * CHOSEN cannot be measured. If the user gave the exact name of CHOSEN, record an error with the
 * reason WHY. Otherwise leave CHOSEN out, and count it for a warning. Takes ownership of WHY.
 */
static int refuse_chosen(struct code_finder *f, const struct chosen *chosen, char *why)
{
	int err = 0;

	if (chosen->is_named) {
		err = ctx_error(f->ctx, -EOPNOTSUPP, "'%s': %s", chosen->name, why);
	} else if (!f->n_left_out++) {
		f->left_out = chosen->name;
		f->why_left_out = why;
		return 0;
	}
	free(why);
	return err;
}

/*
 * Warn if CHOSEN, an IFUNC, can choose the same code as another IFUNC, as memcpy and memmove can. A
 * hit then does not show which of the two IFUNCs was called.
 */
static int tell_shared(struct code_finder *f, const struct chosen *chosen)
{
	const struct function *other = NULL;
	char names[256] = "";
	int err;

	do {
		err = code_sites_sharing(&f->sites, f->code->functions, chosen->function, &other);
		if (other && strlen(names) + strlen(other->name) + 3 < sizeof(names))
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
				 *names ? ", " : "", other->name);
	} while (!err && other);
	if (*names)
		ctx_log(f->ctx, OCP_LOG_WARN, "'%s': includes calls of %s, which has the same code",
			chosen->name, names);
	return err;
}

static int add_chosen(struct code_finder *f, const struct chosen *chosen, uint32_t probe)
{
	const struct code_needs needs = { .time = chosen->is_timed,
					  .args = chosen->has_args || chosen->wants_args,
					  .may_lack_args = !chosen->has_args,
					  .stack = chosen->uses_stack,
					  .bounds = chosen->has_bounds,
					  .window = chosen->by_window };
	char *why;
	int err;

	if (chosen->note_va)
		err = code_sites_add_note(&f->sites, chosen->note_va, chosen->semaphore_va, probe,
					  &needs, &why);
	else if (chosen->place)
		err = code_sites_add_line(&f->sites, chosen->place, probe, &needs, &why);
	else if (chosen->phase)
		err = code_sites_add_phase(&f->sites, chosen->phase, probe, &needs, &why);
	else
		err = code_sites_add_function(&f->sites, chosen->function, probe, &needs, &why);
	if (!err && !why && chosen->function && chosen->function->is_chosen)
		err = tell_shared(f, chosen);
	if (!err && !why && chosen->function && f->sites.lacks_args && !f->n_without_args++)
		f->without_args = chosen->name;
	return err || !why ? err : refuse_chosen(f, chosen, why);
}

/* Return true if the function of LIST[FIRST..END) that FUNCTION can wrap is at VA. */
static bool has_wrapped(const struct chosen *list, size_t first, size_t end,
			const struct function *function, uint64_t va)
{
	for (size_t j = first; j < end; j++) {
		const struct function *other = list[j].function;

		if (other && other->va == va && other->stamp > function->stamp &&
		    strcmp(other->full_name, function->full_name) == 0)
			return true;
	}
	return false;
}

/*
 * Set *IS to true if function I is a wrapper, else to false. Flambda gives some functions a wrapper
 * of the same name, which calls the function with the parts of a tuple, or with only the arguments
 * that are used. So a call of the wrapper is counted at the wrapped function, and the wrapper needs
 * no site. The wrapped function has a greater stamp than its wrapper. The functions with the
 * indices from FIRST to END - 1 belong to the same probe as function I.
 */
static int is_wrapper(struct code_finder *f, size_t first, size_t end, size_t i, bool *is)
{
	const struct chosen *list = f->code->chosen;
	const struct function *function = list[i].function;
	bool may_wrap = false;
	size_t at = 0;
	uint64_t va;
	int err;

	*is = false;
	if (end - first < 2 || !function || !functions_are_of_flambda(f->code->functions))
		return 0;
	/* Decode the function only if this can matter: a program has thousands of functions. */
	while (!may_wrap && code_sites_next_jump(&f->sites, function, &at, &va))
		may_wrap = has_wrapped(list, first, end, function, va);
	if (!may_wrap)
		return 0;
	err = code_sites_only_jump(&f->sites, function, &va);
	*is = !err && va && has_wrapped(list, first, end, function, va);
	return err;
}

/* Remove the last probe of CODE if all functions of this probe are left out. */
static void drop_empty(struct code_probes *code)
{
	if (code->n_probes && !code->probes[code->n_probes - 1].n_sites)
		code->n_probes--;
}

/*
 * Remove the sites of PROBE, the last one: a function of this name is left out, and the hits of the
 * others alone would be too few for the name.
 */
static void drop_sites(struct code_finder *f, const struct probe *probe)
{
	while (f->sites.n > probe->first_site)
		free(f->sites.sites[--f->sites.n].window);
}

/* Return the index behind the last element of CODE->chosen that has the name of element FIRST. */
static size_t end_of_name(const struct code_probes *code, size_t first)
{
	const struct chosen *list = code->chosen;
	size_t end = first + 1;

	while (end < code->n_chosen && strcmp(list[end].name, list[first].name) == 0)
		end++;
	return end;
}

/* Add the probes and their sites. CHOSEN is sorted by the names of the probes. */
static int add_code_probes(struct code_finder *f)
{
	struct code_probes *code = f->code;
	bool skips, is_left_out = false;
	size_t first = 0, end = 0;
	int err = 0;

	code->probes = calloc(code->n_chosen + 1, sizeof(*code->probes));
	if (!code->probes)
		return ctx_no_memory(f->ctx);
	for (size_t i = 0; !err && i < code->n_chosen; i++) {
		const struct chosen *chosen = &code->chosen[i];
		struct probe *probe;

		if (i == end) {
			drop_empty(code);
			first = i;
			end = end_of_name(code, first);
			is_left_out = false;
			code->probes[code->n_probes++] =
				(struct probe){ .name = chosen->name, .first_site = f->sites.n };
		}
		probe = &code->probes[code->n_probes - 1];
		err = is_wrapper(f, first, end, i, &skips);
		if (!err && !skips && !is_left_out) {
			const size_t n_left_out = f->n_left_out;

			err = add_chosen(f, chosen, (uint32_t)(code->n_probes - 1));
			is_left_out = chosen->function && f->n_left_out > n_left_out;
		}
		if (is_left_out)
			drop_sites(f, probe);
		probe->n_sites = f->sites.n - probe->first_site;
	}
	drop_empty(code);
	return err;
}

/* ---- the file ------------------------------------------------------------------------------- */

/*
 * If a site of PROG has the same address as a code site, copy its tracers' semaphore to the code
 * site. The kernel accepts two uprobes at one place only if both have the same semaphore, and the
 * place where a function is counted can be the site of a probe.
 */
static int take_semaphores(struct code_finder *f)
{
	size_t n;
	const struct site **sites = sites_by_address(f->prog, true, &n);

	if (!sites)
		return ctx_no_memory(f->ctx);
	for (size_t i = 0; n && i < f->sites.n; i++) {
		const struct site *site = &f->sites.sites[i];
		const struct site **found =
			bsearch(&site, sites, n, sizeof(void *), compare_site_addresses);

		if (found)
			f->sites.sites[i].tracer_semaphore_va = (*found)->tracer_semaphore_va;
	}
	free(sites);
	return 0;
}

/*
 * Set *OFF to the file offset of VA, and *HASH to the hash of the first bytes of the code there. If
 * a later hash is different, the code has changed.
 */
static bool hash_code(const struct elf_file *elf, uint64_t va, uint64_t *off, uint64_t *hash)
{
	uint8_t code[HASHED_BYTES];

	if (!elf_file_va_to_off(elf, va, off) || elf_file_read(elf, *off, code, sizeof(code)))
		return false;
	*hash = hash_bytes(HASH_START, code, sizeof(code));
	return true;
}

/*
 * Hash the code at all sites. Take the code from the bytes that were read for decoding, since
 * thousands of separate reads would take longer.
 */
static int hash_sites(struct code_finder *f)
{
	struct code_probes *code = f->code;
	struct code_bytes bytes;
	uint64_t off;

	code->hashes = calloc(f->sites.n + 1, sizeof(*code->hashes));
	if (!code->hashes)
		return ctx_no_memory(f->ctx);
	for (size_t i = 0; i < f->sites.n; i++) {
		const uint64_t va = f->sites.sites[i].va;

		if (code_file_bytes(f->sites.file, true, va, HASHED_BYTES, &bytes) == 0)
			code->hashes[i] = hash_bytes(HASH_START, bytes.bytes, HASHED_BYTES);
		else if (!hash_code(f->prog->elf, va, &off, &code->hashes[i]))
			return ctx_error(f->ctx, -EBADMSG, "%s: the file ends within its code",
					 elf_file_name(f->prog->elf));
	}
	return 0;
}

bool code_probes_are_in(const struct code_probes *code, const struct ocp_program *prog,
			const struct ocp_program *now)
{
	uint64_t off, off_now, hash;

	for (size_t i = 0; code && i < code->n_sites; i++)
		if (!elf_file_va_to_off(prog->elf, code->sites[i].va, &off) ||
		    !hash_code(now->elf, code->sites[i].va, &off_now, &hash) || off != off_now ||
		    hash != code->hashes[i])
			return false;
	return true;
}

void code_probes_extent(const struct code_probes *code, size_t i, uint64_t *va, uint64_t *bytes)
{
	const uint64_t site = code->sites[i].va;
	const struct function *function = functions_at(code->functions, site);

	*va = function ? function->va : site;
	*bytes = function ? function->bytes : HASHED_BYTES;
}

static int find_code_probes(struct code_finder *f, struct code_wish *wishes, size_t n)
{
	int err = functions_read(f->ctx, f->prog->elf, &f->code->functions);

	if (err == -ENODATA)
		return 0;
	if (!err)
		err = choose_all(f, wishes, n);
	if (err || !f->code->n_chosen)
		return err;
	join_chosen(f->code);
	err = code_sites_open(f->ctx, f->prog->elf, f->code->functions, &f->sites);
	if (!err)
		err = add_code_probes(f);
	if (!err)
		err = take_semaphores(f);
	if (!err)
		err = hash_sites(f);
	f->code->sites = f->sites.sites;
	f->code->n_sites = f->sites.n;
	code_sites_close(&f->sites);
	return err;
}

static void tell_left_out(const struct code_finder *f)
{
	if (f->n_left_out)
		ctx_log(f->ctx, OCP_LOG_WARN,
			"%s: %zu functions that match cannot be measured; the first one is %s: %s",
			elf_file_name(f->prog->elf), f->n_left_out, f->left_out, f->why_left_out);
	if (f->n_without_args)
		ctx_log(f->ctx, OCP_LOG_WARN,
			"%s: %zu function%s measured without %s arguments, since a jump does not "
			"fit where these are in registers; the first one is %s",
			elf_file_name(f->prog->elf), f->n_without_args,
			f->n_without_args == 1 ? " is" : "s are",
			f->n_without_args == 1 ? "its" : "their", f->without_args);
}

int code_probes_find(struct ocp_ctx *ctx, const struct ocp_program *prog, struct code_wish *wishes,
		     size_t n, struct code_probes **out)
{
	struct code_finder f = { .ctx = ctx, .prog = prog };
	int err;

	*out = NULL;
	f.code = calloc(1, sizeof(*f.code));
	err = f.code ? find_code_probes(&f, wishes, n) : ctx_no_memory(ctx);
	if (!err)
		tell_left_out(&f);
	code_lines_free(&f.lines);
	free(f.why_left_out);
	if (err || !f.code->n_sites) {
		code_probes_free(f.code);
		return err;
	}
	*out = f.code;
	return 0;
}

/* ---- names that are not there --------------------------------------------------------------- */

/* Return the part of NAME after the last dot, such as "find". */
static const char *last_name(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && dot[1] ? dot + 1 : name;
}

/*
 * Find names that are similar to the name that the user typed or, if there are none, functions that
 * have this name in other modules.
 */
static void find_near(struct suggestions *near, const struct functions *functions, bool is_c)
{
	size_t n;
	const struct function *all = functions_list(functions, &n);

	for (size_t i = 0; i < n; i++)
		if ((all[i].language == FUNCTION_OCAML) != is_c)
			suggestions_offer(near, all[i].name);
	if (is_c || near->n)
		return;
	for (size_t i = 0; i < n && near->n < SUGGESTIONS; i++)
		if (all[i].language == FUNCTION_OCAML && all[i].is_unique &&
		    strcmp(last_name(all[i].name), last_name(near->word)) == 0)
			near->near[near->n++] = all[i].name;
}

/*
 * Add a hint with the name in NEAR that is closest to the requested name, and the names whose edit
 * distance is larger by at most 1.
 */
static void hint_at(struct ocp_ctx *ctx, const struct suggestions *near, const char *prefix,
		    size_t prefix_bytes)
{
	char text[SUGGESTIONS * 200] = "";
	size_t n = near->n, used = 0;

	while (n > 1 && near->distances[n - 1] > near->distances[0] + 1)
		n--;
	for (size_t i = 0; i < n && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s'%.*s%s'",
					 i == 0	     ? ""
					 : i + 1 < n ? ", "
						     : " or ",
					 (int)prefix_bytes, prefix, near->near[i]);
	ctx_hint(ctx, "did you mean %s?", text);
}

/*
 * No function has the version that is given in NAME. Add a hint with the versions that exist.
 * Return false if there are none.
 */
static bool hint_at_versions(struct ocp_ctx *ctx, const struct functions *functions,
			     const char *name)
{
	const struct function *const *found;
	char text[512] = "";
	size_t n;

	snprintf(text, sizeof(text), "%.*s", (int)strcspn(name, "@"), name);
	found = functions_versions(functions, text, &n);
	*text = '\0';
	for (size_t i = 0; found && i < n; i++)
		if (found[i]->version &&
		    strlen(text) + strlen(found[i]->version) + 3 < sizeof(text))
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
				 *text ? ", " : "", found[i]->version);
	if (*text)
		ctx_hint(ctx, "it has the versions %s", text);
	return *text;
}

/*
 * If the compiler has inlined the function that TEXT names wherever it is called, record an error
 * that says so, with a hint, and set *IS to true.
 */
static int say_inlined(struct ocp_ctx *ctx, const struct ocp_program *prog, const char *text,
		       const char *where, bool *is)
{
	struct function_path_place place;
	int err = function_paths_find_inlined(ctx, prog->elf, item_body(text), &place);

	*is = place.file != NULL;
	if (*is) {
		ctx_set_error(ctx, "'%s': %s has its code only where it was inlined", text, where);
		ctx_hint(ctx, "its lines can be counted: '%s%s:%u'", ITEM_LINE_PREFIX, place.file,
			 place.line);
	}
	free(place.file);
	return err;
}

static int suggest(struct ocp_ctx *ctx, const struct functions *functions, const char *text,
		   const char *where)
{
	const bool is_c = item_kind_of(text) == ITEM_C_FUNCTION;
	const char *colon = is_c ? strchr(item_body(text), ':') : NULL;
	const char *body = colon ? colon + 1 : item_body(text);
	const enum functions_source source = functions_source(functions);
	struct suggestions near = suggestions_for(body);

	find_near(&near, functions, is_c);
	if (is_c && source == FUNCTIONS_WITHOUT_SYMBOLS)
		return ctx_error(ctx, -ENOENT,
				 "'%s': %s has no symbols, so its functions of C have no names",
				 text, where);
	ctx_set_error(ctx, "'%s': no such function in %s", text, where);
	if (is_c && strchr(body, '@') && hint_at_versions(ctx, functions, body))
		return -ENOENT;
	if (near.n)
		hint_at(ctx, &near, text, (size_t)(body - text));
	else if (is_c && source == FUNCTIONS_OF_DYNSYM)
		ctx_hint(ctx, "it is stripped: only its global functions of C have names");
	else if (is_c)
		ctx_hint(ctx, "`nm` lists them, and c:LIBRARY:NAME names those of libraries");
	else
		ctx_hint(ctx, "`ocaml-probes functions` lists them");
	return -ENOENT;
}

/*
 * The regular expression TEXT has described no function that is measured. Record the error that no
 * function of FUNCTIONS matches, or that none of those that match can be measured.
 */
static int unknown_pattern(struct ocp_ctx *ctx, const struct functions *functions, const char *text,
			   const char *where)
{
	struct str_regexp *re;
	size_t n, n_matching = 0;
	const struct function *const *all = functions_by_name(functions, &n);
	int err = str_regexp_new(ctx, item_body(text), &re);

	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		n_matching += str_regexp_match(re, all[i]->name);
	str_regexp_free(re);
	if (n_matching)
		return ctx_error(ctx, -ENOENT,
				 "regular expression '%s': none of the functions of %s that match "
				 "can be measured",
				 item_body(text), where);
	return ctx_error(ctx, -ENOENT, "regular expression '%s': matches no function of %s",
			 item_body(text), where);
}

static int unknown_phase(struct ocp_ctx *ctx, const char *text)
{
	struct suggestion suggestion = suggestion_for(text);
	char names[128] = "";

	for (size_t i = 0; i < N_GC_PHASES; i++) {
		suggestion_offer(&suggestion, gc_phase_names[i]);
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 i ? ", " : "", gc_phase_names[i]);
	}
	ctx_set_error(ctx, "'%s': no such phase of the collector", text);
	if (suggestion.best)
		ctx_hint(ctx, "did you mean '%s'?", suggestion.best);
	else
		ctx_hint(ctx, "the phases are %s", names);
	return -ENOENT;
}

int code_probes_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog, const char *text,
			const char *where)
{
	struct functions *functions;
	struct runtime runtime;
	bool is_inlined = false;
	int err;

	if (item_kind_of(text) == ITEM_GC_PHASE) {
		err = runtime_recognise(ctx, prog->elf, &runtime);
		return err ? err : unknown_phase(ctx, text);
	}
	if (item_kind_of(text) == ITEM_NOTE)
		return ctx_error(ctx, -ENOENT, "'%s': %s has no such note (.note.stapsdt)", text,
				 where);
	if (item_kind_of(text) == ITEM_C_FUNCTION && strchr(item_body(text), ':') &&
	    !prog->is_library)
		return ctx_error(ctx, -ENOENT, "'%s': no such library in %s, or no such function",
				 text, where);
	err = functions_read(ctx, prog->elf, &functions);
	if (err)
		return err;
	if (item_kind_of(text) != ITEM_C_FUNCTION)
		err = functions_require_ocaml(ctx, functions, where);
	if (!err && item_kind_of(text) == ITEM_FUNCTION && !item_is_function_line(text))
		err = say_inlined(ctx, prog, text, where, &is_inlined);
	if (!err && is_inlined)
		err = -ENOENT;
	else if (!err && (item_kind_of(text) == ITEM_LINE ||
			  item_kind_of(text) == ITEM_FILE_LINES || item_is_function_line(text)))
		err = code_lines_unknown(ctx, prog, functions, text, where);
	else if (!err && item_kind_of(text) == ITEM_FUNCTION_REGEXP)
		err = unknown_pattern(ctx, functions, text, where);
	else if (!err)
		err = suggest(ctx, functions, text, where);
	functions_free(functions);
	return err;
}
