/* SPDX-License-Identifier: MIT */
/*
 * A rule carries out one spec. Each tick it opens and ends the sources of its file, of its process
 * or its successor, or of all programs found.
 */
#ifndef WATCH_RULE_H
#define WATCH_RULE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "watch/targets.h"
#include "watch/watch.h"

struct watch_rule {
	char *exe; /* the given path, made absolute; NULL: all programs found */
	pid_t pid; /* 0: every process of the file */
	/*
	 * The container of the given path or process; all "": none, or all programs are searched.
	 */
	struct container container;
	/*
	 * With PID: the executable, if its path leads elsewhere in our mount namespace, as for a
	 * process in a container; -1: use the path.
	 */
	int foreign_file;
	struct measure_request *request;
	struct target *target; /* NULL: all programs found */
	int64_t retry_ns;      /* CLOCK_MONOTONIC: no retry before */
	int64_t settle_ns;     /* CLOCK_MONOTONIC: no search before */
	bool has_searched;
	struct warned_pids hidden; /* unreadable processes that were reported */
	/* Opened before the rule starts. */
	struct source *first;
};

/* RULE may be NULL. */
void watch_rule_free(struct watch_rule *rule);
/* Create a rule for SPEC and open its first source, unless it searches for programs. */
int watch_rule_new(struct targets *targets, const struct watch_spec *spec, struct watch_rule **out);
/* Does SPEC ask for the same? */
bool watch_rule_is_for(const struct watch_rule *rule, const struct watch_spec *spec);
/* Are both rules for the same file? False for rules that search for programs. */
bool watch_rule_has_file_of(const struct watch_rule *rule, const struct watch_rule *other);
/* Attach the first source, and give it to the target of the rule. */
int watch_rule_start(struct watch_rule *rule);

/*
 * Open and end sources as needed now. A failure to measure is the problem of the target. Returns
 * -ENOMEM or 0.
 */
int watch_rule_follow(struct watch_rule *rule, struct targets *targets, int64_t now_ns);

#endif
