/* SPDX-License-Identifier: MIT */
/* A profile as one HTML file that needs no other: a flame graph, and a list of the functions. */
#ifndef PROFILE_FORMATS_HTML_WRITER_H
#define PROFILE_FORMATS_HTML_WRITER_H

#include <stdio.h>
#include "profile/profile_diff.h"

/* TITLE is any text: the page shows it as it is. */
int html_write(struct ocp_ctx *ctx, const struct profile *profile, const char *title, FILE *to);

/* The widths are those of the new profile, the colours say what has changed. */
int html_write_diff(struct ocp_ctx *ctx, const struct profile_diff *diff, const char *title,
		    FILE *to);

#endif
