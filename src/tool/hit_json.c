// SPDX-License-Identifier: MIT
/*
 * Print hits as JSON, one object per line. Integers and floats are numbers, strings are strings;
 * other values are objects:
 *
 *	{"float":"nan"}				nan, inf, -inf
 *	{"string":"...","bytes":N,"cut":true}	N bytes, of which only the first were recorded
 *	{"hex":"ff00","bytes":N,"cut":...}	a string that is not UTF-8
 *	{"tag":0,"size":N,"fields":[...]}	a block; "cut":true if there are more fields
 *	{"list":[...]}, {"floats":[...]}	"cut":true likewise
 *	{"lazy":VALUE}				a lazy value that has been forced
 *	{"kind":"closure"}			and the like; of kind custom with an "id"
 *
 * "args" has the values by position, as OCaml's memory shows them; "named" has those with a name,
 * by their declared types: a bool is true or false, a character a string.
 *
 * Written without json-c, for speed, and to escape all characters that could affect a terminal.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/args/value.h"
#include "tool/stack_output.h"
#include "tool/writer.h"

/*
 * Return the length of the valid UTF-8 sequence at AT, at most N bytes, and set *CODE to the code
 * point. Return 0 if the sequence is invalid.
 */
static size_t utf8_length(const unsigned char *at, size_t n, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = *at < 0x80 ? 1 : *at < 0xc0 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;

	if (length == 0 || length > n || *at >= 0xf8)
		return 0;
	*code = length == 1 ? *at : *at & (0x7fU >> length);
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (at[i] & 0x3f);
	}
	if (length > 1 && (*code < least[length] || *code > 0x10ffff || *code >> 11 == 0x1b))
		return 0;
	return length;
}

size_t utf8_bytes(const char *bytes, size_t n, bool is_cut)
{
	const unsigned char *at = (const unsigned char *)bytes, *end = at + n;
	uint32_t code;

	while (at < end) {
		size_t length = utf8_length(at, (size_t)(end - at), &code);

		if (length == 0)
			return is_cut && end - at < 4 && *at >= 0xc0
				       ? (size_t)(at - (const unsigned char *)bytes)
				       : n + 1;
		at += length;
	}
	return n;
}

/* Return false for characters that JSON escapes, that control a terminal, or that reverse text. */
static bool is_written_as_is(uint32_t code)
{
	return code >= ' ' && code != '"' && code != '\\' && !(code >= 0x7f && code < 0xa0) &&
	       !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069);
}

void write_json_text(const char *bytes, size_t n)
{
	const unsigned char *at = (const unsigned char *)bytes;
	uint32_t code = 0;

	putchar('"');
	while (n) {
		size_t length = utf8_length(at, n, &code);

		/* Unreachable if utf8_bytes() has accepted the text. */
		if (length == 0) {
			length = 1;
			code = 0xfffd;
		}
		if (code == '"' || code == '\\')
			printf("\\%c", (int)code);
		else if (is_written_as_is(code) && code != 0xfffd)
			fwrite(at, 1, length, stdout);
		else
			printf("\\u%04" PRIx32, code);
		at += length;
		n -= length;
	}
	putchar('"');
}

static void write_cut(const struct ocp_value *value)
{
	if (value->is_cut)
		fputs(",\"cut\":true", stdout);
}

static void write_string_value(const struct ocp_value *value)
{
	const size_t n = utf8_bytes(value->bytes, value->n_bytes, value->is_cut);

	if (n <= value->n_bytes && !value->is_cut) {
		write_json_text(value->bytes, n);
		return;
	}
	if (n <= value->n_bytes) {
		fputs("{\"string\":", stdout);
		write_json_text(value->bytes, n);
	} else {
		fputs("{\"hex\":\"", stdout);
		for (size_t i = 0; i < value->n_bytes; i++)
			printf("%02x", (unsigned char)value->bytes[i]);
		putchar('"');
	}
	printf(",\"bytes\":%" PRIu64, value->size);
	write_cut(value);
	putchar('}');
}

static void write_float(double real)
{
	char text[FLOAT_TEXT_BYTES];

	float_text(text, real);
	if (isfinite(real))
		fputs(text, stdout);
	else
		printf("{\"float\":\"%s\"}", text);
}

static void write_hit_value(const struct ocp_value *value);

