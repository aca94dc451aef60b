// SPDX-License-Identifier: MIT
/*
 * `annotate`: print the lines of a source file, each with the number of times that execution began
 * the line. Lines are counted as by `attach --count=line:FILE`.
 */
#include "tool/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/ctx.h"
#include "base/search.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "code/line_places.h"
#include "code/patterns.h"
#include "process/code_images.h"
#include "program/item.h"
#include "tool/measure_limit.h"
#include "tool/json.h"
#include "tool/measure_session.h"
#include "tool/writer.h"

/* The text of a source file, and the places of its lines. */

struct annotation {
	char *path; /* the source file that was read */
	struct stat st;
	char *text;	    /* ends with a newline, if it is not empty */
	const char **lines; /* pointers into text; lines[n_lines] is the end of the text */
	size_t n_lines;
	struct line_span *patterns;
	struct line_spans spans; /* `patterns` with their number */
	struct line_places places;
	const char *exe;
	pid_t pid;
	bool is_quiet;
};

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

/*
 * Read the source FILE. If FILE does not exist and is a bare name, read COMPILED instead: the path
 * that the source had when the program was compiled (NULL: unknown).
 */
static int annotation_read(struct ocp_ctx *ctx, const char *file, const char *compiled,
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

static void annotation_free(struct annotation *a)
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
	const char *fault, *no_window; /* why the line is not counted; by the engine `inside` */
};

static int compare_counted(const void *a, const void *b)
{
	const struct counted_line *x = a, *y = b;

	return COMPARE(x->line, y->line);
}

/*
 * Return the lines that have code, in ascending order, with their counts. The caller frees the
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
		if (place->no_window)
			lines[*n - 1].no_window = place->no_window;
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
 * Write a line with tabs expanded to blanks, since the columns before the line shift its tab stops.
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
	const double cost_ns = ocp_sample_cost_per_hit_ns(report->sample, report->costs);
	char share[SHARE_BYTES];

	if (!a->is_quiet)
		say("%.3f s; CPU overhead: %.0f hits/s x %.*f ns per hit = %.2f%% of a core%s",
		    (double)report->at_ns / 1e9, report_rate(report, hits),
		    decimals_of_cost(cost_ns), cost_ns, 100 * report_cost(report),
		    share_text(share, report->share));
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

/* Return why LINE is not counted; NULL if only a warning gives the reason. */
static const char *why_not_counted(const struct counted_line *line, const struct report *report)
{
	const bool is_inside = report->engine && strcmp(report->engine, "inside") == 0;

	return is_inside && !line->fault ? line->no_window : line->fault;
}

static struct json_object *line_json(const struct counted_line *line, const struct report *report)
{
	struct json_object *object = json_object_new_object();

	json_add_int(object, "line", line->line);
	json_object_object_add(object, "hits",
			       line->is_counted ? json_object_new_uint64(line->hits) : NULL);
	if (line->is_counted)
		json_add_double(object, "hits_per_s", report_rate(report, line->hits));
	else
		json_add_string(object, "reason", why_not_counted(line, report));
	return object;
}

