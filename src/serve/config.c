// SPDX-License-Identifier: MIT
/*
 * Convert the configuration file to a struct config. json-c parses the file into a tree. A table
 * maps each key to the function that takes the key's value. A key that is not in the table is an
 * error.
 */
#include "serve/config.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "memprof/session.h"
#include "program/arg_names.h"
#include "record/conditions.h"
#include "serve/config_file.h"
#include "serve/hosts.h"
#include "serve/label_name.h"

enum {
	MAX_NAME_BYTES = 1024,
	MAX_NESTING = 32,
	/*
	 * The size of a buffer for the place of a value, with the zero byte. Longer places are
	 * truncated.
	 */
	WHERE_BYTES = 128,
};

/* ---- the lines of the keys ------------------------------------------------------------------ */

/*
 * Find the line of each key, and detect duplicate keys: json-c does neither. The place of a value
 * is written as in a program: targets[0].time[1].
 */

struct scanner {
	struct ocp_ctx *ctx;
	const char *file, *text;
	size_t at, n;
	size_t lines_at; /* the lines before this offset have been counted */
	int line;	 /* the line, from 1, of the offset lines_at */
	unsigned int nesting;
	/*
	 * A JSON object that serves as a hash table: it maps the place of each value to the line of
	 * the value.
	 */
	struct json_object *lines;
};

/* Return the line, from 1, of the byte at offset AT of TEXT. */
static int line_of(const char *text, size_t at)
{
	int line = 1;

	for (size_t i = 0; i < at; i++)
		line += text[i] == '\n';
	return line;
}

/*
 * Return the offset of the first byte of TEXT at or after AT that is not blank and not in a
 * comment; N if there is no such byte. TEXT has N bytes.
 */
static size_t blank_end(const char *text, size_t at, size_t n)
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
	s->at = blank_end(s->text, s->at, s->n);
}

/* Skip blanks and comments, and return the next byte; 0 at the end. */
static char peek(struct scanner *s)
{
	skip_blank(s);
	return s->at < s->n ? s->text[s->at] : '\0';
}

/* Return the line of the value at WHERE, from 1; 0 if there is no such value. */
static int key_line(struct json_object *lines, const char *where)
{
	struct json_object *line;

	return json_object_object_get_ex(lines, where, &line) ? json_object_get_int(line) : 0;
}

