/* SPDX-License-Identifier: MIT */
/* The conditions of a flight recorder: the values of --when. */
#ifndef RECORD_CONDITIONS_H
#define RECORD_CONDITIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "measure/hit_filter.h"
#include "ocaml_probes.h"

enum record_condition_kind { WHEN_SLOWER, WHEN_PAUSE, WHEN_HIT };

/* A value of --when. */
struct record_condition {
	enum record_condition_kind kind;
	const char *text;	   /* as it was written */
	char *what;		   /* a pair, a function or a probe */
	uint64_t ns;		   /* the shortest time for which the condition holds */
	struct hit_filter *filter; /* of WHEN_HIT: which hits; NULL: all */
	bool is_unsure;		   /* it was logged that some hits are not decided */
};

/*
 * Read TEXT, which must outlive *CONDITION. Returns 0; -EINVAL, with a message in CTX that does not
 * contain TEXT, if TEXT is no condition; or -ENOMEM. Free CONDITION in all cases.
 */
int record_condition_read(struct ocp_ctx *ctx, const char *text,
			  struct record_condition *condition);
void record_condition_free(struct record_condition *condition);

/* Return true if WHAT names the pair from START to STOP, or the calls of START if STOP is "". */
bool record_condition_names_pair(const char *what, const char *start, const char *stop);

/*
 * Return true if CONDITION holds because of HIT. The first time that a filter does not decide this,
 * because an argument has another type than it is compared with, log a warning.
 */
bool record_condition_holds(struct ocp_ctx *ctx, struct record_condition *condition,
			    const struct ocp_hit *hit);

/* Read TEXT, such as 100us, 20ms, 2s, 1m or 1h, into *NS. Returns false if it is no such time. */
bool record_condition_read_time(const char *text, uint64_t *ns);

#endif
