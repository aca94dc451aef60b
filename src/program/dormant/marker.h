/* SPDX-License-Identifier: MIT */
/*
 * The marker strings that the ppx leaves in the program's data: what they say, and the probes they
 * add up to. See marker.c for the format.
 */
#ifndef DORMANT_MARKER_H
#define DORMANT_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/dormant/object.h"

enum marker_kind {
	MARKER_SITE,	   /* [%probe "name" handler] */
	MARKER_ARGS,	   /* what the arguments of such a probe are stored to */
	MARKER_IS_ENABLED, /* [%probe_is_enabled "name"] */
	MARKER_FOREIGN,	   /* of a newer ppx */
};

struct marker {
	uint64_t va;		  /* of the string */
	const char *name, *where; /* inside the object's bytes, not terminated */
	int name_bytes, where_bytes;
	size_t probe; /* index into marker_set.probes */
	enum marker_kind kind;
	size_t n_args; /* of a MARKER_SITE */
	bool enabled_at_init;
	bool is_loaded;	    /* an instruction that loads its address was found */
	bool is_referenced; /* if not: something else may be its address */
};

/* All markers of one name. */
struct marker_probe {
	/*
	 * The first one of a site that can be switched; NULL: there is none. See
	 * code_scan_find_probes.
	 */
	const struct marker *marker;
	uint64_t semaphore_va; /* that the post-linker gives it */
	bool enabled_at_init;  /* one of its sites at least asks for it */
	bool disabled_at_init; /* one of its sites at least does not */
};

struct marker_set {
	struct marker *markers; /* by address */
	size_t n_markers;
	struct marker_probe *probes; /* by name */
	size_t n_probes;
};

/* Where a marker's probe stands in the source. */
struct marker_place {
	const char *file; /* as the marker has it: see marker_decode_file */
	int file_bytes;
	int line, column; /* from 1, from 0 */
};

/* What a marker says is not longer. */
enum { MARKER_MAX_BYTES = 4096 };

/* Where the counters are in a marker: see marker.c. */
enum { MARKER_OCAML_COUNTER_OFF = 2 };

/* Could there be markers in the file? Tells without a look at its sections; cheap. */
int marker_may_be_in(struct ocp_ctx *ctx, struct elf_file *elf, bool *may);

int marker_set_read(const struct object *object, struct marker_set *set);
/* The first bytes of a marker, which nearly nothing else begins with. */
enum { MARKER_START_BYTES = 7 };
bool marker_starts_with(const uint8_t bytes[MARKER_START_BYTES]);

/* The same of the markers that OBJECT's externals are. */
int marker_set_read_external(const struct object *object, struct marker_set *set);
void marker_set_free(struct marker_set *set);

/* False: MARKER does not say it in a known way. */
bool marker_read_place(const struct marker *marker, struct marker_place *place);

/*
 * Write the file's name to TO, which has room for file_bytes + 1, and end it with a 0; returns its
 * length. Control characters become '?'.
 */
size_t marker_decode_file(const struct marker_place *place, char *to);

/* Do the two belong to the same probe of the source? */
bool marker_same_place(const struct marker *a, const struct marker *b);

/* The marker whose string starts at VA, or NULL. */
struct marker *marker_set_find(const struct marker_set *set, uint64_t va);

#endif
