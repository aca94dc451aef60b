/* SPDX-License-Identifier: MIT */
/*
 * The OCaml runtime that an executable contains: its version, and where it keeps the statistics of
 * its collector. They are found in the file, without a process, even if the file is stripped.
 */
#ifndef CODE_RUNTIME_H
#define CODE_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

/*
 * Offsets, in bytes, in the structure that holds the state of a domain
 * (runtime/caml/domain_state.tbl).
 */
struct runtime_layout {
	bool has_domains; /* OCaml 5 */
	uint16_t bytes;	  /* size of the structure up to the last member that is used */
	uint16_t young_ptr, young_start, young_end;
	uint16_t minor_words, promoted_words, major_words;
	/* OCaml 4 */
	uint16_t minor_collections, major_collections, heap_words, top_heap_words, compactions;
	uint16_t in_minor_collection;
	/* OCaml 5 */
	uint16_t allocated_words, shared_heap, id, unique_id;
	/* offset of `owner` in struct caml_heap_state; the statistics follow this member */
	uint16_t heap_owner;
};

enum { MAX_DOMAINS_PLACES = 24 };

/*
 * Addresses of variables, as linked. 0: the runtime has no such variable, or the file has no symbol
 * for it.
 */
struct runtime_places {
	/* OCaml 4: the pointer to the structure that struct runtime_layout describes */
	uint64_t caml_state;
	uint64_t allocated_words; /* OCaml 4 */
	/* OCaml 5: counters */
	uint64_t minor_collections, major_collections, compactions;
	/*
	 * The array of domains or, from 5.3 on, a pointer to the array. In a stripped file there
	 * are several candidates; which one is right is seen from their contents in the process.
	 */
	uint64_t domains[MAX_DOMAINS_PLACES];
	size_t n_domains;
	uint64_t orphaned_words, orphaned_heap; /* statistics of domains that have ended */
	/*
	 * The thread-local pointer to the domain's state, as an offset from the FS base
	 * (negative). 0: not known.
	 */
	int32_t state_tls;
};

struct runtime {
	int major, minor, patch;
	char version[32]; /* Sys.ocaml_version, or "4.13 or 4.14" if the program lacks it */
	bool is_stripped;
	struct runtime_layout layout;
	struct runtime_places places;
};

/*
 * Recognise the runtime of ELF. Returns -ENODATA if ELF contains none, -EPROTONOSUPPORT if the
 * version or the structures of the runtime are not known.
 */
int runtime_recognise(struct ocp_ctx *ctx, struct elf_file *elf, struct runtime *runtime);

/*
 * Set *OFF to the offset, in bytes, of the list of local roots in the state of a domain of OCaml 5.
 * If the version of OCaml cannot be found in ELF, use the offset of OCaml 5.3. This function knows
 * more versions than runtime_recognise(). The only error is -ENOMEM.
 */
int runtime_local_roots(struct ocp_ctx *ctx, struct elf_file *elf, uint16_t *off);

#endif
