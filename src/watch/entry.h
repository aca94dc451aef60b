/* SPDX-License-Identifier: MIT */
/*
 * An entry: one spec, and what is done each tick so that the sources it stands for are there: those
 * of a file, of a process or the one that follows it, of whatever is found.
 */
#ifndef WATCH_ENTRY_H
#define WATCH_ENTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "watch/target.h"
#include "watch/verdicts.h"

struct entry {
	char *exe; /* as it was named, from the root on; NULL: everything that is found */
	pid_t pid; /* 0: every process of the file */
	/* What it was named by is in this container; all "": in none, or all is looked for. */
	struct container container;
	/*
	 * Of PID: the executable where its path leads somewhere else for us, as that of a process
	 * in a container; -1: follow the path.
	 */
	int foreign_file;
	struct measure_options *measure;
	struct target *target; /* NULL: everything that is found */
	int64_t retry_ns;      /* CLOCK_MONOTONIC: not before */
	int64_t settle_ns;     /* likewise, whatever there is to be found */
	bool has_searched;
	struct told_hidden hidden; /* that may be the process that is looked for */
	/* Before it is watched. */
	struct source *first;
};

/* The targets there are; entries that look for programs add some. */
struct targets {
	struct ocp_ctx *ctx;
	bool by_process;
	struct target **list;
	size_t n;
	struct find_memory known; /* of processes; expires with each tick */
	struct verdicts *verdicts;
};

/* Takes NULL. */
void entry_free(struct entry *entry);
/* SPEC's, with its first source opened, unless it is everything that is found. */
int entry_new(struct targets *targets, const struct watch_spec *spec, struct entry **out);
/* Does it ask for what SPEC asks for? */
bool entry_is_for(const struct entry *entry, const struct watch_spec *spec);
/* Are both about the same file? Not for those that look for programs. */
bool entry_has_file_of(const struct entry *entry, const struct entry *other);
/* Attach the first source, and give it to the entry's target. */
int entry_start(struct entry *entry);

/*
 * See to it that ENTRY's sources are those that there should be. What cannot be measured is its
 * target's problem. Returns -ENOMEM or 0.
 */
int entry_follow(struct entry *entry, struct targets *targets, int64_t now_ns);

/* The target of EXE in CONTAINER; NULL: there is none. */
struct target *targets_find(const struct targets *targets, const char *exe,
			    const struct container *container);
/* Likewise; it is made if there is none. */
int targets_get(struct targets *targets, const char *exe, const struct container *container,
		struct target **out);
void targets_remove(struct targets *targets, size_t number);

#endif
