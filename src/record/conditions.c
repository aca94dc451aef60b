// SPDX-License-Identifier: MIT
#include "record/conditions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "measure/slower.h"
#include "program/item.h"

bool record_condition_read_time(const char *text, uint64_t *ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 } };
	char *end;
	const double value = strtod(text, &end);

	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].unit) == 0 && value > 0 && value * units[i].ns < 1e15) {
			*ns = (uint64_t)(value * units[i].ns);
			return true;
		}
	return false;
}

/*
 * Return true if TEXT names one thing: not several, and no pattern, whose matches have other names.
 */
static bool names_one(const char *text)
{
	const enum item_kind kind = item_kind_of(text);

	if (strchr(text, ',') || item_is_function_line(text))
		return false;
	return kind == ITEM_PROBE || kind == ITEM_FUNCTION || kind == ITEM_C_FUNCTION ||
	       kind == ITEM_GC_PHASE;
}

/* Return true if TEXT is what --time times as one pair: START,STOP or a function. */
static bool names_one_pair(const char *text)
{
	const char *comma = strchr(text, ',');
	char start[512];

	if (!comma)
		return item_is_code(text) && names_one(text);
	snprintf(start, sizeof(start), "%.*s", (int)(comma - text), text);
	return names_one(start) && names_one(comma + 1);
}

/*
 * Read REST, which is NULL or `if FILTER`, into CONDITION. Returns false if it is neither. *ERR is
 * set if the filter is wrong; the message is then in CTX.
 */
static bool read_hit_filter(struct ocp_ctx *ctx, char *rest, struct record_condition *condition,
			    int *err)
{
	const char *word = strsep(&rest, " ");

	if (!word)
		return true;
	if (strcmp(word, "if") != 0 || !rest)
		return false;
	*err = hit_filter_parse(ctx, rest, &condition->filter);
	return true;
}

/* Read TEXT into *NS. Returns false, and sets *ERR, if it is not a time that can be waited for. */
static bool read_time(struct ocp_ctx *ctx, const char *text, uint64_t *ns, int *err)
{
	if (record_condition_read_time(text, ns))
		return true;
	*err = ctx_error(ctx, -EINVAL, "'%s' is not a time above 0, such as 500us, 10ms or 2s",
			 text);
	return false;
}

/*
 * Read the words of a condition. The words are in COPY. *ERR is set if the time or the filter is
 * wrong; the message is then in CTX.
 */
static bool read_condition(struct ocp_ctx *ctx, char *copy, struct record_condition *condition,
			   int *err)
{
	char *rest = copy;
	const char *kind = strsep(&rest, " "), *what = strsep(&rest, " "), *time;

	if (!what || !*what)
		return false;
	condition->what = strdup(what);
	if (strcmp(kind, "hit") == 0) {
		condition->kind = WHEN_HIT;
		return names_one(what) && read_hit_filter(ctx, rest, condition, err);
	}
	if (strcmp(kind, "pause") == 0) {
		condition->kind = WHEN_PAUSE;
		return !rest && read_time(ctx, what, &condition->ns, err);
	}
	time = strsep(&rest, " ");
	condition->kind = WHEN_SLOWER;
	return strcmp(kind, "slower") == 0 && time && !rest && names_one_pair(what) &&
	       read_time(ctx, time, &condition->ns, err);
}

int record_condition_read(struct ocp_ctx *ctx, const char *text, struct record_condition *condition)
{
	char *copy = strdup(text);
	bool is_right;
	int err = 0;

	*condition = (struct record_condition){ .text = text };
	if (!copy)
		return ctx_no_memory(ctx);
	is_right = read_condition(ctx, copy, condition, &err);
	free(copy);
	if (err || is_right)
		return err;
	return ctx_error(ctx, -EINVAL,
			 "not 'slower START,STOP TIME', 'slower fn:NAME TIME', 'pause TIME', "
			 "'hit PROBE' or 'hit PROBE if FILTER', with one name for each other word "
			 "in capitals");
}

void record_condition_free(struct record_condition *condition)
{
	free(condition->what);
	hit_filter_free(condition->filter);
	*condition = (struct record_condition){ 0 };
}

/* Return true if WHAT names the pair from START to STOP, or the calls of START if STOP is "". */
bool record_condition_names_pair(const char *what, const char *start, const char *stop)
{
	const size_t n = strlen(start);

	if (!*stop)
		return strcmp(what, start) == 0;
	return strncmp(what, start, n) == 0 && what[n] == ',' && strcmp(what + n + 1, stop) == 0;
}

/*
 * Return true if HIT is one of CONDITION, a hit of its probe. The first time that this is not
 * decided, because an argument has another type than it is compared with, log a warning.
 */
static bool passes_filter(struct ocp_ctx *ctx, struct record_condition *condition,
			  const struct ocp_hit *hit)
{
	bool is_unsure = false;
	const bool passes =
		!condition->filter || hit_filter_matches(condition->filter, hit, &is_unsure);

	if (is_unsure && !condition->is_unsure)
		ctx_log(ctx, OCP_LOG_WARN,
			"--when '%s': an argument of a hit has another type than it is "
			"compared with, or was not recorded; such a comparison is false",
			condition->text);
	condition->is_unsure |= is_unsure;
	return passes;
}

bool record_condition_holds(struct ocp_ctx *ctx, struct record_condition *condition,
			    const struct ocp_hit *hit)
{
	const struct slow_pair *pair = slow_pair_of(hit);

	switch (condition->kind) {
	case WHEN_SLOWER:
		return pair && pair->ns >= condition->ns &&
		       record_condition_names_pair(condition->what, pair->start, pair->stop);
	case WHEN_PAUSE:
		return pair && pair->ns >= condition->ns && strncmp(pair->start, "gc:", 3) == 0;
	default:
		return !pair && strcmp(hit->probe, condition->what) == 0 &&
		       passes_filter(ctx, condition, hit);
	}
}
