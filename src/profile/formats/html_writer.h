/* SPDX-License-Identifier: MIT */
/*
 * Room profile/formats: files of profiles.
 * In: a profile.
 * Out: pprof, JSON, pages.
 * Callers: tool and serve.
 */
/*
 * Writes a profile as a single HTML file that needs no other file: a flame graph, and a list of the
 * functions.
 */
#ifndef PROFILE_FORMATS_HTML_WRITER_H
#define PROFILE_FORMATS_HTML_WRITER_H

#include <stdio.h>
#include "profile/formats/flame_json.h"

int html_write(struct ocp_ctx *ctx, const struct profile *profile, const struct flame_form *form,
	       FILE *to);

/*
 * Like html_write(), but for a comparison: the widths of the boxes show the new profile, the
 * colours show the changes.
 */
int html_write_diff(struct ocp_ctx *ctx, const struct profile_diff *diff,
		    const struct flame_form *form, FILE *to);

#endif
