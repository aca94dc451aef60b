// SPDX-License-Identifier: MIT
#include "profile/lock_releases.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"

static const enum wait_kind lock_kinds[N_LOCK_KINDS] = { WAIT_RUNTIME_LOCK, WAIT_MUTEX };

/* Name STACK. Set *LOCK to the element of LOCKS for waits with this stack, or NULL. */
static int find_lock(struct stack_namer *namer, const struct stored_stack *stack,
		     struct lock_releases *locks, struct lock_releases **lock)
{
	int err = stack_namer_name(namer, stack);
	enum wait_kind kind;

	*lock = NULL;
	if (err)
		return err;
	kind = wait_kind_of(&(struct named_stack){ .frames = namer->frames, .n = namer->n });
	for (size_t i = 0; i < N_LOCK_KINDS; i++)
		if (locks[i].kind == kind)
			*lock = &locks[i];
	return 0;
}

static int add_releases(struct stack_namer *namer, const struct profile_reading *reading,
			struct lock_releases *locks)
{
	int err = 0;

	for (size_t i = 0; i < reading->n_releases && !err; i++) {
		const struct release_sample *release = &reading->releases[i];
		struct profile_sample sample = { .stack = release->stack,
						 .tgid = release->tgid,
						 .tid = release->tid,
						 .n = release->n,
						 .value = release->ns };
		struct lock_releases *lock;

		memcpy(sample.comm, release->comm, sizeof(sample.comm));
		err = find_lock(namer, release->wait, locks, &lock);
		if (!err && lock)
			err = profile_add_sample(namer, &sample, true, &lock->by);
	}
	return err;
}

static int add_open(struct stack_namer *namer, const struct profile_reading *reading,
		    bool lacks_idle, struct lock_releases *locks)
{
	int err = 0;

	for (size_t i = 0; i < reading->n && !err; i++) {
		const struct profile_sample *sample = &reading->samples[i];
		struct lock_releases *lock;

		if (!sample->is_open || (lacks_idle && sample->is_idle))
			continue;
		err = find_lock(namer, sample->stack, locks, &lock);
		if (lock) {
			lock->open.samples += sample->n;
			lock->open.ns += sample->value;
		}
	}
	return err;
}

static uint64_t rest_of(uint64_t all, uint64_t known)
{
	return all > known ? all - known : 0;
}

static void set_unknown(const struct profile *profile, struct lock_releases *locks)
{
	struct wait_sum sums[N_WAIT_KINDS];

	wait_kinds_sum(profile, sums);
	for (size_t i = 0; i < N_LOCK_KINDS; i++) {
		const struct wait_sum *all = &sums[locks[i].kind], *open = &locks[i].open;

		locks[i].unknown.samples =
			rest_of(all->samples, locks[i].by.samples + open->samples);
		locks[i].unknown.ns = rest_of(all->ns, locks[i].by.value + open->ns);
	}
}

int lock_releases_make(struct stack_namer *namer, const struct profile_reading *reading,
		       struct profile *profile)
{
	struct lock_releases *locks = calloc(N_LOCK_KINDS, sizeof(*locks));
	int err = 0;

	profile->locks = locks;
	if (!locks)
		return ctx_no_memory(namer->ctx);
	for (size_t i = 0; i < N_LOCK_KINDS; i++) {
		locks[i].kind = lock_kinds[i];
		locks[i].by.kind = PROFILE_WAITS;
		locks[i].by.stacks = calloc(reading->n_releases + 1, sizeof(*locks[i].by.stacks));
		if (!locks[i].by.stacks)
			err = ctx_no_memory(namer->ctx);
	}
	if (!err)
		err = add_releases(namer, reading, locks);
	if (!err)
		err = add_open(namer, reading, profile->lacks_idle, locks);
	for (size_t i = 0; i < N_LOCK_KINDS && !err; i++)
		profile_merge(&locks[i].by);
	if (!err)
		set_unknown(profile, locks);
	return err;
}

void lock_releases_free(struct lock_releases *locks)
{
	for (size_t i = 0; i < N_LOCK_KINDS && locks; i++)
		profile_free(&locks[i].by);
	free(locks);
}

/* ---- threads and functions ------------------------------------------------------------------ */

static int by_releaser(const void *a, const void *b)
{
	const struct lock_releaser *x = a, *y = b;
	int order = COMPARE((uintptr_t)x->thread, (uintptr_t)y->thread);

	return order ? order : profile_compare_frames(x->function, y->function);
}

static int by_released_time(const void *a, const void *b)
{
	const struct lock_releaser *x = a, *y = b;
	int order = COMPARE(y->sum.ns, x->sum.ns);

	if (!order)
		order = COMPARE(x->thread->tid, y->thread->tid);
	return order ? order : profile_compare_frames(x->function, y->function);
}

/* Merge the elements of LIST that have the same thread and function. Return the number of rest. */
static size_t merge_releasers(struct lock_releaser *list, size_t all)
{
	size_t n = 0;

	qsort(list, all, sizeof(*list), by_releaser);
	for (size_t i = 0; i < all; i++) {
		if (n && by_releaser(&list[n - 1], &list[i]) == 0) {
			list[n - 1].sum.samples += list[i].sum.samples;
			list[n - 1].sum.ns += list[i].sum.ns;
		} else {
			list[n++] = list[i];
		}
	}
	return n;
}

int lock_releases_list(struct ocp_ctx *ctx, const struct lock_releases *lock,
		       struct lock_releaser **releasers, size_t *n)
{
	struct lock_releaser *list = calloc(lock->by.n + 1, sizeof(*list));

	*releasers = list;
	*n = 0;
	if (!list)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < lock->by.n; i++) {
		const struct named_stack *stack = &lock->by.stacks[i];
		const size_t at = profile_site_of(&lock->by, i, SITES_OWN).frame;

		list[i] = (struct lock_releaser){ profile_stack_thread(stack),
						  stack->frames[at],
						  { stack->samples, stack->value } };
	}
	*n = merge_releasers(list, lock->by.n);
	qsort(list, *n, sizeof(*list), by_released_time);
	return 0;
}
