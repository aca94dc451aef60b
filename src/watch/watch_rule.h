/* SPDX-License-Identifier: MIT */
/*
 * A rule: one spec, and what is done each tick so that the sources it stands for are there: those
 * of a file, of a process or the one that follows it, of whatever is found.
 */
#ifndef WATCH_RULE_H
#define WATCH_RULE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "watch/targets.h"
#include "watch/watch.h"

struct watch_rule {
	char *exe; /* as it was named, from the root on; NULL: everything that is found */
	pid_t pid; /* 0: every process of the file */
	/* What it was named by is in this container; all "": in none, or all is looked for. */
	struct container container;
	/*
	 * Of PID: the executable where its path leads somewhere else for us, as that of a process
	 * in a container; -1: follow the path.
	 */
	int foreign_file;
	struct measure_request *request;
	struct target *target; /* NULL: everything that is found */
	int64_t retry_ns;      /* CLOCK_MONOTONIC: not before */
	int64_t settle_ns;     /* likewise, whatever there is to be found */
	bool has_searched;
	struct warned_pids hidden; /* that may be the process that is looked for */
	/* Before it is watched. */
	struct source *first;
};

/* Takes NULL. */
void watch_rule_free(struct watch_rule *rule);
/* SPEC's, with its first source opened, unless it is everything that is found. */
int watch_rule_new(struct targets *targets, const struct watch_spec *spec, struct watch_rule **out);
/* Does it ask for what SPEC asks for? */
bool watch_rule_is_for(const struct watch_rule *rule, const struct watch_spec *spec);
/* Are both about the same file? Not for those that look for programs. */
bool watch_rule_has_file_of(const struct watch_rule *rule, const struct watch_rule *other);
/* Attach the first source, and give it to the rule's target. */
int watch_rule_start(struct watch_rule *rule);

/*
 * See to it that RULE's sources are those that there should be. What cannot be measured is its
 * target's problem. Returns -ENOMEM or 0.
 */
int watch_rule_follow(struct watch_rule *rule, struct targets *targets, int64_t now_ns);

#endif
