// SPDX-License-Identifier: MIT
/*
 * The conversion of an executable. Each step finishes before the next one begins:
 *
 *	markers		find the probes (dormant/marker.c)
 *	scan		find each instruction that loads a marker's address, check the code around
 *			it, and find the places of the arguments (dormant/code_scan.c)
 *	semaphores	choose their addresses (layout.c, semaphores.c)
 *	report		report all failures; with --strict they end the conversion
 *	apply		change the code in place: sites, queries, erased stores of arguments
 *	layout		rebuild the file, with semaphores, notes, places and symbols
 *
 * The build-id stays the same. It identifies the debug information of the program, and this
 * information is still right: no code or data has moved, only some instructions were replaced in
 * place. With a different build-id, tools would not find debug files that were split off before the
 * conversion.
 */
#include "link/convert.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/plural.h"
#include "program/arg_places.h"
#include "program/dormant/code_scan.h"
#include "program/dormant/external.h"
#include "program/dormant/marker.h"
#include "link/arg_notes.h"
#include "link/layout.h"
#include "link/notes.h"
#include "link/places.h"
#include "link/semaphores.h"
#include "link/x86_write.h"

struct conversion {
	struct linked_file *image;
	const struct convert_options *options;
	struct convert_result *result;
	struct marker_set set;
	struct object object;
	struct code_scan scan;
	struct layout_room room;
	struct semaphores semaphores;
	struct image_symbol *functions;
	size_t n_functions;
};

static struct marker_probe *probe_of(const struct conversion *conv, const struct use *use)
{
	return &conv->set.probes[use->marker->probe];
}

/* ---- semaphores --------------------------------------------------------------------------- */

static void find_probes(struct conversion *conv)
{
	code_scan_find_probes(&conv->scan, &conv->set);
	for (size_t i = 0; i < conv->scan.n_uses; i++)
		conv->result->n_sites += use_is_site(&conv->scan.uses[i]);
	for (size_t i = 0; i < conv->set.n_probes; i++)
		conv->result->n_probes += conv->set.probes[i].marker != NULL;
}

/*
 * Find queries ([%probe_is_enabled]) that cannot be redirected to a semaphore, and set their
 * why_not. If the file has no site of the probe that a query names, do not change the query: it
 * then reads the counter of its own marker, which is always 0.
 */
static void check_queries(struct conversion *conv)
{
	for (size_t i = 0; i < conv->scan.n_uses; i++) {
		struct use *use = &conv->scan.uses[i];
		const struct marker_probe *probe = probe_of(conv, use);

		if (use->marker->kind == MARKER_IS_ENABLED && !use->why_not && probe->marker &&
		    !x86_can_redirect(&use->code, use->pos, &use->load, probe->semaphore_va))
			use->why_not = "the semaphore is too far away";
	}
}

/* ---- report ------------------------------------------------------------------------------- */

