/* SPDX-License-Identifier: MIT */
/*
 * Continuously samples processes, which may start and end, and makes profiles of intervals. The
 * intervals may overlap, because the counts in the kernel are never reset: a profile is the
 * difference between two readings of the counts, so that it contains every sample of its interval.
 */
#ifndef PROFILE_RECORDER_H
#define PROFILE_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "profile/profile.h"

enum { RECORDER_MAX_PROCESSES = 256 };

struct recorder;

/*
 * KIND must be PROFILE_CPU or PROFILE_WORDS. HZ is only for PROFILE_CPU. BY_PTRACE is as in struct
 * profiler_spec.
 */
int recorder_open(struct ocp_ctx *ctx, enum profile_kind kind, unsigned int hz, bool by_ptrace,
		  struct recorder **out);
/* Free RECORDER, which may be NULL. */
void recorder_close(struct recorder *recorder);

/* Start or pause sampling the CPU. Allocated words are always sampled. */
int recorder_start(struct recorder *recorder);
void recorder_pause(struct recorder *recorder);

struct recorded_process {
	pid_t pid;
	const char *exe; /* the name of the program in profiles */
};

/*
 * Sample the N processes of LIST and no others. A process that cannot be sampled is left out with a
 * warning. Return 0, -ENOMEM, or the error of an operation on BPF maps.
 */
int recorder_follow(struct recorder *recorder, const struct recorded_process *list, size_t n);
/* Read the mappings of processes that have loaded code. Call this about once a second. */
int recorder_refresh(struct recorder *recorder);
/*
 * Return true if the caller should open a new recorder, because BPF maps are half full, or because
 * a listed process cannot be sampled: either there are too many processes, or the process has an id
 * that was sampled before for another process or program.
 */
bool recorder_is_worn(const struct recorder *recorder);

/*
 * The start of an interval. If all members are 0, the interval starts when the recorder was opened.
 */
struct record_mark {
	struct record *records;
	size_t n;
	struct profile_losses losses;
	struct stack_losses stack_losses;
	uint64_t start_ns; /* since 1970 */
	int64_t monotonic_ns;
};

int recorder_mark(struct recorder *recorder, struct record_mark *mark);
void record_mark_free(struct record_mark *mark);

/* A profile, and the process whose samples it contains. */
struct process_profile {
	struct profile profile;
	const char *exe; /* NULL: the profile is of all processes that match, or empty */
	pid_t pid;
};

/* Selects the processes whose samples a profile contains. */
struct record_filter {
	const char *exe; /* name of the program; NULL: any */
	pid_t pid;	 /* 0: any */
};

bool record_filter_has(const struct record_filter *filter, const char *exe, pid_t pid);

/*
 * Make profiles of the time since MARK for the processes that match FILTER: one profile for each
 * process that has samples or, if IS_ONE, a single profile for all of them. If there are no
 * samples, make one empty profile. The first profile contains the losses of all processes. The
 * names are valid until the recorder is closed. Free the list with process_profiles_free().
 */
int recorder_take(struct recorder *recorder, const struct record_mark *mark,
		  const struct record_filter *filter, bool is_one, struct process_profile **list,
		  size_t *n);
void process_profiles_free(struct process_profile *list, size_t n);

#endif
