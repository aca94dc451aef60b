/* SPDX-License-Identifier: MIT */
/*
 * Find the line of each key in a JSON file, and detect duplicate keys: json-c does neither. The
 * place of a value is written as in a program: targets[0].time[1].
 */
#ifndef SERVE_CONFIG_KEYS_H
#define SERVE_CONFIG_KEYS_H

#include "base/ctx.h"

struct config_keys;

enum {
	CONFIG_WHERE_BYTES = 128
	/*
	 * The size of a buffer for the place of a value, with the zero byte. Longer places are
	 * truncated.
	 */
};

/*
 * Find the keys in TEXT, N bytes that json-c has accepted, or the part of them before an error.
 * FILE is the file's name, for errors. -EINVAL if a key is given twice or contains a backslash. The
 * caller calls config_keys_free().
 */
int config_keys_find(struct ocp_ctx *ctx, const char *file, const char *text, size_t n,
		     struct config_keys **out);
void config_keys_free(struct config_keys *keys);

/* Return the line of the value at WHERE, from 1; 0 if there is no such value. */
int config_keys_line(const struct config_keys *keys, const char *where);

/* Return the line, from 1, of the byte at offset AT of TEXT. */
int config_line_of(const char *text, size_t at);
/*
 * Return the offset of the first byte of TEXT at or after AT that is not blank and not in a
 * comment; N if there is no such byte. TEXT has N bytes.
 */
size_t config_skip_blank(const char *text, size_t at, size_t n);

#endif
