/* SPDX-License-Identifier: MIT */
/* Reads profiles that `profile --json` or `profile --folded` wrote. The files are not trusted. */
#ifndef PROFILE_FORMATS_PROFILE_READER_H
#define PROFILE_FORMATS_PROFILE_READER_H

#include <stdbool.h>
#include "profile/profile.h"

struct read_profile {
	struct profile profile; /* without times if the file is folded */
	bool has_kind;		/* the folded form does not say what was sampled */
	struct named_frame *frames;
	struct json_object *json; /* owns the texts of JSON */
	char *text;		  /* owns the texts of the folded form */
};

/*
 * Read PATH. A file in the folded form is taken for a profile of KIND. Errors name the file and the
 * line. The caller frees *READ with read_profile_free(), also after an error.
 */
int read_profile_open(struct ocp_ctx *ctx, const char *path, enum profile_kind kind,
		      struct read_profile *read);
void read_profile_free(struct read_profile *read);

#endif
