// SPDX-License-Identifier: MIT
#include "tool/measure_asserts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/plural.h"
#include "measure/assertion.h"
#include "measure/meter.h"

static bool is_counted(const struct ocp_meter *meter, const char *name)
{
	for (size_t i = 0; i < meter->table.n_probes; i++)
		if (meter->table.probes[i].is_counted &&
		    strcmp(meter->table.probes[i].name, name) == 0)
			return true;
	return false;
}

int asserts_check(const struct options *options, const struct ocp_meter *meter)
{
	for (size_t i = 0; i < options->n_asserts; i++) {
		const struct assertion *a = &options->asserts[i];

		if (!measure_request_times(&options->request, a) && !is_counted(meter, a->subject))
			return ctx_error(options->ctx, -ENOENT,
					 "--assert '%s': '%s' is not counted", a->text, a->subject);
	}
	return 0;
}

/* ---- the totals ----------------------------------------------------------------------------- */

/* Decide A if its subject is counted. Return false if it is not. */
static bool decide_by_hits(const struct assertion *a, const struct ocp_sample *sample,
			   struct assertion_result *result)
{
	if (assertion_is_about_time(a))
		return false;
	for (size_t i = 0; i < ocp_sample_probe_count(sample); i++) {
		const struct ocp_probe_hits *probe = ocp_sample_probe(sample, i);

		if (!probe->is_counted || strcmp(probe->probe, a->subject) != 0)
			continue;
		*result = assertion_decide_hits(a, probe->hits, ocp_sample_time_ns(sample));
		return true;
	}
	return false;
}

static struct assertion_result decide(const struct assertion *a, const struct ocp_sample *sample)
{
	struct assertion_result result = { .verdict = VERDICT_UNDECIDED,
					   .why = "it is not measured" };

	if (decide_by_hits(a, sample, &result))
		return result;
	for (size_t i = 0; i < ocp_sample_pair_count(sample); i++) {
		const struct ocp_pair *pair = ocp_sample_pair(sample, i);

		if (assertion_names_pair(a, pair->start, pair->stop))
			return assertion_decide_pair(a, pair, ocp_sample_time_ns(sample));
	}
	return result;
}

/* Write VALUE to TEXT, exactly enough to tell it from a bound. */
static const char *value_text(const struct assertion *a, double value, char text[40])
{
	static const struct {
		double ns;
		const char *unit;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 0, "ns" } };
	size_t i = 0;

	if (!assertion_is_about_time(a)) {
		snprintf(text, 40, a->function == ASSERT_RATE ? "%.6g/s" : "%.0f", value);
		return text;
	}
	while (value < units[i].ns)
		i++;
	snprintf(text, 40, "%.7g%s", units[i].ns > 0 ? value / units[i].ns : value, units[i].unit);
	return text;
}

static void say_result(const struct assertion *a, const struct assertion_result *result)
{
	const char *verdict = result->verdict == VERDICT_FAILS ? "fails" : "is undecided";
	char low[40], high[40], calls[64] = "";

	if (result->why) {
		say("--assert '%s' %s: %s", a->text, verdict, result->why);
		return;
	}
	value_text(a, result->low, low);
	if (assertion_is_about_time(a))
		snprintf(calls, sizeof(calls), ", of %" PRIu64 " call%s", result->calls,
			 plural(result->calls));
	if (result->low == result->high)
		say("--assert '%s' %s: it is %s%s", a->text, verdict, low, calls);
	else
		say("--assert '%s' %s: it is from %s to %s%s", a->text, verdict, low,
		    value_text(a, result->high, high), calls);
}

int asserts_report(const struct options *options, const struct ocp_sample *sample)
{
	int code = EXIT_DONE;

	for (size_t i = 0; i < options->n_asserts; i++) {
		const struct assertion *a = &options->asserts[i];
		const struct assertion_result result = decide(a, sample);

		if (result.verdict == VERDICT_HOLDS)
			continue;
		say_result(a, &result);
		code = EXIT_NOT_MET;
	}
	return code;
}
