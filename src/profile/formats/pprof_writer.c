// SPDX-License-Identifier: MIT
/*
 * In pprof, a location is a line of a function, together with the functions that are inlined at
 * this line. This file builds the whole message in memory; then protobuf-c writes the message
 * through zlib.
 */
#include "profile/formats/pprof_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "pprof.pb-c.h"
#include "profile/formats/numbering.h"

typedef Perftools__Profiles__Profile pprof_profile;
typedef Perftools__Profiles__ValueType pprof_value_type;
typedef Perftools__Profiles__Sample pprof_sample;
typedef Perftools__Profiles__Label pprof_label;
typedef Perftools__Profiles__Mapping pprof_mapping;
typedef Perftools__Profiles__Location pprof_location;
typedef Perftools__Profiles__Line pprof_line;
typedef Perftools__Profiles__Function pprof_function;

struct pprof_builder {
	struct ocp_ctx *ctx;
	pprof_profile *out; /* owns all its parts, which are allocated with malloc(3) */
	struct numbering strings, functions, locations;
	int64_t *lines; /* the pairs of a function and a line of the current location */
	size_t room;	/* size of `lines`, in pairs */
	bool has_heap;	/* each sample has four values, as in heap profiles of Go */
	/* the factor by which the profile's values are multiplied in the file */
	uint64_t value_scale;
};

/*
 * Append ITEM to LIST, which has N items. The value of the expression is false if memory is short.
 */
#define APPEND(list, n, item)                                                                      \
	({                                                                                         \
		__typeof__(list) append_at = array_add(list, n);                                   \
		if (append_at)                                                                     \
			*append_at = (item);                                                       \
		append_at != NULL;                                                                 \
	})

/*
 * Append a new message of the type TYPE to LIST and return it, or NULL if out of memory. The new
 * message then belongs to the message that contains LIST, and is freed together with it.
 */
#define NEW(list, n, type)                                                                         \
	({                                                                                         \
		pprof_##type *new_message = malloc(sizeof(*new_message));                          \
		if (new_message) {                                                                 \
			init_##type(new_message);                                                  \
			if (!APPEND(list, n, new_message)) {                                       \
				free(new_message);                                                 \
				new_message = NULL;                                                \
			}                                                                          \
		}                                                                                  \
		new_message;                                                                       \
	})
#define init_value_type perftools__profiles__value_type__init
#define init_sample	perftools__profiles__sample__init
#define init_label	perftools__profiles__label__init
#define init_mapping	perftools__profiles__mapping__init
#define init_location	perftools__profiles__location__init
#define init_line	perftools__profiles__line__init
#define init_function	perftools__profiles__function__init

/* ---- strings and functions ------------------------------------------------------------------ */

static int find_string(struct pprof_builder *b, const char *text, int64_t *index)
{
	char *copy;
	size_t number;
	bool is_new;

	if (!numbering_of(&b->strings, text, strlen(text), &number, &is_new))
		return ctx_no_memory(b->ctx);
	*index = (int64_t)number;
	if (!is_new)
		return 0;
	copy = strdup(text);
	if (!copy || !APPEND(b->out->string_table, b->out->n_string_table, copy)) {
		free(copy);
		return ctx_no_memory(b->ctx);
	}
	return 0;
}

static int find_function(struct pprof_builder *b, const struct named_frame *frame, int64_t *id)
{
	const bool is_c = frame->kind == FRAME_C;
	/* key[1] and key[2] will be the indices of the name and the file */
	int64_t key[3] = { is_c };
	pprof_function *function;
	size_t number;
	bool is_new;
	int err = find_string(b, frame->function, &key[1]);

	if (!err)
		err = find_string(b, frame->file ? frame->file : "", &key[2]);
	if (err)
		return err;
	if (!numbering_of(&b->functions, key, sizeof(key), &number, &is_new))
		return ctx_no_memory(b->ctx);
	*id = (int64_t)number + 1;
	if (!is_new)
		return 0;
	function = NEW(b->out->function, b->out->n_function, function);
	if (!function)
		return ctx_no_memory(b->ctx);
	function->id = (uint64_t)*id;
	function->name = key[1];
	/*
	 * If a function has a system name, readers shorten its name as if it were C++, which leaves
	 * little of `Result.<$>`. So OCaml functions get no system name.
	 */
	function->system_name = is_c ? key[1] : 0;
	function->filename = key[2];
	return 0;
}

