// SPDX-License-Identifier: MIT
#include "cli/pair_note.h"

#include <stdio.h>
#include <string.h>

static const double notable = 0.01;

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

void pair_name(char *text, size_t bytes, const char *start, const char *stop)
{
	snprintf(text, bytes, "%s%s%s", start, *stop ? "," : "", stop);
}

size_t pair_name_length(const char *start, const char *stop)
{
	return strlen(start) + (*stop ? 1 + strlen(stop) : 0);
}

/*
 * Write the note for the timed calls of a function, which have no stop probe. Return false if there
 * is nothing to note.
 */
static bool calls_note(char *text, const char *name, const struct ocp_pair *sum)
{
	const double share_of_calls = share(sum->orphan_starts, sum->starts);

	text[0] = '\0';
	if (share_of_calls < notable)
		return false;
	snprintf(text, PAIR_NOTE_BYTES,
		 "%s: %.0f%% of its calls have no time, because an exception ended them", name,
		 100 * share_of_calls);
	return true;
}

/*
 * Write the note for pairs that are matched by thread, if some of them join the start of one
 * request with the stop of another request. Return false if there is nothing to note.
 */
static bool mismatches_note(char *text, const char *start, const char *stop,
			    const struct ocp_pair *sum)
{
	const double mixed = share(sum->mismatched, sum->count);

	if (mixed < notable)
		return false;
	snprintf(text, PAIR_NOTE_BYTES,
		 "%s,%s: %.0f%% of its times are wrong: they begin with one request and end with "
		 "another one of the same thread (leave out --key none and --depth)",
		 start, stop, 100 * mixed);
	return true;
}

/*
 * Write the note for pairs matched by key, if at some starts the key is a record or a float, or
 * cannot be read. Return false if there is nothing to note.
 */
static bool keys_note(char *text, const char *start, const char *stop, const struct ocp_pair *sum)
{
	const double without = share(sum->not_keyed, sum->starts);

	if (without < notable)
		return false;
	snprintf(
		text, PAIR_NOTE_BYTES,
		"%s,%s: %.0f%% of its starts are not timed: the argument that is the key is neither "
		"an int nor a string there (use --key argN, or --key none: by thread)",
		start, stop, 100 * without);
	return true;
}

bool pair_note(char *text, const char *start, const char *stop, const struct ocp_pair *sum)
{
	const double starts = share(sum->orphan_starts, sum->starts),
		     stops = share(sum->orphan_stops, sum->count + sum->orphan_stops);
	const bool is_start = starts >= notable;
	const char *causes;

	if (!*stop)
		return calls_note(text, start, sum);
	text[0] = '\0';
	if (mismatches_note(text, start, stop, sum) || keys_note(text, start, stop, sum))
		return true;
	if (starts < notable && stops < notable)
		return false;
	if (is_start && sum->by_key)
		causes =
			"an exception skips the stop (use Fun.protect ~finally), or a key is reused before "
			"its stop";
	else if (is_start)
		causes =
			"an exception skips the stop (use Fun.protect ~finally), or it is in another "
			"thread (use --key argN)";
	else if (sum->by_key)
		causes = "the start came before measuring began, or the two arguments differ";
	else
		causes =
			"the start came before measuring began, or is in another thread (use --key argN)";
	snprintf(text, PAIR_NOTE_BYTES, "%s,%s: %.0f%% of its %s have no %s; usual causes: %s",
		 start, stop, 100 * (is_start ? starts : stops), is_start ? "starts" : "stops",
		 is_start ? "stop" : "start", causes);
	return true;
}
