// SPDX-License-Identifier: MIT
#include "tool/annotation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/search.h"
#include "cli/cli.h"
#include "code/patterns.h"
#include "program/item.h"
#include "tool/cpu_shares.h"

enum { MAX_SOURCE_BYTES = 64 << 20 };

/* ---- the source ----------------------------------------------------------------------------- */

/* Open PATH, which must be a regular file. Returns a negative errno if it cannot be opened. */
static int open_source(const char *path, struct stat *st)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, st) != 0)
		err = -errno;
	else if (!S_ISREG(st->st_mode))
		err = S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL;
	else if (st->st_size > MAX_SOURCE_BYTES)
		err = -EFBIG;
	if (err)
		close(fd);
	return err ? err : fd;
}

static int read_source_text(struct ocp_ctx *ctx, int fd, struct annotation *a)
{
	const size_t room = (size_t)a->st.st_size;
	size_t n = 0;
	ssize_t got = 1;

	a->text = malloc(room + 2);
	if (!a->text)
		return ctx_no_memory(ctx);
	while (n < room && got > 0) {
		got = read(fd, a->text + n, room - n);
		n += got > 0 ? (size_t)got : 0;
	}
	if (got < 0)
		return ctx_error(ctx, -errno, "%s: %s", a->path, strerror(errno));
	if (n && a->text[n - 1] != '\n')
		a->text[n++] = '\n';
	a->text[n] = '\0';
	for (size_t i = 0; i < n; i++)
		a->n_lines += a->text[i] == '\n';
	a->lines = calloc(a->n_lines + 1, sizeof(*a->lines));
	if (!a->lines)
		return ctx_no_memory(ctx);
	a->lines[0] = a->text;
	for (size_t i = 0, line = 0; i < n; i++)
		if (a->text[i] == '\n')
			a->lines[++line] = a->text + i + 1;
	return 0;
}

static int find_patterns(struct ocp_ctx *ctx, struct annotation *a)
{
	for (size_t i = 0; i < a->n_lines; i++) {
		struct pattern_reader reader = { .text = a->lines[i],
						 .at = a->lines[i],
						 .end = a->lines[i + 1] - 1,
						 .is_first = true };
		struct line_span span = { .line = (int)i + 1 }, *new;

		while (pattern_next(&reader, &span.from, &span.to)) {
			new = array_add(a->patterns, a->spans.n);
			if (!new)
				return ctx_no_memory(ctx);
			*new = span;
		}
	}
	a->spans.list = a->patterns;
	return 0;
}

int annotation_read(struct ocp_ctx *ctx, const char *file, const char *compiled,
		    struct annotation *a)
{
	int fd = open_source(file, &a->st), err;
	const char *path = file;

	if (fd == -ENOENT && compiled && !strchr(file, '/')) {
		path = compiled;
		fd = open_source(path, &a->st);
	}
	if (fd < 0 && path != file)
		return ctx_error(ctx, -ENOENT, "%s: not in this directory, and %s: %s", file, path,
				 strerror(-fd));
	if (fd < 0)
		return ctx_error(ctx, fd == -EINVAL ? -EIO : fd, "%s: %s", file,
				 fd == -EINVAL ? "not a regular file" : strerror(-fd));
	a->path = strdup(path);
	err = a->path ? read_source_text(ctx, fd, a) : ctx_no_memory(ctx);
	close(fd);
	return err ? err : find_patterns(ctx, a);
}

void annotation_free(struct annotation *a)
{
	line_places_free(&a->places);
	free(a->path);
	free(a->text);
	free(a->lines);
	free(a->patterns);
	*a = (struct annotation){ 0 };
}

/* ---- counts --------------------------------------------------------------------------------- */

/* A line that has code. */
struct counted_line {
	int line;
	bool is_counted;
	uint64_t hits;
	const char *fault; /* why the line is not counted */
};

static int compare_counted(const void *a, const void *b)
{
	const struct counted_line *x = a, *y = b;

	return COMPARE(x->line, y->line);
}

/*
 * Return the lines that have places, in ascending order, with their counts. The caller frees the
 * array. Return NULL if memory runs out.
 */
static struct counted_line *count_lines(const struct report *report, size_t *n)
{
	const struct annotation *a = report->data;
	struct counted_line *lines = calloc(a->places.n + 1, sizeof(*lines));

