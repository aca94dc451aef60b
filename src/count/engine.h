/* SPDX-License-Identifier: MIT */
/*
 * A counting engine: something that counts how often sites are run. counter.c maps probes to sites
 * and knows no engine by more than this interface; today there is one (engine_bpf.c: uprobes), the
 * next will count inside the process (shared experiment: in-process trampolines).
 *
 * Phases: open -> attach -> read ... -> detach -> read -> close. Reads are allowed any time after
 * open; a read after detach is exact. close detaches if need be and takes NULL.
 *
 * All functions return 0 or a negative errno with the sentence in the ctx.
 */
#ifndef COUNT_ENGINE_H
#define COUNT_ENGINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

/* One site as the kernel wants it. */
struct engine_site {
	uint64_t nop_off; /* file offset of the site's first byte, the nop */
	/*
	 * File offset of the 2-byte semaphore that belongs to tracers (S+0 of provider ocaml_1 and
	 * ocaml_2), 0 for none: where raising it would run the OCaml handler (provider `ocaml`).
	 */
	uint64_t ref_ctr_off;
};

/* The sites of one file in one process; path is opened by the kernel during attach only. */
struct engine_target {
	pid_t pid;
	const char *path; /* e.g. /proc/self/fd/N of the open file */
	const struct engine_site *sites;
	size_t n_sites;
};

struct engine;

struct engine_ops {
	const char *name;

	/*
	 * Load everything that can be loaded before the process is touched. Sites are numbered
	 * through all targets, in order. The targets and their sites must live until close.
	 */
	int (*open)(struct ocp_ctx *ctx, const struct engine_target *targets, size_t n_targets,
		    struct engine **out);
	int (*attach)(struct engine *engine);
	/* HITS has room for every site of every target. */
	int (*read)(struct engine *engine, uint64_t *hits);
	int (*detach)(struct engine *engine);
	void (*close)(struct engine *engine);
};

extern const struct engine_ops engine_bpf;

#endif
