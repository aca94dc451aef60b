// SPDX-License-Identifier: MIT
#include "program/code_lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "program/item.h"

/* When converting a site, the post-linker overwrites at most this many bytes. */
enum { MARKER_BYTES = 32 };

struct code_source {
	char *file;
	struct line_places places;
};

void code_lines_free(struct code_lines *lines)
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
 * Return the last of SITES[0..N), which are sorted by address, that begins below VA; NULL if there
 * is none.
 */
static const struct site *site_below(const struct site *const *sites, size_t n, uint64_t va)
{
	const size_t next = SEARCH(i, n, sites[i]->va < va);

	return next ? sites[next - 1] : NULL;
}

/*
 * Mark the places that are inside a probe's site as faulty: enabling or disabling the probe writes
 * into the site, and a uprobe would write there, too.
 */
static int refuse_in_sites(struct ocp_ctx *ctx, const struct ocp_program *prog,
			   struct line_places *places)
{
	const struct site **sites = calloc(prog->n_sites + 1, sizeof(void *));
	size_t n = 0;

	if (!sites)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < prog->n_sites; i++)
		if (prog->sites[i].has_code)
			sites[n++] = &prog->sites[i];
	qsort(sites, n, sizeof(void *), compare_site_addresses);
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
		       struct code_source *source)
{
	int err = line_places_read(ctx, prog->elf, prog->fd, functions, source->file, LINE_FILE,
				   spans, &source->places);

	if (err)
		return err;
	if (source->places.other)
		return ctx_error(ctx, -EINVAL, "'%s%s': several files have this name: %s, %s",
				 ITEM_LINE_PREFIX, source->file, source->places.file,
				 source->places.other);
	if (source->places.lacks_inlined)
		ctx_log(ctx, OCP_LOG_WARN,
			"'%s%s': code of it that was inlined elsewhere is not counted, because "
			"another file has the same name there",
			ITEM_LINE_PREFIX, source->file);
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

int code_lines_of(struct ocp_ctx *ctx, struct code_lines *lines, const struct ocp_program *prog,
		  const struct functions *functions, const char *text,
		  const struct line_spans *spans, const struct line_places **out)
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
		err = read_source(ctx, prog, functions, spans, found);
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
		ctx_hint(ctx, "did you mean '%s%s%s'?", ITEM_LINE_PREFIX, places->nearest,
			 text + file_bytes);
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
	const bool has = code_lines_of(ctx, &lines, prog, functions, text, NULL, &places) == 0 &&
			 places->file;

	code_lines_free(&lines);
	return has;
}

int code_lines_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog,
		       const struct functions *functions, const char *text, const char *where)
{
	const struct line_places *places;
	struct code_lines lines = { 0 };
	int line, err = code_lines_of(ctx, &lines, prog, functions, text, NULL, &places);
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
