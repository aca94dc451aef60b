// SPDX-License-Identifier: MIT
/*
 * Add data to a linked program: semaphores, which are in a loaded section, and sections that are
 * not loaded.
 *
 * Semaphores must be in writable memory that is backed by the file: the kernel counts uprobes in
 * them and finds them by their offset in the file. They must be in a section called .probes: bcc
 * and bpftrace compute that offset from the section's header. The linker has left no room for
 * semaphores. Data can be added at the end of the last PT_LOAD segment, which normally is writable
 * and ends with .bss. So that segment is extended. The new data come after .bss, so the zeros of
 * .bss are then in the file, as if a linker had put a section with bytes after .bss. image_write()
 * writes runs of zeros as holes.
 *
 *	old	[ segments .. .data ]           [ .comment .symtab .. ] [ headers ]
 *	new	[ segments .. .data ][ .bss ][ .probes ] [ the others ] [ headers ]
 *
 * All loaded parts keep their addresses and offsets. Sections that are not loaded, such as debug
 * information, may have any offset; they are moved to the end. Bytes after the parts that the
 * headers describe (an archive that a program carries) stay at the end of the file.
 *
 * If the data were in a new segment, .bss could stay out of the file. But a new segment needs
 * another program header, for which the file has no room. Other tools make room by moving the whole
 * table of program headers. Kernels before 5.18 and some loaders do not support a moved table in
 * position-independent programs.
 */
#include "link/layout.h"
#include "base/search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROOM_ALIGN = 16,
	TABLE_ALIGN = 8,
	MAX_SECTIONS = SHN_LORESERVE - 1,
};

/*
 * Limits for hostile files: a .bss of gigabytes, or a .bss that is much larger than the program.
 * OCaml programs have at least a megabyte, so every .bss below 256 MB is allowed.
 */
static const uint64_t max_hole_bytes = UINT64_C(1) << 30;
enum { MAX_HOLE_FACTOR = 256 };

/*
 * A limit for the size of the new file. The sections or names of a hostile file may overlap, and
 * the new file, which has a separate copy of each, could then be much larger than the old one.
 * Apart from the bytes of .bss, a file normally grows by its notes only: about a hundred bytes per
 * site, while a site has at least 13 bytes of code.
 */
static const uint64_t free_growth_bytes = UINT64_C(1) << 20;
enum { MAX_GROWTH_FACTOR = 16 };

static uint64_t align_up(uint64_t value, uint64_t align)
{
	return (value + align - 1) / align * align;
}

static bool has_bytes(const Elf64_Shdr *section)
{
	return section->sh_type != SHT_NULL && section->sh_type != SHT_NOBITS;
}

static uint64_t section_end(const Elf64_Shdr *section)
{
	return section->sh_offset + section->sh_size;
}

static int no_room(const struct linked_file *image, const char *why)
{
	return ctx_error(image->ctx, -EOPNOTSUPP, "no room for semaphores: %s", why);
}

static const Elf64_Phdr *last_segment(const struct linked_file *image)
{
	const Elf64_Phdr *last = NULL;

	for (size_t i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_LOAD && (!last || segment->p_vaddr > last->p_vaddr))
			last = segment;
	}
	return last;
}

/* Check that all loaded parts are before END_OFF, since new data and all other parts go there. */
static int check_order(const struct linked_file *image, uint64_t end_off)
{
	const Elf64_Ehdr *header = &image->header;

	for (size_t i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_filesz && (segment->p_offset > end_off ||
					  segment->p_filesz > end_off - segment->p_offset))
			return no_room(image, "the last segment in memory is not last in the file");
	}
	if (header->e_phoff + image->n_segments * sizeof(Elf64_Phdr) > end_off)
		return no_room(image, "the program headers are after the program");
	for (size_t i = 1; i < image->n_sections; i++) {
		const Elf64_Shdr *section = &image->sections[i];

		if (has_bytes(section) && (section->sh_flags & SHF_ALLOC) &&
		    section_end(section) > end_off)
			return no_room(image, "a section of the program is in no segment");
	}
	return 0;
}

