// SPDX-License-Identifier: MIT
#include "profile/formats/html_writer.h"

#include <stdlib.h>

#include "profile/formats/flame_json.h"
#include "profile/formats/page_writer.h"

/* What the page shows. DIFF is NULL unless it is a comparison. */
struct flame_data {
	const struct profile *profile;
	const struct profile_diff *diff;
	const char *title;
};

static int write_flame_data(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	const struct flame_data *flame = data;

	return flame_json_write(ctx, flame->profile, flame->diff, flame->title, to);
}

static int write_page(struct ocp_ctx *ctx, const struct profile *profile,
		      const struct profile_diff *diff, const char *title, FILE *to)
{
	return page_write(ctx, flame_page, "the profile", write_flame_data,
			  &(struct flame_data){ profile, diff, title }, to);
}

int html_write(struct ocp_ctx *ctx, const struct profile *profile, const char *title, FILE *to)
{
	return write_page(ctx, profile, NULL, title, to);
}

int html_write_diff(struct ocp_ctx *ctx, const struct profile_diff *diff, const char *title,
		    FILE *to)
{
	struct profile both = *diff->new_profile;
	int err;

	both.n = diff->n_stacks;
	both.stacks = calloc(both.n + 1, sizeof(*both.stacks));
	if (!both.stacks)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < both.n; i++) {
		const struct profile_diff_stack *from = &diff->stacks[i];

		both.stacks[i] = *from->stack;
		both.stacks[i].value = from->change.new_value;
		if (!from->change.new_value)
			both.stacks[i].samples = 0;
	}
	err = write_page(ctx, &both, diff, title, to);
	free(both.stacks);
	return err;
}
