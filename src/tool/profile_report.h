/* SPDX-License-Identifier: MIT */
/* The report of `profile` at the end: the files, and the standard output. */
#ifndef TOOL_PROFILE_REPORT_H
#define TOOL_PROFILE_REPORT_H

#include <stdbool.h>
#include "profile/formats/profile_reader.h"

enum profile_form { PROFILE_TABLE, PROFILE_JSON, PROFILE_FOLDED };

struct profile_report {
	enum profile_form form;
	const char *html, *pprof; /* files to write; NULL: none */
	const char *title;	  /* title of the HTML page */
	bool quiet;
	struct profile *before; /* older profile to compare with; NULL: none */
};

/*
 * Read the older profile PATH, with which another profile is compared. KIND is the kind of that
 * other profile; HAS_KIND is true if KIND is certain. Profiles of different kinds are refused. The
 * caller frees *READ, also after an error.
 */
int profile_read_old(struct ocp_ctx *ctx, const char *path, enum profile_kind kind, bool has_kind,
		     struct read_profile *read);

/* Write the files, then the standard output. This changes PROFILE. */
int profile_report(struct ocp_ctx *ctx, const struct profile_report *report,
		   struct profile *profile);

#endif
