// SPDX-License-Identifier: MIT
/*
 * Finds the sites of dormant probes, in three steps:
 *
 *	markers		the strings that the ppx has put into the program's data (marker.c)
 *	-> uses		each instruction that loads a marker's address, checked together with the
 *			code around it (code_scan.c, x86_site.c), and the places of the probe's
 *			arguments (x86_args.c)
 *	-> sites	for program/program.c, which groups them into probes
 *
 * These probes have no semaphores. But each marker starts with space for two counters, and
 * [%probe_is_enabled "x"] (a query) reads the second counter of its own marker. So a probe has
 * several counters: all its sites use the counter in the marker of the first site, and each of its
 * queries has its own counter. Queries of a name without a site always return false, as in a
 * post-linked file.
 */
#include "program/dormant/dormant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program/dormant/code_scan.h"
#include "program/dormant/marker.h"

struct dormant_finder {
	struct ocp_ctx *ctx;
	const struct object *object;
	bool is_external; /* the markers are in other files */
	struct marker_set set;
	struct code_scan scan;
	char **args; /* operands of each use */
	char *next;  /* where the next string or code will be stored in dormant->bytes */
	/*
	 * For each probe: 1 + the offset of the probe's name in dormant->bytes; 0 if the name was
	 * not copied yet.
	 */
	uint64_t *name;
	/*
	 * The source place of the previous site, and its file name in dormant->bytes: adjacent
	 * sites mostly have the same file.
	 */
	struct marker_place last;
	const char *last_file;
};

static bool is_query(const struct dormant_finder *finder, const struct marker *marker)
{
	return marker->kind == MARKER_IS_ENABLED && marker->is_loaded &&
	       (finder->is_external || finder->set.probes[marker->probe].marker);
}

/* Refuse the sites that x86_match_site() accepts, but that struct dormant_site cannot describe. */
static void refuse_unusual(struct dormant_finder *finder)
{
	for (size_t i = 0; i < finder->scan.n_uses; i++) {
		struct use *use = &finder->scan.uses[i];
		const uint8_t *code = use->code.bytes + use->pos;
		uint8_t opcode;

		if (!use_is_site(use))
			continue;
		opcode = code[x86_site_opcode_at(&use->site)] & 0xfe;
		if (use->site.n_bytes > UINT8_MAX)
			use->why_not = "its code is too long";
		else if (opcode != (use->site.is_near ? 0x84 : 0x74))
			use->why_not = "its jump has an unknown form";
	}
}

static void note_left_out(const struct dormant_finder *finder, struct dormant *dormant)
{
	for (size_t i = 0; i < finder->scan.n_uses; i++) {
		const struct use *use = &finder->scan.uses[i];

		if (!use->why_not || use->marker->kind == MARKER_ARGS)
			continue;
		if (dormant->n_left_out++)
			continue;
		dormant->why_left_out = use->why_not;
		dormant->left_out_va = use->code.va + use->pos;
	}
}

static bool is_of_last_file(const struct dormant_finder *finder, const struct marker_place *place)
{
	return finder->last.file_bytes == place->file_bytes &&
	       memcmp(finder->last.file, place->file, (size_t)place->file_bytes) == 0;
}

/*
 * Compute the number of sites and queries, and an upper limit for the size of the strings and the
 * code that will be kept for them. Set the `args` of each site.
 */
static int measure_sites(struct dormant_finder *finder, size_t *n_sites, size_t *n_bytes)
{
	struct marker_place place;

	*n_sites = *n_bytes = 0;
	for (size_t i = 0; i < finder->set.n_markers; i++) {
		*n_bytes += (size_t)finder->set.markers[i].name_bytes + 1;
		*n_sites += is_query(finder, &finder->set.markers[i]);
	}
	for (size_t i = 0; i < finder->scan.n_uses; i++) {
		const struct use *use = &finder->scan.uses[i];

		if (!use_is_site(use))
			continue;
		++*n_sites;
		finder->args[i] = use_args_text(use, USE_ARGS_ALL);
		if (!finder->args[i])
			return ctx_no_memory(finder->ctx);
		*n_bytes += strlen(finder->args[i]) + 1 + use->site.n_bytes +
			    (size_t)use->marker->arg_names_bytes + 1;
		if (!marker_read_place(use->marker, &place) || is_of_last_file(finder, &place))
			continue;
		*n_bytes += (size_t)place.file_bytes + 1;
		finder->last = place;
	}
	finder->last = (struct marker_place){ 0 };
	return 0;
}

static const void *keep_bytes(struct dormant_finder *finder, const void *bytes, size_t n)
{
	const void *kept = memcpy(finder->next, bytes, n);

	finder->next += n;
	return kept;
}

/*
 * Return the name of MARKER's probe, which ends with NUL. The first call for a probe copies the
 * name.
 */
static const char *keep_probe_name(struct dormant_finder *finder, const struct dormant *dormant,
				   const struct marker *marker)
{
	size_t probe = marker->probe;

	if (!finder->name[probe]) {
		finder->name[probe] = (uint64_t)(finder->next - (char *)dormant->bytes) + 1;
		keep_bytes(finder, marker->name, (size_t)marker->name_bytes);
		*finder->next++ = '\0';
	}
	return (char *)dormant->bytes + finder->name[probe] - 1;
}

