// SPDX-License-Identifier: MIT
#include "watch/label.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "base/strbuf.h"
#include "measure/args/value.h"

/* ---- texts ---------------------------------------------------------------------------------- */

static size_t add_replacement(char *text, size_t n)
{
	static const char replacement[] = { '\xef', '\xbf', '\xbd' };

	memcpy(text + n, replacement, sizeof(replacement));
	return n + sizeof(replacement);
}

/*
 * Copy the N bytes at BYTES to TEXT. Replace each zero byte, and each byte that belongs to no
 * character, by U+FFFD. If IS_CUT, more bytes followed, which are not known: leave out what may be
 * a part of a character at the end, and add "...".
 */
static void copy_text(const char *bytes, size_t n, bool is_cut, char text[LABEL_TEXT_BYTES])
{
	char copy[MEASURE_BY_TEXT + 4] = "";
	size_t at = 0, to = 0;

	memcpy(copy, bytes, n);
	while (at < n) {
		size_t its = copy[at] ? utf8_character_bytes(copy + at) : 0;

		if (its && its <= n - at) {
			memcpy(text + to, copy + at, its);
			to += its;
		} else if (is_cut && n - at < 4 && (unsigned char)copy[at] >= 0xc2) {
			break;
		} else {
			to = add_replacement(text, to);
			its = 1;
		}
		at += its;
	}
	memcpy(text + to, is_cut ? "..." : "", is_cut ? 4 : 1);
}

static void write_int(const struct value_group *group, char text[LABEL_TEXT_BYTES])
{
	const int64_t number = (int64_t)group->value.number;
	const char byte = (char)number;

	if (group->type == OCP_ARG_BOOL && (number == 0 || number == 1))
		snprintf(text, LABEL_TEXT_BYTES, "%s", number ? "true" : "false");
	else if (group->type == OCP_ARG_CHAR && number >= 0 && number <= UINT8_MAX)
		copy_text(&byte, 1, false, text);
	else
		snprintf(text, LABEL_TEXT_BYTES, "%" PRId64, number);
}