static void write_lines_json(const struct report *report)
{
	const struct annotation *a = report->data;
	struct json_object *top = json_object_new_object(), *array = json_object_new_array();
	size_t n;
	struct counted_line *lines = count_lines(report, &n);

	json_add_int(top, "version", JSON_VERSION);
	json_add_int(top, "pid", (int)a->pid);
	json_add_string(top, "exe", a->exe);
	json_add_string(top, "file", a->places.file);
	json_add_string(top, "source", a->path);
	json_add_double(top, "elapsed_s", (double)report->at_ns / 1e9);
	for (size_t i = 0; lines && i < n; i++)
		json_object_array_add(array, line_json(&lines[i], report));
	json_object_object_add(top, "lines", array);
	json_add_double(top, "cost_per_hit_ns",
			ocp_sample_cost_per_hit_ns(report->sample, report->costs));
	json_add_double(top, "cpu_overhead", report_cost(report));
	json_print(top, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	free(lines);
	fflush(stdout);
}

const struct writer annotation_text_writer = { .write = write_text };
const struct writer annotation_json_writer = { .write = write_lines_json };

/* ---- which lines ---------------------------------------------------------------------------- */

static int unknown_source(const struct options *options, const struct code_images *images,
			  const char *nearest, bool has_rows)
{
	struct ocp_ctx *ctx = options->ctx;

	if (!has_rows)
		return line_places_no_tables(ctx, images->images[0].elf, images->exe_path);
	ctx_error(ctx, -ENOENT, "'%s': %s has no code of a source file of this name",
		  options->args[0], images->exe_path);
	if (nearest)
		ctx_hint(ctx, "did you mean '%s'?", nearest);
	else
		ctx_hint(ctx, "`ocaml-probes functions` shows the source files");
	return -ENOENT;
}

/*
 * Warn if the source in A seems to differ from the source that the program was compiled from. IMAGE
 * contains the code.
 */
static void warn_of_source(const struct annotation *a, const struct code_image *image)
{
	const struct line_places *places = &a->places;
	const int last = places->n ? places->list[places->n - 1].line : 0;
	struct stat st;

	if (a->is_quiet)
		return;
	if ((size_t)last > a->n_lines)
		say("warning: %s: has %zu lines, but the program has code of its line %d", a->path,
		    a->n_lines, last);
	else if (fstat(image->fd, &st) == 0 && a->st.st_mtim.tv_sec > st.st_mtim.tv_sec)
		say("warning: %s: is newer than %s: its lines may have changed", a->path,
		    image->path);
	if (places->lacks_inlined)
		say("warning: %s: its code that was inlined elsewhere is not counted, because "
		    "another file has the same name there",
		    a->path);
}

/*
 * Read the source file, of which IMAGE contains code. Then find the places of all lines of the
 * source, except places in OCaml patterns.
 */
static int take_image(const struct options *options, const struct code_image *image,
		      struct annotation *a)
{
	int err;

	if (a->places.other)
		return ctx_error(options->ctx, -EINVAL,
				 "'%s': several files have this name: %s, %s", options->args[0],
				 a->places.file, a->places.other);
	err = annotation_read(options->ctx, options->args[0], a->places.file, a);
	line_places_free(&a->places);
	if (!err)
		err = line_places_read(options->ctx, image->elf, image->fd, image->functions,
				       options->args[0], LINE_PATH, &a->spans, true, &a->places);
	if (!err)
		warn_of_source(a, image);
	return err;
}

/* Use the first of IMAGES that contains code of the source. */
static int choose_image(const struct options *options, const struct code_images *images,
			struct annotation *a)
{
	char *nearest = NULL;
	bool has_rows = false, is_found = false;
	int err = 0;

	for (size_t i = 0; i < images->n; i++) {
		const struct code_image *image = &images->images[i];

		err = line_places_read(options->ctx, image->elf, image->fd, image->functions,
				       options->args[0], LINE_PATH, NULL, false, &a->places);
		is_found = !err && a->places.file;
		if (is_found)
			err = take_image(options, image, a);
		if (err || is_found)
			break;
		has_rows |= a->places.has_rows;
		if (!nearest && a->places.nearest)
			nearest = strdup(a->places.nearest);
		line_places_free(&a->places);
	}
	if (!err && !is_found)
		err = unknown_source(options, images, nearest, has_rows);
	free(nearest);
	return err;
}

/* Request counts of the lines, under the file name in the debug information. */
static int ask_for_lines(struct options *options, const struct annotation *a)
{
	char *item;
	int err = asprintf(&item, "%s%s", ITEM_LINE_PREFIX, a->places.file) < 0;

	if (!err) {
		err = items_add(&options->request.counted, ITEM_FILE_LINES, item);
		free(item);
	}
	options->request.spans = &a->spans;
	options->n_args = 0; /* the source file: no command is run */
	return err ? ctx_no_memory(options->ctx) : 0;
}

/* ---- measuring ------------------------------------------------------------------------------ */

static int measure_lines(struct options *options, struct ocp_process *proc,
			 const struct annotation *annotation)
{
	const pid_t tgid = ocp_process_tgid(proc);
	struct measure_session measure = { 0 };
	struct session session = { 0 };
	int code = session_open(&session, &tgid, 1);

	if (code == EXIT_DONE)
		code = measure_open(&measure, options, &proc, 1);
	if (code == EXIT_DONE) {
		measure.writer = options->json ? &annotation_json_writer : &annotation_text_writer;
		measure.writer_data = annotation;
		measure.has_lines = true;
		code = measure_attach(&measure);
	}
	if (code == EXIT_DONE)
		code = measure_wait(&measure, &session);
	measure_close(&measure);
	session_close(&session);
	return code;
}

static int annotate(struct options *options, struct code_images *images)
{
	struct annotation annotation = { .pid = options->pid, .is_quiet = options->quiet };
	struct ocp_process *proc = NULL;
	int code, err;

	progress_begin(options, "reading");
	err = code_images_read(options->ctx, options->pid, images);
	if (!err)
		err = choose_image(options, images, &annotation);
	if (!err)
		err = ask_for_lines(options, &annotation);
	if (!err)
		err = ocp_process_open(options->ctx, options->pid, &proc);
	annotation.exe = images->exe_path;
	code = err ? say_error(options->ctx, err) : measure_lines(options, proc, &annotation);
	ocp_process_free(proc);
	annotation_free(&annotation);
	return code;
}

static int run_annotate(struct options *options)
{
	struct code_images images = { 0 };
	int code;

	if (!options->pid)
		return say_usage(&command_annotate, "-pid is required");
	if (options->n_args == 0)
		return say_usage(&command_annotate, "a source file is required");
	if (options->n_args > 1)
		return say_usage(&command_annotate, "'%s': one source file is enough",
				 options->args[1]);
	if (options->engine == ENGINE_INSIDE && measure_options_need_bpf(options))
		return say_usage(&command_annotate, "--engine inside excludes %s",
				 measure_options_need_bpf(options));
	code = annotate(options, &images);
	code_images_free(&images);
	return code;
}

const struct command command_annotate = {
	.name = "annotate",
	.help = &help_annotate,
	.takes_words = true,
	.takes_running = true,
	.run = run_annotate,
};
