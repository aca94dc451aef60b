// SPDX-License-Identifier: MIT
/*
 * Choose the format from the Accept header. The header is a list of media ranges with parameters;
 * q, from 0 to 1, is the client's preference. If several ranges match an offer, only the most
 * specific one applies: first a range with the offer's version, then one without a version, then
 * type / *, then * / *. A range with a version that the offer does not have does not match the
 * offer.
 */
#include "serve/negotiate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct offer {
	const char *type, *subtype;
	const char *version;
	const char *content_type;
};

/* If a client prefers several offers equally, the first of them is chosen. */
static const struct offer offers[EXPOSITIONS] = {
	[EXPOSITION_TEXT] = { "text", "plain", "0.0.4",
			      "text/plain; version=0.0.4; charset=utf-8" },
	[EXPOSITION_OPENMETRICS] = { "application", "openmetrics-text", "1.0.0",
				     "application/openmetrics-text; version=1.0.0; charset=utf-8" },
	[EXPOSITION_OPENMETRICS_0] = { "application", "openmetrics-text", "0.0.1",
				       "application/openmetrics-text; version=0.0.1; "
				       "charset=utf-8" },
};

struct media_range {
	const char *type, *subtype, *version, *charset; /* NULL: not given */
	double q;
};

/*
 * Cut TEXT at the first unquoted SEPARATOR. Return the text after the SEPARATOR, or NULL if there
 * is none.
 */
static char *cut(char *text, char separator)
{
	bool is_quoted = false;

	for (; *text; text++) {
		if (is_quoted && *text == '\\' && text[1])
			text++;
		else if (*text == '"')
			is_quoted = !is_quoted;
		else if (*text == separator && !is_quoted) {
			*text = '\0';
			return text + 1;
		}
	}
	return NULL;
}

static char *trim(char *text)
{
	size_t n;

	text += strspn(text, " \t");
	n = strlen(text);
	while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		text[--n] = '\0';
	return text;
}

static char *unquote(char *text)
{
	const size_t n = strlen(text);

	if (n < 2 || text[0] != '"' || text[n - 1] != '"')
		return text;
	text[n - 1] = '\0';
	return text + 1;
}

/*
 * Parse TEXT into *Q. Return false if TEXT is not a qvalue: 0 or 1, optionally followed by a point
 * and up to three digits.
 */
static bool parse_q(const char *text, double *q)
{
	const size_t n = strlen(text);

	if (n < 1 || n > 5 || (text[0] != '0' && text[0] != '1') || (n > 1 && text[1] != '.'))
		return false;
	if (n > 2 && strspn(text + 2, "0123456789") != n - 2)
		return false;
	/* strtod() uses the locale's decimal point. The locale is "C" here. */
	*q = strtod(text, NULL);
	return *q <= 1;
}

/*
 * Parse TEXT, one element of the list, into RANGE, which points into TEXT. Return false if TEXT is
 * invalid.
 */
static bool parse_range(char *text, struct media_range *range)
{
	char *next = cut(text, ';'), *subtype;

	*range = (struct media_range){ .type = trim(text), .q = 1 };
	subtype = cut(text, '/');
	if (!subtype)
		return false;
	range->type = trim(text);
	range->subtype = trim(subtype);
	while (next) {
		char *parameter = next, *value;

		next = cut(parameter, ';');
		value = cut(parameter, '=');
		if (!value)
			continue;
		parameter = trim(parameter);
		value = unquote(trim(value));
		if (strcasecmp(parameter, "q") == 0) {
			if (!parse_q(value, &range->q))
				return false;
		} else if (strcasecmp(parameter, "version") == 0) {
			range->version = value;
		} else if (strcasecmp(parameter, "charset") == 0) {
			range->charset = value;
		}
	}
	return true;
}

/* Return how specifically RANGE matches OFFER, from 1 to 4; 0: it does not match. */
static int specificity(const struct media_range *range, const struct offer *offer)
{
	if (range->charset && strcasecmp(range->charset, "utf-8") != 0)
		return 0;
	if (strcmp(range->type, "*") == 0)
		return strcmp(range->subtype, "*") == 0 ? 1 : 0;
	if (strcasecmp(range->type, offer->type) != 0)
		return 0;
	if (strcmp(range->subtype, "*") == 0)
		return 2;
	if (strcasecmp(range->subtype, offer->subtype) != 0)
		return 0;
	if (!range->version)
		return 3;
	return strcmp(range->version, offer->version) == 0 ? 4 : 0;
}

enum exposition negotiate(const char *accept)
{
	enum exposition chosen = EXPOSITION_TEXT;
	double q[EXPOSITIONS] = { 0 };
	int best[EXPOSITIONS] = { 0 };
	char *copy = strdup(accept ? accept : ""), *next = copy;

	while (next) {
		char *element = next;
		struct media_range range;

		next = cut(element, ',');
		if (!parse_range(element, &range))
			continue;
		for (int i = 0; i < EXPOSITIONS; i++) {
			const int how = specificity(&range, &offers[i]);

			if (how > best[i] || (how && how == best[i] && range.q > q[i])) {
				best[i] = how;
				q[i] = range.q;
			}
		}
	}
	free(copy);
	for (int i = 0; i < EXPOSITIONS; i++)
		if (q[i] > q[chosen])
			chosen = (enum exposition)i;
	return chosen;
}

const char *exposition_type(enum exposition exposition)
{
	return offers[exposition].content_type;
}
