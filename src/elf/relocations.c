// SPDX-License-Identifier: MIT
/*
 * The table of relocations is read piece by piece, since it may be large. The symbols are read only
 * if a relocation refers to one, as in libraries and plugins. A symbol may be defined in another
 * file.
 */
#include "elf/relocations.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIECE_RELOCATIONS = 8192,
	MAX_RELOCATIONS = 1 << 26,
	MAX_DYNSYM_BYTES = 1 << 28,
};

struct relocation_reader {
	struct elf_file *elf;
	relocation_fn fn;
	void *data;
	bool has_symbols; /* the tables of symbols have been read */
	uint8_t *dynsym, *dynstr;
	size_t n_dynsym, n_dynstr;
};

static int read_whole(struct relocation_reader *r, const char *name, uint32_t type, uint8_t **bytes,
		      size_t *n)
{
	struct elf_section section;
	const int found = elf_file_find_section(r->elf, name, type, &section);
	int err;

	if (found <= 0)
		return found;
	err = elf_file_read_section(r->elf, &section, MAX_DYNSYM_BYTES, bytes);
	*n = err ? 0 : section.bytes;
	return err;
}

static int read_dynamic_symbols(struct relocation_reader *r)
{
	int err = 0;

	if (!r->has_symbols) {
		r->has_symbols = true;
		err = read_whole(r, ".dynsym", SHT_DYNSYM, &r->dynsym, &r->n_dynsym);
		if (!err)
			err = read_whole(r, ".dynstr", SHT_STRTAB, &r->dynstr, &r->n_dynstr);
	}
	return err;
}

static int take_named(struct relocation_reader *r, const Elf64_Rela *rela)
{
	const size_t at = ELF64_R_SYM(rela->r_info) * sizeof(Elf64_Sym);
	struct relocation relocation = { .place = rela->r_offset };
	Elf64_Sym sym;
	int err = read_dynamic_symbols(r);

	if (err || !r->dynsym || at + sizeof(sym) > r->n_dynsym)
		return err;
	memcpy(&sym, r->dynsym + at, sizeof(sym));
	if (sym.st_shndx != SHN_UNDEF) {
		relocation.va = sym.st_value + (uint64_t)rela->r_addend;
		return r->fn(r->data, &relocation);
	}
	if (!r->dynstr || sym.st_name >= r->n_dynstr ||
	    !memchr(r->dynstr + sym.st_name, '\0', r->n_dynstr - sym.st_name))
		return 0;
	relocation.symbol = (const char *)r->dynstr + sym.st_name;
	relocation.addend = rela->r_addend;
	return r->fn(r->data, &relocation);
}

static int pass_relocation(struct relocation_reader *r, const Elf64_Rela *rela)
{
	if (ELF64_R_TYPE(rela->r_info) == R_X86_64_RELATIVE)
		return r->fn(r->data, &(struct relocation){ .place = rela->r_offset,
							    .va = (uint64_t)rela->r_addend });
	return ELF64_R_TYPE(rela->r_info) == R_X86_64_64 ? take_named(r, rela) : 0;
}

static int read_relocations(struct relocation_reader *r, const struct elf_section *table)
{
	const uint64_t n = table->bytes / sizeof(Elf64_Rela);
	int err = 0;

	for (uint64_t at = 0; !err && at < n && at < MAX_RELOCATIONS; at += PIECE_RELOCATIONS) {
		const uint64_t here = n - at < PIECE_RELOCATIONS ? n - at : PIECE_RELOCATIONS;
		struct elf_section piece = *table;
		uint8_t *bytes;

		piece.off = table->off + at * sizeof(Elf64_Rela);
		piece.bytes = here * sizeof(Elf64_Rela);
		err = elf_file_read_section(r->elf, &piece, piece.bytes, &bytes);
		for (uint64_t i = 0; !err && i < here; i++) {
			Elf64_Rela rela;

			memcpy(&rela, bytes + i * sizeof(rela), sizeof(rela));
			err = pass_relocation(r, &rela);
		}
		free(bytes);
	}
	return err;
}

int relocations_each(struct elf_file *elf, relocation_fn fn, void *data)
{
	struct relocation_reader r = { .elf = elf, .fn = fn, .data = data };
	struct elf_section table;
	int err = elf_file_find_section(elf, ".rela.dyn", SHT_RELA, &table);

	if (err > 0)
		err = read_relocations(&r, &table);
	free(r.dynstr);
	free(r.dynsym);
	return err;
}
