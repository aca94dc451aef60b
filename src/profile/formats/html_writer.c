// SPDX-License-Identifier: MIT
#include "profile/formats/html_writer.h"

#include "profile/formats/page_writer.h"

/* What the page shows: a profile or a comparison; the other one is NULL. */
struct flame_data {
	const struct profile *profile;
	const struct profile_diff *diff;
	const struct flame_form *form;
};

static int write_flame_data(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	const struct flame_data *flame = data;

	return flame->diff ? flame_json_write_diff(ctx, flame->diff, flame->form, to)
			   : flame_json_write(ctx, flame->profile, flame->form, to);
}

int html_write(struct ocp_ctx *ctx, const struct profile *profile, const struct flame_form *form,
	       FILE *to)
{
	const struct flame_data data = { .profile = profile, .form = form };

	return page_write(ctx, flame_page, "the profile", write_flame_data, &data, to);
}

int html_write_diff(struct ocp_ctx *ctx, const struct profile_diff *diff,
		    const struct flame_form *form, FILE *to)
{
	const struct flame_data data = { .diff = diff, .form = form };

	return page_write(ctx, flame_page, "the profile", write_flame_data, &data, to);
}
