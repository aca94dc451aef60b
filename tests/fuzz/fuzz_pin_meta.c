// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: any bytes as the text beside the maps of a kept meter. What is accepted is
 * written again, and that is read as the same.
 */
#include <stdlib.h>
#include <string.h>

#include "measure/pin_meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require(int condition)
{
	if (!condition)
		abort();
}

/* Takes TEXT. NULL if it is refused. */
static struct ocp_meter *read_text(struct ocp_ctx *ctx, char *text)
{
	struct ocp_meter *meter = ocp_meter_new(ctx);

	require(meter != NULL);
	require(site_table_keep(&meter->table, text) == 0);
	if (pin_meta_parse(meter, "folder", text) == 0)
		return meter;
	require(*ocp_error(ctx) != '\0');
	ocp_meter_free(meter);
	return NULL;
}

static char *write_text(const struct ocp_meter *meter)
{
	char *text = pin_meta_text(meter, &meter->pinned_costs);

	require(text != NULL);
	return text;
}

static void check_references(const struct ocp_meter *meter)
{
	const struct site_table *table = &meter->table;

	require(meter->start_ns >= 0 && meter->request.split <= OCP_BY_PROCESS);
	for (size_t i = 0; i < meter->n_pids; i++)
		require(meter->pids[i] > 0);
	for (size_t i = 0; i < table->n_probes; i++)
		require(site_table_find(table, table->probes[i].name) == (ptrdiff_t)i);
	for (size_t i = 0; i < table->n_sites; i++)
		require(table->sites[i].file == NO_FILE ||
			(table->sites[i].file < table->n_files &&
			 table->sites[i].probe_index < table->n_probes && table->sites[i].site));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	/* A buffer of exactly that size, so that the sanitizer sees a step beyond it. */
	char *text = malloc(n + 1), *again, *same;
	struct ocp_meter *meter;

	require(ctx && text);
	memcpy(text, bytes, n);
	text[n] = '\0';
	meter = read_text(ctx, text);
	if (meter) {
		check_references(meter);
		again = write_text(meter);
		ocp_meter_free(meter);
		text = strdup(again);
		require(text != NULL);
		meter = read_text(ctx, text);
		require(meter != NULL);
		same = write_text(meter);
		require(strcmp(again, same) == 0);
		free(same);
		free(again);
		ocp_meter_free(meter);
	}
	ocp_ctx_free(ctx);
	return 0;
}
