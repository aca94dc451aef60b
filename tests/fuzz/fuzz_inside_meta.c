// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: any bytes as what describes the counters inside of a process; the first byte is
 * the number of sites that the block has. What is accepted is written again as the same bytes, and
 * its text is read as a meter of which nothing controls a terminal.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sanitize.h"
#include "measure/engine/inside_meta.h"
#include "measure/pin_meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_plain(const char *text)
{
	for (; text && *text; text++)
		require(!unsafe_bytes(text));
}

static void check_meter(const struct ocp_meter *meter)
{
	const struct site_table *table = &meter->table;

	for (size_t i = 0; i < meter->request.n_pairs; i++) {
		check_plain(meter->request.pairs[i].start.text);
		check_plain(request_pair_stop(&meter->request.pairs[i]));
	}
	for (size_t i = 0; i < table->n_probes; i++)
		check_plain(table->probes[i].name);
	for (size_t i = 0; i < table->n_files; i++)
		check_plain(table->files[i].name);
	for (size_t i = 0; i < table->n_sites; i++) {
		check_plain(table->sites[i].symbol);
		check_plain(table->sites[i].source);
		require(table->sites[i].file == NO_FILE ||
			(table->sites[i].file < table->n_files &&
			 table->sites[i].probe_index < table->n_probes));
	}
}

static void check_text(struct ocp_ctx *ctx, struct inside_meta *meta)
{
	struct ocp_meter *meter = ocp_meter_new(ctx);
	char *text = meta->text;

	meta->text = NULL;
	require(meter && site_table_keep(&meter->table, text) == 0);
	if (pin_meta_parse_untrusted(meter, text) == 0)
		check_meter(meter);
	ocp_meter_free(meter);
}

/* What was read would be written as it was. */
static void check_pieces(const struct inside_meta *meta, const char *bytes, size_t n)
{
	struct inside_meta_head head;
	struct iovec pieces[INSIDE_META_PIECES];

	require(inside_meta_pieces(meta, &head, pieces) == n);
	for (size_t i = 0; i < INSIDE_META_PIECES; i++) {
		require(!pieces[i].iov_len ||
			memcmp(pieces[i].iov_base, bytes, pieces[i].iov_len) == 0);
		bytes += pieces[i].iov_len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct ocp_ctx *ctx = n ? ocp_ctx_new() : NULL;
	struct inside_meta meta;
	void *copy;

	if (!n)
		return 0;
	/* A buffer of exactly that size, so that the sanitizer sees a step beyond it. */
	copy = malloc(n > 1 ? n - 1 : 1);
	require(ctx && copy);
	memcpy(copy, bytes + 1, n - 1);
	if (inside_meta_read(ctx, copy, n - 1, *bytes, &meta) == 0) {
		check_plain(meta.name);
		check_pieces(&meta, copy, n - 1);
		check_text(ctx, &meta);
	}
	inside_meta_free(&meta);
	free(copy);
	ocp_ctx_free(ctx);
	return 0;
}