/* ---- locations and samples ------------------------------------------------------------------ */

static int add_location(struct pprof_builder *b, size_t n, uint64_t id)
{
	pprof_location *location = NEW(b->out->location, b->out->n_location, location);

	if (!location)
		return ctx_no_memory(b->ctx);
	location->id = id;
	location->mapping_id = 1;
	for (size_t i = 0; i < n; i++) {
		pprof_line *line = NEW(location->line, location->n_line, line);

		if (!line)
			return ctx_no_memory(b->ctx);
		line->function_id = (uint64_t)b->lines[2 * i];
		line->line = b->lines[2 * i + 1];
	}
	return 0;
}

/*
 * Find the location of the innermost of FRAMES[0..*N). If this frame is inlined, the location also
 * includes the frames into which it is inlined. Set *N to the number of the outer frames that
 * remain.
 */
static int find_location(struct pprof_builder *b, const struct named_frame *const *frames,
			 size_t *n, uint64_t *id)
{
	size_t number, lines = 0;
	bool is_inlined = true, is_new;

	while (is_inlined && *n > 0) {
		const struct named_frame *frame = frames[--*n];
		int err;

		if (lines == b->room) {
			const size_t room = b->room ? 2 * b->room : 16;
			int64_t *grown = reallocarray(b->lines, room, 2 * sizeof(*grown));

			if (!grown)
				return ctx_no_memory(b->ctx);
			b->lines = grown;
			b->room = room;
		}
		err = find_function(b, frame, &b->lines[2 * lines]);
		if (err)
			return err;
		b->lines[2 * lines++ + 1] = frame->line;
		is_inlined = frame->is_inlined;
	}
	if (!numbering_of(&b->locations, b->lines, lines * 2 * sizeof(*b->lines), &number, &is_new))
		return ctx_no_memory(b->ctx);
	*id = number + 1;
	return is_new ? add_location(b, lines, *id) : 0;
}

/* Add the values of STACK in the order of add_value_types(). */
static bool add_values(const struct pprof_builder *b, pprof_sample *sample,
		       const struct named_stack *stack)
{
	const uint64_t values[] = { b->has_heap ? stack->objects : stack->samples,
				    stack->value * b->value_scale, stack->live_objects,
				    stack->live * b->value_scale };

	for (size_t i = 0; i < (b->has_heap ? 4 : 2); i++)
		if (!APPEND(sample->value, sample->n_value, (int64_t)values[i]))
			return false;
	return true;
}

/* Add a label NAME with the text STR or, if STR is NULL, with the number NUM. */
static int add_label(struct pprof_builder *b, pprof_sample *sample, const char *name,
		     const char *str, int64_t num)
{
	pprof_label *label = NEW(sample->label, sample->n_label, label);
	int err = label ? find_string(b, name, &label->key) : ctx_no_memory(b->ctx);

	if (err)
		return err;
	label->num = num;
	return str ? find_string(b, str, &label->str) : 0;
}

static int add_pprof_sample(struct pprof_builder *b, const struct named_stack *stack,
			    const struct process_profile *of)
{
	pprof_sample *sample = NEW(b->out->sample, b->out->n_sample, sample);
	const struct profile_thread *thread = profile_stack_thread(stack);
	const size_t first = profile_stack_first(stack);
	size_t n = stack->n - first;
	int err = 0;

	if (!sample || !add_values(b, sample, stack))
		return ctx_no_memory(b->ctx);
	while (n > 0 && !err) {
		uint64_t id;

		err = find_location(b, stack->frames + first, &n, &id);
		if (!err && !APPEND(sample->location_id, sample->n_location_id, id))
			err = ctx_no_memory(b->ctx);
	}
	if (!err && thread)
		err = add_label(b, sample, "thread", thread->name, 0);
	if (!err && thread)
		err = add_label(b, sample, "tid", NULL, thread->tid);
	if (!err && of->exe)
		err = add_label(b, sample, "exe", of->exe, 0);
	return !err && of->exe ? add_label(b, sample, "pid", NULL, of->pid) : err;
}

