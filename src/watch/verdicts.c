// SPDX-License-Identifier: MIT
#include "watch/verdicts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_rules.h"
#include "watch/examiner.h"

#define SECOND_NS INT64_C(1000000000)

enum {
	/* The maximum number of files in a batch; each file takes a descriptor. */
	MAX_BATCH = 256,
	MAX_FILES = 65536,
	/* How long a file is remembered after it was last seen. */
	KEEP_S = 600,
	KEEP_EXCEEDING_S = 86400, /* longer, since a new verdict would be reported again */
	KEEP_CROWDED_S = 60,	  /* if more than MAX_FILES / 2 files are remembered */
};

/* The limit of wall time is longer than that of CPU time, for files on slow disks. */
static const struct exam_limits usual_limits = {
	.cpu_ms = 1000,
	.wall_ms = 10000,
	.memory_mib = 128,
};

/* Identifies one state of a file: when the file is changed, its key becomes another one. */
struct file_key {
	dev_t dev;
	ino_t ino;
	off_t bytes;
	struct timespec modified, changed;
};

enum standing { STANDING_NEW, STANDING_WAITS, STANDING_WITHOUT, STANDING_WITH, STANDING_EXCEEDS };

struct judged_file {
	bool is_used; /* this slot of the hash table is in use */
	struct file_key key;
	enum standing standing;
	int64_t seen_ns;
};

/* Files to examine. keys[i] is the key of files[i] when the file was queued. */
struct exam_batch {
	struct exam_file files[MAX_BATCH];
	struct file_key keys[MAX_BATCH];
	size_t n;
};

struct verdicts {
	struct ocp_ctx *ctx;
	struct file_rules rules;
	struct exam_limits limits;
	bool is_all;
	/* Files of root and of this user are not examined, see verdicts_set_strangers(). */
	bool trusts_owners;
	/* A hash table by device and inode number, with open addressing. */
	struct judged_file *slots;
	size_t n_slots, n_used; /* n_slots is a power of two */
	struct exam_batch waiting, examined;
	struct examiner *examiner;
	bool cannot_examine; /* the failure to start the examiner has been reported */
};

static int64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* ---- known files ---------------------------------------------------------------------------- */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same_key(const struct file_key *a, const struct file_key *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->bytes == b->bytes &&
	       same_time(&a->modified, &b->modified) && same_time(&a->changed, &b->changed);
}

static struct judged_file *find_slot(const struct verdicts *v, const struct file_key *key)
{
	const uint64_t hash =
		((uint64_t)key->ino ^ (uint64_t)key->dev << 32) * UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = hash >> 32;; i++) {
		struct judged_file *slot = &v->slots[i & (v->n_slots - 1)];

		if (!slot->is_used || (slot->key.dev == key->dev && slot->key.ino == key->ino))
			return slot;
	}
}

static bool is_kept(const struct verdicts *v, const struct judged_file *file, int64_t now)
{
	const int64_t unseen_ns = now - file->seen_ns;
	int64_t keep_s = file->standing == STANDING_EXCEEDS ? KEEP_EXCEEDING_S : KEEP_S;

	if (2 * v->n_used > MAX_FILES)
		keep_s = KEEP_CROWDED_S;
	return file->standing == STANDING_WAITS || unseen_ns < keep_s * SECOND_NS;
}

/*
 * Forget files that have not been seen for long, and resize the table so that at most a quarter of
 * its slots are in use.
 */
static int rebuild(struct verdicts *v)
{
	struct verdicts next = { .n_slots = 256 };
	const int64_t now = now_ns();
	size_t n_kept = 0;

	for (size_t i = 0; i < v->n_slots; i++)
		n_kept += v->slots[i].is_used && is_kept(v, &v->slots[i], now);
	if (n_kept >= MAX_FILES)
		return ctx_error(v->ctx, -EAGAIN, "more than %d files are mapped as code",
				 MAX_FILES);
	while (next.n_slots < 4 * n_kept)
		next.n_slots *= 2;
	next.slots = calloc(next.n_slots, sizeof(*next.slots));
	if (!next.slots)
		return ctx_no_memory(v->ctx);
	for (size_t i = 0; i < v->n_slots; i++)
		if (v->slots[i].is_used && is_kept(v, &v->slots[i], now))
			*find_slot(&next, &v->slots[i].key) = v->slots[i];
	free(v->slots);
	v->slots = next.slots;
	v->n_slots = next.n_slots;
	v->n_used = n_kept;
	return 0;
}

/*
 * Set *OUT to the entry of the file with KEY. If there is no entry, or if the file has changed,
 * make a new one.
 */