bool label_text(const struct value_group *group, char text[LABEL_TEXT_BYTES])
{
	const struct measure_by *by = &group->value;
	double real;

	if (group->is_others)
		return false;
	switch (by->type) {
	case FILTER_TYPE_INT:
		write_int(group, text);
		return true;
	case FILTER_TYPE_FLOAT:
		memcpy(&real, &by->number, sizeof(real));
		float_text(text, real);
		return true;
	case FILTER_TYPE_STRING:
		copy_text(by->text, by->number < MEASURE_BY_TEXT ? by->number : MEASURE_BY_TEXT,
			  value_group_is_cut(group), text);
		return true;
	default:
		return false;
	}
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Return where TEXT is, or belongs, in label->sorted. */
static size_t place_of(const struct label *label, const char *text)
{
	return SEARCH(i, label->n_values, strcmp(label->values[label->sorted[i]], text) < 0);
}

/* Return the number of the row of TEXT, or -1 if there is none. */
static ptrdiff_t find_value(const struct label *label, const char *text)
{
	const size_t at = place_of(label, text);

	if (at == label->n_values || strcmp(label->values[label->sorted[at]], text) != 0)
		return -1;
	return (ptrdiff_t)label->sorted[at];
}

static int add_value(struct ocp_ctx *ctx, struct label *label, const char *text)
{
	const size_t at = place_of(label, text), n = label->n_values;
	char *copy = strdup(text);

	if (!copy)
		return ctx_no_memory(ctx);
	memmove(label->sorted + at + 1, label->sorted + at, (n - at) * sizeof(*label->sorted));
	label->sorted[at] = n;
	label->values[n] = copy;
	label->view.n_values = ++label->n_values;
	return 0;
}

int label_set(struct ocp_ctx *ctx, struct label *label, const struct watch_label_spec *spec,
	      const char *arg)
{
	if (!arg)
		return 0;
	label->name = strdup(spec->name);
	label->arg = strdup(arg);
	label->values = calloc(spec->limit + 1, sizeof(*label->values));
	label->sorted = calloc(spec->limit + 1, sizeof(*label->sorted));
	if (!label->name || !label->arg || !label->values || !label->sorted)
		return ctx_no_memory(ctx);
	label->view = (struct watch_label){
		.name = label->name,
		.limit = spec->limit,
		.values = (const char *const *)label->values,
	};
	return add_value(ctx, label, "other");
}

bool label_is(const struct label *label, const struct watch_label_spec *spec, const char *arg)
{
	if (!label->name || !arg)
		return !label->name && !arg;
	return strcmp(label->name, spec->name) == 0 && label->view.limit == spec->limit &&
	       strcmp(label->arg, arg) == 0;
}

void label_free(struct label *label)
{
	for (size_t i = 0; i < label->n_values; i++)
		free(label->values[i]);
	free(label->values);
	free(label->sorted);
	free(label->name);
	free(label->arg);
	*label = (struct label){ 0 };
}

size_t label_value_of(const struct label *label, const struct value_group *group)
{
	char text[LABEL_TEXT_BYTES];
	const ptrdiff_t value = label_text(group, text) ? find_value(label, text) : -1;

	return value < 0 ? WATCH_OTHER : (size_t)value;
}

/* ---- new values ----------------------------------------------------------------------------- */

static bool is_full(const struct label *label)
{
	return label->n_values > label->view.limit;
}

int label_gather(struct ocp_ctx *ctx, const struct label *label, const struct value_groups *groups,
		 struct label_candidates *candidates)
{
	char text[LABEL_TEXT_BYTES];

	for (size_t i = 0; i < groups->n && !is_full(label); i++) {
		struct label_candidate *new;

		if (!label_text(&groups->list[i], text) || find_value(label, text) >= 0)
			continue;
		new = array_add(candidates->list, candidates->n);
		if (!new)
			return ctx_no_memory(ctx);
		*new = (struct label_candidate){ strdup(text), groups->list[i].hits };
		if (!new->text)
			return ctx_no_memory(ctx);
	}
	return 0;
}

static int compare_candidate_texts(const void *a, const void *b)
{
	return strcmp(((const struct label_candidate *)a)->text,
		      ((const struct label_candidate *)b)->text);
}

/* The most frequent ones first; if they are equally frequent, by text. */
static int compare_candidates(const void *a, const void *b)
{
	const struct label_candidate *x = a, *y = b;

	return x->hits != y->hits ? COMPARE(y->hits, x->hits) : strcmp(x->text, y->text);
}

/* Merge the candidates that have the same text. */
static void merge_candidates(struct label_candidates *candidates)
{
	struct label_candidate *list = candidates->list;
	size_t left = 0;

	qsort(list, candidates->n, sizeof(*list), compare_candidate_texts);
	for (size_t i = 0; i < candidates->n; i++) {
		if (left && strcmp(list[left - 1].text, list[i].text) == 0) {
			list[left - 1].hits += list[i].hits;
			free(list[i].text);
		} else {
			list[left++] = list[i];
		}
	}
	candidates->n = left;
}

int label_admit(struct ocp_ctx *ctx, struct label *label, struct label_candidates *candidates)
{
	int err = 0;

	if (candidates->n) {
		merge_candidates(candidates);
		qsort(candidates->list, candidates->n, sizeof(*candidates->list),
		      compare_candidates);
	}
	for (size_t i = 0; !err && i < candidates->n && !is_full(label); i++)
		err = add_value(ctx, label, candidates->list[i].text);
	label_candidates_free(candidates);
	return err;
}

void label_candidates_free(struct label_candidates *candidates)
{
	for (size_t i = 0; i < candidates->n; i++)
		free(candidates->list[i].text);
	free(candidates->list);
	*candidates = (struct label_candidates){ 0 };
}

/* ---- hits and times by value ----------------------------------------------------------------- */

static struct watch_value_hits *hits_row(struct labelled_hits *hits, size_t value)
{
	const size_t at = SEARCH(i, hits->n, hits->list[i].value < value), n = hits->n;

	if (at < n && hits->list[at].value == value)
		return &hits->list[at];
	if (!array_add(hits->list, hits->n))
		return NULL;
	memmove(hits->list + at + 1, hits->list + at, (n - at) * sizeof(*hits->list));
	hits->list[at] = (struct watch_value_hits){ .value = value };
	return &hits->list[at];
}

int labelled_hits_add(struct ocp_ctx *ctx, struct labelled_hits *hits, size_t value, uint64_t n,
		      bool is_final)
{
	struct watch_value_hits *row = hits_row(hits, value);

	if (!row)
		return ctx_no_memory(ctx);
	row->hits += n;
	row->base += is_final ? n : 0;
	return 0;
}

void labelled_hits_reset(struct labelled_hits *hits)
{
	for (size_t i = 0; i < hits->n; i++)
		hits->list[i].hits = hits->list[i].base;
}

void labelled_hits_free(struct labelled_hits *hits)
{
	free(hits->list);
	*hits = (struct labelled_hits){ 0 };
}

/* Make room for one more row. Return 0 or -ENOMEM. */
static int grow_times(struct labelled_times *times)
{
	void *list = array_grow(times->list, times->n, sizeof(*times->list)), *records;

	if (!list)
		return -ENOMEM;
	times->list = list;
	records = array_grow(times->records, times->n, sizeof(void *));
	if (!records)
		return -ENOMEM;
	times->records = records;
	return 0;
}

/* Return the index of the row of VALUE, which is added if there is none; -1: out of memory. */
static ptrdiff_t time_row(struct labelled_times *times, size_t value)
{
	const size_t at = SEARCH(i, times->n, times->list[i].value < value), behind = times->n - at;
	struct labelled_time *new;

	if (behind && times->list[at].value == value)
		return (ptrdiff_t)at;
	new = calloc(1, sizeof(*new));
	if (!new || grow_times(times)) {
		free(new);
		return -1;
	}
	memmove(times->list + at + 1, times->list + at, behind * sizeof(*times->list));
	memmove(times->records + at + 1, times->records + at, behind * sizeof(void *));
	times->list[at] = (struct watch_value_times){ .value = value, .buckets = new->buckets };
	times->records[at] = new;
	times->n++;
	return (ptrdiff_t)at;
}

int labelled_times_add_row(struct ocp_ctx *ctx, struct labelled_times *times, size_t value)
{
	return time_row(times, value) < 0 ? ctx_no_memory(ctx) : 0;
}

int labelled_times_add(struct ocp_ctx *ctx, struct labelled_times *times, size_t value,
		       const struct value_group *group, bool is_final)
{
	const ptrdiff_t at = time_row(times, value);
	struct labelled_time *record;

	if (at < 0)
		return ctx_no_memory(ctx);
	record = times->records[at];
	times->list[at].count += group->hits;
	times->list[at].sum_ns += group->times->sum_ns;
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		record->buckets[i] += group->times->buckets[i];
	if (!is_final)
		return 0;
	record->base_count += group->hits;
	record->base_sum_ns += group->times->sum_ns;
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		record->base_buckets[i] += group->times->buckets[i];
	return 0;
}

void labelled_times_reset(struct labelled_times *times)
{
	for (size_t i = 0; i < times->n; i++) {
		struct labelled_time *record = times->records[i];

		times->list[i].count = record->base_count;
		times->list[i].sum_ns = record->base_sum_ns;
		memcpy(record->buckets, record->base_buckets, sizeof(record->buckets));
	}
}

void labelled_times_free(struct labelled_times *times)
{
	for (size_t i = 0; i < times->n; i++)
		free(times->records[i]);
	free(times->records);
	free(times->list);
	*times = (struct labelled_times){ 0 };
}
