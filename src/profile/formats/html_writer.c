// SPDX-License-Identifier: MIT
/*
 * Writes the HTML page that the build assembles from page/page.html and the files named in it. The
 * page needs no other file. html_write() replaces the line "@data" of the page by the profile.
 */
#include "profile/formats/html_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/formats/flame_json.h"

extern const char flame_page[]; /* see page.S */

static const char data_line[] = "\n@data\n";

static int write_page(struct ocp_ctx *ctx, const struct profile *profile,
		      const struct profile_diff *diff, const char *title, FILE *to)
{
	const char *at = strstr(flame_page, data_line);
	int err;

	if (!at)
		return ctx_error(ctx, -EINVAL, "the page has no place for the profile");
	errno = 0;
	fwrite(flame_page, 1, (size_t)(at - flame_page) + 1, to);
	err = flame_json_write(ctx, profile, diff, title, to);
	fputs(at + sizeof(data_line) - 2, to);
	if (!err && (fflush(to) != 0 || ferror(to)))
		err = ctx_error(ctx, errno ? -errno : -EIO, "cannot write the profile: %s",
				strerror(errno ? errno : EIO));
	return err;
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