static int get_file(struct verdicts *v, const struct file_key *key, struct judged_file **out)
{
	struct judged_file *slot;
	int err = 2 * v->n_used >= v->n_slots ? rebuild(v) : 0;

	if (err)
		return err;
	slot = find_slot(v, key);
	v->n_used += !slot->is_used;
	if (!slot->is_used || !same_key(&slot->key, key))
		*slot = (struct judged_file){ .is_used = true, .key = *key };
	slot->seen_ns = now_ns();
	*out = slot;
	return 0;
}

/*
 * Read the KEY of the open file FD, and set *IS_TRUSTED to whether root or this user owns it.
 * -ENOEXEC: the file cannot be a program.
 */
static int identify(int fd, struct file_key *key, bool *is_trusted)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	*is_trusted = st.st_uid == 0 || st.st_uid == geteuid();
	*key = (struct file_key){ st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim };
	return 0;
}

/* ---- rules ---------------------------------------------------------------------------------- */

/*
 * Queue the file for examination, unless it was queued before or the queue is full. In all three
 * cases return -EAGAIN with a message: there is no verdict on the file yet. If queuing fails,
 * return another error. Never return 0.
 */
static int enqueue(struct verdicts *v, int fd, const struct file_origin *origin,
		   struct judged_file *file)
{
	struct exam_batch *batch = &v->waiting;
	struct exam_file *next = &batch->files[batch->n];

	if (file->standing == STANDING_NEW && batch->n < MAX_BATCH) {
		next->origin = *origin;
		next->origin.name = strdup(origin->name);
		if (!next->origin.name)
			return ctx_no_memory(v->ctx);
		next->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (next->fd < 0) {
			free((char *)next->origin.name);
			return ctx_error(v->ctx, -errno, "%s: %s", origin->name, strerror(errno));
		}
		batch->keys[batch->n++] = file->key;
		file->standing = STANDING_WAITS;
	}
	return ctx_error(v->ctx, -EAGAIN, "%s: being examined", origin->name);
}

static int admit(void *data, int fd, const struct file_origin *origin)
{
	struct verdicts *v = data;
	struct judged_file *file;
	struct file_key key = { 0 };
	bool is_trusted = false;
	int err;

	if (!v->is_all && !origin->is_library)
		return FILE_UNKNOWN;
	err = identify(fd, &key, &is_trusted);
	if (err == -ENOEXEC)
		return FILE_WITHOUT_PROBES;
	if (err)
		return ctx_error(v->ctx, err, "%s: %s", origin->name, strerror(-err));
	if (is_trusted && v->trusts_owners)
		return FILE_UNKNOWN;
	err = get_file(v, &key, &file);
	if (err)
		return err;
	if (file->standing == STANDING_EXCEEDS)
		return ctx_error(v->ctx, -EFBIG, "%s: exceeds the limits", origin->name);
	if (!v->is_all)
		return FILE_UNKNOWN;
	if (file->standing == STANDING_WITHOUT)
		return FILE_WITHOUT_PROBES;
	if (file->standing == STANDING_WITH)
		return FILE_WITH_PROBES;
	return enqueue(v, fd, origin, file);
}

static void report_file(struct verdicts *v, struct judged_file *file,
			const struct file_origin *origin, const char *why)
{
	const char *what_to_do =
		origin->is_library || v->trusts_owners ? "" : "; use --exe FILE to measure it";
	char who[32] = "";

	if (file->standing == STANDING_EXCEEDS)
		return;
	file->standing = STANDING_EXCEEDS;
	if (origin->pid)
		snprintf(who, sizeof(who), "pid %d: ", (int)origin->pid);
	ctx_log(v->ctx, OCP_LOG_WARN, "%sskipped: %s: %s%s", who, origin->name, why, what_to_do);
}

/*
 * Report a file that has exceeded the limits while this process, not the examiner, was reading it.
 */
static void on_exceeds(void *data, int fd, const struct file_origin *origin)
{
	struct verdicts *v = data;
	struct judged_file *file;
	struct file_key key = { 0 };
	bool is_trusted = false;

	if (!identify(fd, &key, &is_trusted) && get_file(v, &key, &file) == 0)
		report_file(v, file, origin, exam_reason(ocp_error(v->ctx), origin));
}

/* ---- examining ------------------------------------------------------------------------------ */

static void drop(struct exam_file *file)
{
	close(file->fd);
	free((char *)file->origin.name);
	*file = (struct exam_file){ .fd = -1 };
}

static void clear(struct exam_batch *batch)
{
	for (size_t i = 0; i < batch->n; i++)
		if (batch->files[i].fd >= 0)
			drop(&batch->files[i]);
	batch->n = 0;
}

/*
 * Store RESULT, the result for file number I of the examined files, as the verdict on this file.
 * Return false if the file has changed since it was queued: RESULT is then useless.
 */
