// SPDX-License-Identifier: MIT
/*
 * Each probe name has one semaphore, with two 16-bit counters. The first counter is for tracers;
 * [%probe_is_enabled] reads the second one. The semaphores are in section .probes:
 *
 *	-8   u64   a header: OCaml string of one word, black
 *	 0   u16   tracers
 *	 2   u16   OCaml
 *	 4   u32   the padding of a string of four bytes
 *
 * So each semaphore is a static OCaml string. The compiled code of [%probe_is_enabled] loads the
 * address of a string; the conversion replaces this address by the address of a semaphore. The
 * code may keep the address of the semaphore in a register while the garbage collector runs, so the
 * semaphore must be a valid OCaml value.
 *
 * If the file has symbols, symbols caml_probes_semaphore_NAME (weak, hidden, 4 bytes) are added.
 * Weak symbols come after local ones, so the new symbols can be appended.
 *
 * gdb requires that each note repeats the address of section .stapsdt.base. If the file lacks this
 * section, a section of one byte is added after the semaphores.
 */
#include "link/semaphores.h"

#include <stdlib.h>
#include <string.h>

struct semaphore_cell {
	uint64_t header;
	uint16_t tracers, ocaml;
	uint8_t padding[4];
};

enum {
	STRING_TAG = 252,
	BLACK = 3,
	SEMAPHORE_BYTES = 4,
	SECTION_ALIGN = 16,
};

_Static_assert(sizeof(struct semaphore_cell) == 16, "a string of one word");

static const char symbol_prefix[] = "caml_probes_semaphore_";

void semaphores_place(const struct linked_file *image, const struct layout_room *room,
		      struct marker_set *set, struct semaphores *semaphores)
{
	const Elf64_Shdr *base = image_find_section(image, ".stapsdt.base");

	memset(semaphores, 0, sizeof(*semaphores));
	semaphores->va = room->va;
	for (size_t i = 0; i < set->n_probes; i++) {
		if (!set->probes[i].marker)
			continue;
		set->probes[i].semaphore_va = room->va +
					      semaphores->n++ * sizeof(struct semaphore_cell) +
					      offsetof(struct semaphore_cell, tracers);
	}
	semaphores->base_va =
		base ? base->sh_addr : room->va + semaphores->n * sizeof(struct semaphore_cell);
}

static uint8_t *add_section(struct semaphores *semaphores, const struct layout_section *section)
{
	uint8_t *bytes = malloc(section->header.sh_size + 1);
	size_t i = semaphores->n_sections;

	if (!bytes)
		return NULL;
	semaphores->n_sections++;
	semaphores->bytes[i] = bytes;
	semaphores->sections[i] = *section;
	semaphores->sections[i].bytes = bytes;
	return bytes;
}

static int build_data(const struct linked_file *image, const struct marker_set *set,
		      struct semaphores *semaphores)
{
	const struct layout_section probes = {
		.name = ".probes",
		.header = { .sh_type = SHT_PROGBITS,
			    .sh_flags = SHF_ALLOC | SHF_WRITE,
			    .sh_addr = semaphores->va,
			    .sh_size = semaphores->n * sizeof(struct semaphore_cell),
			    .sh_addralign = SECTION_ALIGN },
	};
	const struct layout_section base = {
		.name = ".stapsdt.base",
		.header = { .sh_type = SHT_PROGBITS,
			    .sh_flags = SHF_ALLOC,
			    .sh_addr = semaphores->base_va,
			    .sh_size = 1,
			    .sh_addralign = 1 },
	};
	uint8_t *bytes = add_section(semaphores, &probes);

	if (!bytes)
		return ctx_no_memory(image->ctx);
	for (size_t i = 0; i < set->n_probes; i++) {
		const struct marker_probe *probe = &set->probes[i];
		const struct semaphore_cell cell = {
			.header = 1u << 10 | BLACK << 8 | STRING_TAG,
			.ocaml = probe->enabled_at_init,
			.padding = { 0, 0, 0, SEMAPHORE_BYTES - 1 },
		};

		if (!probe->marker)
			continue;
		memcpy(bytes, &cell, sizeof(cell));
		bytes += sizeof(cell);
	}
	if (image_find_section(image, ".stapsdt.base"))
		return 0;
	bytes = add_section(semaphores, &base);
	if (!bytes)
		return ctx_no_memory(image->ctx);
	*bytes = 0;
	return 0;
}

/*
 * Replace section I of IMAGE by a copy that is ROOM bytes longer. Returns a pointer to the
 * additional bytes, or NULL if there is no memory.
 */
static uint8_t *lengthen(const struct linked_file *image, struct semaphores *semaphores, size_t i,
			 size_t room)
{
	struct layout_section section = { .name = "", .header = image->sections[i], .replaces = i };
	size_t old_bytes = section.header.sh_size;
	uint8_t *bytes;

	section.header.sh_size += room;
	bytes = add_section(semaphores, &section);
	if (!bytes)
		return NULL;
	memcpy(bytes, image->bytes + image->sections[i].sh_offset, old_bytes);
	return bytes + old_bytes;
}

static int build_symbols(const struct linked_file *image, const struct marker_set *set,
			 struct semaphores *semaphores)
{
	size_t table = image_find_symbols(image), strings, name, n_names = 0;
	uint8_t *symbols, *names;

	if (!table)
		return 0;
	strings = image->sections[table].sh_link;
	name = image->sections[strings].sh_size;
	for (size_t i = 0; i < set->n_probes; i++)
		if (set->probes[i].marker)
			n_names +=
				sizeof(symbol_prefix) + (size_t)set->probes[i].marker->name_bytes;
	if (name + n_names > UINT32_MAX)
		return 0;
	symbols = lengthen(image, semaphores, table, semaphores->n * sizeof(Elf64_Sym));
	names = symbols ? lengthen(image, semaphores, strings, n_names) : NULL;
	if (!names)
		return ctx_no_memory(image->ctx);
	for (size_t i = 0; i < set->n_probes; i++) {
		const struct marker_probe *probe = &set->probes[i];
		size_t bytes;
		/* The symbol is in section .probes, which is the first added section. */
		const Elf64_Sym symbol = {
			.st_name = (Elf64_Word)name,
			.st_info = ELF64_ST_INFO(STB_WEAK, STT_OBJECT),
			.st_other = STV_HIDDEN,
			.st_shndx = (Elf64_Section)image->n_sections,
			.st_value = probe->semaphore_va,
			.st_size = SEMAPHORE_BYTES,
		};

		if (!probe->marker)
			continue;
		memcpy(symbols, &symbol, sizeof(symbol));
		symbols += sizeof(symbol);
		bytes = (size_t)probe->marker->name_bytes;
		memcpy(names, symbol_prefix, sizeof(symbol_prefix) - 1);
		names += sizeof(symbol_prefix) - 1;
		memcpy(names, probe->marker->name, bytes);
		names[bytes] = '\0';
		names += bytes + 1;
		name += sizeof(symbol_prefix) + bytes;
	}
	return 0;
}

int semaphores_build(const struct linked_file *image, const struct marker_set *set,
		     struct semaphores *semaphores)
{
	int err = build_data(image, set, semaphores);

	return err ? err : build_symbols(image, set, semaphores);
}

void semaphores_free(struct semaphores *semaphores)
{
	for (size_t i = 0; i < semaphores->n_sections; i++)
		free(semaphores->bytes[i]);
	memset(semaphores, 0, sizeof(*semaphores));
}
