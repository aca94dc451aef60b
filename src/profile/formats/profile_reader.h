/* SPDX-License-Identifier: MIT */
/* Reads profiles that `profile --json` or `profile --folded` wrote. The files are not trusted. */
#ifndef PROFILE_FORMATS_PROFILE_READER_H
#define PROFILE_FORMATS_PROFILE_READER_H

#include <stdbool.h>
#include "profile/profile.h"

struct read_profile {
	struct profile profile; /* without times if the file is in the folded form */
	/* false if the file is in the folded form, which does not say what was sampled */
	bool has_kind;
	struct named_frame *frames;
	struct json_object *json; /* owns the strings of a JSON file */
	char *text;		  /* owns the strings of a file in the folded form */
};

/*
 * Read the profile in PATH. If the file is in the folded form, take it for a profile of KIND. Error
 * messages name the file and, if it is known, the line. The caller frees *READ with
 * read_profile_free(), also after an error.
 */
int read_profile_open(struct ocp_ctx *ctx, const char *path, enum profile_kind kind,
		      struct read_profile *read);
void read_profile_free(struct read_profile *read);

#endif
