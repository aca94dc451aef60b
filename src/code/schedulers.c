// SPDX-License-Identifier: MIT
/*
 * A library is in a program if the program contains certain units of the library. Each unit has
 * symbols that begin with its name: camlLwt__frametable, from OCaml 5.1 on camlLwt.frametable.
 * `strip` leaves the symbols that the program exports to plugins.
 *
 * Without symbols, search caml_globals_map: the marshalled list of the units, which is in the data
 * of each executable. A marshalled string of N < 32 bytes is the byte 0x20 + N, followed by the N
 * bytes.
 */
#include "code/schedulers.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/symbols.h"

/* Units of the libraries. If a program uses a library, these units of the library are linked. */
static const struct {
	const char *unit, *library;
} schedulers[] = {
	{ "Lwt", "Lwt" },
	{ "Async_kernel__Scheduler", "Async" },
	{ "Async_kernel__Deferred0", "Async" },
	{ "Eio", "Eio" },
	{ "Eio__core", "Eio" },
	{ "Eio__core__Fiber", "Eio" },
	{ "Miou", "Miou" },
};

static const char *const endings[] = { "__frametable", ".frametable", "__code_begin",
				       ".code_begin" };

enum {
	N_UNITS = sizeof(schedulers) / sizeof(schedulers[0]),
	N_ENDINGS = sizeof(endings) / sizeof(endings[0]),
	N_SYMBOLS = N_UNITS * N_ENDINGS,
	MARSHALLED_STRING = 0x20,
	CHUNK_BYTES = 1 << 16,
	OVERLAP_BYTES = 32, /* a name may lie across the border of two chunks */
};

static const char *find_in_symbols(struct ocp_ctx *ctx, struct elf_file *elf)
{
	static const struct named_symbol none = { 0 };
	char names[N_SYMBOLS][NAMED_SYMBOL_BYTES + 1];
	struct named_symbol asked[N_SYMBOLS];
	bool is_stripped;

	for (size_t i = 0; i < N_SYMBOLS; i++) {
		snprintf(names[i], sizeof(names[i]), "caml%s%s", schedulers[i / N_ENDINGS].unit,
			 endings[i % N_ENDINGS]);
		asked[i] = none;
		asked[i].name = names[i];
	}
	if (named_symbols_find(ctx, elf, asked, N_SYMBOLS, &is_stripped))
		return NULL;
	for (size_t i = 0; i < N_SYMBOLS; i++)
		if (asked[i].is_defined)
			return schedulers[i / N_ENDINGS].library;
	return NULL;
}

static const char *find_marshalled(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < N_UNITS; i++) {
		const size_t length = strlen(schedulers[i].unit);
		char text[OVERLAP_BYTES];

		text[0] = (char)(MARSHALLED_STRING + length);
		memcpy(text + 1, schedulers[i].unit, length);
		if (memmem(bytes, n, text, length + 1))
			return schedulers[i].library;
	}
	return NULL;
}

static const char *find_in_data(struct elf_file *elf)
{
	uint8_t *chunk = malloc(CHUNK_BYTES + OVERLAP_BYTES);
	struct elf_section data;
	const char *found = NULL;

	if (!chunk || elf_file_find_section(elf, ".data", SHT_PROGBITS, &data) <= 0)
		data.bytes = 0;
	for (uint64_t at = 0; !found && at < data.bytes; at += CHUNK_BYTES) {
		const uint64_t left = data.bytes - at, most = CHUNK_BYTES + OVERLAP_BYTES;
		const size_t n = (size_t)(left < most ? left : most);

		if (elf_file_read(elf, data.off + at, chunk, n))
			break;
		found = find_marshalled(chunk, n);
	}
	free(chunk);
	return found;
}

const char *scheduler_of(struct ocp_ctx *ctx, struct elf_file *elf)
{
	const char *found = find_in_symbols(ctx, elf);

	return found ? found : find_in_data(elf);
}
