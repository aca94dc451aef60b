// SPDX-License-Identifier: MIT
/*
 * `annotate`: print the lines of a source file, each with the number of times that execution began
 * the line. Lines are counted as by `attach --count=line:FILE`.
 */
#include "tool/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/code_images.h"
#include "program/item.h"
#include "tool/annotation.h"
#include "tool/measure_session.h"

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
		say("warning: %s: code of it that was inlined elsewhere is not counted, because "
		    "another file has the same name there",
		    a->path);
}

/*
 * Read the source file, after code of it was found in IMAGE. Then find the places of its lines that
 * no OCaml pattern covers.
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
				       options->args[0], LINE_PATH, &a->spans, &a->places);
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
				       options->args[0], LINE_PATH, NULL, &a->places);
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
	int code, err = code_images_read(options->ctx, options->pid, images);

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
