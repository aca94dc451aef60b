/* SPDX-License-Identifier: MIT */
/* Members of JSON objects, and JSON on standard output. */
#ifndef TOOL_JSON_H
#define TOOL_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Add the member NAME with VALUE to OBJECT. */
static inline void json_add_uint(struct json_object *object, const char *name, uint64_t value)
{
	json_object_object_add(object, name, json_object_new_uint64(value));
}

static inline void json_add_int(struct json_object *object, const char *name, int64_t value)
{
	json_object_object_add(object, name, json_object_new_int64(value));
}

static inline void json_add_double(struct json_object *object, const char *name, double value)
{
	json_object_object_add(object, name, json_object_new_double(value));
}

static inline void json_add_bool(struct json_object *object, const char *name, bool value)
{
	json_object_object_add(object, name, json_object_new_boolean(value));
}

/* Add a string, or null if VALUE is NULL. */
static inline void json_add_string(struct json_object *object, const char *name, const char *value)
{
	json_object_object_add(object, name, value ? json_object_new_string(value) : NULL);
}

/* Add a string, or null if VALUE is NULL or empty. */
static inline void json_add_filled_string(struct json_object *object, const char *name,
					  const char *value)
{
	json_add_string(object, name, value && *value ? value : NULL);
}

/* Add a number if it IS_KNOWN, otherwise null. */
static inline void json_add_known_int(struct json_object *object, const char *name, bool is_known,
				      int64_t value)
{
	json_object_object_add(object, name, is_known ? json_object_new_int64(value) : NULL);
}

/* Print OBJECT on one line, and free it. FLAGS: of json_object_to_json_string_ext(). */
static inline void json_print(struct json_object *object, int flags)
{
	puts(json_object_to_json_string_ext(object, flags));
	json_object_put(object);
}

#endif
