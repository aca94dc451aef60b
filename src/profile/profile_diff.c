// SPDX-License-Identifier: MIT
#include "profile/profile_diff.h"
#include "base/search.h"

#include <emmintrin.h>
#include <math.h>
#include <stdlib.h>

double profile_change_value(const struct profile_diff *diff, const struct profile_change *change)
{
	return (double)change->new_value - diff->scale * (double)change->old_value;
}

static double points_of(const struct profile_diff *diff, const struct profile_change *change)
{
	return profile_share(diff->new_profile, change->new_value) -
	       profile_share(diff->old_profile, change->old_value);
}

/*
 * Return the number of samples of equal value that estimate shares as exactly as the samples of
 * PROFILE: the square of the sum of the values, divided by the sum of the squares. The values of
 * the samples of one stack are taken to be equal. For samples at a rate it is their number.
 */
static double count_samples(const struct profile *profile)
{
	double squares = 0;

	/* The folded form of waits and of allocation has values, and no number of samples. */
	if (!profile_is_sampled(profile->kind) && !profile->duration_ns)
		return 0;
	for (size_t i = 0; i < profile->n; i++) {
		const struct named_stack *stack = &profile->stacks[i];

		if (stack->value && !stack->samples)
			return 0;
		if (stack->value)
			squares += (double)stack->value * (double)stack->value /
				   (double)stack->samples;
	}
	return squares > 0 ? (double)profile->value * (double)profile->value / squares : 0;
}

/* Return the square root of X by one instruction: the library does not need libm. */
static double root_of(double x)
{
	return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(x)));
}

double profile_diff_error(const struct profile_diff *diff, const struct profile_change *change)
{
	const double n = diff->old_samples, m = diff->new_samples;
	double p, q;

	if (n <= 0 || m <= 0)
		return NAN;
	p = (n * profile_share(diff->old_profile, change->old_value) / 100 + 1) / (n + 2);
	q = (m * profile_share(diff->new_profile, change->new_value) / 100 + 1) / (m + 2);
	return 100 * 1.96 * root_of(p * (1 - p) / (n + 2) + q * (1 - q) / (m + 2));
}

bool profile_diff_is_within_error(const struct profile_diff *diff,
				  const struct profile_change *change)
{
	return fabs(points_of(diff, change)) <= profile_diff_error(diff, change);
}

/* Return how many points the share of FUNCTION itself has grown beyond its sampling error. */
static double growth_of(const struct profile_diff *diff,
			const struct profile_diff_function *function)
{
	return function->points - profile_diff_error(diff, &function->self);
}

size_t profile_diff_grown(const struct profile_diff *diff, double above,
			  const struct profile_diff_function **worst, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < diff->n_functions; i++) {
		const struct profile_diff_function *function = &diff->functions[i];
		const double growth = growth_of(diff, function);
		size_t at;

		if (!(growth > above))
			continue;
		at = n < max ? n : max;
		n++;
		for (; at && growth_of(diff, worst[at - 1]) < growth; at--)
			if (at < max)
				worst[at] = worst[at - 1];
		if (at < max)
			worst[at] = function;
	}
	return n;
}

/* Compare for sorting the largest absolute value first. */
static int compare_points(double a, double b)
{
	return COMPARE(fabs(b), fabs(a));
}

/* ---- stacks --------------------------------------------------------------------------------- */

static int by_stack(const void *a, const void *b)
{
	const struct profile_diff_stack *x = a, *y = b;

	return profile_compare_stacks(x->stack, y->stack);
}

static int by_stack_points(const void *a, const void *b)
{
	const struct profile_diff_stack *x = a, *y = b;
	const int order = compare_points(x->points, y->points);

	return order ? order : by_stack(a, b);
}

static int compare_stacks(struct ocp_ctx *ctx, struct profile_diff *diff)
{
	const struct profile *before = diff->old_profile, *now = diff->new_profile;
	const size_t n = before->n + now->n;
	struct profile_diff_stack *list = calloc(n + 1, sizeof(*list));

	diff->stacks = list;
	if (!list)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < now->n; i++)
		list[i] = (struct profile_diff_stack){ .stack = &now->stacks[i],
						       .change = { 0, now->stacks[i].value } };
	for (size_t i = 0; i < before->n; i++)
		list[now->n + i] =
			(struct profile_diff_stack){ .stack = &before->stacks[i],
						     .change = { before->stacks[i].value, 0 } };
	qsort(list, n, sizeof(*list), by_stack);
	for (size_t i = 0; i < n; i++) {
		struct profile_diff_stack *last = diff->n_stacks ? &list[diff->n_stacks - 1] : NULL;

		if (last && by_stack(last, &list[i]) == 0) {
			last->change.old_value += list[i].change.old_value;
			last->change.new_value += list[i].change.new_value;
		} else {
			list[diff->n_stacks++] = list[i];
		}
	}
	for (size_t i = 0; i < diff->n_stacks; i++)
		list[i].points = points_of(diff, &list[i].change);
	qsort(list, diff->n_stacks, sizeof(*list), by_stack_points);
	return 0;
}