int layout_find_room(const struct linked_file *image, struct layout_room *room)
{
	const Elf64_Phdr *segment = last_segment(image);
	uint64_t memory_end, hole_bytes;

	if (!segment || (segment->p_flags & (PF_R | PF_W)) != (PF_R | PF_W))
		return no_room(image, "the last segment is not writable");
	if (segment->p_filesz == 0 || segment->p_filesz > segment->p_memsz ||
	    segment->p_offset > image->n_bytes ||
	    segment->p_filesz > image->n_bytes - segment->p_offset ||
	    segment->p_vaddr > INT64_MAX || segment->p_memsz > INT64_MAX)
		return no_room(image, "the last segment has no bytes in the file");
	memory_end = segment->p_vaddr + segment->p_memsz;
	hole_bytes = segment->p_memsz - segment->p_filesz;
	if (hole_bytes > max_hole_bytes)
		return no_room(image, "more than 1 GiB of .bss would have to go into the file");
	if (hole_bytes / MAX_HOLE_FACTOR > image->n_bytes)
		return no_room(image,
			       "its .bss would make the file more than 256 times as long as it is");
	room->segment = (size_t)(segment - image->segments);
	room->end_off = segment->p_offset + segment->p_filesz;
	room->va = align_up(memory_end, ROOM_ALIGN);
	room->off = segment->p_offset + (room->va - segment->p_vaddr);
	return check_order(image, room->end_off);
}

/* ---- the new file ------------------------------------------------------------------------- */

struct layout {
	struct linked_file *image;
	const struct layout_room *room;
	const struct layout_section *changes;
	size_t n_changes;
	Elf64_Shdr *sections; /* the section table of the new file */
	size_t n_sections;
	uint8_t *names; /* the new name table */
	size_t names_bytes;
	uint64_t data_end; /* the end of the extended segment in the new file */
};

/*
 * Return the change that adds or replaces section INDEX of the new file, or NULL if this section is
 * unchanged.
 */
static const struct layout_section *find_change(const struct layout *layout, size_t index)
{
	size_t added = layout->image->n_sections;

	for (size_t i = 0; i < layout->n_changes; i++) {
		size_t replaces = layout->changes[i].replaces;

		if ((replaces ? replaces : added++) == index)
			return &layout->changes[i];
	}
	return NULL;
}

static bool is_in_room(const struct layout *layout, const Elf64_Shdr *section)
{
	return (section->sh_flags & SHF_ALLOC) && section->sh_addr >= layout->room->va;
}

/*
 * Make the section names and the section table of the new file. The offsets of moved and new
 * sections are set later.
 */
static int prepare_sections(struct layout *layout)
{
	const struct linked_file *image = layout->image;
	size_t table = image->header.e_shstrndx, old_bytes, room, next;
	const struct layout_section *names_change = find_change(layout, table);
	const uint8_t *old_names;

	layout->n_sections = image->n_sections;
	old_bytes = names_change ? names_change->header.sh_size : image->sections[table].sh_size;
	old_names = names_change ? names_change->bytes
				 : image->bytes + image->sections[table].sh_offset;
	room = old_bytes + 1;
	for (size_t i = 0; i < layout->n_changes; i++) {
		layout->n_sections += !layout->changes[i].replaces;
		room += strlen(layout->changes[i].name) + 1;
	}
	if (layout->n_sections > MAX_SECTIONS)
		return ctx_error(image->ctx, -EOPNOTSUPP, "has too many sections (%zu)",
				 image->n_sections);
	layout->sections = calloc(layout->n_sections, sizeof(Elf64_Shdr));
	layout->names = calloc(1, room);
	if (!layout->sections || !layout->names)
		return ctx_no_memory(image->ctx);
	memcpy(layout->sections, image->sections, image->n_sections * sizeof(Elf64_Shdr));
	memcpy(layout->names, old_names, old_bytes);
	layout->names_bytes = old_bytes;
	next = image->n_sections;
	for (size_t i = 0; i < layout->n_changes; i++) {
		const struct layout_section *change = &layout->changes[i];
		size_t index = change->replaces ? change->replaces : next++;
		size_t name = image->sections[change->replaces].sh_name;

		if (!change->replaces) {
			name = layout->names_bytes;
			layout->names_bytes += strlen(change->name) + 1;
			memcpy(layout->names + name, change->name, strlen(change->name) + 1);
		}
		layout->sections[index] = change->header;
		layout->sections[index].sh_name = (Elf64_Word)name;
	}
	layout->sections[table].sh_size = layout->names_bytes;
	return 0;
}