static void keep_place(struct dormant_finder *finder, const struct marker *marker,
		       struct dormant_site *site)
{
	struct marker_place place;

	if (!marker_read_place(marker, &place))
		return;
	if (!is_of_last_file(finder, &place)) {
		finder->last_file = finder->next;
		finder->next += marker_decode_file(&place, finder->next) + 1;
		finder->last = place;
	}
	site->file = finder->last_file;
	site->line = place.line;
	site->column = place.column;
}

static void add_query(struct dormant_finder *finder, struct dormant *dormant,
		      const struct marker *marker)
{
	dormant->sites[dormant->n_sites++] = (struct dormant_site){
		.name = keep_probe_name(finder, dormant, marker),
		.counter_va = marker->va + MARKER_OCAML_COUNTER_OFF,
		.args = "",
		.arg_names = "",
	};
}

/* Copy the names of the arguments at the site of MARKER. Return the copy, which ends with NUL. */
static const char *keep_arg_names(struct dormant_finder *finder, const struct marker *marker)
{
	const char *kept = finder->next;

	if (!marker->arg_names)
		return "";
	keep_bytes(finder, marker->arg_names, (size_t)marker->arg_names_bytes);
	*finder->next++ = '\0';
	return kept;
}

static void add_dormant_site(struct dormant_finder *finder, struct dormant *dormant, size_t i)
{
	const struct use *use = &finder->scan.uses[i];
	const struct marker *first = finder->set.probes[use->marker->probe].marker;
	const char *args = finder->args[i];

	dormant->sites[dormant->n_sites++] = (struct dormant_site){
		.va = use->code.va + use->pos,
		.counter_va = first->va + MARKER_OCAML_COUNTER_OFF,
		.name = keep_probe_name(finder, dormant, use->marker),
		.args = keep_bytes(finder, args, strlen(args) + 1),
		.arg_names = keep_arg_names(finder, use->marker),
		.code = keep_bytes(finder, use->code.bytes + use->pos, use->site.n_bytes),
		.n_bytes = (uint8_t)use->site.n_bytes,
		.opcode_at = (uint8_t)x86_site_opcode_at(&use->site),
	};
	keep_place(finder, use->marker, &dormant->sites[dormant->n_sites - 1]);
}

static int make_sites(struct dormant_finder *finder, struct dormant *dormant)
{
	size_t n_sites, n_bytes;
	int err;

	finder->args = calloc(finder->scan.n_uses + 1, sizeof(*finder->args));
	finder->name = calloc(finder->set.n_probes + 1, sizeof(*finder->name));
	if (!finder->args || !finder->name)
		return ctx_no_memory(finder->ctx);
	refuse_unusual(finder);
	code_scan_find_probes(&finder->scan, &finder->set);
	note_left_out(finder, dormant);
	err = measure_sites(finder, &n_sites, &n_bytes);
	if (err || !n_sites)
		return err;
	dormant->sites = calloc(n_sites, sizeof(*dormant->sites));
	dormant->bytes = finder->next = malloc(n_bytes + 1);
	if (!dormant->sites || !dormant->bytes)
		return ctx_no_memory(finder->ctx);
	for (size_t i = 0; i < finder->scan.n_uses; i++)
		if (use_is_site(&finder->scan.uses[i]))
			add_dormant_site(finder, dormant, i);
	for (size_t i = 0; i < finder->set.n_markers; i++)
		if (is_query(finder, &finder->set.markers[i]))
			add_query(finder, dormant, &finder->set.markers[i]);
	return 0;
}

static int find_dormant_sites(struct dormant_finder *finder, struct dormant *dormant)
{
	int err = finder->is_external ? marker_set_read_external(finder->object, &finder->set)
				      : marker_set_read(finder->object, &finder->set);

	*dormant = (struct dormant){ 0 };
	if (!err && finder->set.n_markers)
		err = code_scan_read(finder->object, &finder->set, &finder->scan);
	if (!err)
		err = make_sites(finder, dormant);
	for (size_t i = 0; finder->args && i < finder->scan.n_uses; i++)
		free(finder->args[i]);
	free(finder->args);
	free(finder->name);
	code_scan_free(&finder->scan);
	marker_set_free(&finder->set);
	if (err)
		dormant_free(dormant);
	return err;
}

int dormant_read(struct ocp_ctx *ctx, struct elf_file *elf, struct dormant *dormant)
{
	struct object object;
	struct dormant_finder finder = { .ctx = ctx, .object = &object };
	bool may_be_in;
	int err = marker_may_be_in(ctx, elf, &may_be_in);

	*dormant = (struct dormant){ 0 };
	if (err || !may_be_in)
		return err;
	err = object_read(ctx, elf, &object);
	if (err) {
		ctx_error_prefix(ctx, "%s", elf_file_name(elf));
		return err;
	}
	err = find_dormant_sites(&finder, dormant);
	if (err && err != -ENOMEM)
		ctx_error_prefix(ctx, "%s", elf_file_name(elf));
	object_free(&object);
	return err;
}

int dormant_read_external(const struct object *object, struct dormant *dormant)
{
	struct dormant_finder finder = { .ctx = object->ctx,
					 .object = object,
					 .is_external = true };

	return find_dormant_sites(&finder, dormant);
}

void dormant_free(struct dormant *dormant)
{
	free(dormant->sites);
	free(dormant->bytes);
	*dormant = (struct dormant){ 0 };
}
