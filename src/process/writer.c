// SPDX-License-Identifier: MIT
#include "process/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inside/own_stores.h"

enum {
	OWN_MIN = 2048,		 /* fewer writes take less time one by one than by own stores */
	FIRST_OWN_SLICE = 16384, /* the process copies a page for about every six stores */
	FIRST_SLICE = 2048,
	MIN_SLICE = 1024,
	SLICE_NS = 3300 * 1000,
};

struct plan_writer {
	struct ocp_ctx *ctx;
	struct memory *memory;
	struct tracee *tracee;
	struct patcher *patcher;
	struct own_stores *own; /* NULL: the process cannot make stores itself */
	bool is_unsure;
};

static void give_up_stores(struct plan_writer *writer)
{
	ctx_log(writer->ctx, OCP_LOG_INFO, "%s; writing byte by byte", ocp_error(writer->ctx));
	own_stores_close(writer->own);
	writer->own = NULL;
}

int writer_open(struct ocp_ctx *ctx, struct memory *memory, struct tracee *tracee, size_t n_writes,
		struct plan_writer **out)
{
	struct plan_writer *writer = calloc(1, sizeof(*writer));
	int err;

	*out = writer;
	if (!writer)
		return ctx_no_memory(ctx);
	writer->ctx = ctx;
	writer->memory = memory;
	writer->tracee = tracee;
	err = patcher_open(ctx, memory_pid(memory), &writer->patcher);
	if (err) {
		writer_close(writer);
		*out = NULL;
		return err;
	}
	if (tracee && n_writes >= OWN_MIN &&
	    own_stores_open(ctx, memory, tracee, writer->patcher, &writer->own) != 0)
		give_up_stores(writer);
	return 0;
}

void writer_close(struct plan_writer *writer)
{
	if (!writer)
		return;
	own_stores_close(writer->own);
	patcher_close(writer->patcher);
	free(writer);
}

size_t writer_first_slice(const struct plan_writer *writer)
{
	return writer->own ? FIRST_OWN_SLICE : FIRST_SLICE;
}

/*
 * A store by the process itself takes about 10 ns, so a stop in which the process stores the bytes
 * is mostly spent on the calls around the stores. A longer stop means that the machine is busy, and
 * smaller slices would not shorten it.
 */
size_t writer_next_slice(const struct plan_writer *writer, size_t n_writes, int64_t stopped_ns)
{
	size_t n;

	if (writer->own || !n_writes || stopped_ns <= 0)
		return writer_first_slice(writer);
	n = (size_t)((double)n_writes * SLICE_NS / (double)stopped_ns);
	return n < MIN_SLICE ? MIN_SLICE : n;
}

int writer_prepare(struct plan_writer *writer, const struct patch_write *writes, size_t n)
{
	if (!writer->own)
		return 0;
	return own_stores_prepare(writer->own, writes, n < OWN_MIN ? 0 : n);
}

int writer_apply(struct plan_writer *writer, const struct patch_write *writes, size_t n,
		 bool may_refuse)
{
	writer->is_unsure = false;
	if (writer->own && n >= OWN_MIN) {
		int err = own_stores_apply(writer->own, writes, n, &writer->is_unsure);

		if (err != -ENOTSUP && err != -EAGAIN)
			return err;
		give_up_stores(writer);
		if (may_refuse && n > FIRST_SLICE)
			return WRITER_TOO_MANY;
	}
	return patcher_apply(writer->patcher, writes, n);
}

bool writer_is_untouched(const struct plan_writer *writer, const struct patch_write *writes,
			 size_t n)
{
	struct memory_piece *pieces = calloc(n + 1, sizeof(*pieces));
	uint8_t *bytes = malloc(2 * n + 1), *at = bytes; /* at most 2 each: a semaphore */
	bool same = pieces && bytes;

	for (size_t i = 0; same && i < n; i++)
		pieces[i] =
			(struct memory_piece){ .addr = writes[i].addr, .bytes = writes[i].bytes };
	same = same && memory_read(writer->memory, pieces, n, bytes) == 0;
	for (size_t i = 0; same && i < n; at += writes[i++].bytes)
		same = memcmp(at, &writes[i].new, writes[i].bytes) == 0;
	free(pieces);
	free(bytes);
	return same;
}

int writer_put_back(struct plan_writer *writer, const struct patch_write *writes, size_t n)
{
	struct patch_write *back = calloc(n + 1, sizeof(*back));
	int err;

	if (!back)
		return ctx_no_memory(writer->ctx);
	for (size_t i = 0; i < n; i++) {
		back[i] = writes[n - 1 - i];
		back[i].old = writes[n - 1 - i].new;
		back[i].new = writes[n - 1 - i].old;
		back[i].phase = N_PATCH_PHASES - 1 - writes[n - 1 - i].phase;
	}
	err = writer_apply(writer, back, n, false);
	free(back);
	return err;
}

bool writer_is_unsure(const struct plan_writer *writer)
{
	return writer->is_unsure;
}

void writer_set_running(struct plan_writer *writer)
{
	own_stores_close(writer->own);
	writer->own = NULL;
	patcher_set_running(writer->patcher);
}
