/* SPDX-License-Identifier: MIT */
/*
 * Where the runtime of OCaml 5 keeps its words: facts that are learnt from the machine code of
 * functions which the runtime exports. So they hold for the program at hand, whatever its version.
 */
#ifndef CODE_RUNTIME_FACTS_H
#define CODE_RUNTIME_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"

/* A fact is an offset in bytes. Most are in the state of a domain (caml/domain_state.tbl). */
enum runtime_fact {
	FACT_YOUNG_PTR,
	FACT_YOUNG_START,
	FACT_YOUNG_END,
	FACT_YOUNG_TRIGGER,
	FACT_MINOR_WORDS,
	FACT_PROMOTED_WORDS,
	FACT_MAJOR_WORDS,
	FACT_ALLOCATED_WORDS,
	FACT_LOCAL_ROOTS,
	FACT_CURRENT_STACK,
	FACT_SHARED_HEAP,
	FACT_ID,
	FACT_UNIQUE_ID,
	FACT_STACK_HANDLER,  /* `handler` in struct stack_info (caml/fiber.h) */
	FACT_STACK_ID,	     /* `id` in struct stack_info */
	FACT_HANDLER_PARENT, /* `parent` in struct stack_handler */
	/* `owner` in struct caml_heap_state (shared_heap.c); the statistics follow this member */
	FACT_HEAP_OWNER,
	FACT_SLOT_UNIQUE_ID, /* the number of the domain in struct dom_internal (domain.c) */
	N_RUNTIME_FACTS
};

/*
 * The values of some facts that are constants in code for the kernel (bpf/measure_frames.bpf.h, the
 * scripts for bpftrace, has_run_out() in bpf/profile.bpf.c) and in code that runs in processes. If
 * the runtime of a program has other offsets, or does not show them, the tool refuses to time OCaml
 * functions and to sample allocation in it.
 */
enum {
	KERNEL_CURRENT_STACK = 40,
	KERNEL_STACK_HANDLER = 16,
	KERNEL_STACK_ID = 48,
	KERNEL_HANDLER_PARENT = 24,
	KERNEL_YOUNG_PTR = 8,
	KERNEL_YOUNG_TRIGGER = 32,
};

/* Why a fact is missing. */
enum fact_fault {
	FACT_KNOWN,
	FACT_NO_FUNCTION, /* the file lacks the function that shows the fact */
	FACT_NOT_FOUND,	  /* the code of the function does not show the fact */
	FACT_IS_ADDRESS,  /* the word is no number: the function uses the word as an address */
};

struct runtime_facts {
	uint16_t at[N_RUNTIME_FACTS];	 /* the offsets; 0 if the fact is missing */
	uint8_t faults[N_RUNTIME_FACTS]; /* enum fact_fault */
};

/* The functions whose code shows the facts. */
enum {
	FACTS_OF_MINOR_WORDS,
	FACTS_OF_COUNTERS,
	FACTS_OF_SMALL_BLOCK,
	FACTS_OF_LIMIT,
	FACTS_OF_HEAP_SIZE,
	FACTS_OF_SAMPLE,
	FACTS_OF_OLD_SAMPLE, /* the name of the same function in 5.1 */
	FACTS_OF_CALLBACK,
	FACTS_OF_DOMAIN_ID,
	FACTS_OF_STACK,
	N_FACT_FUNCTIONS
};

extern const char *const fact_functions[N_FACT_FUNCTIONS];

struct fact_code {
	uint8_t *bytes; /* NULL: the file lacks the function */
	size_t n;
};

/* Learn FACTS from the CODE of the functions above. The only error is -ENOMEM. */
int runtime_facts_learn(struct ocp_ctx *ctx, const struct fact_code code[N_FACT_FUNCTIONS],
			struct runtime_facts *facts);

/*
 * Return 0 if all of the N facts NEEDED are known. Otherwise record an error that names FILE, the
 * first missing fact, the reason, and WHAT is refused without the fact ("the figures of its
 * collector cannot be read"); return -EPROTONOSUPPORT.
 */
int runtime_facts_need(struct ocp_ctx *ctx, const struct runtime_facts *facts, const char *file,
		       const enum runtime_fact *needed, size_t n, const char *what);

#endif
