/* SPDX-License-Identifier: MIT */
/*
 * Find the lines of the keys in a JSON file, and duplicate keys: json-c reports neither. The place
 * of a value is written as in programs: targets[0].time[1].
 */
#ifndef SERVE_CONFIG_KEYS_H
#define SERVE_CONFIG_KEYS_H

#include "base/ctx.h"

struct config_keys;

enum { CONFIG_WHERE_BYTES = 128 }; /* for the place of a value; longer ones are truncated */

/*
 * Find the keys of TEXT: N bytes that json-c has accepted, or the part up to its error. FILE is
 * the name in errors. -EINVAL for a duplicate key.
 */
int config_keys_find(struct ocp_ctx *ctx, const char *file, const char *text, size_t n,
		     struct config_keys **out);
void config_keys_free(struct config_keys *keys);

/* Return the line of WHERE, from 1; 0 if WHERE is not known. */
int config_keys_line(const struct config_keys *keys, const char *where);

/* The line of the byte AT. */
int config_line_of(const char *text, size_t at);
/*
 * Return the offset of the first byte of TEXT, from AT on, that is not blank and not in a comment;
 * N if there is no such byte.
 */
size_t config_skip_blank(const char *text, size_t at, size_t n);

#endif