/*
 * Make .bss a section with bytes, and set the offsets of the sections that are added to the
 * segment.
 */
static void place_data(struct layout *layout)
{
	const struct layout_room *room = layout->room;
	const Elf64_Phdr *segment = &layout->image->segments[room->segment];

	layout->data_end = room->off;
	for (size_t i = 1; i < layout->n_sections; i++) {
		Elf64_Shdr *section = &layout->sections[i];

		if (is_in_room(layout, section) && i >= layout->image->n_sections) {
			section->sh_offset = room->off + (section->sh_addr - room->va);
			if (section_end(section) > layout->data_end)
				layout->data_end = section_end(section);
			continue;
		}
		if (section->sh_type != SHT_NOBITS || !(section->sh_flags & SHF_ALLOC) ||
		    section->sh_flags & SHF_TLS ||
		    section->sh_addr < segment->p_vaddr + segment->p_filesz ||
		    section->sh_addr > room->va || section->sh_size > room->va - section->sh_addr)
			continue;
		section->sh_type = SHT_PROGBITS;
		section->sh_offset = segment->p_offset + (section->sh_addr - segment->p_vaddr);
	}
}

/*
 * Return true if section INDEX is moved to the end of the file. Only sections that are not loaded
 * are moved.
 */
static bool is_moved(const struct layout *layout, size_t index)
{
	const Elf64_Shdr *section = &layout->sections[index];

	if (!has_bytes(section) || section->sh_flags & SHF_ALLOC)
		return false;
	return index >= layout->image->n_sections || find_change(layout, index) ||
	       index == layout->image->header.e_shstrndx ||
	       layout->image->sections[index].sh_offset >= layout->room->end_off;
}

struct moved {
	size_t index;
	/*
	 * The offset in the old file. The moved sections keep the order of these offsets; new
	 * sections come last.
	 */
	uint64_t old_off;
};

static int compare_moved(const void *a, const void *b)
{
	const struct moved *x = a, *y = b;

	if (x->old_off != y->old_off)
		return COMPARE(x->old_off, y->old_off);
	return COMPARE(x->index, y->index);
}

/*
 * Set the offsets of the moved sections, which follow each other from *END on. Set *END to the end
 * of the last moved section.
 */
static int place_moved(struct layout *layout, uint64_t *end)
{
	const struct linked_file *image = layout->image;
	struct moved *moved = calloc(layout->n_sections + 1, sizeof(*moved));
	uint64_t limit = *end + image->n_bytes + layout->names_bytes;
	size_t n = 0;

	if (!moved)
		return ctx_no_memory(image->ctx);
	for (size_t i = 1; i < layout->n_sections; i++)
		if (is_moved(layout, i))
			moved[n++] = (struct moved){ i, i < image->n_sections
								? image->sections[i].sh_offset
								: UINT64_MAX };
	qsort(moved, n, sizeof(*moved), compare_moved);
	for (size_t i = 0; i < layout->n_changes; i++)
		limit += layout->changes[i].header.sh_size;
	for (size_t i = 0; i < n; i++) {
		Elf64_Shdr *section = &layout->sections[moved[i].index];
		uint64_t align = section->sh_addralign;

		/* Sections that are not loaded need no larger alignment than a page. */
		if (align > 1 && align <= 4096)
			*end = align_up(*end, align);
		section->sh_offset = *end;
		*end += section->sh_size;
		/*
		 * Apart from padding, the moved sections need no more space than before. If they
		 * need more space, some of them overlap in the old file.
		 */
		if (*end > limit + (i + 1) * 4096) {
			free(moved);
			return ctx_error(image->ctx, -EBADMSG, "damaged: its sections overlap");
		}
	}
	free(moved);
	return 0;
}

