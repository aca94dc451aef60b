// SPDX-License-Identifier: MIT
#include "made_profile.h"

#include <err.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

static void *zeroed(size_t n, size_t size)
{
	void *memory = calloc(n + 1, size);

	if (!memory)
		err(1, "made_profile");
	return memory;
}

static struct json_object *member(struct json_object *object, const char *name)
{
	return json_object_object_get(object, name);
}

static uint64_t at(struct json_object *array, size_t i)
{
	return json_object_get_uint64(json_object_array_get_idx(array, i));
}

static const char *text_at(struct json_object *array, size_t i)
{
	return json_object_get_string(json_object_array_get_idx(array, i));
}

static enum frame_kind kind_of(const char *name)
{
	static const char *const names[] = { "ocaml", "c", "kernel", "unknown", "truncated" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return (enum frame_kind)i;
	errx(1, "made_profile: no kind of frame: %s", name);
}

static void make_frames(struct made_profile *made, struct json_object *frames)
{
	const size_t n = json_object_array_length(frames);

	made->frames = zeroed(n, sizeof(*made->frames));
	for (size_t i = 0; i < n; i++) {
		struct json_object *frame = json_object_array_get_idx(frames, i);

		made->frames[i] = (struct named_frame){
			.function = text_at(frame, 0),
			.kind = kind_of(text_at(frame, 1)),
			.file = text_at(frame, 2),
			.line = (uint32_t)at(frame, 3),
			.is_inlined = json_object_get_boolean(json_object_array_get_idx(frame, 4)),
		};
	}
}

static void make_stacks(struct made_profile *made, struct json_object *stacks)
{
	struct profile *profile = &made->profile;

	profile->n = json_object_array_length(stacks);
	profile->stacks = zeroed(profile->n, sizeof(*profile->stacks));
	for (size_t i = 0; i < profile->n; i++) {
		struct json_object *from = json_object_array_get_idx(stacks, i);
		struct named_stack *stack = &profile->stacks[i];

		stack->samples = at(from, 0);
		stack->value = at(from, 1);
		stack->n = json_object_array_length(from) - 2;
		stack->frames = zeroed(stack->n, sizeof(struct named_frame *));
		for (size_t j = 0; j < stack->n; j++)
			stack->frames[j] = &made->frames[at(from, j + 2)];
		profile->samples += stack->samples;
		profile->value += stack->value;
	}
}

struct made_profile made_profile_of(const char *text)
{
	struct made_profile made = { .json = json_tokener_parse(text) };
	struct json_object *head = member(made.json, "profile");
	const char *title = json_object_get_string(member(head, "title"));
	const char *kind = json_object_get_string(member(head, "kind"));

	if (!title || !kind)
		errx(1, "made_profile: no profile");
	made.title = strdup(title);
	made.profile = (struct profile){
		.kind = strcmp(kind, "cpu") == 0 ? PROFILE_CPU : PROFILE_WAITS,
		.hz = (unsigned int)json_object_get_uint64(member(head, "hz")),
		.start_ns = json_object_get_uint64(member(head, "start_ns")),
		.duration_ns = json_object_get_uint64(member(head, "duration_ns")),
		.truncated = json_object_get_uint64(member(head, "truncated")),
		.lost = json_object_get_uint64(member(head, "lost")),
	};
	make_frames(&made, member(made.json, "frames"));
	make_stacks(&made, member(made.json, "stacks"));
	return made;
}

void made_profile_free(struct made_profile *made)
{
	profile_free(&made->profile);
	free(made->frames);
	free(made->title);
	json_object_put(made->json);
}
