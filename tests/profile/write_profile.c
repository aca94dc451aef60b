// SPDX-License-Identifier: MIT
/*
 * write_profile pprof|html|folded: the profile on the standard input, see made_profile.h, in that
 * format. html is a page that shows all frames first, folded is one that shows the folded graph.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/made_profile.h"
#include "profile/formats/html_writer.h"
#include "profile/formats/pprof_writer.h"

int main(int argc, char **argv)
{
	char *text = NULL;
	size_t room = 0;
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct made_profile made;
	int status;

	if (argc != 2 || !ctx)
		errx(1, "usage: write_profile pprof|html|folded <PROFILE");
	if (getdelim(&text, &room, '\0', stdin) < 0)
		err(1, "standard input");
	made = made_profile_of(text);
	status = strcmp(argv[1], "pprof") == 0
			 ? pprof_write(ctx, &made.profile, stdout)
			 : html_write(ctx, &made.profile,
				      &(struct flame_form){ .title = made.title,
							    .is_unfolded =
								    strcmp(argv[1], "html") == 0 },
				      stdout);
	if (status)
		warnx("%s", ocp_error(ctx));
	made_profile_free(&made);
	ocp_ctx_free(ctx);
	free(text);
	return status != 0;
}
