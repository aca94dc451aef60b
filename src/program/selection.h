/* SPDX-License-Identifier: MIT */
/*
 * Which probes are meant by items. There are two ways to ask: for each probe, whether it is meant
 * (selection_takes), where probes come file by file; and for all probes at once, which of them are
 * meant (selection_choose and its parts).
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
	struct selected **items; /* in the order in which they were added; without those of ALL */
	size_t n, n_regexps;
	void *names; /* those of ITEM_PROBE, see tsearch(3) */
	bool all;
};

void selection_free(struct selection *selection);

/* ITEM is copied. -EINVAL: a name that is there already, or no regular expression. */
int selection_add(struct ocp_ctx *ctx, struct selection *selection, const struct item *item);

/* Item number I, without those of ITEM_ALL_PROBES; NULL behind the last. */
const struct item *selection_item(const struct selection *selection, size_t i);

bool selection_is_empty(const struct selection *selection);
/* Is NAME meant? Remembers which items have been of use. */
bool selection_takes(struct selection *selection, const char *name);

/*
 * -ENOENT with a sentence for an item that has taken nothing so far. NAMES[0..N) are those there
 * are, WHERE says in what.
 */
int selection_check_used(struct ocp_ctx *ctx, const struct selection *selection,
			 const char *const *names, size_t n, const char *where);

/* The sentence for NAME, which is none of NAMES[0..N). Returns -ENOENT. */
int selection_unknown(struct ocp_ctx *ctx, const char *name, const char *const *names, size_t n,
		      const char *where);

/* ---- choosing from all ---------------------------------------------------------------------- */

struct probe_names {
	const char *const *names; /* ascending, each once */
	size_t n;
	const char *where; /* they are, for messages */
};

/* Takes the probe of this number. What it returns, unless 0, ends the choice, and is its result. */
typedef int (*take_probe_fn)(void *data, size_t probe);

/*
 * Have TAKE called with the probe called NAME; with every probe that matches RE, of which TEXT is
 * the source; and with every probe that SELECTION means, item by item. -ENOENT with a sentence if
 * there is none.
 */
int choose_name(struct ocp_ctx *ctx, const struct probe_names *among, const char *name,
		take_probe_fn take, void *data);
int choose_matching(struct ocp_ctx *ctx, const struct probe_names *among, const char *text,
		    const struct str_regexp *re, take_probe_fn take, void *data);
int selection_choose(struct ocp_ctx *ctx, const struct selection *selection,
		     const struct probe_names *among, take_probe_fn take, void *data);

#endif
