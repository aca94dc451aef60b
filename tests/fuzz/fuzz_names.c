// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: symbols of functions, which come from files of other users. Whatever the symbol
 * is, its name is safe to print, and fits into a buffer of any size.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sanitize.h"
#include "code/ocaml_name.h"
#include "ocaml_probes.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_text(const char *text)
{
	for (; *text; text++)
		require(unsafe_bytes(text) == 0);
}

/* The name in a buffer of exactly SIZE bytes is the start of NAME. */
static void check_cut(const char *symbol, const char *name, size_t size)
{
	char *cut = malloc(size);

	require(cut != NULL);
	require(ocp_demangle(symbol, cut, size) == strlen(name));
	require(strlen(cut) < size && strncmp(cut, name, strlen(cut)) == 0);
	free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char *symbol = strndup((const char *)bytes, n);
	struct ocaml_name decoded = { .kind = OCAML_NAMED };
	char name[OCAML_NAME_BYTES], unit[OCAML_NAME_BYTES];
	size_t length;

	require(symbol != NULL);
	length = ocp_demangle(symbol, name, sizeof(name));
	require(length == strlen(name));
	require((length > 0) == ocaml_name_decode(symbol, NULL, &decoded));
	check_text(name);
	if (length > 0) {
		require(decoded.text[decoded.path_bytes] == '.');
		require(strcmp(decoded.text + decoded.short_at, name) == 0);
		check_cut(symbol, name, 1 + n % (length + 1));
	}
	if (ocaml_name_unit(symbol, unit))
		check_text(unit);
	free(symbol);
	return 0;
}
