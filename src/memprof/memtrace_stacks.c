// SPDX-License-Identifier: MIT
/*
 * A word begins with u16 bucket << 2 | tag. The tag says which codes the word stands for:
 *
 *	0	the code in the bucket
 *	1	the code in the bucket, and the code in the bucket that last came after it
 *	2	the code in the bucket, and further codes, whose number follows as u8: each is
 *		in the bucket that last came after the bucket of the code before it
 *	3	a new code for the bucket, which follows as u64
 *
 * Each word also records, for later words, that its bucket came after the last bucket of the
 * previous word. The first word of a stack counts as coming after bucket 0.
 */
#include "memprof/memtrace_stacks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 14, CHECK_STEP = 5407, MOST_PREDICTED = 255 };

enum { FOLLOWED_BY_ONE = 1, FOLLOWED_BY_MANY = 2, NEW_CODE = 3 };

struct memtrace_stacks {
	struct ocp_ctx *ctx;
	uint32_t codes[BUCKETS]; /* code in each bucket; 0: the bucket is empty */
	uint16_t next[BUCKETS];
	bool was_used[BUCKETS]; /* the bucket was used since `hand` last passed it */
	uint16_t hand;		/* where the search for a free bucket continues */
	uint16_t checked;
	uint16_t *bucket_of; /* indexed by code: 1 + number of its bucket; 0: in no bucket */
	size_t room;
	uint32_t last[MEMTRACE_MAX_DEPTH];
	uint32_t n_last;
};

int memtrace_stacks_new(struct ocp_ctx *ctx, struct memtrace_stacks **out)
{
	struct memtrace_stacks *s = calloc(1, sizeof(*s));

	*out = s;
	if (!s)
		return ctx_no_memory(ctx);
	s->ctx = ctx;
	return 0;
}

void memtrace_stacks_free(struct memtrace_stacks *s)
{
	if (!s)
		return;
	free(s->bucket_of);
	free(s);
}

uint32_t memtrace_stacks_common(const struct memtrace_stacks *s, const uint32_t *codes, uint32_t n)
{
	uint32_t common = 0;

	while (common < n && common < s->n_last && codes[common] == s->last[common])
		common++;
	return common;
}

static int reserve_code(struct memtrace_stacks *s, uint32_t code)
{
	size_t room = s->room ? s->room : 1024;
	uint16_t *buckets;

	if (code < s->room)
		return 0;
	while (room <= code)
		room *= 2;
	buckets = reallocarray(s->bucket_of, room, sizeof(*buckets));
	if (!buckets)
		return ctx_no_memory(s->ctx);
	memset(buckets + s->room, 0, (room - s->room) * sizeof(*buckets));
	s->bucket_of = buckets;
	s->room = room;
	return 0;
}

/*
 * Take a bucket for CODE: the first bucket from `hand` on that was not used since `hand` last
 * passed it (the clock algorithm). Return its number.
 */
static uint16_t take_bucket(struct memtrace_stacks *s, uint32_t code)
{
	uint16_t bucket;

	while (s->was_used[s->hand]) {
		s->was_used[s->hand] = false;
		s->hand = (uint16_t)((s->hand + 1) % BUCKETS);
	}
	bucket = s->hand;
	s->hand = (uint16_t)((s->hand + 1) % BUCKETS);
	if (s->codes[bucket])
		s->bucket_of[s->codes[bucket]] = 0;
	s->codes[bucket] = code;
	s->bucket_of[code] = (uint16_t)(bucket + 1);
	return bucket;
}

/*
 * Write a word for CODES[0] and for as many of CODES[1..N) as the cache predicts. Return the number
 * of codes that the word stands for.
 */
static uint32_t put_stack_word(struct memtrace_stacks *s, struct memtrace_packet *p,
			       const uint32_t *codes, uint32_t n, uint16_t *before)
{
	const bool is_known = s->bucket_of[codes[0]];
	uint16_t at = is_known ? (uint16_t)(s->bucket_of[codes[0]] - 1) : take_bucket(s, codes[0]);
	const uint16_t bucket = at;
	uint32_t predicted = 0;

	s->next[*before] = at;
	s->was_used[at] = true;
	while (is_known && predicted < MOST_PREDICTED && predicted + 1 < n &&
	       s->codes[s->next[at]] == codes[predicted + 1]) {
		at = s->next[at];
		s->was_used[at] = true;
		predicted++;
	}
	*before = at;
	if (!is_known) {
		memtrace_put(p, (uint64_t)bucket << 2 | NEW_CODE, 2);
		memtrace_put(p, codes[0], 8);
		return 1;
	}
	memtrace_put(p,
		     (uint64_t)bucket << 2 |
			     (predicted < FOLLOWED_BY_MANY ? predicted : FOLLOWED_BY_MANY),
		     2);
	if (predicted >= FOLLOWED_BY_MANY)
		memtrace_put(p, predicted, 1);
	return predicted + 1;
}

int memtrace_stacks_put(struct memtrace_stacks *s, struct memtrace_packet *p, const uint32_t *codes,
			uint32_t n, uint32_t common, size_t count_bytes)
{
	uint16_t before = 0;
	uint32_t words = 0;
	size_t count_at, end;
	int err = 0;

	for (uint32_t i = common; i < n && !err; i++)
		err = reserve_code(s, codes[i]);
	if (err)
		return err;
	memtrace_put_varying(p, common);
	count_at = p->n;
	memtrace_put(p, 0, count_bytes);
	for (uint32_t i = common; i < n; words++)
		i += put_stack_word(s, p, codes + i, n - i, &before);
	end = p->n;
	p->n = count_at;
	memtrace_put(p, words, count_bytes);
	p->n = end;
	memcpy(s->last, codes, n * sizeof(*codes));
	s->n_last = n;
	return 0;
}

struct memtrace_check memtrace_stacks_check(struct memtrace_stacks *s)
{
	const uint16_t bucket = s->checked;

	s->checked = (uint16_t)((s->checked + CHECK_STEP) % BUCKETS);
	return (struct memtrace_check){ bucket, s->next[bucket], s->codes[bucket] };
}
