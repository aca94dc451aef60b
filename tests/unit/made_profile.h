/* SPDX-License-Identifier: MIT */
/* Profiles that nobody measured: what writers of formats are given in tests. */
#ifndef TESTS_UNIT_MADE_PROFILE_H
#define TESTS_UNIT_MADE_PROFILE_H

#include "profile/profile.h"

struct made_profile {
	struct profile profile;
	char *title;
	struct named_frame *frames;
	struct json_object *json; /* holds the texts */
};

/*
 * TEXT is JSON: {"profile":{"title","kind","hz","start_ns","duration_ns","truncated","lost"},
 * "frames":[[function,kind,file,line,is_inlined]...],"stacks":[[samples,value,frame...]...]}, with
 * the outermost frame first. The sums are made here. Ends the program if TEXT is something else.
 */
struct made_profile made_profile_of(const char *text);
void made_profile_free(struct made_profile *made);

#endif