static int add_key_place(struct scanner *s, const char *where)
{
	struct json_object *line;

	for (; s->lines_at < s->at; s->lines_at++)
		s->line += s->text[s->lines_at] == '\n';
	/* Truncated names may collide: keep the line of the first value. */
	if (key_line(s->lines, where))
		return 0;
	line = json_object_new_int(s->line);
	if (line && json_object_object_add(s->lines, where, line) == 0)
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
	char name[WHERE_BYTES + 8];
	size_t first, bytes;
	int err;

	skip_blank(s);
	skip_string(s, &first, &bytes);
	snprintf(name, sizeof(name), "%s%s%.*s", where, *where ? "." : "", (int)bytes,
		 s->text + first);
	name[WHERE_BYTES - 1] = '\0';
	s->at = first;
	if (memchr(s->text + first, '\\', bytes))
		return ctx_error(s->ctx, -EINVAL, "%s:%d: %s: backslash in a key", s->file,
				 line_of(s->text, first), name);
	if (key_line(s->lines, name))
		return ctx_error(s->ctx, -EINVAL, "%s:%d: %s: given twice, first in line %d",
				 s->file, line_of(s->text, first), name, key_line(s->lines, name));
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
	char name[WHERE_BYTES + 24];
	int err = 0;

	s->at++;
	for (size_t i = 0; !err && peek(s) && peek(s) != ']'; i++) {
		snprintf(name, sizeof(name), "%s[%zu]", where, i);
		name[WHERE_BYTES - 1] = '\0';
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

/*
 * Set *LINES to the lines of the keys in TEXT, N bytes that json-c has accepted. FILE is the file's
 * name, for errors. -EINVAL if a key is given twice or contains a backslash; then *LINES has only
 * the keys before that key. The caller calls json_object_put(*LINES), also after an error.
 */
static int find_keys(struct ocp_ctx *ctx, const char *file, const char *text, size_t n,
		     struct json_object **lines)
{
	struct scanner scanner = {
		.ctx = ctx,
		.file = file,
		.text = text,
		.n = n,
		.line = 1,
		.lines = json_object_new_object(),
	};

	*lines = scanner.lines;
	return *lines ? scan_value(&scanner, "") : ctx_no_memory(ctx);
}

/* ---- the reader ----------------------------------------------------------------------------- */

/* Owns the strings of a config, except the strings of its requests. */
struct config_memory {
	struct json_object *root;
	struct json_object *lines; /* the lines of the keys, see struct scanner */
	char *file;
};

struct config_reader {
	struct ocp_ctx *ctx;
	const char *file;
	struct config *config;
	struct measure_request *request; /* the request of the current target */
	struct json_object *exes, *pids; /* the programs of the targets so far, for first_of() */
};

/*
 * A key of an object. `take` stores the VALUE of the key at INTO, which is the member at the offset
 * `at` of the struct for this object. WHERE is the place of VALUE in the file, for errors.
 */
struct config_key {
	const char *name;
	int (*take)(struct config_reader *r, const char *where, struct json_object *value,
		    void *into);
	size_t at;
	bool is_of_request; /* `at` is an offset in the request of the target */
};

static void say_wrong(struct config_reader *r, const char *where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void say_wrong(struct config_reader *r, const char *where, const char *fmt, ...)
{
	char why[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	ctx_set_error(r->ctx, "%s", why);
	config_blame(r->ctx, r->config, where);
}

/*
 * Record an error and return -EINVAL. A macro, so that static analysis sees that the value is an
 * error, as with ctx_error.
 */
#define wrong(...) (say_wrong(__VA_ARGS__), -EINVAL)

static void name_member(char name[WHERE_BYTES], const char *where, const char *key)
{
	/* A name that is too long is truncated. */
	if (snprintf(name, WHERE_BYTES, "%s%s%s", where, *where ? "." : "", key) < 0)
		*name = '\0';
}

static void name_element(char name[WHERE_BYTES], const char *where, size_t i)
{
	char index[24];

	snprintf(index, sizeof(index), "[%zu]", i);
	snprintf(name, WHERE_BYTES, "%s", where);
	strncat(name, index, WHERE_BYTES - 1 - strlen(name));
}

static int no_such_key(struct config_reader *r, const char *where, const char *name,
		       const struct config_key *keys, size_t n)
{
	struct suggestion suggestion = suggestion_for(name);
	int err = wrong(r, where, "no such key");

	for (size_t i = 0; i < n; i++)
		suggestion_offer(&suggestion, keys[i].name);
	if (suggestion.best)
		ctx_hint(r->ctx, "did you mean '%s'?", suggestion.best);
	return err;
}

/*
 * Pass the value of each member of OBJECT to the function that KEYS has for the member's name. INTO
 * points to the struct for OBJECT.
 */
static int take_object(struct config_reader *r, const char *where, struct json_object *object,
		       const struct config_key *keys, size_t n, void *into)
{
	struct json_object_iterator at = json_object_iter_begin(object);
	const struct json_object_iterator end = json_object_iter_end(object);
	int err = 0;

	for (; !err && !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
		const char *name = json_object_iter_peek_name(&at);
		char member[WHERE_BYTES];
		size_t i = 0;

		name_member(member, where, name);
		while (i < n && strcmp(keys[i].name, name) != 0)
			i++;
		if (i == n)
			return no_such_key(r, member, name, keys, n);
		err = keys[i].take(r, member, json_object_iter_peek_value(&at),
				   (keys[i].is_of_request ? (char *)r->request : (char *)into) +
					   keys[i].at);
	}
	return err;
}

/* ---- the place of an error ------------------------------------------------------------------ */

void config_blame(struct ocp_ctx *ctx, const struct config *config, const char *where)
{
	const struct config_memory *memory = config->memory;
	const int line = memory->lines ? key_line(memory->lines, where) : 0;

	if (line)
		ctx_error_prefix(ctx, "%s:%d: %s", memory->file, line, where);
	else
		ctx_error_prefix(ctx, "%s: %s", memory->file, where);
}

/* Return true if TEXT contains the string VALUE in single quotes. */
static bool quotes(const char *text, struct json_object *value)
{
	char *quoted;
	bool does;

	if (!json_object_is_type(value, json_type_string) ||
	    asprintf(&quoted, "'%s'", json_object_get_string(value)) < 0)
		return false;
	does = strstr(text, quoted);
	free(quoted);
	return does;
}

/*
 * Return true if TEXT contains VALUE, a string, in single quotes. If VALUE is a list, search it and
 * its sublists for a string that TEXT contains in single quotes. If there is one, set WHERE to its
 * place and return true. On entry, WHERE is the place of VALUE.
 */
static bool finds_quoted(const char *text, struct json_object *value, char where[WHERE_BYTES])
{
	char element[WHERE_BYTES];

	if (!json_object_is_type(value, json_type_array))
		return quotes(text, value);
	for (size_t i = 0; i < json_object_array_length(value); i++) {
		name_element(element, where, i);
		if (!finds_quoted(text, json_object_array_get_idx(value, i), element))
			continue;
		memcpy(where, element, WHERE_BYTES);
		return true;
	}
	return false;
}

/*
 * Return the key that the message TEXT is about, recognised by the words of the message; NULL:
 * unknown.
 */
static const char *key_in_words(const char *text)
{
	static const struct {
		const char *words, *key;
	} all[] = {
		{ "for the filter", "filter" }, { "filter ", "filter" },
		{ "for the key", "key" },	{ "for the groups", "by" },
		{ "groups by ", "by" },		{ "by the value of an argument", "by" },
		{ "engine", "engine" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strstr(text, all[i].words))
			return all[i].key;
	return NULL;
}

static bool is_about_the_file(int err)
{
	return err != -ENOMEM && err != -EPERM && err != -EACCES && err != -EOPNOTSUPP;
}

void config_blame_target(struct ocp_ctx *ctx, const struct config *config, size_t i, int err)
{
	static const char *const keys[] = { "count", "time", "key", "filter", "by", "exe" };
	const char *said = key_in_words(ocp_error(ctx));
	struct json_object *targets, *target, *value;
	char where[WHERE_BYTES], of_target[WHERE_BYTES];

	if (!is_about_the_file(err) ||
	    !json_object_object_get_ex(config->memory->root, "targets", &targets))
		return;
	name_element(of_target, "targets", i);
	target = json_object_array_get_idx(targets, i);
	for (size_t k = 0; !said && k < sizeof(keys) / sizeof(keys[0]); k++) {
		name_member(where, of_target, keys[k]);
		if (json_object_object_get_ex(target, keys[k], &value) &&
		    finds_quoted(ocp_error(ctx), value, where)) {
			config_blame(ctx, config, where);
			return;
		}
	}
	if (!said || !json_object_object_get_ex(target, said, &value))
		said = config->targets[i].exe ? "exe" : "pid";
	name_member(where, of_target, said);
	config_blame(ctx, config, where);
}

/* ---- values --------------------------------------------------------------------------------- */

static int take_text(struct config_reader *r, const char *where, struct json_object *value,
		     void *into)
{
	const char **text = into;

	if (!json_object_is_type(value, json_type_string))
		return wrong(r, where, "not a string");
	*text = json_object_get_string(value);
	if (!**text)
		return wrong(r, where, "is empty");
	if (strlen(*text) != (size_t)json_object_get_string_len(value))
		return wrong(r, where, "contains a zero byte");
	return 0;
}

/* Take the name of a probe; the name may contain any character except a zero byte. */
static int take_name(struct config_reader *r, const char *where, struct json_object *value,
		     const char **name)
{
	int err = take_text(r, where, value, name);

	if (!err && strlen(*name) > MAX_NAME_BYTES)
		return wrong(r, where, "'%.100s...' is too long for the name of a probe", *name);
	return err;
}

static int take_integer(struct config_reader *r, const char *where, struct json_object *value,
			int64_t least, int64_t most, int64_t *number)
{
	if (!json_object_is_type(value, json_type_int))
		return wrong(r, where, "not a whole number");
	*number = json_object_get_int64(value);
	if (*number < least || *number > most)
		return wrong(r, where, "not a number from %lld to %lld", (long long)least,
			     (long long)most);
	return 0;
}

/*
 * Return the index at which KEY was first seen. If KEY is new, record I for it and return I. Return
 * -ENOMEM if out of memory. The JSON object SEEN maps keys to their first indexes.
 */
static int first_of(struct config_reader *r, struct json_object *seen, const char *key, size_t i)
{
	struct json_object *first;

	if (json_object_object_get_ex(seen, key, &first))
		return json_object_get_int(first);
	first = json_object_new_int((int)i);
	if (seen && first && json_object_object_add(seen, key, first) == 0)
		return (int)i;
	json_object_put(first);
	return ctx_no_memory(r->ctx);
}

/*
 * If ERR is not 0, record "out of memory" and return -ENOMEM. ERR comes from a function that sets
 * no message.
 */
static int no_memory_if(struct config_reader *r, int err)
{
	return err ? ctx_no_memory(r->ctx) : 0;
}

/* ---- a target ------------------------------------------------------------------------------- */

static int take_pid(struct config_reader *r, const char *where, struct json_object *value,
		    void *into)
{
	int64_t pid = 0;
	int err = take_integer(r, where, value, 1, INT32_MAX, &pid);

	if (!err)
		*(pid_t *)into = (pid_t)pid;
	return err;
}

static int take_names(struct config_reader *r, const char *where, struct json_object *list,
		      struct items *items)
{
	struct json_object *seen = json_object_new_object();
	char element[WHERE_BYTES];
	int err = 0;

	for (size_t i = 0; !err && i < json_object_array_length(list); i++) {
		const char *name;
		int first;

		name_element(element, where, i);
		err = take_name(r, element, json_object_array_get_idx(list, i), &name);
		if (err)
			break;
		first = first_of(r, seen, name, i);
		if (first != (int)i)
			err = first < 0 ? first : wrong(r, element, "'%s' is given twice", name);
		else
			err = no_memory_if(r, items_add(items, item_kind_of_name(name), name));
	}
	json_object_put(seen);
	return err;
}

static int take_counts(struct config_reader *r, const char *where, struct json_object *value,
		       void *into)
{
	struct items *counted = into;
	const char *text;
	int err;

	if (json_object_is_type(value, json_type_array))
		return json_object_array_length(value) ? take_names(r, where, value, counted)
						       : wrong(r, where, "is empty");
	if (!json_object_is_type(value, json_type_string))
		return wrong(r, where, "not a list of names or a regular expression");
	err = take_text(r, where, value, &text);
	return err ? err : no_memory_if(r, items_add_text(counted, text));
}

/*
 * Add the pair VALUE to the request. Return -EINVAL if the same pair was given before. STOP is NULL
 * for the calls of a function. SEEN has the previous pairs as JSON text, since names may contain
 * commas.
 */
static int add_request_pair(struct config_reader *r, const char *where, struct json_object *value,
			    struct json_object *seen, const char *start, const char *stop)
{
	const int first = first_of(r, seen, json_object_to_json_string(value), r->request->n_pairs);

	if (first < 0)
		return first;
	if (first != (int)r->request->n_pairs)
		return wrong(r, where, "'%s%s%s' is given twice", start, stop ? "," : "",
			     stop ? stop : "");
	return no_memory_if(r, measure_request_add_pair(r->request, start, stop));
}

/* Add the calls of the function or phase VALUE to the pairs of the request. */
static int take_function(struct config_reader *r, const char *where, struct json_object *value,
			 struct json_object *seen)
{
	const char *name;
	int err = take_name(r, where, value, &name);

	if (err)
		return err;
	switch (item_kind_of_name(name)) {
	case ITEM_FUNCTION:
	case ITEM_C_FUNCTION:
	case ITEM_GC_PHASE:
		return add_request_pair(r, where, value, seen, name, NULL);
	case ITEM_LINE:
	case ITEM_FILE_LINES:
		return wrong(r, where, "'%s': a line has no duration; name a pair of lines", name);
	case ITEM_NOTE:
		return wrong(r, where, "'%s': a note has no duration; name a pair of notes", name);
	default:
		return wrong(r, where, "'%s' is not one function, fn:NAME or c:NAME", name);
	}
}

static int take_pair(struct config_reader *r, const char *where, struct json_object *value,
		     struct json_object *seen)
{
	char element[WHERE_BYTES];
	const char *names[2];
	int err = 0;

	if (json_object_is_type(value, json_type_string) &&
	    item_is_code(json_object_get_string(value)))
		return take_function(r, where, value, seen);
	if (!json_object_is_type(value, json_type_array) || json_object_array_length(value) != 2)
		return wrong(r, where,
			     "not two names, [\"START\", \"STOP\"], or a function, \"fn:NAME\"");
	for (size_t i = 0; !err && i < 2; i++) {
		name_element(element, where, i);
		err = take_name(r, element, json_object_array_get_idx(value, i), &names[i]);
	}
	if (err)
		return err;
	if (strcmp(names[0], names[1]) == 0)
		return wrong(r, where, "start and stop are the same probe");
	return add_request_pair(r, where, value, seen, names[0], names[1]);
}

static int take_times(struct config_reader *r, const char *where, struct json_object *value,
		      void *into)
{
	char element[WHERE_BYTES];
	struct json_object *seen;
	int err = 0;

	(void)into; /* take_pair() adds to the pairs of the request */
	if (!json_object_is_type(value, json_type_array))
		return wrong(r, where, "not a list of pairs, [[\"START\", \"STOP\"], ...]");
	seen = json_object_new_object();
	for (size_t i = 0; !err && i < json_object_array_length(value); i++) {
		name_element(element, where, i);
		err = take_pair(r, element, json_object_array_get_idx(value, i), seen);
	}
	json_object_put(seen);
	return err;
}

static int take_depth(struct config_reader *r, const char *where, struct json_object *value,
		      void *into)
{
	int64_t depth = 0;
	int err = take_integer(r, where, value, 1, OCP_MAX_DEPTH, &depth);

	if (!err)
		*(unsigned int *)into = (unsigned int)depth;
	return err;
}

/* Store a copy of the text VALUE, which the request owns. */
static int take_own_text(struct config_reader *r, const char *where, struct json_object *value,
			 void *into)
{
	const char *text;
	int err = take_text(r, where, value, &text);

	return err ? err : no_memory_if(r, measure_request_set_text(into, text));
}

/* Take the budget, a number in percent of a core. */
static int take_budget(struct config_reader *r, const char *where, struct json_object *value,
		       void *into)
{
	double percent;

	if (!json_object_is_type(value, json_type_double) &&
	    !json_object_is_type(value, json_type_int))
		return wrong(r, where, "not a number (percent of a core)");
	percent = json_object_get_double(value);
	/* Written so that NaN, which compares false, is rejected. */
	if (!(percent > 0 && percent <= 100000))
		return wrong(r, where, "must be above 0 and at most 100000");
	*(double *)into = percent / 100;
	return 0;
}

static int take_engine(struct config_reader *r, const char *where, struct json_object *value,
		       void *into)
{
	const char *text;
	int err = take_text(r, where, value, &text);

	if (!err && !engine_choice_read(text, into))
		return wrong(r, where, "'%.100s': not bpf, inside or auto", text);
	return err;
}

/* Take the argument whose values become the values of a label. */
static int take_by(struct config_reader *r, const char *where, struct json_object *value,
		   void *into)
{
	unsigned int number;
	const char *text;
	char end;
	int err = take_text(r, where, value, &text);

	if (err)
		return err;
	if (sscanf(text, "arg%2u%c", &number, &end) != 1 && !arg_name_is_sound(text, strlen(text)))
		return wrong(r, where, "'%.100s': not an argument, \"argN\" or its name", text);
	return take_own_text(r, where, value, into);
}

static int take_limit(struct config_reader *r, const char *where, struct json_object *value,
		      void *into)
{
	int64_t limit = 0;
	int err = take_integer(r, where, value, 1, WATCH_LABEL_MOST, &limit);

	if (!err)
		*(size_t *)into = (size_t)limit;
	return err;
}

/* Take the conditions of the flight recorder of a target. */
static int take_conditions(struct config_reader *r, const char *where, struct json_object *value,
			   void *into)
{
	struct record_conditions *conditions = &r->config->conditions[r->config->n_targets - 1];
	char element[WHERE_BYTES];
	size_t n;
	int err = 0;

	(void)into;
	if (!json_object_is_type(value, json_type_array) || !json_object_array_length(value))
		return wrong(r, where, "not a list of conditions");
	n = json_object_array_length(value);
	conditions->list = calloc(n, sizeof(*conditions->list));
	if (!conditions->list)
		return ctx_no_memory(r->ctx);
	for (; !err && conditions->n < n; conditions->n++) {
		const char **text = &conditions->list[conditions->n];
		struct record_condition condition;

		name_element(element, where, conditions->n);
		err = take_text(r, element, json_object_array_get_idx(value, conditions->n), text);
		if (err)
			break;
		err = record_condition_read(r->ctx, *text, &condition);
		record_condition_free(&condition);
		if (err)
			config_blame(r->ctx, r->config, element);
	}
	return err;
}

/*
 * Check the name of the label for the argument that the target groups by. Set the default: the
 * argument's name.
 */
static int check_label(struct config_reader *r, const char *where, struct watch_spec *target)
{
	struct watch_label_spec *label = &target->label;
	const char *key = label->name ? "by_label" : "by", *why;
	char member[WHERE_BYTES];
	int err;

	if (!r->request->by && (label->name || label->limit))
		return wrong(r, where, "'%s' requires 'by'", label->name ? "by_label" : "by_limit");
	if (!r->request->by)
		return 0;
	if (!label->limit)
		label->limit = WATCH_LABEL_LIMIT;
	if (!label->name) {
		char *name = label_name_of(r->request->by);

		if (!name)
			return ctx_no_memory(r->ctx);
		r->config->label_names[target - r->config->targets] = name;
		label->name = name;
	}
	why = label_name_check(label->name);
	if (!why)
		return 0;
	name_member(member, where, key);
	err = wrong(r, member, "label '%.100s': %s", label->name, why);
	ctx_hint(r->ctx, "\"by_label\": \"NAME\" gives the label another name");
	return err;
}

static int check_engine(struct config_reader *r, const char *where, const struct watch_spec *target)
{
	const char *need =
		r->request->budget > 0 ? "--budget" : measure_request_watch_needs_bpf(r->request);

	if (target->engine == ENGINE_INSIDE && need)
		return wrong(r, where, "the engine 'inside' excludes %s", need + strspn(need, "-"));
	return 0;
}

static int check_program(struct config_reader *r, const char *where,
			 const struct watch_spec *target)
{
	const int i = (int)(target - r->config->targets);
	char pid[16];
	int first;

	snprintf(pid, sizeof(pid), "%d", (int)target->pid);
	first = target->exe ? first_of(r, r->exes, target->exe, (size_t)i)
			    : first_of(r, r->pids, pid, (size_t)i);
	if (first == i || first < 0)
		return first < 0 ? first : 0;
	return wrong(r, where, "the same program as targets[%d]", first);
}

/* Return the message for FAULT, which must be one that the keys of a target can cause. */
static const char *fault_message(enum request_fault fault)
{
	switch (fault) {
	case REQUEST_DEPTH_WITHOUT_PAIR:
		return "'depth' requires 'time'";
	case REQUEST_KEY_WITHOUT_PAIR:
		return "'key' requires 'time'";
	case REQUEST_BY_AND_CODE:
		return "'by' needs arguments; c:, gc:, line: and note: have no arguments";
	default:
		return "'depth' and 'key' are mutually exclusive";
	}
}

/* Check the members of a target against each other. Set the default: count all probes. */
static int check_target(struct config_reader *r, const char *where, struct watch_spec *target)
{
	enum request_fault fault;
	int err;

	if (!target->exe == !target->pid)
		return wrong(r, where, "either 'exe' or 'pid' is required");
	if (!r->request->counted.n && items_add(&r->request->counted, ITEM_ALL_PROBES, NULL))
		return ctx_no_memory(r->ctx);
	fault = measure_request_check(r->request);
	if (fault != REQUEST_FINE)
		return wrong(r, where, "%s", fault_message(fault));
	err = check_engine(r, where, target);
	if (!err)
		err = check_label(r, where, target);
	return err ? err : check_program(r, where, target);
}

static int take_target(struct config_reader *r, const char *where, struct json_object *value)
{
#define OF_TARGET(name)	 offsetof(struct watch_spec, name), false
#define OF_REQUEST(name) offsetof(struct measure_request, name), true
	static const struct config_key keys[] = {
		{ "exe", take_text, OF_TARGET(exe) },
		{ "pid", take_pid, OF_TARGET(pid) },
		{ "count", take_counts, OF_REQUEST(counted) },
		{ "time", take_times, OF_REQUEST(pairs) },
		{ "depth", take_depth, OF_REQUEST(depth) },
		{ "key", take_own_text, OF_REQUEST(key) },
		{ "filter", take_own_text, OF_REQUEST(filter) },
		{ "by", take_by, OF_REQUEST(by) },
		{ "by_label", take_text, OF_TARGET(label.name) },
		{ "by_limit", take_limit, OF_TARGET(label.limit) },
		{ "budget", take_budget, OF_REQUEST(budget) },
		{ "engine", take_engine, OF_TARGET(engine) },
		{ "when", take_conditions, 0, false },
	};
	const size_t i = r->config->n_targets++;
	struct watch_spec *target = &r->config->targets[i];
	int err;

	r->request = &r->config->requests[i];
	target->request = r->request;
	target->may_be_missing = true;
	if (!json_object_is_type(value, json_type_object))
		return wrong(r, where, "not an object");
	err = take_object(r, where, value, keys, sizeof(keys) / sizeof(keys[0]), target);
	return err ? err : check_target(r, where, target);
}

/* ---- the file ------------------------------------------------------------------------------- */

static int take_hosts(struct config_reader *r, const char *where, struct json_object *value,
		      void *into)
{
	char element[WHERE_BYTES];
	struct serve_settings *settings = into;
	size_t n;
	int err = 0;

	if (!json_object_is_type(value, json_type_array) || !json_object_array_length(value))
		return wrong(r, where, "not a list of names");
	n = json_object_array_length(value);
	settings->hosts = calloc(n, sizeof(*settings->hosts));
	if (!settings->hosts)
		return ctx_no_memory(r->ctx);
	for (size_t i = 0; !err && i < n; i++) {
		const char **name = &settings->hosts[i], *why;

		name_element(element, where, i);
		err = take_text(r, element, json_object_array_get_idx(value, i), name);
		why = err ? NULL : hosts_check_name(*name);
		if (why)
			err = wrong(r, element, "'%.100s': %s", *name, why);
	}
	settings->n_hosts = n;
	return err;
}

static int take_boolean(struct config_reader *r, const char *where, struct json_object *value,
			void *into)
{
	if (!json_object_is_type(value, json_type_boolean))
		return wrong(r, where, "not true or false");
	*(bool *)into = json_object_get_boolean(value);
	return 0;
}

/* Take true, false, or the rate of samples per word. */
static int take_memprof(struct config_reader *r, const char *where, struct json_object *value,
			void *into)
{
	struct serve_settings *settings = into;
	const bool is_number = json_object_is_type(value, json_type_double) ||
			       json_object_is_type(value, json_type_int);

	if (!is_number && !json_object_is_type(value, json_type_boolean))
		return wrong(r, where, "not true, false, or a number (samples per word)");
	settings->memprof = is_number || json_object_get_boolean(value);
	settings->memprof_rate = is_number ? json_object_get_double(value) : MEMPROF_USUAL_RATE;
	/* Written so that NaN, which compares false, is rejected. */
	if (!(settings->memprof_rate >= MEMPROF_MIN_RATE && settings->memprof_rate <= 1))
		return wrong(r, where, "not a number from 1e-9 to 1");
	return 0;
}

static int take_last(struct config_reader *r, const char *where, struct json_object *value,
		     void *into)
{
	uint64_t ns;
	const char *text;
	int err = take_text(r, where, value, &text);

	if (err)
		return err;
	if (!record_condition_read_time(text, &ns) || ns > RECORD_LONGEST_NS)
		return wrong(r, where, "'%.100s': not a time such as 500ms or 10s (at most 1h)",
			     text);
	*(const char **)into = text;
	return 0;
}

static int take_files(struct config_reader *r, const char *where, struct json_object *value,
		      void *into)
{
	int64_t n = 0;
	int err = take_integer(r, where, value, 1, RECORD_MOST_FILES, &n);

	if (!err)
		*(size_t *)into = (size_t)n;
	return err;
}

static int take_megabytes(struct config_reader *r, const char *where, struct json_object *value,
			  void *into)
{
	int64_t n = 0;
	int err = take_integer(r, where, value, 1, RECORD_MOST_MB, &n);

	if (!err)
		*(size_t *)into = (size_t)n;
	return err;
}

static int take_record(struct config_reader *r, const char *where, struct json_object *value,
		       void *into)
{
#define OF_RECORD(name) offsetof(struct record_settings, name), false
	static const struct config_key keys[] = {
		{ "folder", take_text, OF_RECORD(folder) },
		{ "last", take_last, OF_RECORD(last) },
		{ "files", take_files, OF_RECORD(files) },
		{ "disk_mb", take_megabytes, OF_RECORD(disk_mb) },
		{ "memory_mb", take_megabytes, OF_RECORD(memory_mb) },
	};
	struct record_settings *record = into;
	int err;

	if (!json_object_is_type(value, json_type_object))
		return wrong(r, where, "not an object");
	err = take_object(r, where, value, keys, sizeof(keys) / sizeof(keys[0]), record);
	return err || record->folder ? err : wrong(r, where, "'folder' is required");
}

static int take_buckets(struct config_reader *r, const char *where, struct json_object *value,
			void *into)
{
	char element[WHERE_BYTES];

	if (!json_object_is_type(value, json_type_array) || !json_object_array_length(value))
		return wrong(r, where, "not a list of seconds");
	for (size_t i = 0; i < json_object_array_length(value); i++) {
		struct json_object *bound = json_object_array_get_idx(value, i);
		const char *why = "not a number";

		name_element(element, where, i);
		if (json_object_is_type(bound, json_type_double) ||
		    json_object_is_type(bound, json_type_int))
			why = buckets_add(into, json_object_get_double(bound));
		if (why)
			return wrong(r, element, "%s", why);
	}
	return 0;
}

static int take_targets(struct config_reader *r, const char *where, struct json_object *value,
			void *into)
{
	char element[WHERE_BYTES];
	struct config *config = into;
	size_t n;
	int err = 0;

	if (!json_object_is_type(value, json_type_array) || !json_object_array_length(value))
		return wrong(r, where, "not a list of objects");
	n = json_object_array_length(value);
	config->targets = calloc(n, sizeof(*config->targets));
	config->requests = calloc(n, sizeof(*config->requests));
	config->label_names = calloc(n, sizeof(*config->label_names));
	config->conditions = calloc(n, sizeof(*config->conditions));
	if (!config->targets || !config->requests || !config->label_names || !config->conditions)
		return ctx_no_memory(r->ctx);
	r->exes = json_object_new_object();
	r->pids = json_object_new_object();
	for (size_t i = 0; !err && i < n; i++) {
		name_element(element, where, i);
		err = take_target(r, element, json_object_array_get_idx(value, i));
	}
	json_object_put(r->exes);
	json_object_put(r->pids);
	return err;
}

static int take_config(struct config_reader *r)
{
#define OF_SETTINGS(name) offsetof(struct config, settings.name), false
	static const struct config_key keys[] = {
		{ "listen", take_text, OF_SETTINGS(listen) },
		{ "hosts", take_hosts, offsetof(struct config, settings), false },
		{ "buckets", take_buckets, OF_SETTINGS(buckets) },
		{ "label_pid", take_boolean, OF_SETTINGS(label_pid) },
		{ "textfile", take_text, OF_SETTINGS(textfile) },
		{ "profile", take_boolean, OF_SETTINGS(profile) },
		{ "memprof", take_memprof, offsetof(struct config, settings), false },
		{ "token_file", take_text, OF_SETTINGS(token_file) },
		{ "record", take_record, OF_SETTINGS(record) },
		{ "targets", take_targets, 0, false },
	};
	struct json_object *root = r->config->memory->root;

	if (!json_object_is_type(root, json_type_object))
		return ctx_error(r->ctx, -EINVAL, "%s:1: not a JSON object", r->file);
	return take_object(r, "", root, keys, sizeof(keys) / sizeof(keys[0]), r->config);
}

/*
 * Parse TEXT, N bytes and a zero byte, into a tree in the config's memory, and find the lines of
 * its keys.
 */
static int parse_config(struct config_reader *r, const char *text, size_t n)
{
	struct json_tokener *tokener = json_tokener_new();
	size_t end;
	enum json_tokener_error error;

	if (!tokener)
		return ctx_no_memory(r->ctx);
	json_tokener_set_flags(tokener,
			       JSON_TOKENER_VALIDATE_UTF8 | JSON_TOKENER_ALLOW_TRAILING_CHARS);
	/* Pass the zero byte after the text, too: it ends a number at the end of the text. */
	r->config->memory->root = json_tokener_parse_ex(tokener, text, (int)n + 1);
	error = json_tokener_get_error(tokener);
	end = json_tokener_get_parse_end(tokener);
	json_tokener_free(tokener);
	end = end > n ? n : end;
	if (error != json_tokener_success)
		return ctx_error(r->ctx, -EINVAL, "%s:%d: invalid JSON: %s", r->file,
				 line_of(text, end), json_tokener_error_desc(error));
	end = blank_end(text, end, n);
	if (end < n)
		return ctx_error(r->ctx, -EINVAL, "%s:%d: text after the end of the object",
				 r->file, line_of(text, end));
	return find_keys(r->ctx, r->file, text, n, &r->config->memory->lines);
}

static struct config *new_config(struct ocp_ctx *ctx, const char *file)
{
	struct config *config = calloc(1, sizeof(*config));

	if (config)
		config->memory = calloc(1, sizeof(*config->memory));
	if (config && config->memory)
		config->memory->file = strdup(file);
	if (config && config->memory && config->memory->file)
		return config;
	if (config)
		free(config->memory);
	free(config);
	ctx_set_error(ctx, "out of memory");
	return NULL;
}

int config_parse(struct ocp_ctx *ctx, const char *file, const char *text, size_t n,
		 struct config **out)
{
	struct config_reader reader = { .ctx = ctx, .file = file, .config = new_config(ctx, file) };
	int err = reader.config ? parse_config(&reader, text, n) : -ENOMEM;

	if (!err)
		err = take_config(&reader);
	if (err) {
		config_free(reader.config);
		return err;
	}
	*out = reader.config;
	return 0;
}

int config_read(struct ocp_ctx *ctx, const char *file, int wake_fd, struct config **out)
{
	char *text = NULL;
	size_t n;
	int err = config_file_read(ctx, file, wake_fd, &text, &n);

	if (err)
		return err;
	err = config_parse(ctx, file, text, n, out);
	free(text);
	return err;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->n_targets; i++) {
		measure_request_free(&config->requests[i]);
		free(config->label_names[i]);
		free(config->conditions[i].list);
	}
	json_object_put(config->memory->root);
	json_object_put(config->memory->lines);
	free(config->memory->file);
	free(config->memory);
	free(config->targets);
	free(config->requests);
	free(config->label_names);
	free(config->conditions);
	free(config->settings.hosts);
	free(config);
}
