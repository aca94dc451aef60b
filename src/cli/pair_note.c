// SPDX-License-Identifier: MIT
#include "cli/pair_note.h"

#include <stdio.h>

static const double notable = 0.01;

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

bool pair_note(char *text, const char *start, const char *stop, const struct ocp_pair *sum)
{
	const double starts = share(sum->orphan_starts, sum->starts),
		     stops = share(sum->orphan_stops, sum->count + sum->orphan_stops);
	const bool is_start = starts >= notable;
	const char *causes;

	text[0] = '\0';
	if (starts < notable && stops < notable)
		return false;
	if (is_start && sum->by_key)
		causes =
			"an exception skips it (use Fun.protect ~finally), or a key is reused before "
			"its stop";
	else if (is_start)
		causes = "an exception skips it (use Fun.protect ~finally), or it is in another "
			 "thread (use --key argN)";
	else if (sum->by_key)
		causes = "it was before measuring began, or the two arguments differ";
	else
		causes = "it was before measuring began, or is in another thread (use --key argN)";
	snprintf(text, PAIR_NOTE_BYTES, "%s,%s: %.0f%% of its %s have no %s; usual causes: %s",
		 start, stop, 100 * (is_start ? starts : stops), is_start ? "starts" : "stops",
		 is_start ? "stop" : "start", causes);
	return true;
}
