/* SPDX-License-Identifier: MIT */
/*
 * A rule carries out one spec. At each tick it opens sources for what the spec names, and ends
 * sources that are no longer needed. A spec names a file; or a process, and after its exit another
 * process of the same executable; or all programs, which the rule searches for.
 */
#ifndef WATCH_RULE_H
#define WATCH_RULE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "watch/target.h"
#include "watch/watch.h"

/* A process that could not be measured by the engine `inside`. */
struct refused {
	pid_t pid;
	uint64_t start_time;
	unsigned int tries;
	int64_t retry_ns; /* CLOCK_MONOTONIC: when to try again to measure the process */
	char *why;
};

struct watch_rule {
	char *exe; /* the given path, made absolute; NULL: the rule searches for all programs */
	pid_t pid; /* 0: every process of the file */
	/*
	 * The container of the given path or process; all "": no container, or the rule searches
	 * for all programs.
	 */
	struct container container;
	/*
	 * With PID: a descriptor of the executable, if the executable's path leads to another file
	 * in our mount namespace (as for a process in a container); -1: the path leads to the
	 * executable.
	 */
	int foreign_file;
	struct measure_request *request;
	struct watch_label_spec label; /* the name is a copy */
	enum engine_choice engine;
	bool is_inside;	  /* the rule measures with the engine `inside` now */
	bool was_refused; /* with ENGINE_AUTO: the engine `inside` has refused a process */
	pid_t last_pid;	  /* pid of the newest source that measures one process; 0: none so far */
	struct refused *refused;
	size_t n_refused;
	struct target *target; /* NULL: the rule searches for all programs */
	int64_t retry_ns;      /* CLOCK_MONOTONIC: when to search or to open a source again */
	int64_t settle_ns;     /* CLOCK_MONOTONIC: no search before this time */
	bool has_searched;
	struct warned_pids hidden; /* unreadable processes that have been reported */
	/*
	 * The source that watch_rule_new() opens and watch_rule_start() attaches. NULL: there is
	 * none, as for a file whose processes count inside.
	 */
	struct source *first;
};

/* Free RULE, which may be NULL. The sources that it has added to targets must have ended. */
void watch_rule_free(struct watch_rule *rule);
/* Create a rule for SPEC and, unless it searches for programs, open its first source. */
int watch_rule_new(struct targets *targets, const struct watch_spec *spec, struct watch_rule **out);
/* Return true if SPEC names the same processes, engine and measurement as RULE. */
bool watch_rule_is_for(const struct watch_rule *rule, const struct watch_spec *spec);
/* Return true if RULE and OTHER, which must both name a program, are for the same file. */
bool watch_rule_has_file_of(const struct watch_rule *rule, const struct watch_rule *other);
/* Attach the first source, and add it to the target of the rule. */
int watch_rule_start(struct watch_rule *rule);

/*
 * Open the sources that RULE lacks now, and end those that it no longer needs. A failure to measure
 * becomes the problem of the target. Return -ENOMEM or 0.
 */
int watch_rule_follow(struct watch_rule *rule, struct targets *targets, int64_t now_ns);

/*
 * Handle the case that counting by BPF exceeds the budget; WHY is the message. With ENGINE_AUTO, if
 * RULE can count inside, count inside from now on, set *ERR to -ENOMEM or 0, and return true.
 * Otherwise, change nothing and return false.
 */
bool watch_rule_move_inside(struct watch_rule *rule, struct targets *targets, const char *why,
			    int *err);
#endif
