// SPDX-License-Identifier: MIT
#include "tool/table_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "cli/cli.h"

/* A row to sort: larger weights come first, and equal ones stay in the order of the sample. */
struct weighted_row {
	uint64_t weight;
	size_t row;
};

static int compare_weights(const void *a, const void *b)
{
	const struct weighted_row *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return COMPARE(x->row, y->row);
}

static bool is_wildcard(const struct item *item)
{
	return item->kind == ITEM_ALL_PROBES || item->kind == ITEM_PROBE_REGEXP ||
	       item->kind == ITEM_FUNCTION_REGEXP || item->kind == ITEM_FILE_LINES;
}

/*
 * Return true if the user named PROBE itself: it was not chosen by "all probes", a regular
 * expression or "all lines of a file".
 */
static bool is_named(const struct report *report, const char *probe)
{
	const struct items *items = report->counted;
	bool has_wildcard = !items;

	for (size_t i = 0; items && i < items->n; i++) {
		const struct item *item = &items->list[i];

		if (!is_wildcard(item) && strcmp(item->text, probe) == 0)
			return true;
		has_wildcard |= is_wildcard(item);
	}
	/* The user may have named a function by another name than PROBE. */
	return !has_wildcard;
}

static bool is_hidden(const struct report *report, const struct ocp_hits *row, size_t n_rows)
{
	return !report->view->shows_zeros && !row->hits && n_rows > 1 &&
	       !is_named(report, row->probe);
}

/* Sort the N rows of ALL, and return the numbers of the rows to show. */
static struct table_rows take_top_rows(const struct table_view *view, struct weighted_row *all,
				       size_t n)
{
	struct table_rows rows = { .list = calloc(n + 1, sizeof(*rows.list)) };

	if (rows.list && view->order != ORDER_NAME)
		qsort(all, n, sizeof(*all), compare_weights);
	if (rows.list)
		rows.n = view->top && view->top < n ? view->top : n;
	for (size_t i = 0; i < rows.n; i++)
		rows.list[i] = all[i].row;
	rows.n_others = n - rows.n;
	return rows;
}

struct table_rows table_rows_of_hits(const struct report *report)
{
	const size_t n_rows = ocp_sample_hits_count(report->sample);
	struct weighted_row *all = calloc(n_rows + 1, sizeof(*all));
	struct table_rows rows;
	size_t n = 0, n_hidden = 0;
	uint64_t hits = 0;

	for (size_t i = 0; all && i < n_rows; i++) {
		const struct ocp_hits *row = ocp_sample_hits(report->sample, i);

		if (is_hidden(report, row, n_rows))
			n_hidden++;
		else
			all[n++] = (struct weighted_row){ row->hits, i };
		hits += row->hits;
	}
	rows = take_top_rows(report->view, all, n);
	rows.n_hidden = n_hidden;
	for (size_t i = 0; i < rows.n; i++)
		hits -= ocp_sample_hits(report->sample, rows.list[i])->hits;
	rows.other_hits = hits;
	free(all);
	return rows;
}

struct table_rows table_rows_of_pairs(const struct report *report)
{
	const size_t n = ocp_sample_pair_count(report->sample);
	struct weighted_row *all = calloc(n + 1, sizeof(*all));
	struct table_rows rows;

	for (size_t i = 0; all && i < n; i++) {
		const struct ocp_pair *pair = ocp_sample_pair(report->sample, i);

		all[i] = (struct weighted_row){ report->view->order == ORDER_P99
							? ocp_pair_quantile_ns(pair, 0.99)
							: pair->count,
						i };
	}
	rows = take_top_rows(report->view, all, all ? n : 0);
	free(all);
	return rows;
}

void table_rows_free(struct table_rows *rows)
{
	free(rows->list);
	*rows = (struct table_rows){ 0 };
}