static void tell(const struct conversion *conv, enum ocp_log_level level,
		 const struct marker *marker, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Report a message about MARKER's probe, as a warning or in the log. */
static void tell(const struct conversion *conv, enum ocp_log_level level,
		 const struct marker *marker, const char *fmt, ...)
{
	const struct convert_options *options = conv->options;
	struct marker_place place;
	char file[MARKER_MAX_BYTES + 1] = "", text[MARKER_MAX_BYTES + 512];
	bool known = marker_read_place(marker, &place);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (known)
		marker_decode_file(&place, file);
	else
		place.file_bytes = 0;
	if (level != OCP_LOG_WARN)
		ctx_log(conv->image->ctx, level, "%s%.*s: %s", file,
			marker->where_bytes - place.file_bytes, marker->where + place.file_bytes,
			text);
	else if (options->warn)
		options->warn(options->data, known ? file : NULL, known ? place.line : 0, text);
}

static void log_use(const struct conversion *conv, enum ocp_log_level level, const struct use *use,
		    const char *what)
{
	uint64_t va = use->code.va + use->pos;
	const char *function = image_function_at(conv->functions, conv->n_functions, va);
	const struct marker *marker = use->marker;

	tell(conv, level, marker, "%s \"%.*s\" at %#llx in %s: %s",
	     marker->kind == MARKER_IS_ENABLED ? "probe_is_enabled" : "probe", marker->name_bytes,
	     marker->name, (unsigned long long)va,
	     function ? function : "a function without symbol", what);
}

static void log_marker(const struct conversion *conv, enum ocp_log_level level,
		       const struct marker *marker, const char *what)
{
	tell(conv, level, marker, "probe \"%.*s\" %s", marker->name_bytes, marker->name, what);
}

static void report_use(struct conversion *conv, const struct use *use)
{
	char text[256];

	/* Problems of a site's arguments are reported below, together with the site. */
	if (use->why_not && use->marker->kind != MARKER_ARGS) {
		conv->result->n_failures++;
		snprintf(text, sizeof(text), "stays dormant: %s", use->why_not);
		log_use(conv, OCP_LOG_WARN, use, text);
	}
	for (size_t i = 0; use->args && i < use->marker->n_args; i++) {
		const char *operand = use->args[i].operand;

		/* Do not count this as a failure: debuggers can read the register. */
		if (arg_is_in_float_register(operand, strlen(operand))) {
			snprintf(
				text, sizeof(text),
				"arg%zu is " ARG_FLOAT_REGISTER
				": tools print ? (let x = Sys.opaque_identity ... before the probe "
				"keeps it readable)",
				i);
			log_use(conv, OCP_LOG_WARN, use, text);
		}
		if (operand[0])
			continue;
		conv->result->n_failures++;
		snprintf(text, sizeof(text),
			 "arg%zu is noted as 0: no register or memory holds it before the handler "
			 "runs (let x = Sys.opaque_identity ... before the probe stores it)",
			 i);
		log_use(conv, OCP_LOG_WARN, use, text);
	}
}

/*
 * A query ([%probe_is_enabled]) refers to the probes of the file into which the query is linked. If
 * no probe of this file has the name in a query, the name is probably misspelt: warn once for each
 * place of the query in the source. Do not warn if the file has any other marker with this name,
 * because the name is then right: the compiler may have left out the code of that marker, or the
 * marker may be of a kind that only a newer ppx writes.
 */
static void report_queries(const struct conversion *conv)
{
	const struct marker_set *set = &conv->set;
	bool *has_probe = calloc(set->n_probes + 1, sizeof(*has_probe));

	for (size_t i = 0; has_probe && i < set->n_markers; i++)
		if (set->markers[i].kind != MARKER_IS_ENABLED)
			has_probe[set->markers[i].probe] = true;
	for (size_t i = 0; has_probe && i < set->n_markers; i++) {
		const struct marker *marker = &set->markers[i];

		if (!has_probe[marker->probe] && marker->is_loaded)
			tell(conv, OCP_LOG_WARN, marker,
			     "probe_is_enabled \"%.*s\" is always false: no probe in this file "
			     "has that name (probes of other files do not count)",
			     marker->name_bytes, marker->name);
	}
	free(has_probe);
}

static void report_failures(struct conversion *conv)
{
	struct convert_result *result = conv->result;

	for (size_t i = 0; i < conv->scan.n_uses; i++)
		report_use(conv, &conv->scan.uses[i]);
	for (size_t i = 0; i < conv->set.n_markers; i++) {
		const struct marker *marker = &conv->set.markers[i];
		struct marker_probe *probe = &conv->set.probes[marker->probe];

		if (!marker->is_loaded && marker->is_referenced && marker->kind != MARKER_ARGS) {
			result->n_failures++;
			log_marker(conv, OCP_LOG_WARN, marker,
				   "stays dormant: no instruction loads its marker in a known way");
		}
		if (!marker->is_loaded && !marker->is_referenced && conv->options->show_all &&
		    marker->kind == MARKER_SITE)
			log_marker(conv, OCP_LOG_INFO, marker,
				   "was left out by the compiler: it has no code");
		if (marker == probe->marker && probe->enabled_at_init && probe->disabled_at_init) {
			result->n_failures++;
			log_marker(
				conv, OCP_LOG_WARN, marker,
				"is ~enabled_at_init:true in some places only: all start enabled");
		}
	}
}

/* ---- apply -------------------------------------------------------------------------------- */

static void apply_site(const struct conversion *conv, const struct use *use)
{
	x86_write_site(&use->code, &use->site, probe_of(conv, use)->enabled_at_init);
	for (size_t i = 0; use->args && i < use->marker->n_args; i++)
		if (use->args[i].store_bytes)
			x86_write_nops(&use->code, use->args[i].store_pos,
				       use->args[i].store_bytes);
	if (conv->options->show_all)
		log_use(conv, OCP_LOG_INFO, use,
			conv->options->check ? "can be converted" : "converted");
}

static int apply_uses(struct conversion *conv, struct note_draft *drafts)
{
	size_t n = 0;

	for (size_t i = 0; i < conv->scan.n_uses; i++) {
		const struct use *use = &conv->scan.uses[i];
		const struct marker_probe *probe = probe_of(conv, use);
		struct note_draft *draft = &drafts[n];

		if (use->marker->kind == MARKER_IS_ENABLED && !use->why_not && probe->marker) {
			x86_redirect_load(&use->code, use->pos, &use->load, probe->semaphore_va);
			conv->result->n_queries++;
		}
		if (!use_is_site(use))
			continue;
		n++;
		*draft = (struct note_draft){ .site_va = use->code.va + use->pos,
					      .semaphore_va = probe->semaphore_va,
					      .marker = use->marker,
					      .args = use_args_text(use, USE_ARGS_NOTED) };
		if (use_has_paths(use))
			draft->all_args = use_args_text(use, USE_ARGS_ALL);
		if (!draft->args || (use_has_paths(use) && !draft->all_args))
			return ctx_no_memory(conv->image->ctx);
		apply_site(conv, use);
	}
	return 0;
}

static void free_drafts(struct note_draft *drafts, size_t n)
{
	for (size_t i = 0; drafts && i < n; i++) {
		free(drafts[i].args);
		free(drafts[i].all_args);
	}
	free(drafts);
}

static int apply(struct conversion *conv)
{
	struct semaphores *semaphores = &conv->semaphores;
	size_t n = conv->result->n_sites, n_sections;
	struct note_draft *drafts = calloc(n, sizeof(*drafts));
	struct layout_section sections[7];
	uint8_t *notes = NULL, *places = NULL, *arg_notes = NULL;
	int err;

	if (!drafts)
		return ctx_no_memory(conv->image->ctx);
	err = apply_uses(conv, drafts);
	if (!err)
		err = semaphores_build(conv->image, &conv->set, semaphores);
	n_sections = semaphores->n_sections;
	memcpy(sections, semaphores->sections, n_sections * sizeof(*sections));
	if (!err)
		err = notes_build(conv->image, drafts, n, semaphores->base_va,
				  &sections[n_sections], &notes);
	if (!err)
		err = places_build(conv->image, drafts, n, semaphores->base_va,
				   &sections[n_sections + 1], &places);
	if (!err)
		err = arg_notes_build(conv->image, drafts, n, semaphores->base_va,
				      &sections[n_sections + 2], &arg_notes);
	if (!err)
		err = layout_apply(conv->image, &conv->room, sections, n_sections + 3);
	free(arg_notes);
	free(notes);
	free(places);
	free_drafts(drafts, n);
	return err;
}

static int check_strict(const struct conversion *conv)
{
	if (!conv->result->n_failures || !conv->options->strict)
		return 0;
	return ctx_error(conv->image->ctx, -EILSEQ, "%zu probe%s cannot be converted, see above",
			 conv->result->n_failures, plural(conv->result->n_failures));
}

static int convert_markers(struct conversion *conv)
{
	struct convert_result *result = conv->result;
	struct linked_file *image = conv->image;
	int err = code_scan_read(&conv->object, &conv->set, &conv->scan);

	if (!err && !conv->functions)
		err = image_read_functions(image, &conv->functions, &conv->n_functions);
	if (err)
		return err;
	find_probes(conv);
	if (result->n_sites) {
		err = layout_find_room(image, &conv->room);
		if (err)
			return err;
		semaphores_place(image, &conv->room, &conv->set, &conv->semaphores);
	}
	check_queries(conv);
	code_scan_find_references(&conv->scan);
	report_failures(conv);
	report_queries(conv);
	err = check_strict(conv);
	return !err && result->n_sites ? apply(conv) : err;
}

/* ---- probes of other files ------------------------------------------------------------------ */

static void count_external(void *data, uint64_t va)
{
	struct conversion *conv = data;
	const char *function = image_function_at(conv->functions, conv->n_functions, va);

	conv->result->n_external++;
	if (conv->options->show_all)
		ctx_log(conv->image->ctx, OCP_LOG_INFO,
			"a probe of another file at %#llx in %s: stays dormant",
			(unsigned long long)va, function ? function : "a function without symbol");
}

/*
 * Report the inlined sites of probes that other files define. The names of these probes are not
 * reported, because the names and markers are in those other files.
 */
static int report_external(struct conversion *conv)
{
	struct object_external *externals;
	size_t n;
	int err = external_list(&conv->object, &externals, &n);

	if (!err && n && !conv->functions)
		err = image_read_functions(conv->image, &conv->functions, &conv->n_functions);
	if (!err)
		external_each_site(&conv->object, externals, n, count_external, conv);
	free(externals);
	if (err || !conv->result->n_external)
		return err;
	ctx_log(conv->image->ctx, OCP_LOG_WARN,
		"%zu inlined site%s of other files' probes left dormant: ocaml-probes finds them "
		"in the process; gdb, perf and bpftrace do not",
		conv->result->n_external, plural(conv->result->n_external));
	conv->result->n_failures += conv->result->n_external;
	return 0;
}

int convert(struct linked_file *image, const struct convert_options *options,
	    struct convert_result *result)
{
	struct conversion conv = { .image = image, .options = options, .result = result };
	int err;

	memset(result, 0, sizeof(*result));
	err = notes_find_ocaml(image, &result->was_converted);
	if (!err)
		err = image_object(image, &conv.object);
	if (!err)
		err = report_external(&conv);
	if (!err && !result->was_converted)
		err = marker_set_read(&conv.object, &conv.set);
	result->n_markers = conv.set.n_markers;
	if (!err && conv.set.n_markers)
		err = convert_markers(&conv);
	else if (!err)
		err = check_strict(&conv);
	free(conv.functions);
	semaphores_free(&conv.semaphores);
	code_scan_free(&conv.scan);
	marker_set_free(&conv.set);
	object_free(&conv.object);
	return err;
}