/* Return the end of the parts of the file that the headers describe. */
static uint64_t known_end(const struct linked_file *image)
{
	uint64_t end = image->header.e_shoff + image->n_sections * sizeof(Elf64_Shdr);

	for (size_t i = 1; i < image->n_sections; i++)
		if (has_bytes(&image->sections[i]) && section_end(&image->sections[i]) > end)
			end = section_end(&image->sections[i]);
	for (size_t i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_filesz && segment->p_offset + segment->p_filesz > end)
			end = segment->p_offset + segment->p_filesz;
	}
	return end < image->n_bytes ? end : image->n_bytes;
}

static void copy_section(const struct layout *layout, size_t index, uint8_t *bytes)
{
	const Elf64_Shdr *section = &layout->sections[index];
	const struct layout_section *change = find_change(layout, index);
	const struct linked_file *image = layout->image;
	const uint8_t *from;

	if (index == image->header.e_shstrndx)
		from = layout->names;
	else if (change)
		from = change->bytes;
	else if (is_moved(layout, index))
		from = image->bytes + image->sections[index].sh_offset;
	else
		return;
	memcpy(bytes + section->sh_offset, from, section->sh_size);
}

/* Check the size N_BYTES of the new file against the limits. */
static int check_growth(const struct layout *layout, uint64_t n_bytes)
{
	const struct linked_file *image = layout->image;
	const uint64_t hole_bytes = layout->room->off - layout->room->end_off;

	if (n_bytes - hole_bytes <= image->n_bytes * MAX_GROWTH_FACTOR + free_growth_bytes)
		return 0;
	return ctx_error(image->ctx, -EBADMSG,
			 "damaged: the notes of its probes would make the file more than %d times "
			 "as long as it is",
			 MAX_GROWTH_FACTOR);
}

static int write_file(struct layout *layout, uint64_t sections_end)
{
	struct linked_file *image = layout->image;
	Elf64_Phdr *segment = &image->segments[layout->room->segment];
	size_t table_bytes = layout->n_sections * sizeof(Elf64_Shdr);
	uint64_t table_off = align_up(sections_end, TABLE_ALIGN);
	uint64_t rest_off = known_end(image), rest_bytes = image->n_bytes - rest_off;
	size_t n_bytes = table_off + table_bytes + rest_bytes;
	int err = check_growth(layout, n_bytes);
	uint8_t *bytes = err ? NULL : calloc(1, n_bytes);

	if (err)
		return err;
	if (!bytes)
		return ctx_no_memory(image->ctx);
	memcpy(bytes, image->bytes, layout->room->end_off);
	for (size_t i = 1; i < layout->n_sections; i++)
		copy_section(layout, i, bytes);
	memcpy(bytes + table_off, layout->sections, table_bytes);
	memcpy(bytes + table_off + table_bytes, image->bytes + rest_off, rest_bytes);

	segment->p_filesz = segment->p_memsz = layout->data_end - segment->p_offset;
	memcpy(bytes + image->header.e_phoff, image->segments,
	       image->n_segments * sizeof(*segment));
	image->header.e_shoff = table_off;
	image->header.e_shnum = (Elf64_Half)layout->n_sections;
	memcpy(bytes, &image->header, sizeof(image->header));

	free(image->bytes);
	image->bytes = bytes;
	image->n_bytes = n_bytes;
	free(image->sections);
	image->sections = layout->sections;
	image->n_sections = layout->n_sections;
	layout->sections = NULL;
	return 0;
}

int layout_apply(struct linked_file *image, const struct layout_room *room,
		 const struct layout_section *sections, size_t n)
{
	struct layout layout = {
		.image = image, .room = room, .changes = sections, .n_changes = n
	};
	uint64_t end;
	int err = prepare_sections(&layout);

	if (!err) {
		place_data(&layout);
		end = layout.data_end;
		err = place_moved(&layout, &end);
	}
	if (!err)
		err = write_file(&layout, end);
	free(layout.sections);
	free(layout.names);
	return err;
}
