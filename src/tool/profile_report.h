/* SPDX-License-Identifier: MIT */
/* What `profile` tells of a profile at the end: its files, and what it prints. */
#ifndef TOOL_PROFILE_REPORT_H
#define TOOL_PROFILE_REPORT_H

#include <stdbool.h>
#include "profile/formats/profile_reader.h"

enum profile_form { PROFILE_TABLE, PROFILE_JSON, PROFILE_FOLDED };

struct profile_report {
	enum profile_form form;
	const char *html, *pprof; /* files to write; NULL: none */
	const char *title;	  /* of the page */
	bool quiet;
	struct profile *before; /* compare with it; NULL: with nothing */
};

/*
 * Read PATH, a profile to compare with. KIND is that of the other profile, and HAS_KIND says whether it
 * is sure; profiles of two kinds are refused. The caller frees *READ, also after an error.
 */
int profile_read_old(struct ocp_ctx *ctx, const char *path, enum profile_kind kind, bool has_kind,
		     struct read_profile *read);

/* Write the files, then the standard output. PROFILE is changed. */
int profile_report(struct ocp_ctx *ctx, const struct profile_report *report,
		   struct profile *profile);

#endif
