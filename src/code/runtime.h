/* SPDX-License-Identifier: MIT */
/*
 * The OCaml runtime that an executable contains: its version, where it keeps the figures of its
 * collector, and which of its functions are phases of the collector. Found in the file alone,
 * stripped or not.
 */
#ifndef CODE_RUNTIME_H
#define CODE_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

/* Offsets, in bytes, in the structure that holds the state of a domain (runtime/caml/domain_state.tbl). */
struct runtime_layout {
	bool has_domains; /* OCaml 5 */
	uint16_t bytes;	  /* of the structure, up to the last member that is used */
	uint16_t young_ptr, young_start, young_end;
	uint16_t minor_words, promoted_words, major_words;
	/* OCaml 4 */
	uint16_t minor_collections, major_collections, heap_words, top_heap_words, compactions;
	uint16_t in_minor_collection;
	/* OCaml 5 */
	uint16_t allocated_words, shared_heap, id, unique_id;
	uint16_t heap_owner; /* in struct caml_heap_state; its statistics follow */
};

enum { MAX_DOMAINS_PLACES = 24 };

/* Addresses as linked; 0: the runtime, or a stripped file, does not have it. */
struct runtime_places {
	uint64_t caml_state;	  /* OCaml 4: the pointer to the structure */
	uint64_t allocated_words; /* OCaml 4 */
	/* OCaml 5: counters, */
	uint64_t minor_collections, major_collections, compactions;
	/*
	 * The array of domains or, from 5.3 on, a pointer to it. A stripped file does not tell which
	 * one of these variables it is. Their contents do.
	 */
	uint64_t domains[MAX_DOMAINS_PLACES];
	size_t n_domains;
	uint64_t orphaned_words, orphaned_heap; /* what domains that have ended left behind */
	/*
	 * The thread-local pointer to the domain's state, relative to the FS base, which it is
	 * below. 0: not known.
	 */
	int32_t state_tls;
};

struct runtime {
	int major, minor, patch;
	char version[32]; /* as Sys.ocaml_version, or "4.13 or 4.14" where the program lacks it */
	bool is_stripped;
	struct runtime_layout layout;
	struct runtime_places places;
};

/*
 * Recognise the runtime of ELF. -ENODATA if it contains none, -EPROTONOSUPPORT if its version or
 * its structures are not known.
 */
int runtime_recognise(struct ocp_ctx *ctx, struct elf_file *elf, struct runtime *runtime);

/*
 * *OFF is where the state of a domain of OCaml 5 has its list of local roots, in bytes; that of OCaml 5.3
 * where ELF does not tell the version. It is known for more versions than the rest. -ENOMEM
 */
int runtime_local_roots(struct ocp_ctx *ctx, struct elf_file *elf, uint16_t *off);

/* The structures of a version; NULL if it is unknown. */
const struct runtime_layout *runtime_layout_of(int major, int minor);

#endif
