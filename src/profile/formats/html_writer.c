// SPDX-License-Identifier: MIT
/*
 * Writes the HTML page that the build assembles from page/page.html and the files named in it. The
 * page needs no other file.
 */
#include "profile/formats/html_writer.h"

#include <stdlib.h>

#include "profile/formats/flame_json.h"
#include "profile/formats/page_frame.h"

extern const char flame_page[]; /* see page.S */

/* What the page shows. */
struct shown {
	const struct profile *profile;
	const struct profile_diff *diff; /* NULL: not a comparison */
	const char *title;
};

static int write_shown(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	const struct shown *shown = data;

	return flame_json_write(ctx, shown->profile, shown->diff, shown->title, to);
}

static int write_page(struct ocp_ctx *ctx, const struct profile *profile,
		      const struct profile_diff *diff, const char *title, FILE *to)
{
	const struct shown shown = { .profile = profile, .diff = diff, .title = title };

	return page_frame_write(ctx, flame_page, "profile", write_shown, &shown, to);
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
