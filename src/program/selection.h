/* SPDX-License-Identifier: MIT */
/*
 * Finds the probes that items describe. There are two ways. selection_takes() checks one probe, for
 * callers that read probes file by file. selection_choose(), choose_name() and choose_matching()
 * search a list for all described probes.
 */
#ifndef PROGRAM_SELECTION_H
#define PROGRAM_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include "base/ctx.h"
#include "base/str_regexp.h"
#include "program/item.h"

struct selected;

struct selection {
	struct selected **items; /* in the order of selection_add(), without ITEM_ALL_PROBES */
	size_t n, n_regexps;
	void *names; /* tree of the items without a regular expression, by text: see tsearch(3) */
	bool all;
};

void selection_free(struct selection *selection);

/*
 * Add a copy of ITEM. Return -EINVAL if an item with the same name was added before, or if the
 * regular expression of ITEM is invalid.
 */
int selection_add(struct ocp_ctx *ctx, struct selection *selection, const struct item *item);

/* Return item number I, not counting ITEM_ALL_PROBES; NULL after the last item. */
const struct item *selection_item(const struct selection *selection, size_t i);

/* Return true if item number I has described a probe in any call of selection_takes() so far. */
bool selection_was_used(const struct selection *selection, size_t i);

bool selection_is_empty(const struct selection *selection);
bool selection_has_kind(const struct selection *selection, enum item_kind kind);
/* Return true if an item describes NAME, and mark the item as used. */
bool selection_takes(struct selection *selection, const char *name);

/*
 * Return -ENOENT, with a message, if there is an item that has described no probe so far. For the
 * message, NAMES[0..N) are the probes that exist, and WHERE is the program.
 */
int selection_check_used(struct ocp_ctx *ctx, const struct selection *selection,
			 const char *const *names, size_t n, const char *where);

/*
 * Record the error that NAME is not among NAMES[0..N), the probes of the program WHERE. Return
 * -ENOENT.
 */
int selection_unknown(struct ocp_ctx *ctx, const char *name, const char *const *names, size_t n,
		      const char *where);

/*
 * Record the error that the regular expression TEXT matches nothing of the kind WHAT (such as
 * "probe") in WHERE, with a hint if a `|` in TEXT is taken literally. Return -ENOENT.
 */
int selection_matches_none(struct ocp_ctx *ctx, const char *text, const char *what,
			   const char *where);

/* ---- choosing from all ---------------------------------------------------------------------- */

struct probe_names {
	const char *const *names; /* sorted, without duplicates */
	size_t n;
	const char *where; /* the program that has the probes, for messages */
};

/*
 * Called with the index PROBE of a probe. Any return value other than 0 stops the search, and the
 * function that searches returns this value.
 */
typedef int (*take_probe_fn)(void *data, size_t probe);

/*
 * Call TAKE for the probe called NAME (choose_name), for each probe that matches RE, whose source
 * is TEXT (choose_matching), or for each probe that SELECTION describes, item by item
 * (selection_choose). Return -ENOENT, with a message, if NAME, RE or an item other than
 * ITEM_ALL_PROBES describes no probe.
 */
int choose_name(struct ocp_ctx *ctx, const struct probe_names *among, const char *name,
		take_probe_fn take, void *data);
int choose_matching(struct ocp_ctx *ctx, const struct probe_names *among, const char *text,
		    const struct str_regexp *re, take_probe_fn take, void *data);
int selection_choose(struct ocp_ctx *ctx, const struct selection *selection,
		     const struct probe_names *among, take_probe_fn take, void *data);

#endif
