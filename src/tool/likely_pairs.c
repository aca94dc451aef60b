// SPDX-License-Identifier: MIT
#include "tool/likely_pairs.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PAIRS = 16, NAME_BYTES = 256 };

/* The ends of the names of two probes between which a time passes. */
static const struct {
	const char *start, *stop;
} endings[] = {
	{ "start", "done" }, { "start", "stop" },      { "start", "end" },  { "start", "finish" },
	{ "begin", "end" },  { "begin", "done" },      { "enter", "exit" }, { "enter", "leave" },
	{ "open", "close" }, { "acquire", "release" },
};

static bool has_probe(const struct ocp_process *proc, const char *name)
{
	for (size_t i = 0; i < ocp_process_probe_count(proc); i++)
		if (strcmp(ocp_process_probe_name(proc, i), name) == 0)
			return true;
	return false;
}

/*
 * Write to STOP the name of the probe of PROC that probably ends what the probe START begins.
 * Return false if PROC has no such probe.
 */
static bool find_stop(const struct ocp_process *proc, const char *start, char stop[NAME_BYTES])
{
	const size_t bytes = strlen(start);

	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		const size_t end = strlen(endings[i].start);

		/* A name has only letters, digits and '_' (program/program.c). */
		if (bytes < end + 2 || bytes + 8 > NAME_BYTES ||
		    strcmp(start + bytes - end, endings[i].start) != 0 ||
		    start[bytes - end - 1] != '_')
			continue;
		snprintf(stop, NAME_BYTES, "%.*s%s", (int)(bytes - end), start, endings[i].stop);
		if (has_probe(proc, stop))
			return true;
	}
	return false;
}

int likely_pairs_add(const struct ocp_process *proc, struct measure_request *request)
{
	char stop[NAME_BYTES];
	int err = 0;

	for (size_t i = 0; !err && i < ocp_process_probe_count(proc); i++) {
		const char *start = ocp_process_probe_name(proc, i);

		if (request->n_pairs < MOST_PAIRS && find_stop(proc, start, stop))
			err = measure_request_add_pair(request, start, stop);
	}
	return err;
}
