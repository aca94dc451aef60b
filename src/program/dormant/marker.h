/* SPDX-License-Identifier: MIT */
/*
 * Finds the marker strings that the ppx puts into the program's data, and groups them into probes
 * by name. See marker.c for the format.
 */
#ifndef DORMANT_MARKER_H
#define DORMANT_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/dormant/object.h"

enum marker_kind {
	MARKER_SITE,	   /* [%probe "name" handler] */
	MARKER_ARGS,	   /* the string to which a site stores its arguments */
	MARKER_IS_ENABLED, /* [%probe_is_enabled "name"] */
	MARKER_FOREIGN,	   /* a kind that only a newer ppx writes */
};

struct marker {
	uint64_t va;		  /* address of the string */
	const char *name, *where; /* both point into the object's bytes, and are not terminated */
	int name_bytes, where_bytes;
	/*
	 * The names and types of the arguments, not terminated and not checked: see
	 * program/arg_names.h. NULL if the marker has none.
	 */
	const char *arg_names;
	int arg_names_bytes;
	size_t probe; /* index into marker_set.probes */
	enum marker_kind kind;
	size_t n_args; /* set only for a MARKER_SITE */
	bool enabled_at_init;
	bool is_loaded;	    /* an instruction of a known form loads the address of the marker */
	bool is_referenced; /* other bytes of the file may be the address of the marker */
};

/* A probe: all markers with one name. */
struct marker_probe {
	/*
	 * Of the markers of sites that can be enabled, the one with the lowest address; NULL if no
	 * site can be enabled. Set by code_scan_find_probes().
	 */
	const struct marker *marker;
	uint64_t semaphore_va; /* assigned by the post-linker */
	bool enabled_at_init;  /* at least one site of the probe starts enabled */
	bool disabled_at_init; /* at least one site of the probe starts disabled */
};

struct marker_set {
	struct marker *markers; /* sorted by address */
	size_t n_markers;
	struct marker_probe *probes; /* sorted by name */
	size_t n_probes;
};

/* The place in the source of a marker's probe. */
struct marker_place {
	const char *file; /* encoded: see marker_decode_file(); not terminated */
	int file_bytes;
	int line, column; /* the line counts from 1, the column from 0 */
};

/* The limit for the text of a marker. */
enum { MARKER_MAX_BYTES = 4096 };

/* The offset, in a marker, of the counter that OCaml code reads: see marker.c. */
enum { MARKER_OCAML_COUNTER_OFF = 2 };

/*
 * Set *MAY to false if ELF has no markers, or to true if ELF may have some. This is a cheap test:
 * it only searches the writable data for the bytes with which a marker starts.
 */
int marker_may_be_in(struct ocp_ctx *ctx, struct elf_file *elf, bool *may);

int marker_set_read(const struct object *object, struct marker_set *set);
/* The number of bytes at the start of a marker that identify it. */
enum { MARKER_START_BYTES = 7 };
bool marker_starts_with(const uint8_t bytes[MARKER_START_BYTES]);

/* Like marker_set_read(), but find the markers among OBJECT's externals. */
int marker_set_read_external(const struct object *object, struct marker_set *set);
void marker_set_free(struct marker_set *set);

/*
 * Set *PLACE to the place in the source that is in the text of MARKER. Return false if the text has
 * an unknown format.
 */
bool marker_read_place(const struct marker *marker, struct marker_place *place);

/*
 * Write the decoded name of the file of PLACE to TO, with a terminating 0. TO must have space for
 * file_bytes + 1 bytes. Return the length of the decoded name. Control characters become '?'.
 */
size_t marker_decode_file(const struct marker_place *place, char *to);

/* Return true if A and B belong to the same probe in the source. */
bool marker_same_place(const struct marker *a, const struct marker *b);

/* Return the marker whose string starts at VA; NULL if there is none. */
struct marker *marker_set_find(const struct marker_set *set, uint64_t va);

#endif
