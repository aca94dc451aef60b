// SPDX-License-Identifier: MIT
/*
 * The names and types of a probe's arguments, as one text. The text has an entry for each argument,
 * in the order of the arguments, separated by commas:
 *
 *	NAME		letters, digits, _ and ', at most 63; the first is a letter or _
 *	NAME:TYPE	the type is bool, char, int, float or string; any other word is of a newer
 *			ppx, and the type is unknown
 *	:TYPE		a literal
 *	(nothing)	another expression
 *
 * arg0, arg1 ... are never names. Two arguments of a probe have different names. If a damaged text
 * gives two arguments the same name, the name means the first of them.
 */
#include "program/arg_names.h"

#include <ctype.h>
#include <string.h>

static const char *const type_names[] = {
	[OCP_ARG_ANY] = "",    [OCP_ARG_BOOL] = "bool",	  [OCP_ARG_CHAR] = "char",
	[OCP_ARG_INT] = "int", [OCP_ARG_FLOAT] = "float", [OCP_ARG_STRING] = "string",
};

enum { N_TYPES = sizeof(type_names) / sizeof(type_names[0]) };

static bool is_word_char(char c)
{
	return (isalnum((unsigned char)c) && !((unsigned char)c & 0x80)) || c == '_';
}

static bool is_position(const char *name, size_t n)
{
	static const char prefix[] = "arg";
	const size_t start = sizeof(prefix) - 1;

	if (n <= start || memcmp(name, prefix, start) != 0)
		return false;
	for (size_t i = start; i < n; i++)
		if (!isdigit((unsigned char)name[i]))
			return false;
	return true;
}

bool arg_name_is_sound(const char *name, size_t n)
{
	if (n == 0 || n > ARG_NAME_MAX || isdigit((unsigned char)*name) || *name == '\'')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_word_char(name[i]) && name[i] != '\'')
			return false;
	return !is_position(name, n);
}

/* Return the end of the entry at AT: the next comma, or END. */
static const char *end_of_entry(const char *at, const char *end)
{
	const char *comma = memchr(at, ',', (size_t)(end - at));

	return comma ? comma : end;
}

static bool is_sound_entry(const char *at, const char *end)
{
	const char *colon = memchr(at, ':', (size_t)(end - at));
	const char *name_end = colon ? colon : end;

	if (name_end > at && !arg_name_is_sound(at, (size_t)(name_end - at)))
		return false;
	if (!colon)
		return true;
	for (const char *c = colon + 1; c < end; c++)
		if (!is_word_char(*c))
			return false;
	return colon + 1 < end;
}

bool arg_names_are_sound(const char *text, size_t n)
{
	const char *end = text + n;

	if (n == 0)
		return true;
	for (int i = 0; i < ARG_NAMES_MAX; i++) {
		const char *entry_end = end_of_entry(text, end);

		if (!is_sound_entry(text, entry_end))
			return false;
		if (entry_end == end)
			return true;
		text = entry_end + 1;
	}
	return false;
}

static enum ocp_arg_type type_of(const char *word, size_t n)
{
	for (int i = OCP_ARG_ANY + 1; i < N_TYPES; i++)
		if (strlen(type_names[i]) == n && memcmp(type_names[i], word, n) == 0)
			return (enum ocp_arg_type)i;
	return OCP_ARG_ANY;
}

bool arg_names_next(const char **text, struct arg_name *arg)
{
	const char *at = *text;
	size_t n, name_bytes;

	*arg = (struct arg_name){ .name = "" };
	if (!*at)
		return false;
	n = strcspn(at, ",");
	name_bytes = strcspn(at, ":,");
	arg->name = at;
	arg->n_bytes = name_bytes;
	if (name_bytes < n)
		arg->type = type_of(at + name_bytes + 1, n - name_bytes - 1);
	*text = at + n + (at[n] == ',');
	return true;
}

struct arg_name arg_names_get(const char *text, size_t number)
{
	struct arg_name arg = { .name = "" };

	while (arg_names_next(&text, &arg) && number--)
		;
	return arg;
}

int arg_names_find(const char *text, const char *name)
{
	struct arg_name arg;

	for (int i = 0; arg_names_next(&text, &arg); i++)
		if (arg.n_bytes == strlen(name) && memcmp(arg.name, name, arg.n_bytes) == 0)
			return i;
	return -1;
}

const char *ocp_arg_type_name(enum ocp_arg_type type)
{
	return (unsigned int)type < N_TYPES ? type_names[type] : "";
}

enum ocp_arg_type ocp_arg_name(const char *arg_names, size_t arg, char name[OCP_ARG_NAME_BYTES])
{
	const struct arg_name its = arg_names_get(arg_names, arg);
	const size_t n = its.n_bytes < ARG_NAME_MAX ? its.n_bytes : ARG_NAME_MAX;

	memcpy(name, its.name, n);
	name[n] = '\0';
	return its.type;
}
