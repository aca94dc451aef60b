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
#include "code/runtime_facts.h"
#include "elf/elf_file.h"

enum { MAX_DOMAINS_PLACES = 24 };

/*
 * Addresses of variables, as linked. 0: the runtime has no such variable, or the file has no symbol
 * for it.
 */
struct runtime_places {
	/* OCaml 4: the pointer to the state of the only domain */
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
	bool has_domains; /* OCaml 5 */
	/*
	 * The known offsets. For OCaml 4, these are only young_ptr, young_start, young_end and the
	 * counters stat_minor_words, stat_promoted_words and stat_major_words.
	 */
	struct runtime_facts facts;
	struct runtime_places places;
};

/*
 * Recognise the runtime of ELF. A fact that the code of OCaml 5 does not show is missing in
 * RUNTIME->facts: runtime_facts_need() reports this fact to those who need it. Returns -ENODATA if
 * ELF contains no runtime, -EPROTONOSUPPORT if the structures of OCaml 4 are not known.
 */
int runtime_recognise(struct ocp_ctx *ctx, struct elf_file *elf, struct runtime *runtime);

/*
 * Set *OFF to the offset, in bytes, of the list of local roots in the state of a domain of OCaml 5;
 * 0 if it is not known. In a file without symbols, which shows no facts, the version of OCaml
 * determines the offset. The only error is -ENOMEM.
 */
int runtime_local_roots(struct ocp_ctx *ctx, struct elf_file *elf, uint16_t *off);

#endif