	*n = 0;
	for (size_t i = 0; lines && i < a->places.n; i++) {
		const struct line_place *place = &a->places.list[i];

		if (!*n || lines[*n - 1].line != place->line)
			lines[(*n)++].line = place->line;
		if (place->fault)
			lines[*n - 1].fault = place->fault;
	}
	for (size_t i = 0; lines && i < ocp_sample_hits_count(report->sample); i++) {
		const struct ocp_hits *row = ocp_sample_hits(report->sample, i);
		struct counted_line asked = { 0 }, *found;

		item_line_file(row->probe, &asked.line);
		found = bsearch(&asked, lines, *n, sizeof(*lines), compare_counted);
		if (!found)
			continue;
		found->is_counted = true;
		found->hits = row->hits;
	}
	return lines;
}

/* ---- text ----------------------------------------------------------------------------------- */

enum { TAB = 8 };

/*
 * Write a line, with tabs expanded to blanks: the text does not start at a tab stop of the
 * terminal.
 */
static void print_line(const char *text, const char *end)
{
	size_t column = 0;
	char piece[256];

	while (text < end) {
		size_t n = 0;

		for (; text < end && *text != '\t' && n < sizeof(piece) - 1; text++) {
			piece[n++] = *text;
			column += ((unsigned char)*text & 0xc0) != 0x80;
		}
		piece[n] = '\0';
		print_text(piece);
		if (text == end || *text != '\t')
			continue;
		printf("%*s", (int)(TAB - column % TAB), "");
		column += TAB - column % TAB;
		text++;
	}
	putchar('\n');
}

static void print_count(const struct counted_line *line, int width)
{
	if (!line)
		printf("%*s  ", width, "");
	else if (line->is_counted)
		printf("%*" PRIu64 "  ", width, line->hits);
	else
		printf("%*s  ", width, "?");
}

static void tell_cost(const struct report *report)
{
	const struct annotation *a = report->data;
	const uint64_t hits = ocp_sample_all_hits(report->sample);
	char share[SHARE_BYTES];

	if (!a->is_quiet)
		say("%.3f s; CPU overhead: %.0f hits/s x %.0f ns per hit = %.2f%% of a core%s",
		    (double)report->at_ns / 1e9, report_rate(report, hits),
		    ocp_sample_cost_per_hit_ns(report->sample, report->costs),
		    100 * report_cost(report), share_text(share, report->share));
}

static void write_text(const struct report *report)
{
	enum { MIN_WIDTH = 9 };
	const struct annotation *a = report->data;
	struct counted_line *lines;
	size_t n, at = 0;
	int width = MIN_WIDTH;

	lines = count_lines(report, &n);
	if (!lines) {
		say("out of memory");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const int digits = snprintf(NULL, 0, "%" PRIu64, lines[i].hits);

		width = digits > width ? digits : width;
	}
	for (size_t i = 0; i < a->n_lines; i++) {
		const bool has_code = at < n && lines[at].line == (int)i + 1;

		print_count(has_code ? &lines[at] : NULL, width);
		print_line(a->lines[i], a->lines[i + 1] - 1);
		at += has_code;
	}
	free(lines);
	fflush(stdout);
	tell_cost(report);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static struct json_object *line_json(const struct counted_line *line, const struct report *report)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "line", json_object_new_int(line->line));
	json_object_object_add(object, "hits",
			       line->is_counted ? json_object_new_uint64(line->hits) : NULL);
	if (line->is_counted)
		json_object_object_add(object, "hits_per_s",
				       json_object_new_double(report_rate(report, line->hits)));
	else
		json_object_object_add(object, "reason",
				       line->fault ? json_object_new_string(line->fault) : NULL);
	return object;
}

static void write_lines_json(const struct report *report)
{
	const struct annotation *a = report->data;
	struct json_object *top = json_object_new_object(), *array = json_object_new_array();
	size_t n;
	struct counted_line *lines = count_lines(report, &n);

	json_object_object_add(top, "version", json_object_new_int(JSON_VERSION));
	json_object_object_add(top, "pid", json_object_new_int((int)a->pid));
	json_object_object_add(top, "exe", json_object_new_string(a->exe));
	json_object_object_add(top, "file", json_object_new_string(a->places.file));
	json_object_object_add(top, "source", json_object_new_string(a->path));
	json_object_object_add(top, "elapsed_s",
			       json_object_new_double((double)report->at_ns / 1e9));
	for (size_t i = 0; lines && i < n; i++)
		json_object_array_add(array, line_json(&lines[i], report));
	json_object_object_add(top, "lines", array);
	json_object_object_add(
		top, "cost_per_hit_ns",
		json_object_new_double(ocp_sample_cost_per_hit_ns(report->sample, report->costs)));
	json_object_object_add(top, "cpu_overhead", json_object_new_double(report_cost(report)));
	puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN |
							 JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(top);
	free(lines);
	fflush(stdout);
}

const struct writer annotation_text_writer = { .write = write_text };
const struct writer annotation_json_writer = { .write = write_lines_json };
