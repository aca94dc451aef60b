/* SPDX-License-Identifier: MIT */
/*
 * The marker strings that the ppx puts into the program's data, and the probes that they form. See
 * marker.c for the format.
 */
#ifndef DORMANT_MARKER_H
#define DORMANT_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/dormant/object.h"

enum marker_kind {
	MARKER_SITE,	   /* [%probe "name" handler] */
	MARKER_ARGS,	   /* the string to which such a probe stores its arguments */
	MARKER_IS_ENABLED, /* [%probe_is_enabled "name"] */
	MARKER_FOREIGN,	   /* of a newer ppx */
};

struct marker {
	uint64_t va;		  /* of the string */
	const char *name, *where; /* inside the object's bytes, not terminated */
	int name_bytes, where_bytes;
	const char *arg_names; /* likewise, not checked: see program/arg_names.h. NULL: none */
	int arg_names_bytes;
	size_t probe; /* index into marker_set.probes */
	enum marker_kind kind;
	size_t n_args; /* of a MARKER_SITE */
	bool enabled_at_init;
	bool is_loaded;	    /* a known instruction loads its address */
	bool is_referenced; /* other bytes of the file may be its address */
};

/* All markers of one name. */
struct marker_probe {
	/*
	 * The marker of the first site that can be switched; NULL: there is none. See
	 * code_scan_find_probes.
	 */
	const struct marker *marker;
	uint64_t semaphore_va; /* assigned by the post-linker */
	bool enabled_at_init;  /* at least one of its sites starts enabled */
	bool disabled_at_init; /* at least one of its sites starts disabled */
};

struct marker_set {
	struct marker *markers; /* by address */
	size_t n_markers;
	struct marker_probe *probes; /* by name */
	size_t n_probes;
};

/* The place in the source of a marker's probe. */
struct marker_place {
	const char *file; /* encoded: see marker_decode_file */
	int file_bytes;
	int line, column; /* from 1, from 0 */
};

/* The limit for the text of a marker. */
enum { MARKER_MAX_BYTES = 4096 };

/* The offset of OCaml's counter in a marker: see marker.c. */
enum { MARKER_OCAML_COUNTER_OFF = 2 };

/* May the file have markers? A cheap test that does not read the sections. */
int marker_may_be_in(struct ocp_ctx *ctx, struct elf_file *elf, bool *may);

int marker_set_read(const struct object *object, struct marker_set *set);
/* The number of first bytes that identify a marker. */
enum { MARKER_START_BYTES = 7 };
bool marker_starts_with(const uint8_t bytes[MARKER_START_BYTES]);

/* The same for the markers that are OBJECT's externals. */
int marker_set_read_external(const struct object *object, struct marker_set *set);
void marker_set_free(struct marker_set *set);

/* Returns false if the text of MARKER has an unknown format. */
bool marker_read_place(const struct marker *marker, struct marker_place *place);

/*
 * Write the file's name to TO, which has room for file_bytes + 1, with a terminating 0. Returns its
 * length. Control characters become '?'.
 */
size_t marker_decode_file(const struct marker_place *place, char *to);

/* Do A and B belong to the same probe of the source? */
bool marker_same_place(const struct marker *a, const struct marker *b);

/* The marker whose string starts at VA, or NULL. */
struct marker *marker_set_find(const struct marker_set *set, uint64_t va);

#endif
