/* SPDX-License-Identifier: MIT */
/*
 * Write JSON as text, with commas where they belong. There is no tree of json-c objects, for speed:
 * each open page requests the status of up to 10 000 probes every second.
 */
#ifndef SERVE_JSON_H
#define SERVE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include "base/strbuf.h"

struct json {
	struct strbuf *out;
	bool needs_comma; /* a comma must precede the next member or element */
};

/*
 * Begin an object (BRACKET "{") or an array (BRACKET "["): the whole document, or an element of an
 * array.
 */
static inline void json_open(struct json *j, const char *bracket)
{
	if (j->needs_comma)
		strbuf_lit(j->out, ",");
	strbuf_add(j->out, bracket, 1);
	j->needs_comma = false;
}

/* End an object or an array. BRACKET is "}" or "]". */
static inline void json_close(struct json *j, const char *bracket)
{
	strbuf_add(j->out, bracket, 1);
	j->needs_comma = true;
}

/* Add an element of an array. */
static inline void json_element(struct json *j, uint64_t value)
{
	if (j->needs_comma)
		strbuf_lit(j->out, ",");
	strbuf_u64(j->out, value);
	j->needs_comma = true;
}

/* Add VALUE with DECIMALS as an element of an array; null if not IS_KNOWN. */
static inline void json_real_element(struct json *j, bool is_known, double value,
				     unsigned int decimals)
{
	if (j->needs_comma)
		strbuf_lit(j->out, ",");
	if (is_known)
		strbuf_real(j->out, value, decimals);
	else
		strbuf_lit(j->out, "null");
	j->needs_comma = true;
}

/* Begin a new line for the next element of an array. */
static inline void json_line(struct json *j)
{
	if (j->needs_comma)
		strbuf_lit(j->out, ",\n");
	j->needs_comma = false;
}

/*
 * Add ,"NAME": for a member of an object; its value follows. NAME is a literal: the comma, quotes
 * and colon are joined with it at compile time. The first member has no comma.
 */
#define json_name(j, name)                                                                         \
	do {                                                                                       \
		static const char joined_[] = ",\"" name "\":";                                    \
		const size_t skipped_ = !(j)->needs_comma;                                         \
                                                                                                   \
		strbuf_add((j)->out, joined_ + skipped_, sizeof(joined_) - 1 - skipped_);          \
		(j)->needs_comma = true;                                                           \
	} while (0)

/* Add a member. A string that is NULL is written as null. */
#define json_u64(j, name, value)                                                                   \
	do {                                                                                       \
		json_name(j, name);                                                                \
		strbuf_u64((j)->out, value);                                                       \
	} while (0)
#define json_text(j, name, value)                                                                  \
	do {                                                                                       \
		json_name(j, name);                                                                \
		strbuf_json((j)->out, value);                                                      \
	} while (0)
#define json_bool(j, name, value)                                                                  \
	do {                                                                                       \
		json_name(j, name);                                                                \
		strbuf_str((j)->out, (value) ? "true" : "false");                                  \
	} while (0)
#define json_null(j, name)                                                                         \
	do {                                                                                       \
		json_name(j, name);                                                                \
		strbuf_lit((j)->out, "null");                                                      \
	} while (0)
/* Add a number: VALUE and DECIMALS as for strbuf_scaled() and strbuf_real(). */
#define json_scaled(j, name, value, decimals)                                                      \
	do {                                                                                       \
		json_name(j, name);                                                                \
		strbuf_scaled((j)->out, value, decimals);                                          \
	} while (0)
#define json_real(j, name, value, decimals)                                                        \
	do {                                                                                       \
		json_name(j, name);                                                                \
		strbuf_real((j)->out, value, decimals);                                            \
	} while (0)
/* Begin a member that is an object (BRACKET "{") or an array (BRACKET "["). */
#define json_open_member(j, name, bracket)                                                         \
	do {                                                                                       \
		json_name(j, name);                                                                \
		strbuf_lit((j)->out, bracket);                                                     \
		(j)->needs_comma = false;                                                          \
	} while (0)

#endif