static void write_items(const struct ocp_value *value, const char *name)
{
	printf("\"%s\":[", name);
	for (size_t i = 0; i < value->n_items; i++) {
		const struct ocp_value item = ocp_value_item(value, i);

		if (i)
			putchar(',');
		write_hit_value(&item);
	}
	putchar(']');
	write_cut(value);
	putchar('}');
}

/* Write a value of which only the kind was recorded. */
static void write_kind(const struct ocp_value *value)
{
	printf("{\"kind\":\"%s\"", ocp_value_kind_name(value->kind));
	if (value->kind == OCP_CUSTOM && value->n_bytes) {
		fputs(",\"id\":", stdout);
		write_json_text(value->bytes, value->n_bytes);
	}
	putchar('}');
}

static void write_forced(const struct ocp_value *value)
{
	struct ocp_value item;

	if (!value->n_items) {
		write_kind(value);
		return;
	}
	item = ocp_value_item(value, 0);
	fputs("{\"lazy\":", stdout);
	write_hit_value(&item);
	putchar('}');
}

static void write_hit_value(const struct ocp_value *value)
{
	switch (value->kind) {
	case OCP_INT:
	case OCP_C_INT:
	case OCP_INT64:
	case OCP_INT32:
	case OCP_NATIVEINT:
		printf("%" PRId64, value->number);
		break;
	case OCP_FLOAT:
		write_float(value->real);
		break;
	case OCP_STRING:
		write_string_value(value);
		break;
	case OCP_BLOCK:
		printf("{\"tag\":%u,\"size\":%" PRIu64 ",", value->tag, value->size);
		write_items(value, "fields");
		break;
	case OCP_LIST:
		putchar('{');
		write_items(value, "list");
		break;
	case OCP_FLOATS:
		putchar('{');
		write_items(value, "floats");
		break;
	case OCP_FORCED:
		write_forced(value);
		break;
	default:
		write_kind(value);
	}
}

/*
 * Write a value by the type that the program declares: bools and characters are ints in OCaml's
 * memory.
 */
static void write_typed(const struct ocp_value *value, enum ocp_arg_type type)
{
	const char byte = (char)value->number;

	if (value->kind == OCP_INT && type == OCP_ARG_BOOL && (value->number & ~1LL) == 0)
		fputs(value->number ? "true" : "false", stdout);
	else if (value->kind == OCP_INT && type == OCP_ARG_CHAR && value->number >= 0 &&
		 value->number <= UINT8_MAX)
		write_string_value(&(const struct ocp_value){
			.kind = OCP_STRING, .bytes = &byte, .n_bytes = 1, .size = 1 });
	else
		write_hit_value(value);
}

/* Write the arguments that have names, by name. */
static void write_named(const struct ocp_hit *hit)
{
	char name[OCP_ARG_NAME_BYTES];
	bool has_any = false;

	for (size_t i = 0; i < hit->n_args; i++) {
		const enum ocp_arg_type type = ocp_arg_name(hit->arg_names, i, name);
		const struct ocp_value value = ocp_hit_arg(hit, i);

		if (!*name)
			continue;
		printf("%s\"%s\":", has_any ? "," : ",\"named\":{", name);
		write_typed(&value, type);
		has_any = true;
	}
	if (has_any)
		putchar('}');
}

void write_args_json(const struct ocp_hit *hit)
{
	fputs("\"args\":[", stdout);
	for (size_t i = 0; i < hit->n_args; i++) {
		const struct ocp_value value = ocp_hit_arg(hit, i);

		if (i)
			putchar(',');
		write_hit_value(&value);
	}
	putchar(']');
	write_named(hit);
	if (hit->n_left_out)
		printf(",\"args_left_out\":%zu", hit->n_left_out);
}

void write_hit_json(const struct ocp_hit *hit, const struct named_frames *frames, int64_t wall_ns,
		    bool is_first)
{
	char wall[WALL_BYTES];

	(void)is_first;
	printf("{\"version\":%d,\"type\":\"hit\",\"time_s\":%.6f,", JSON_VERSION,
	       (double)hit->time_ns / 1e9);
	if (wall_ns)
		printf("\"time\":\"%s\",", utc_text(wall, wall_ns));
	printf("\"pid\":%d,\"tid\":%d,\"probe\":", (int)hit->pid, (int)hit->tid);
	write_json_text(hit->probe, strlen(hit->probe));
	putchar(',');
	write_args_json(hit);
	if (frames) {
		fputs(",\"stack\":", stdout);
		write_frames_json(frames);
	}
	puts("}");
}
