// SPDX-License-Identifier: MIT
#include "elf/data_image.h"

#include <elf.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * The table of relocations is read piece by piece, since it may be large. The symbol table is read
 * only if a relocation refers to a symbol, as in libraries and plugins. If this file does not
 * define that symbol, the callback gets the symbol's name instead of an address.
 */

enum {
	PIECE_RELOCATIONS = 8192,
	MAX_RELOCATIONS = 1 << 26,
	MAX_DYNSYM_BYTES = 1 << 28,
};

struct relocation_reader {
	struct elf_file *elf;
	relocation_fn fn;
	void *data;
	bool has_symbols; /* .dynsym and .dynstr have been read, if the file has them */
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

/* ---- the image ------------------------------------------------------------------------------- */

/* Limit for the total size of all parts. */
#define MAX_DATA_BYTES (UINT64_C(1) << 28)

static int read_part(struct ocp_ctx *ctx, struct elf_file *elf, const struct elf_segment *segment,
		     struct data_image *image)
{
	struct data_part *part = &image->parts[image->n_parts];
	uint64_t all_bytes = 0;

	for (size_t i = 0; i < image->n_parts; i++)
		all_bytes += image->parts[i].n;
	if (image->n_parts == DATA_IMAGE_PARTS)
		return ctx_error(ctx, -EBADMSG, "%s: has more than %d segments of data",
				 elf_file_name(elf), DATA_IMAGE_PARTS);
	if (segment->file_bytes > MAX_DATA_BYTES - all_bytes)
		return ctx_error(ctx, -EBADMSG,
				 "%s: has more than %" PRIu64 " bytes of data in the file",
				 elf_file_name(elf), MAX_DATA_BYTES);
	*part = (struct data_part){ .va = segment->va, .n = segment->file_bytes };
	part->bytes = malloc(part->n);
	if (!part->bytes)
		return ctx_no_memory(ctx);
	image->n_parts++;
	return elf_file_read(elf, segment->off, part->bytes, part->n);
}

static int relocate(void *data, const struct relocation *relocation)
{
	const struct data_part *part = data_image_part(data, relocation->place);
	uint64_t at;

	if (!part || relocation->symbol)
		return 0;
	at = relocation->place - part->va;
	if (part->n - at >= sizeof(relocation->va))
		memcpy(part->bytes + at, &relocation->va, sizeof(relocation->va));
	return 0;
}

int data_image_read(struct ocp_ctx *ctx, struct elf_file *elf, struct data_image *image)
{
	const struct elf_segment *segments;
	size_t n;
	int err = 0;

	*image = (struct data_image){ .n_parts = 0 };
	segments = elf_file_segments(elf, &n);
	for (size_t i = 0; !err && i < n; i++)
		if (segments[i].writable && segments[i].file_bytes)
			err = read_part(ctx, elf, &segments[i], image);
	if (!err)
		err = relocations_each(elf, relocate, image);
	if (err)
		data_image_free(image);
	return err;
}

int data_image_add(struct ocp_ctx *ctx, struct elf_file *elf, struct data_image *image, uint64_t va)
{
	const struct elf_segment *segment = elf_file_segment_of(elf, va, 1);

	if (!segment || va - segment->va >= segment->file_bytes)
		return 0;
	return read_part(ctx, elf, segment, image);
}

void data_image_free(struct data_image *image)
{
	for (size_t i = 0; i < image->n_parts; i++)
		free(image->parts[i].bytes);
	*image = (struct data_image){ .n_parts = 0 };
}

const struct data_part *data_image_part(const struct data_image *image, uint64_t va)
{
	for (size_t i = 0; i < image->n_parts; i++)
		if (va >= image->parts[i].va && va - image->parts[i].va < image->parts[i].n)
			return &image->parts[i];
	return NULL;
}
