// SPDX-License-Identifier: MIT
/* Measure options that outlive the command line or the file that they were read from. */
#include "cli/measure_options.h"

#include <stdlib.h>
#include <string.h>

static bool copy_text(const char **to, const char *text)
{
	*to = text ? strdup(text) : NULL;
	return !text || *to;
}

/* A list that is not copied to its end is free_list's all the same. */
static bool copy_list(const char ***to, const char **list, size_t n)
{
	*to = calloc(n + 1, sizeof(**to));
	for (size_t i = 0; *to && i < n; i++)
		if (!copy_text(&(*to)[i], list[i]))
			return false;
	return *to;
}

static void free_list(const char **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free((char *)list[i]);
	free(list);
}

void measure_options_free_copy(struct measure_options *copy)
{
	if (!copy)
		return;
	free_list(copy->counts, copy->n_counts);
	free_list(copy->times, copy->n_times);
	free_list(copy->prints, copy->n_prints);
	free((char *)copy->flag);
	free((char *)copy->key);
	free((char *)copy->filter);
	free((char *)copy->hist);
	free((char *)copy->keep);
	free(copy);
}

struct measure_options *measure_options_copy(const struct measure_options *options)
{
	struct measure_options *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *options;
	copy->counts = copy->times = copy->prints = NULL;
	copy->flag = copy->key = copy->filter = copy->hist = copy->keep = NULL;
	if (copy_list(&copy->counts, options->counts, options->n_counts) &&
	    copy_list(&copy->times, options->times, options->n_times) &&
	    copy_list(&copy->prints, options->prints, options->n_prints) &&
	    copy_text(&copy->flag, options->flag) && copy_text(&copy->key, options->key) &&
	    copy_text(&copy->filter, options->filter) && copy_text(&copy->hist, options->hist) &&
	    copy_text(&copy->keep, options->keep))
		return copy;
	measure_options_free_copy(copy);
	return NULL;
}

static bool equal_texts(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool equal_lists(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
	for (size_t i = 0; n_a == n_b && i < n_a; i++)
		if (!equal_texts(a[i], b[i]))
			return false;
	return n_a == n_b;
}

bool measure_options_equal(const struct measure_options *a, const struct measure_options *b)
{
	return equal_lists(a->counts, a->n_counts, b->counts, b->n_counts) &&
	       equal_lists(a->times, a->n_times, b->times, b->n_times) &&
	       equal_lists(a->prints, a->n_prints, b->prints, b->n_prints) &&
	       a->split == b->split && a->depth == b->depth && a->limit == b->limit &&
	       a->children == b->children && a->budget == b->budget &&
	       equal_texts(a->key, b->key) && equal_texts(a->filter, b->filter) &&
	       equal_texts(a->hist, b->hist);
}
