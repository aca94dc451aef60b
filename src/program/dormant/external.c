// SPDX-License-Identifier: MIT
/*
 * ocamlopt inlines functions across modules, so the code of a plugin may contain functions of its
 * host program. If such a function has a probe, the code of the site is in the plugin, but the
 * marker is in the host's data. The plugin loads the marker's address from a word of the GOT, which
 * the dynamic linker fills with the address of an undefined symbol (camlHost__1):
 *
 *	mov camlHost__1@GOTPCREL(%rip),%rax
 *	cmp $1,%rax
 *	je ...
 *
 * The text of the marker, which contains the probe's name, is only in the host's file. In a process
 * that has mapped both files, the host is known (process/image.c). Without the host's file, the
 * code shows only that there is a site, but it shows this reliably: no other code compares an
 * address with a constant.
 */
#include "program/dormant/external.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "program/dormant/x86_site.h"

/*
 * Limit for the size of one symbol or string table. A program with plugins exports all its symbols;
 * 100 000 symbols take about 6 MB.
 */
#define MAX_TABLE_BYTES (UINT64_C(64) << 20)

/*
 * Return true if NAME begins like a symbol of OCaml data: "caml" and the compilation unit. NAME has
 * ROOM bytes that can be read.
 */
static bool is_of_ocaml(const char *name, size_t room)
{
	return room > 5 && memcmp(name, "caml", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z';
}

/*
 * Return the name of SYMBOL if SYMBOL is an OCaml symbol that another file defines, otherwise NULL.
 */
static const char *external_name(const Elf64_Sym *symbol, const uint8_t *strings,
				 uint64_t string_bytes)
{
	const char *name = (const char *)strings + symbol->st_name;

	if (symbol->st_shndx != SHN_UNDEF || symbol->st_name >= string_bytes)
		return NULL;
	if (!is_of_ocaml(name, string_bytes - symbol->st_name) ||
	    !memchr(name, '\0', string_bytes - symbol->st_name))
		return NULL;
	return name;
}

int external_may_be_in(struct ocp_ctx *ctx, struct elf_file *elf, bool *may)
{
	struct elf_section symbol_section, string_section;
	uint8_t *symbols = NULL, *strings = NULL;
	int found = elf_file_find_section(elf, ".dynsym", SHT_DYNSYM, &symbol_section);
	Elf64_Sym symbol;
	int err;

	(void)ctx;
	*may = false;
	if (found > 0)
		found = elf_file_find_section(elf, ".dynstr", SHT_STRTAB, &string_section);
	if (found <= 0)
		return found;
	err = elf_file_read_section(elf, &symbol_section, MAX_TABLE_BYTES, &symbols);
	if (!err)
		err = elf_file_read_section(elf, &string_section, MAX_TABLE_BYTES, &strings);
	for (uint64_t at = 0; !err && !*may && symbol_section.bytes - at >= sizeof(symbol);
	     at += sizeof(symbol)) {
		memcpy(&symbol, symbols + at, sizeof(symbol));
		*may = external_name(&symbol, strings, string_section.bytes) != NULL;
	}
	free(symbols);
	free(strings);
	return err;
}

/*
 * Return the name of RELA's symbol if the symbol is an OCaml symbol that another file defines,
 * otherwise NULL.
 */
static const char *relocation_name(const struct object_section *symbols,
				   const struct object_section *strings, const Elf64_Rela *rela)
{
	uint64_t index = ELF64_R_SYM(rela->r_info);
	Elf64_Sym symbol;

	if (ELF64_R_TYPE(rela->r_info) != R_X86_64_GLOB_DAT ||
	    index >= symbols->n_bytes / sizeof(symbol))
		return NULL;
	memcpy(&symbol, symbols->bytes + index * sizeof(symbol), sizeof(symbol));
	return external_name(&symbol, strings->bytes, strings->n_bytes);
}

static int list_table(const struct object *object, const struct object_section *table,
		      struct object_external **externals, size_t *n)
{
	const struct object_section *symbols =
		object_section_at(object, table->link, OBJECT_SYMBOLS);
	const struct object_section *strings =
		symbols ? object_section_at(object, symbols->link, OBJECT_STRINGS) : NULL;
	struct object_external *larger;
	Elf64_Rela rela;

	if (!strings)
		return 0;
	larger = reallocarray(*externals, *n + table->n_bytes / sizeof(rela) + 1, sizeof(*larger));
	if (!larger)
		return ctx_no_memory(object->ctx);
	*externals = larger;
	for (size_t at = 0; table->n_bytes - at >= sizeof(rela); at += sizeof(rela)) {
		const char *name;

		memcpy(&rela, table->bytes + at, sizeof(rela));
		name = relocation_name(symbols, strings, &rela);
		if (name)
			larger[(*n)++] = (struct object_external){ .slot_va = rela.r_offset,
								   .symbol = name };
	}
	return 0;
}

static int compare_slots(const void *a, const void *b)
{
	const struct object_external *x = a, *y = b;

	return COMPARE(x->slot_va, y->slot_va);
}

int external_list(const struct object *object, struct object_external **externals, size_t *n)
{
	int err = 0;

	*externals = NULL;
	*n = 0;
	for (size_t i = 0; i < object->n_sections && !err; i++)
		if (object->sections[i].kind == OBJECT_RELOCATIONS)
			err = list_table(object, &object->sections[i], externals, n);
	if (*n)
		qsort(*externals, *n, sizeof(**externals), compare_slots);
	return err;
}

static void scan_external_sites(const struct object_section *section,
				const struct object_external *externals, size_t n,
				external_site_fn fn, void *data)
{
	const struct x86_code code = { section->bytes, section->n_bytes, section->va };

	for (size_t pos = 0; pos + X86_LOAD_BYTES <= code.n_bytes; pos++) {
		struct x86_load load;
		struct x86_site site;

		if (!x86_may_be_load(code.bytes + pos) || !x86_decode_load(&code, pos, &load) ||
		    load.form != X86_LOAD_GOT)
			continue;
		if (object_find_external(externals, n, load.va) &&
		    !x86_match_site(&code, pos, &load, &site))
			fn(data, code.va + pos);
	}
}

void external_each_site(const struct object *object, const struct object_external *externals,
			size_t n, external_site_fn fn, void *data)
{
	for (size_t i = 0; n && i < object->n_sections; i++)
		if (object->sections[i].kind == OBJECT_CODE)
			scan_external_sites(&object->sections[i], externals, n, fn, data);
}
