/* SPDX-License-Identifier: MIT */
/*
 * Room unwind: walking stacks, and naming frames.
 * In: files with code; addresses that a BPF program has stored.
 * Out: unwind tables in BPF maps; frames with functions and lines.
 * Callers: profile, memprof, measure (--stack).
 */
/*
 * The user-space side of bpf/walk.bpf.h: give the BPF programs the code mappings of processes and
 * the unwind tables of their files. A table is made once for a file and serves all processes that
 * map the file. Without BPF programs, the mappings and tables serve stack_reader.h.
 */
#ifndef UNWIND_STACK_WALKER_H
#define UNWIND_STACK_WALKER_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/elf_file.h"
#include "look/maps.h"
#include "unwind/stack_store.h"
#include "walk.h"

/* Descriptors of the maps of bpf/walk.h. They belong to the caller. */
struct walk_maps {
	int tables, rules, processes, files, news;
};

/* A file whose code a process has mapped. */
struct walked_file {
	int fd;
	struct elf_file *elf;
	const char *path; /* the path in the first process that mapped the file */
	/* the number of the file in frames; its unwind table has the same number */
	uint32_t table;
	/*
	 * number of rows of the unwind table; 0: stacks end in this file, see
	 * stack_walker_tell_end()
	 */
	uint32_t n_rows;
};

struct stack_walker;

/* MAPS is NULL if no BPF programs walk: then stack_reader.h does. */
int stack_walker_open(struct ocp_ctx *ctx, const struct walk_maps *maps, struct stack_walker **out);
void stack_walker_close(struct stack_walker *walker);

/*
 * Let the BPF programs walk stacks of process PID, which has the number TGID in BPF programs.
 * Stacks end in the code of a file that cannot be read or has no call frame information; such a
 * file is not read again.
 */
int stack_walker_add_process(struct stack_walker *walker, pid_t pid, uint32_t tgid);

/*
 * Let the BPF programs walk stacks of all processes through the file PATH, which the kernel knows
 * as INODE. The file need not be mapped yet.
 */
int stack_walker_add_file(struct stack_walker *walker, const char *path,
			  const struct walk_inode *inode);

/*
 * If walks of a process have met addresses outside of its known mappings, read its mappings again.
 * Read the new files that walks have met. Forget processes that have ended.
 */
int stack_walker_refresh(struct stack_walker *walker);

/*
 * Return the numbers that *N processes have in BPF programs. The stacks of these processes were
 * walked before the last refresh although the processes were not added. Adding a process makes
 * walks of its stacks faster.
 */
const uint32_t *stack_walker_newcomers(const struct stack_walker *walker, size_t *n);

/*
 * For stack_reader.h, in a walker without BPF maps. stack_walker_image() returns the mappings of
 * the process TGID, NULL if it was not added or has ended; the reader counts n_unmapped. The image
 * is valid until the next call of stack_walker_add_process() or stack_walker_refresh().
 * stack_walker_rule() returns the rule for VA, a link-time address in the file with the number
 * TABLE, or NULL if the file has no rule for VA. The rule exists until stack_walker_close().
 */
struct walk_process *stack_walker_image(const struct stack_walker *walker, uint32_t tgid);
const struct walk_rule *stack_walker_rule(const struct stack_walker *walker, uint32_t table,
					  uint32_t va);

/* The place of a frame (see bpf/walk.h) in a file. */
struct walked_place {
	const struct walked_file *file; /* exists as long as the walker */
	uint64_t va;			/* link-time address */
};

/*
 * Find the place of FRAME. The process of FRAME may have ended. Returns false if the file of FRAME
 * is unknown.
 */
bool stack_walker_locate(const struct stack_walker *walker, uint64_t frame,
			 struct walked_place *place);

/* Warn if STACK ends in a file without an unwind table. Warn only once about each file. */
void stack_walker_tell_end(const struct stack_walker *walker, const struct stored_stack *stack);

/* Return the total number of rows of all unwind tables. */
size_t stack_walker_rows(const struct stack_walker *walker);

/*
 * If M, a mapping of any process, is the vDSO (the library that the kernel maps into each process),
 * return a descriptor of a copy of the vDSO. The copy is made from our own vDSO, which the same
 * kernel has mapped. Returns -ENOENT if M is not the vDSO or has another size than our own, or
 * another -errno.
 */
int vdso_open(const struct mapping *m);

#endif