/* ---- the profile as a whole ----------------------------------------------------------------- */

/* The names of values. Programs in Go use the same names for profiles of the same kinds. */
static const struct value_name {
	const char *type, *unit;
} value_names[][2] = {
	[PROFILE_CPU] = { { "samples", "count" }, { "cpu", "nanoseconds" } },
	[PROFILE_WAITS] = { { "contentions", "count" }, { "delay", "nanoseconds" } },
	[PROFILE_WORDS] = { { "samples", "count" }, { "alloc_space", "bytes" } },
	[PROFILE_GC] = { { "samples", "count" }, { "gc", "nanoseconds" } },
};

static const struct value_name heap_names[] = { { "alloc_objects", "count" },
						{ "alloc_space", "bytes" },
						{ "inuse_objects", "count" },
						{ "inuse_space", "bytes" } };

static int set_value_type(struct pprof_builder *b, pprof_value_type *type,
			  const struct value_name *name)
{
	const int err = find_string(b, name->type, &type->type);

	return err ? err : find_string(b, name->unit, &type->unit);
}

static int add_value_types(struct pprof_builder *b, const struct profile *profile)
{
	const struct value_name *names = b->has_heap ? heap_names : value_names[profile->kind];
	const bool is_cpu = profile_is_sampled(profile->kind);
	const int n = b->has_heap ? 4 : 2;
	int err = 0;

	for (int i = 0; i < n && !err; i++) {
		pprof_value_type *type =
			NEW(b->out->sample_type, b->out->n_sample_type, value_type);

		err = type ? set_value_type(b, type, &names[i]) : ctx_no_memory(b->ctx);
	}
	if (err)
		return err;
	b->out->default_sample_type =
		b->out->sample_type[b->has_heap && !profile->is_live ? 1 : n - 1]->type;
	b->out->period = is_cpu && profile->hz ? 1000000000 / profile->hz : 1;
	b->out->period_type = malloc(sizeof(*b->out->period_type));
	if (!b->out->period_type)
		return ctx_no_memory(b->ctx);
	init_value_type(b->out->period_type);
	if (b->has_heap) {
		const struct value_name space = { "space", "bytes" };

		b->out->period = (int64_t)(profile->word_period * b->value_scale);
		return set_value_type(b, b->out->period_type, &space);
	}
	return set_value_type(b, b->out->period_type, &names[is_cpu ? 1 : 0]);
}

/*
 * Add a mapping that says that all names are known. This keeps readers of the file from looking up
 * names in the executable.
 */
static int add_mapping(struct pprof_builder *b)
{
	pprof_mapping *mapping = NEW(b->out->mapping, b->out->n_mapping, mapping);

	if (!mapping)
		return ctx_no_memory(b->ctx);
	mapping->id = 1;
	mapping->has_functions = mapping->has_filenames = true;
	mapping->has_line_numbers = mapping->has_inline_frames = true;
	return 0;
}

static int add_comment(struct pprof_builder *b, const char *text)
{
	int64_t index;
	int err = find_string(b, text, &index);

	if (!err && !APPEND(b->out->comment, b->out->n_comment, index))
		err = ctx_no_memory(b->ctx);
	return err;
}

static int add_number_comment(struct pprof_builder *b, const char *what, uint64_t number,
			      const char *unit)
{
	char text[96];

	if (!number)
		return 0;
	snprintf(text, sizeof(text), "%s: %llu %s", what, (unsigned long long)number, unit);
	return add_comment(b, text);
}

/* Add each line of TEXT as a comment. TEXT may be NULL. */
static int add_comments(struct pprof_builder *b, const char *text)
{
	char *copy = text ? strdup(text) : NULL, *rest = copy;
	int err = text && !copy ? ctx_no_memory(b->ctx) : 0;

	for (const char *line; !err && (line = strsep(&rest, "\n"));)
		if (*line)
			err = add_comment(b, line);
	free(copy);
	return err;
}

static int add_samples(struct pprof_builder *b, const struct process_profile *of)
{
	int err = 0;

	for (size_t i = 0; i < of->profile.n && !err; i++)
		err = add_pprof_sample(b, &of->profile.stacks[i], of);
	return err;
}