static bool take_result(struct verdicts *v, size_t i, const struct exam_result *result)
{
	const struct exam_file *exam = &v->examined.files[i];
	struct judged_file *file = find_slot(v, &v->examined.keys[i]);

	if (!file->is_used || !same_key(&file->key, &v->examined.keys[i]))
		return false;
	if (result->state == EXAM_EXCEEDS)
		report_file(v, file, &exam->origin, result->why);
	else if (file->standing == STANDING_WAITS)
		file->standing = result->state == EXAM_NOT_BEGUN     ? STANDING_NEW
				 : result->state == EXAM_WITH_PROBES ? STANDING_WITH
								     : STANDING_WITHOUT;
	return true;
}

/*
 * Take the results of the files that the examiner has finished or, if HAS_ENDED, of all its files.
 * A file that the examiner has not read is not queued again until admit() is next called for it.
 * Return whether there are new verdicts.
 */
static bool take_results(struct verdicts *v, bool has_ended)
{
	bool is_news = false;

	for (size_t i = 0; i < v->examined.n; i++) {
		const struct exam_result result = examiner_result(v->examiner, i);

		if (v->examined.files[i].fd < 0 || (result.state <= EXAM_BEGUN && !has_ended))
			continue;
		is_news |= take_result(v, i, &result);
		drop(&v->examined.files[i]);
	}
	return is_news;
}

static int start_verdicts(struct verdicts *v)
{
	int err;

	v->examined = v->waiting;
	v->waiting.n = 0;
	err = examiner_start(v->ctx, v->examined.files, v->examined.n, &v->rules, &v->limits,
			     &v->examiner);
	if (!err) {
		v->cannot_examine = false;
		return 0;
	}
	if (!v->cannot_examine)
		ctx_log(v->ctx, OCP_LOG_WARN, "new programs cannot be examined: %s",
			ocp_error(v->ctx));
	v->cannot_examine = true;
	v->waiting = v->examined;
	v->examined.n = 0;
	return err;
}

static void finish_verdicts(struct verdicts *v)
{
	clear(&v->examined);
	examiner_free(v->examiner);
	v->examiner = NULL;
}

bool verdicts_settle(struct verdicts *v, int wait_ms)
{
	const int64_t deadline_ns = now_ns() + wait_ms * (SECOND_NS / 1000);
	bool is_news = false, has_ended = true;

	while (has_ended && (v->examiner || v->waiting.n)) {
		const int64_t left_ns = deadline_ns - now_ns();

		if (!v->examiner && start_verdicts(v) != 0)
			break;
		has_ended =
			examiner_has_ended(v->examiner, left_ns > 0 ? (int)(left_ns / 1000000) : 0);
		is_news |= take_results(v, has_ended);
		if (has_ended)
			finish_verdicts(v);
	}
	return is_news;
}

/* ---- verdicts ------------------------------------------------------------------------------- */

struct verdicts *verdicts_new(struct ocp_ctx *ctx)
{
	struct verdicts *v = calloc(1, sizeof(*v));

	if (!v) {
		ctx_no_memory(ctx);
		return NULL;
	}
	v->ctx = ctx;
	v->limits = usual_limits;
	v->rules = (struct file_rules){
		.admit = admit,
		.exceeds = on_exceeds,
		.data = v,
		.max_library_sites = VERDICTS_MAX_SITES,
		.check_owners = true,
	};
	file_rules_set(ctx, &v->rules);
	return v;
}

void verdicts_free(struct verdicts *v)
{
	if (!v)
		return;
	file_rules_set(v->ctx, NULL);
	finish_verdicts(v);
	clear(&v->waiting);
	free(v->slots);
	free(v);
}

void verdicts_set_strangers(struct verdicts *v)
{
	v->is_all = v->trusts_owners = v->limits.all_runtimes = true;
	v->rules.max_sites = v->rules.max_library_sites = 0;
}

bool verdicts_await(struct verdicts *v, int wait_ms)
{
	const int64_t deadline_ns = now_ns() + wait_ms * (SECOND_NS / 1000);
	bool is_news = false;

	while (verdicts_pending(v) && now_ns() < deadline_ns)
		is_news |= verdicts_settle(v, (int)((deadline_ns - now_ns()) / 1000000) + 1);
	return is_news;
}

size_t verdicts_pending(const struct verdicts *v)
{
	size_t n = v->waiting.n;

	for (size_t i = 0; i < v->examined.n; i++)
		n += v->examined.files[i].fd >= 0;
	return n;
}

void verdicts_set_all(struct verdicts *v, bool all)
{
	v->is_all = all;
	v->rules.max_sites = all ? VERDICTS_MAX_SITES : 0;
}
