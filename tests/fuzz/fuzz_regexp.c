// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: regular expressions, which clients of `serve` and files of configurations
 * bring, too. The input is a pattern, a NUL and a text. Both are short: the C library's matcher
 * takes exponential time for some patterns with back references.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str_regexp.h"

enum { MAX_BYTES = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require(int condition)
{
	if (!condition)
		abort();
}

/* The first N of BYTES, or as many as are taken, in a buffer of exactly that size. */
static char *text_of(const uint8_t *bytes, size_t n)
{
	char *text = strndup((const char *)bytes, n > MAX_BYTES ? MAX_BYTES : n);

	require(text != NULL);
	return text;
}

/* A pattern of letters alone matches a text that begins with it, and no other. */
static void check_plain(const struct str_regexp *re, const char *pattern, const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";

	if (pattern[strspn(pattern, letters)] == '\0')
		require(str_regexp_match(re, text) ==
			(strncmp(pattern, text, strlen(pattern)) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	const uint8_t *nul = memchr(bytes, '\0', n);
	const size_t n_pattern = nul ? (size_t)(nul - bytes) : n;
	struct ocp_ctx *ctx = ocp_ctx_new();
	char *pattern = text_of(bytes, n_pattern);
	char *text = nul ? text_of(nul + 1, n - n_pattern - 1) : text_of(bytes, 0);
	struct str_regexp *re = NULL;
	int err;

	require(ctx != NULL);
	err = str_regexp_new(ctx, pattern, &re);
	require(err ? *ocp_error(ctx) != '\0' : re != NULL);
	if (!err) {
		const bool matches = str_regexp_match(re, text);

		require(matches == str_regexp_match(re, text));
		check_plain(re, pattern, text);
		str_regexp_free(re);
	}
	ocp_ctx_free(ctx);
	free(pattern);
	free(text);
	return 0;
}