static int build(struct pprof_builder *b, const struct process_profile *list, size_t n)
{
	const struct profile *first = &list->profile;
	uint64_t truncated = 0, lost = 0;
	int64_t empty;
	int err;

	for (size_t i = 0; i < n; i++) {
		truncated += list[i].profile.truncated;
		lost += list[i].profile.lost;
	}
	b->out->time_nanos = (int64_t)first->start_ns;
	b->out->duration_nanos = (int64_t)first->duration_ns;
	err = find_string(b, "", &empty); /* the empty string must be the first one */
	if (!err)
		err = add_value_types(b, first);
	if (!err)
		err = add_mapping(b);
	if (!err)
		err = add_number_comment(b, "truncated", truncated, "samples");
	if (!err)
		err = add_number_comment(b, "lost", lost, "samples");
	if (!err)
		err = add_number_comment(b, "large blocks were sampled for the first",
					 first->large_ns / 1000000, "ms only");
	for (size_t i = 0; i < n && !err; i++)
		err = add_comments(b, list[i].profile.comments);
	for (size_t i = 0; i < n && !err; i++)
		err = add_samples(b, &list[i]);
	return err;
}

/* ---- gzip ----------------------------------------------------------------------------------- */

struct gzip {
	/* Must be first: protobuf-c calls gzip_append() with the address of `base`. */
	ProtobufCBuffer base;
	z_stream stream;
	FILE *to;
	bool has_failed;
};

static void gzip_run(struct gzip *gzip, int flush)
{
	unsigned char out[1 << 14];

	do {
		size_t n;

		gzip->stream.next_out = out;
		gzip->stream.avail_out = sizeof(out);
		if (deflate(&gzip->stream, flush) == Z_STREAM_ERROR)
			gzip->has_failed = true;
		n = sizeof(out) - gzip->stream.avail_out;
		if (fwrite(out, 1, n, gzip->to) != n)
			gzip->has_failed = true;
	} while (!gzip->has_failed && gzip->stream.avail_out == 0);
}

static void gzip_append(ProtobufCBuffer *buffer, size_t len, const uint8_t *data)
{
	struct gzip *gzip = (struct gzip *)buffer;

	if (gzip->has_failed)
		return;
	gzip->stream.next_in = (Bytef *)data;
	gzip->stream.avail_in = (uInt)len; /* the data of one field, far below 4 GB */
	gzip_run(gzip, Z_NO_FLUSH);
}

static int write_gzip(struct ocp_ctx *ctx, const pprof_profile *out, FILE *to)
{
	struct gzip gzip = { .base = { gzip_append }, .to = to };

	/* Adding 16 to the size of the window selects the header of gzip. */
	if (deflateInit2(&gzip.stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16,
			 MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
		return ctx_no_memory(ctx);
	errno = 0;
	perftools__profiles__profile__pack_to_buffer(out, &gzip.base);
	if (!gzip.has_failed)
		gzip_run(&gzip, Z_FINISH);
	deflateEnd(&gzip.stream);
	if (gzip.has_failed || fflush(to) != 0)
		return ctx_error(ctx, errno ? -errno : -EIO, "cannot write the profile: %s",
				 strerror(errno ? errno : EIO));
	return 0;
}

int pprof_write_all(struct ocp_ctx *ctx, const struct process_profile *list, size_t n, FILE *to)
{
	const uint64_t word_bytes = 8;
	struct pprof_builder b = {
		.ctx = ctx,
		.out = malloc(sizeof(*b.out)),
		.has_heap = list->profile.has_heap,
		.value_scale = list->profile.kind == PROFILE_WORDS ? word_bytes : 1,
	};
	int err;

	if (!b.out)
		return ctx_no_memory(ctx);
	perftools__profiles__profile__init(b.out);
	err = build(&b, list, n);
	if (!err)
		err = write_gzip(ctx, b.out, to);
	perftools__profiles__profile__free_unpacked(b.out, NULL);
	numbering_free(&b.strings);
	numbering_free(&b.functions);
	numbering_free(&b.locations);
	free(b.lines);
	return err;
}

int pprof_write(struct ocp_ctx *ctx, const struct profile *profile, FILE *to)
{
	const struct process_profile one = { .profile = *profile };

	return pprof_write_all(ctx, &one, 1, to);
}
