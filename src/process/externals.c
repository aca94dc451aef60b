// SPDX-License-Identifier: MIT
/*
 * Code that was inlined into a plugin can contain probes of the host (dormant/external.c). The
 * marker of such a probe is in the file that defines the marker's symbol: the host, or another
 * plugin. The dynamic linker takes the first of several definitions; this search may take any,
 * because OCaml's symbols contain the name of the compilation unit, and a process has each unit
 * once.
 *
 *	symbols that the plugin's GOT refers to		external_list
 *	-> where other images define them		dynsym_each
 *	-> the bytes there				in that image's file
 *	-> sites in the plugin				dormant_read_external
 *
 * Such a site is switched and counted like any dormant one. Its counter is the one in the marker,
 * which the inlined [%probe_is_enabled] reads too.
 */
#include "process/externals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program/dormant/external.h"
#include "program/dormant/marker.h"
#include "elf/symbols.h"

/* A program with plugins exports all its symbols; 100 000 symbols take about 6 MB. */
#define MAX_TABLE_BYTES (UINT64_C(64) << 20)

enum {
	WORD = 8,
	/* The longest marker, with its header and padding. */
	MAX_MARKER_BYTES = 4096 + 64,
};

/* The search, in the other images, for the symbols that one image refers to. */
struct external_search {
	struct ocp_ctx *ctx;
	const struct image *in;	      /* the image that refers to the externals */
	const struct image *definer;  /* the image that is searched */
	struct object_external **all; /* sorted by symbol */
	size_t n;
};

static int compare_external_symbols(const void *a, const void *b)
{
	return strcmp((*(struct object_external *const *)a)->symbol,
		      (*(struct object_external *const *)b)->symbol);
}

static int compare_external_name(const void *name, const void *external)
{
	return strcmp(name, (*(struct object_external *const *)external)->symbol);
}

/*
 * If a marker can be at VA of the definer, read its bytes into EXTERNAL. Markers are in writable
 * OCaml data. Return 0 also if there is no marker.
 */
static int read_marker_bytes(const struct external_search *search, uint64_t va,
			     struct object_external *external)
{
	const struct elf_file *elf = search->definer->prog->elf;
	const struct elf_segment *segment = elf_file_segment_of(elf, va, WORD);
	uint8_t start[MARKER_START_BYTES];
	uint64_t room, n;
	int err;

	if (!segment || !segment->writable || va % WORD || va - segment->va < WORD ||
	    va - segment->va >= segment->file_bytes)
		return 0;
	err = elf_file_read(elf, va - segment->va + segment->off, start, sizeof(start));
	if (err || !marker_starts_with(start))
		return err == -EBADMSG ? 0 : err;
	room = segment->file_bytes - (va - segment->va) + WORD;
	n = room < MAX_MARKER_BYTES ? room : MAX_MARKER_BYTES;
	external->bytes = malloc((size_t)n);
	if (!external->bytes)
		return ctx_no_memory(search->ctx);
	err = elf_file_read(elf, va - WORD - segment->va + segment->off, external->bytes,
			    (size_t)n);
	if (err)
		return err;
	external->n_bytes = (size_t)n;
	external->va = search->definer->bias + va - search->in->bias;
	return 0;
}

static int take_definition(void *data, const char *name, uint64_t va)
{
	const struct external_search *search = data;
	struct object_external **found =
		bsearch(name, search->all, search->n, sizeof(struct object_external *),
			compare_external_name);

	/* Take the first definition; see the comment at the top. */
	return found && !(*found)->bytes ? read_marker_bytes(search, va, *found) : 0;
}

/* Look up EXTERNALS, the N symbols that image IN refers to, in all other images. */
static int find_all(struct ocp_ctx *ctx, const struct image_list *list, const struct image *in,
		    struct object_external *externals, size_t n)
{
	struct external_search search = {
		.ctx = ctx,
		.in = in,
		.all = calloc(n + 1, sizeof(struct object_external *)),
		.n = n,
	};
	int err = search.all ? 0 : ctx_no_memory(ctx);

	for (size_t i = 0; !err && i < n; i++)
		search.all[i] = &externals[i];
	if (!err)
		qsort(search.all, n, sizeof(struct object_external *), compare_external_symbols);
	for (size_t i = 0; !err && i < list->n; i++) {
		search.definer = &list->images[i];
		if (search.definer != in)
			err = dynsym_each(search.definer->prog->elf, MAX_TABLE_BYTES,
					  take_definition, &search);
	}
	free(search.all);
	return err;
}

static int add_externals_to(struct ocp_ctx *ctx, const struct image_list *list,
			    const struct image *image)
{
	struct object_external *externals = NULL;
	struct dormant dormant = { 0 };
	struct object object;
	size_t n = 0;
	int err = object_read(ctx, image->prog->elf, &object);

	if (err)
		return err;
	err = external_list(&object, &externals, &n);
	if (!err && n)
		err = find_all(ctx, list, image, externals, n);
	object.externals = externals;
	object.n_externals = n;
	if (!err && n)
		err = dormant_read_external(&object, &dormant);
	if (!err)
		err = program_add_external(image->prog, &dormant);
	for (size_t i = 0; i < n; i++)
		free(externals[i].bytes);
	free(externals);
	object_free(&object);
	return err;
}

int externals_add(struct ocp_ctx *ctx, struct image_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct image *image = &list->images[i];
		/* An executable contains all units that it calls, so it has no externals. */
		bool may_be_in = strcmp(image->path, list->exe_path) != 0;
		int err = may_be_in ? external_may_be_in(ctx, image->prog->elf, &may_be_in) : 0;

		if (!err && may_be_in)
			err = add_externals_to(ctx, list, image);
		if (err == -ENOMEM)
			return err;
		if (err == -EFBIG)
			file_rules_exceeded(ctx, image->prog->fd,
					    &(const struct file_origin){ .name = image->path,
									 .is_library = true });
		else if (err)
			ctx_log(ctx, OCP_LOG_WARN,
				"%s: probes that were inlined from other files are left out: %s",
				image->path, ocp_error(ctx));
	}
	/* Remove the images without probes, which were kept for this search only. */
	for (size_t i = 0; i < list->n; i++) {
		if (list->images[i].prog->n_probes)
			list->images[kept++] = list->images[i];
		else
			image_free(&list->images[i]);
	}
	list->n = kept;
	return 0;
}
