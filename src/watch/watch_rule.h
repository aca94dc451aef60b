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

/* A process that could not be measured inside. */
struct refused {
	pid_t pid;
	uint64_t start_time;
	unsigned int tries;
	int64_t retry_ns; /* CLOCK_MONOTONIC: no retry before */
	char *why;
};

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
	enum engine_choice engine;
	bool is_inside;	  /* the rule now measures with the engine `inside` */
	bool was_refused; /* with ENGINE_AUTO: `inside` has refused a process */
	pid_t last_pid;	  /* of the newest source of a process; 0: none */
	struct refused *refused;
	size_t n_refused;
	struct target *target; /* NULL: all programs found */
	int64_t retry_ns;      /* CLOCK_MONOTONIC: no retry before */
	int64_t settle_ns;     /* CLOCK_MONOTONIC: no search before */
	bool has_searched;
	struct warned_pids hidden; /* unreadable processes that were reported */
	/*
	 * The source opened before the rule starts. NULL: none, as for a file whose processes count
	 * inside.
	 */
	struct source *first;
};

/* RULE may be NULL. */
void watch_rule_free(struct watch_rule *rule);
/* Create a rule for SPEC and open its first source, unless it searches for programs. */
int watch_rule_new(struct targets *targets, const struct watch_spec *spec, struct watch_rule **out);
/* Does SPEC name the same processes, engine and measurement as RULE? */
bool watch_rule_is_for(const struct watch_rule *rule, const struct watch_spec *spec);
/* Are both rules for the same file? False for rules that search for programs. */
bool watch_rule_has_file_of(const struct watch_rule *rule, const struct watch_rule *other);
/* Attach the first source, and give it to the target of the rule. */
int watch_rule_start(struct watch_rule *rule);

/* Set the target's problem: the executable cannot be found. WHY is the reason, an errno. */
int watch_rule_tell_missing(struct watch_rule *rule, int why);

/*
 * Open and end sources as needed now. A failure to measure becomes the problem of the target.
 * Returns -ENOMEM or 0.
 */
int watch_rule_follow(struct watch_rule *rule, struct targets *targets, int64_t now_ns);

/* ---- watch_engine.c ------------------------------------------------------------------------- */

/* Use the engine that SPEC requests. -EINVAL if the engine `inside` cannot measure SPEC. */
int watch_rule_choose_engine(struct watch_rule *rule, const struct targets *targets,
			     const struct watch_spec *spec);
/*
 * Handle an overhead of counting by the kernel that exceeds the budget; WHY is the message. With
 * ENGINE_AUTO, if RULE can count inside, count inside from now on, set *ERR to -ENOMEM or 0, and
 * return true. Otherwise, change nothing and return false.
 */
bool watch_rule_move_inside(struct watch_rule *rule, struct targets *targets, const char *why,
			    int *err);
/*
 * Handle a process that the engine `inside` has refused; WHY is the message. With ENGINE_AUTO, if
 * BPF is permitted, use BPF from now on and return true. Otherwise, return false.
 */
bool watch_rule_falls_back(struct watch_rule *rule, struct ocp_ctx *ctx, const char *why);

/* ---- watch_inside.c ------------------------------------------------------------------------- */

/*
 * Follow the processes of a file that count inside, with one source for each process. Returns
 * -ENOMEM or 0.
 */
int watch_inside_follow(struct watch_rule *rule, struct targets *targets, int64_t now_ns);
void watch_inside_forget(struct watch_rule *rule);
/* Set the target's problem if a process has loaded files that are not measured, or clear it. */
int watch_inside_tell_outgrown(const struct watch_rule *rule);

/* ---- watch_rule.c, for watch_inside.c ------------------------------------------------------- */

/* Open a source of process PID, or of the file at PATH if PID is 0, for TARGET of the rule. */
int watch_rule_open(struct watch_rule *rule, struct targets *targets, struct target *target,
		    const char *path, pid_t pid);
/* Does a source of TARGET count the process PID? */
bool watch_rule_is_watched(const struct target *target, pid_t pid);
bool watch_rule_is_in_container(const struct watch_rule *rule, pid_t pid);

#endif
