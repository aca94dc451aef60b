// SPDX-License-Identifier: MIT
/*
 * A file that begins with `{`, perhaps after white space, is read as JSON; any other file is taken
 * for the folded form.
 */
#include "profile/formats/profile_reader.h"
#include "base/array.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 1 << 28 };

struct profile_input {
	struct ocp_ctx *ctx;
	const char *path;
	struct read_profile *read;
	size_t line;	 /* current line of a file in the folded form */
	size_t n_frames; /* number of elements of read->frames */
};

/*
 * Record that the file is wrong at LINE. LINE is 0 if the line is not known: json-c does not keep
 * the line numbers of values.
 */
static int wrong(struct profile_input *r, size_t line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int wrong(struct profile_input *r, size_t line, const char *fmt, ...)
{
	char why[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (!line)
		return ctx_error(r->ctx, -EINVAL, "%s: %s", r->path, why);
	return ctx_error(r->ctx, -EINVAL, "%s:%zu: %s", r->path, line, why);
}

/* ---- the file ------------------------------------------------------------------------------- */

static int read_profile_bytes(struct profile_input *r, int fd, char **text, size_t *n)
{
	size_t room = 1 << 16;

	*n = 0;
	*text = malloc(room);
	while (*text) {
		const ssize_t got = read(fd, *text + *n, room - 1 - *n);

		if (got < 0)
			return ctx_error(r->ctx, -errno, "%s: %s", r->path, strerror(errno));
		(*text)[ *n += (size_t)got] = '\0';
		if (!got)
			return 0;
		if (*n > MAX_FILE_BYTES)
			return ctx_error(r->ctx, -EFBIG, "%s: larger than %d MB", r->path,
					 MAX_FILE_BYTES >> 20);
		if (*n + 1 == room) {
			char *larger = realloc(*text, room *= 2);

			if (!larger)
				break;
			*text = larger;
		}
	}
	return ctx_no_memory(r->ctx);
}

static int read_profile_text(struct profile_input *r, char **text, size_t *n)
{
	/* O_NONBLOCK: otherwise, opening a FIFO without a writer would block. */
	const int fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int err;

	if (fd < 0)
		return ctx_error(r->ctx, -errno, "%s: %s", r->path, strerror(errno));
	if (fstat(fd, &st) != 0)
		err = ctx_error(r->ctx, -errno, "%s: %s", r->path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		err = ctx_error(r->ctx, -EINVAL, "%s: not a regular file", r->path);
	else
		err = read_profile_bytes(r, fd, text, n);
	close(fd);
	if (!err && memchr(*text, '\0', *n))
		err = ctx_error(r->ctx, -EINVAL, "%s: not a profile: contains a zero byte",
				r->path);
	if (!err && !(*text)[strspn(*text, " \t\r\n")])
		err = ctx_error(r->ctx, -EINVAL, "%s: is empty: no samples", r->path);
	return err;
}

/* ---- the profile ---------------------------------------------------------------------------- */

static int add_frame(struct profile_input *r, const struct named_frame *frame)
{
	struct read_profile *read = r->read;
	struct named_frame *new = array_add(read->frames, r->n_frames);

	if (!new)
		return ctx_no_memory(r->ctx);
	*new = *frame;
	return 0;
}

/*
 * Add a stack that consists of the N frames that were added most recently. Its pointers to these
 * frames are set later, by link_frames(), when all frames have been added.
 */
static int add_read_stack(struct profile_input *r, size_t line, size_t n, uint64_t samples,
			  uint64_t value)
{
	struct profile *profile = &r->read->profile;
	struct named_stack *new;

	if (__builtin_add_overflow(profile->value, value, &profile->value) ||
	    __builtin_add_overflow(profile->samples, samples, &profile->samples))
		return wrong(r, line, "the sum of all values is too large");
	new = array_add(profile->stacks, profile->n);
	if (!new)
		return ctx_no_memory(r->ctx);
	*new = (struct named_stack){ .n = n, .samples = samples, .value = value };
	if (r->read->frames[r->n_frames - n].kind == FRAME_TRUNCATED)
		profile->truncated += samples;
	return 0;
}

static int link_frames(struct profile_input *r)
{
	struct profile *profile = &r->read->profile;
	const struct named_frame *next = r->read->frames;

	for (size_t i = 0; i < profile->n; i++) {
		struct named_stack *stack = &profile->stacks[i];

		stack->frames = calloc(stack->n, sizeof(const struct named_frame *));
		if (!stack->frames)
			return ctx_no_memory(r->ctx);
		for (size_t j = 0; j < stack->n; j++)
			stack->frames[j] = next++;
	}
	return 0;
}

/* ---- the folded form ------------------------------------------------------------------------ */

static const char kernel_mark[] = "_[k]";

/*
 * NAME is the name of a function in the folded form. Return the kind of the function. If NAME ends
 * with the mark of kernel functions, remove the mark.
 */
static enum frame_kind kind_of_name(char *name)
{
	const size_t bytes = strlen(name), mark = sizeof(kernel_mark) - 1;

	if (strncmp(name, "[truncated", strlen("[truncated")) == 0)
		return FRAME_TRUNCATED;
	if (bytes > mark && strcmp(name + bytes - mark, kernel_mark) == 0) {
		name[bytes - mark] = '\0';
		return FRAME_KERNEL;
	}
	if (*name == '[')
		return FRAME_UNKNOWN;
	return isupper((unsigned char)*name) && strchr(name, '.') ? FRAME_OCAML : FRAME_C;
}

static int take_names(struct profile_input *r, char *names, size_t *n)
{
	int err = 0;

	for (*n = 0; names && !err; ++*n) {
		char *name = strsep(&names, ";");
		struct named_frame frame = { .function = name };

		if (!*name)
			return wrong(r, r->line, "a function without a name");
		frame.kind = kind_of_name(name);
		err = add_frame(r, &frame);
	}
	return err;
}

static int take_line(struct profile_input *r, char *line)
{
	const enum profile_kind kind = r->read->profile.kind;
	char *space = strrchr(line, ' '), *end = NULL;
	uint64_t samples = 0, value;
	size_t n;
	int err;

	errno = 0;
	if (space && isdigit((unsigned char)space[1]))
		samples = strtoull(space + 1, &end, 10);
	if (!end || *end || space == line)
		return wrong(r, r->line, "not FUNCTION;...;FUNCTION NUMBER");
	if (errno ||
	    __builtin_mul_overflow(samples, kind == PROFILE_WAITS ? UINT64_C(1000) : 1, &value))
		return wrong(r, r->line, "the number is too large");
	*space = '\0';
	err = take_names(r, line, &n);
	return err ? err : add_read_stack(r, r->line, n, samples, value);
}

static int read_folded(struct profile_input *r, char *text)
{
	int err = 0;

	for (r->line = 1; text && !err; r->line++) {
		char *line = strsep(&text, "\n");
		const size_t bytes = strlen(line);

		if (bytes && line[bytes - 1] == '\r')
			line[bytes - 1] = '\0';
		if (*line)
			err = take_line(r, line);
	}
	return err;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static int take_json_number(struct profile_input *r, struct json_object *object, const char *of,
			    const char *name, uint64_t *number)
{
	struct json_object *member;

	if (!json_object_object_get_ex(object, name, &member))
		return wrong(r, 0, "%s has no member \"%s\"", of, name);
	if (!json_object_is_type(member, json_type_int) || json_object_get_int64(member) < 0)
		return wrong(r, 0, "\"%s\" of %s is not a whole number of 0 or more", name, of);
	*number = json_object_get_uint64(member);
	return 0;
}

/*
 * Return the string NAME in OBJECT, or NULL if it is missing, is not a string, or contains a zero
 * byte.
 */
static const char *get_json_text(struct json_object *object, const char *name)
{
	struct json_object *member;
	const char *text;

	if (!json_object_object_get_ex(object, name, &member) ||
	    !json_object_is_type(member, json_type_string))
		return NULL;
	text = json_object_get_string(member);
	return strlen(text) == (size_t)json_object_get_string_len(member) ? text : NULL;
}

static int take_kind(struct profile_input *r)
{
	struct profile *profile = &r->read->profile;
	const char *name = get_json_text(r->read->json, "profile");

	for (int kind = 0; name && kind <= PROFILE_GC; kind++) {
		if (strcmp(name, profile_kind_name((enum profile_kind)kind)) == 0) {
			profile->kind = (enum profile_kind)kind;
			r->read->has_kind = true;
			return 0;
		}
	}
	return wrong(r, 0,
		     "not what `profile --json` prints: \"profile\" names no kind of profile");
}

static int take_frame(struct profile_input *r, struct json_object *object, size_t stack)
{
	static const char *const kinds[] = {
		[FRAME_OCAML] = "ocaml",	 [FRAME_C] = "c",
		[FRAME_KERNEL] = "kernel",	 [FRAME_UNKNOWN] = "unknown",
		[FRAME_TRUNCATED] = "truncated",
	};
	const char *kind = get_json_text(object, "kind");
	struct named_frame frame = { .function = get_json_text(object, "function"),
				     .file = get_json_text(object, "file"),
				     .item = get_json_text(object, "item") };
	uint64_t line = 0;
	size_t i = 0;

	while (kind && i < sizeof(kinds) / sizeof(*kinds) && strcmp(kinds[i], kind) != 0)
		i++;
	if (!kind || i == sizeof(kinds) / sizeof(*kinds) || !frame.function || !*frame.function)
		return wrong(r, 0, "stack %zu has a frame without a function or a kind", stack);
	if (frame.file && take_json_number(r, object, "a frame", "line", &line))
		return -EINVAL;
	frame.kind = (enum frame_kind)i;
	frame.line = (uint32_t)line;
	frame.is_inlined = json_object_get_boolean(json_object_object_get(object, "inlined"));
	return add_frame(r, &frame);
}

/*
 * Add the stack that OBJECT describes. STACK is the number of the stack in messages, counted from
 * 1.
 */
static int take_json_stack(struct profile_input *r, struct json_object *object, const char *unit,
			   size_t stack)
{
	struct json_object *frames;
	uint64_t samples = 0, value = 0;
	char what[32];
	size_t n;
	int err;

	snprintf(what, sizeof(what), "stack %zu", stack);
	if (!json_object_object_get_ex(object, "frames", &frames) ||
	    !json_object_is_type(frames, json_type_array) || !json_object_array_length(frames))
		return wrong(r, 0, "%s has no frames", what);
	err = take_json_number(r, object, what, "samples", &samples);
	if (!err)
		err = take_json_number(r, object, what, unit, &value);
	n = json_object_array_length(frames);
	for (size_t i = 0; i < n && !err; i++)
		err = take_frame(r, json_object_array_get_idx(frames, i), stack);
	return err ? err : add_read_stack(r, 0, n, samples, value);
}

static int take_stacks(struct profile_input *r, const char *unit)
{
	struct json_object *stacks;
	int err = 0;

	if (!json_object_object_get_ex(r->read->json, "stacks", &stacks) ||
	    !json_object_is_type(stacks, json_type_array))
		return wrong(r, 0, "the profile has no stacks");
	for (size_t i = 0; i < json_object_array_length(stacks) && !err; i++)
		err = take_json_stack(r, json_object_array_get_idx(stacks, i), unit, i + 1);
	return err;
}

static int take_profile(struct profile_input *r)
{
	static const char whole[] = "the profile";
	struct json_object *top = r->read->json;
	struct profile *profile = &r->read->profile;
	uint64_t version = 0, hz = 0, value = 0;
	const char *unit;
	int err;

	err = take_kind(r);
	if (!err)
		err = take_json_number(r, top, whole, "version", &version);
	if (!err && version != 1)
		return wrong(r, 0, "of version %llu, which this tool does not know",
			     (unsigned long long)version);
	if (err)
		return err;
	unit = profile->kind == PROFILE_WORDS ? "words" : "ns";
	if (profile_is_sampled(profile->kind))
		err = take_json_number(r, top, whole, "hz", &hz);
	if (!err)
		err = take_json_number(r, top, whole, "duration_ns", &profile->duration_ns);
	if (!err)
		err = take_json_number(r, top, whole, "lost", &profile->lost);
	if (!err && json_object_object_get_ex(top, "large_blocks_ns", NULL))
		err = take_json_number(r, top, whole, "large_blocks_ns", &profile->large_ns);
	if (!err)
		err = take_json_number(r, top, whole, unit, &value);
	if (!err)
		err = take_stacks(r, unit);
	profile->hz = (unsigned int)hz;
	if (!err && profile->value != value)
		err = wrong(r, 0, "\"%s\" is not the sum of the stacks", unit);
	return err;
}

static size_t line_at(const char *text, size_t offset)
{
	size_t line = 1;

	for (size_t i = 0; i < offset; i++)
		line += text[i] == '\n';
	return line;
}

static int read_json(struct profile_input *r, const char *text, size_t bytes)
{
	struct json_tokener *tokener = json_tokener_new();
	enum json_tokener_error error;
	size_t end;

	if (!tokener)
		return ctx_no_memory(r->ctx);
	r->read->json = json_tokener_parse_ex(tokener, text, (int)bytes);
	error = json_tokener_get_error(tokener);
	end = json_tokener_get_parse_end(tokener);
	json_tokener_free(tokener);
	if (error == json_tokener_continue)
		return wrong(r, line_at(text, bytes), "the JSON has no end");
	if (error != json_tokener_success)
		return wrong(r, line_at(text, end), "no JSON: %s", json_tokener_error_desc(error));
	if (text[end + strspn(text + end, " \t\r\n")])
		return wrong(r, line_at(text, end), "text after the JSON");
	return take_profile(r);
}

/* ---- both ----------------------------------------------------------------------------------- */

int read_profile_open(struct ocp_ctx *ctx, const char *path, enum profile_kind kind,
		      struct read_profile *read)
{
	struct profile_input r = { .ctx = ctx, .path = path, .read = read };
	size_t bytes = 0;
	int err;

	*read = (struct read_profile){ .profile.kind = kind };
	err = read_profile_text(&r, &read->text, &bytes);
	if (err)
		return err;
	if (read->text[strspn(read->text, " \t\r\n")] == '{')
		err = read_json(&r, read->text, bytes);
	else
		err = read_folded(&r, read->text);
	return err ? err : link_frames(&r);
}

void read_profile_free(struct read_profile *read)
{
	profile_free(&read->profile);
	free(read->frames);
	json_object_put(read->json);
	free(read->text);
	*read = (struct read_profile){ 0 };
}
