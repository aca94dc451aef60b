/* SPDX-License-Identifier: MIT */
/*
 * Where in a JSON file its keys are, which json-c does not tell; nor does it tell of a key that is
 * there twice. Values are called as programs write them: targets[0].time[1].
 */
#ifndef SERVE_CONFIG_KEYS_H
#define SERVE_CONFIG_KEYS_H

#include "base/ctx.h"

struct config_keys;

enum { CONFIG_WHERE_BYTES = 128 }; /* room for what a value is called, longer ones are cut */

/*
 * TEXT is N bytes that json-c has read without a complaint, or the part of them up to its
 * complaint. FILE is for errors: -EINVAL for a key that is there twice.
 */
int config_keys_find(struct ocp_ctx *ctx, const char *file, const char *text, size_t n,
		     struct config_keys **out);
void config_keys_free(struct config_keys *keys);

/* The line that WHERE is in, from 1 on; 0 if it is not known. */
int config_keys_line(const struct config_keys *keys, const char *where);

/* The line of the byte AT. */
int config_line_of(const char *text, size_t at);
/*
 * The first byte of TEXT, from AT on, that is neither blank nor in a comment; N if there is none.
 */
size_t config_skip_blank(const char *text, size_t at, size_t n);

#endif
