// SPDX-License-Identifier: MIT
/*
 * .gnu.version has the number of each symbol's version. .gnu.version_d is a chain of definitions.
 * Each definition has its number and a chain of names, the first of which is the name of the
 * version (Linux Standard Base, "Symbol Versioning"). Damaged definitions are ignored.
 */
#include "elf/symbol_versions.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_NUMBERS_BYTES = 1 << 26,
	MAX_DEFINITIONS_BYTES = 1 << 20,
	HIDDEN = 0x8000,
	N_INDEXES = 0x8000,
};

struct symbol_versions {
	uint16_t *numbers; /* the version number of each symbol */
	size_t n;
	uint32_t *names; /* by version index: offset of the version's name in .dynstr */
};

static void read_definitions(struct symbol_versions *versions, const uint8_t *bytes, uint64_t n)
{
	uint64_t at = 0;
	Elf64_Verdef definition;
	Elf64_Verdaux name;

	while (at <= n && n - at >= sizeof(definition)) {
		memcpy(&definition, bytes + at, sizeof(definition));
		if (!(definition.vd_flags & VER_FLG_BASE) && definition.vd_cnt &&
		    definition.vd_ndx < N_INDEXES && definition.vd_aux <= n - at &&
		    n - at - definition.vd_aux >= sizeof(name)) {
			memcpy(&name, bytes + at + definition.vd_aux, sizeof(name));
			versions->names[definition.vd_ndx] = name.vda_name;
		}
		if (!definition.vd_next)
			break;
		at += definition.vd_next;
	}
}

static int read_tables(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_versions *versions,
		       const struct elf_section *numbers, const struct elf_section *definitions)
{
	uint8_t *bytes = NULL;
	int err;

	versions->names = calloc(N_INDEXES, sizeof(*versions->names));
	if (!versions->names)
		return ctx_no_memory(ctx);
	err = elf_file_read_section(elf, numbers, MAX_NUMBERS_BYTES, &bytes);
	if (err)
		return err;
	versions->numbers = (uint16_t *)bytes;
	versions->n = numbers->bytes / sizeof(uint16_t);
	err = elf_file_read_section(elf, definitions, MAX_DEFINITIONS_BYTES, &bytes);
	if (err)
		return err;
	read_definitions(versions, bytes, definitions->bytes);
	free(bytes);
	return 0;
}

int symbol_versions_read(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_versions **out)
{
	struct elf_section numbers, definitions;
	int found = elf_file_find_section(elf, ".gnu.version", SHT_GNU_versym, &numbers), err;

	*out = NULL;
	if (found > 0)
		found = elf_file_find_section(elf, ".gnu.version_d", SHT_GNU_verdef, &definitions);
	if (found <= 0)
		return found;
	*out = calloc(1, sizeof(**out));
	err = *out ? read_tables(ctx, elf, *out, &numbers, &definitions) : ctx_no_memory(ctx);
	if (err) {
		symbol_versions_free(*out);
		*out = NULL;
	}
	return err;
}

void symbol_versions_free(struct symbol_versions *versions)
{
	if (!versions)
		return;
	free(versions->numbers);
	free(versions->names);
	free(versions);
}

struct symbol_version symbol_versions_of(const struct symbol_versions *versions, size_t i)
{
	uint16_t number, index;

	if (!versions || i >= versions->n)
		return (struct symbol_version){ 0 };
	number = versions->numbers[i];
	index = number & (HIDDEN - 1);
	return (struct symbol_version){ .name_off = versions->names[index],
					.index = index,
					.is_hidden = number & HIDDEN };
}
