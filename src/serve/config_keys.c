// SPDX-License-Identifier: MIT
#include "serve/config_keys.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 32 };

/* Maps the place of a value to the line of the value. A json-c object is used as a hash table. */
struct config_keys {
	struct json_object *lines;
};

struct scanner {
	struct ocp_ctx *ctx;
	const char *file, *text;
	size_t at, n;
	size_t lines_at; /* the lines before this offset have been counted */
	int line;	 /* the line, from 1, of the offset lines_at */
	unsigned int nesting;
	struct config_keys *keys;
};

int config_line_of(const char *text, size_t at)
{
	int line = 1;

	for (size_t i = 0; i < at; i++)
		line += text[i] == '\n';
	return line;
}

size_t config_skip_blank(const char *text, size_t at, size_t n)
{
	while (at < n) {
		const char *end;

		if (strchr(" \t\r\n", text[at]) && text[at]) {
			at++;
		} else if (n - at >= 2 && memcmp(text + at, "//", 2) == 0) {
			end = memchr(text + at, '\n', n - at);
			at = end ? (size_t)(end - text) : n;
		} else if (n - at >= 2 && memcmp(text + at, "/*", 2) == 0) {
			end = memmem(text + at + 2, n - at - 2, "*/", 2);
			at = end ? (size_t)(end + 2 - text) : n;
		} else {
			break;
		}
	}
	return at;
}

static void skip_blank(struct scanner *s)
{
	s->at = config_skip_blank(s->text, s->at, s->n);
}

/* Skip blanks and comments, and return the next byte; 0 at the end. */
static char peek(struct scanner *s)
{
	skip_blank(s);
	return s->at < s->n ? s->text[s->at] : '\0';
}

int config_keys_line(const struct config_keys *keys, const char *where)
{
	struct json_object *line;

	return json_object_object_get_ex(keys->lines, where, &line) ? json_object_get_int(line) : 0;
}

static int add_key_place(struct scanner *s, const char *where)
{
	struct json_object *line;

	for (; s->lines_at < s->at; s->lines_at++)
		s->line += s->text[s->lines_at] == '\n';
	/* Truncated names may collide: keep the line of the first value. */
	if (config_keys_line(s->keys, where))
		return 0;
	line = json_object_new_int(s->line);
	if (line && json_object_object_add(s->keys->lines, where, line) == 0)
		return 0;
	json_object_put(line);
	return ctx_no_memory(s->ctx);
}

/*
 * Skip a string in single or double quotes. Set *FIRST to the offset of its contents, and *BYTES to
 * their length.
 */
static void skip_string(struct scanner *s, size_t *first, size_t *bytes)
{
	const char quote = s->text[s->at++];

	*first = s->at;
	while (s->at < s->n && s->text[s->at] != quote)
		s->at += s->text[s->at] == '\\' ? 2 : 1;
	if (s->at > s->n)
		s->at = s->n;
	*bytes = s->at - *first;
	s->at += s->at < s->n;
}

static int scan_value(struct scanner *s, const char *where);

/* Scan one key of the object at WHERE, and the value of the key. */
static int scan_member(struct scanner *s, const char *where)
{
	char name[CONFIG_WHERE_BYTES + 8];
	size_t first, bytes;
	int err;

	skip_blank(s);
	skip_string(s, &first, &bytes);
	snprintf(name, sizeof(name), "%s%s%.*s", where, *where ? "." : "", (int)bytes,
		 s->text + first);
	name[CONFIG_WHERE_BYTES - 1] = '\0';
	s->at = first;
	if (memchr(s->text + first, '\\', bytes))
		return ctx_error(s->ctx, -EINVAL, "%s:%d: %s: backslash in a key", s->file,
				 config_line_of(s->text, first), name);
	if (config_keys_line(s->keys, name))
		return ctx_error(s->ctx, -EINVAL, "%s:%d: %s: given twice, first in line %d",
				 s->file, config_line_of(s->text, first), name,
				 config_keys_line(s->keys, name));
	err = add_key_place(s, name);
	s->at = first + bytes + 1;
	if (!err && peek(s) == ':') {
		s->at++;
		err = scan_value(s, name);
	}
	return err;
}

static int scan_object(struct scanner *s, const char *where)
{
	int err = 0;

	s->at++;
	while (!err && (peek(s) == '"' || peek(s) == '\'')) {
		err = scan_member(s, where);
		if (!err && peek(s) == ',')
			s->at++;
	}
	if (!err && peek(s) == '}')
		s->at++;
	return err;
}

static int scan_array(struct scanner *s, const char *where)
{
	char name[CONFIG_WHERE_BYTES + 24];
	int err = 0;

	s->at++;
	for (size_t i = 0; !err && peek(s) && peek(s) != ']'; i++) {
		snprintf(name, sizeof(name), "%s[%zu]", where, i);
		name[CONFIG_WHERE_BYTES - 1] = '\0';
		err = add_key_place(s, name);
		if (!err)
			err = scan_value(s, name);
		if (!err && peek(s) == ',')
			s->at++;
		else
			break;
	}
	if (!err && peek(s) == ']')
		s->at++;
	return err;
}

static int scan_value(struct scanner *s, const char *where)
{
	size_t first, bytes;
	int err = 0;

	if (s->nesting++ < MAX_NESTING) {
		if (peek(s) == '{')
			err = scan_object(s, where);
		else if (peek(s) == '[')
			err = scan_array(s, where);
		else if (peek(s) == '"' || peek(s) == '\'')
			skip_string(s, &first, &bytes);
		else
			while (s->at < s->n && !strchr(",]} \t\r\n/", s->text[s->at]))
				s->at++;
	}
	s->nesting--;
	return err;
}

int config_keys_find(struct ocp_ctx *ctx, const char *file, const char *text, size_t n,
		     struct config_keys **out)
{
	struct config_keys *keys = calloc(1, sizeof(*keys));
	struct scanner scanner = {
		.ctx = ctx, .file = file, .text = text, .n = n, .line = 1, .keys = keys
	};
	int err;

	if (keys)
		keys->lines = json_object_new_object();
	err = keys && keys->lines ? scan_value(&scanner, "") : ctx_no_memory(ctx);
	if (err) {
		config_keys_free(keys);
		return err;
	}
	*out = keys;
	return 0;
}

void config_keys_free(struct config_keys *keys)
{
	if (!keys)
		return;
	json_object_put(keys->lines);
	free(keys);
}