/* ---- functions ------------------------------------------------------------------------------ */

static int by_frame(const void *a, const void *b)
{
	const struct profile_diff_function *x = a, *y = b;

	return profile_compare_frames(x->frame, y->frame);
}

static int by_function_points(const void *a, const void *b)
{
	const struct profile_diff_function *x = a, *y = b;
	int order = compare_points(x->points, y->points);

	if (!order)
		order = compare_points(x->total_points, y->total_points);
	return order ? order : by_frame(a, b);
}

/* Merge OLD_FUNCTIONS and NEW_FUNCTIONS into LIST. Return the number of functions in LIST. */
static size_t merge_functions(struct profile_diff_function *list,
			      const struct profile_function *old_functions, size_t n_old,
			      const struct profile_function *new_functions, size_t n_new)
{
	size_t n = 0;

	for (size_t i = 0; i < n_new; i++)
		list[i] = (struct profile_diff_function){ .frame = new_functions[i].frame,
							  .self = { 0, new_functions[i].self },
							  .total = { 0, new_functions[i].total } };
	for (size_t i = 0; i < n_old; i++)
		list[n_new + i] =
			(struct profile_diff_function){ .frame = old_functions[i].frame,
							.self = { old_functions[i].self, 0 },
							.total = { old_functions[i].total, 0 } };
	qsort(list, n_old + n_new, sizeof(*list), by_frame);
	for (size_t i = 0; i < n_old + n_new; i++) {
		if (n && by_frame(&list[n - 1], &list[i]) == 0) {
			list[n - 1].self.old_value += list[i].self.old_value;
			list[n - 1].self.new_value += list[i].self.new_value;
			list[n - 1].total.old_value += list[i].total.old_value;
			list[n - 1].total.new_value += list[i].total.new_value;
		} else {
			list[n++] = list[i];
		}
	}
	return n;
}

static int compare_functions(struct ocp_ctx *ctx, struct profile_diff *diff)
{
	struct profile_function *before = NULL, *now = NULL;
	size_t n_before, n_now;
	int err = profile_functions(ctx, diff->old_profile, NULL, SITES_LEAF, &before, &n_before);

	if (!err)
		err = profile_functions(ctx, diff->new_profile, NULL, SITES_LEAF, &now, &n_now);
	if (!err) {
		diff->functions = calloc(n_before + n_now + 1, sizeof(*diff->functions));
		if (!diff->functions)
			err = ctx_no_memory(ctx);
	}
	if (!err)
		diff->n_functions = merge_functions(diff->functions, before, n_before, now, n_now);
	for (size_t i = 0; !err && i < diff->n_functions; i++) {
		struct profile_diff_function *function = &diff->functions[i];

		function->points = points_of(diff, &function->self);
		function->total_points = points_of(diff, &function->total);
	}
	if (!err)
		qsort(diff->functions, diff->n_functions, sizeof(*diff->functions),
		      by_function_points);
	free(before);
	free(now);
	return err;
}

/* ---- both ----------------------------------------------------------------------------------- */

int profile_diff_make(struct ocp_ctx *ctx, const struct profile *old_profile,
		      const struct profile *new_profile, struct profile_diff *diff)
{
	int err;

	*diff = (struct profile_diff){
		.old_profile = old_profile,
		.new_profile = new_profile,
		.has_times = old_profile->duration_ns && new_profile->duration_ns,
		.old_samples = count_samples(old_profile),
		.new_samples = count_samples(new_profile),
	};
	if (diff->has_times)
		diff->scale = (double)new_profile->duration_ns / (double)old_profile->duration_ns;
	else if (old_profile->value)
		diff->scale = (double)new_profile->value / (double)old_profile->value;
	err = compare_stacks(ctx, diff);
	if (!err)
		err = compare_functions(ctx, diff);
	if (err)
		profile_diff_free(diff);
	return err;
}

void profile_diff_free(struct profile_diff *diff)
{
	free(diff->stacks);
	free(diff->functions);
	*diff = (struct profile_diff){ 0 };
}
