// SPDX-License-Identifier: MIT
/*
 * Reading: the file is untrusted. Each table is checked against the size of the file and then
 * copied. Each section with bytes must be within the file, so that later code can use sh_offset and
 * sh_size without a check. The addresses of sections are checked later, by object_add().
 *
 * Writing: the image is written to a temporary file in the same directory, and this file is then
 * renamed. A write in place would fail for a running executable (ETXTBSY). It would also change
 * dune's shared cache, to which dune hard-links its targets.
 */
#include "link/image.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "base/search.h"

static bool fits(uint64_t off, uint64_t bytes, uint64_t limit)
{
	return off <= limit && bytes <= limit - off;
}

static int read_whole_file(struct linked_file *image, int fd)
{
	struct ocp_ctx *ctx = image->ctx;
	struct interruptions interruptions = { 0 };
	size_t done = 0;

	if (fstat(fd, &image->stat))
		return ctx_error(ctx, -errno, "%s", strerror(errno));
	if (!S_ISREG(image->stat.st_mode))
		return ctx_error(ctx, -EINVAL, "not a regular file");
	image->n_bytes = (size_t)image->stat.st_size;
	image->bytes = malloc(image->n_bytes + 1);
	if (!image->bytes)
		return ctx_no_memory(ctx);
	while (done < image->n_bytes) {
		ssize_t n = read(fd, image->bytes + done, image->n_bytes - done);

		if (n < 0 && is_interrupted(&interruptions))
			continue;
		if (n < 0)
			return ctx_error(ctx, -errno, "%s", strerror(errno));
		if (n == 0)
			return ctx_error(ctx, -EBADMSG, "shrank while it was being read");
		done += (size_t)n;
	}
	return 0;
}

static int parse_header(struct linked_file *image)
{
	struct ocp_ctx *ctx = image->ctx;
	Elf64_Ehdr *header = &image->header;

	if (image->n_bytes < SELFMAG || memcmp(image->bytes, ELFMAG, SELFMAG) != 0)
		return ctx_error(ctx, -ENOEXEC, "not an ELF file");
	if (image->n_bytes < sizeof(*header))
		return ctx_error(ctx, -EBADMSG, "truncated: the ELF header is cut off");
	memcpy(header, image->bytes, sizeof(*header));
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64)
		return ctx_error(ctx, -ENOEXEC, "not an x86-64 ELF file");
	if (header->e_type == ET_REL)
		return ctx_error(ctx, -ENOEXEC, "an object file; it has to be linked first");
	if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
		return ctx_error(ctx, -ENOEXEC, "not an executable (ELF type %u)", header->e_type);
	return 0;
}

static int parse_tables(struct linked_file *image)
{
	const Elf64_Ehdr *header = &image->header;
	struct ocp_ctx *ctx = image->ctx;
	size_t bytes;

	if (!header->e_shoff || header->e_shnum == 0 || header->e_shstrndx == SHN_XINDEX)
		return ctx_error(ctx, -EBADMSG, "no section headers, or too many");
	if (header->e_shentsize != sizeof(Elf64_Shdr) ||
	    !fits(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr), image->n_bytes))
		return ctx_error(ctx, -EBADMSG, "truncated: section headers at offset %#llx",
				 (unsigned long long)header->e_shoff);
	if (header->e_phnum == 0 || header->e_phnum == PN_XNUM ||
	    header->e_phentsize != sizeof(Elf64_Phdr) ||
	    !fits(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr), image->n_bytes))
		return ctx_error(ctx, -EBADMSG, "damaged: program headers at offset %#llx",
				 (unsigned long long)header->e_phoff);
	if (header->e_shstrndx >= header->e_shnum)
		return ctx_error(ctx, -EBADMSG, "damaged: the section name table is section %u",
				 header->e_shstrndx);

	image->n_sections = header->e_shnum;
	bytes = image->n_sections * sizeof(Elf64_Shdr);
	image->sections = malloc(bytes);
	image->n_segments = header->e_phnum;
	image->segments = malloc(image->n_segments * sizeof(Elf64_Phdr));
	if (!image->sections || !image->segments)
		return ctx_no_memory(ctx);
	memcpy(image->sections, image->bytes + header->e_shoff, bytes);
	memcpy(image->segments, image->bytes + header->e_phoff,
	       image->n_segments * sizeof(Elf64_Phdr));

	for (size_t i = 0; i < image->n_sections; i++) {
		const Elf64_Shdr *section = &image->sections[i];

		if (section->sh_type == SHT_NULL || section->sh_type == SHT_NOBITS)
			continue;
		if (!fits(section->sh_offset, section->sh_size, image->n_bytes))
			return ctx_error(ctx, -EBADMSG,
					 "damaged: section %zu (offset %#llx, %#llx bytes) reaches "
					 "beyond the end of the file",
					 i, (unsigned long long)section->sh_offset,
					 (unsigned long long)section->sh_size);
		if (section->sh_addr > UINT64_MAX - section->sh_size)
			return ctx_error(ctx, -EBADMSG, "damaged: section %zu at address %#llx", i,
					 (unsigned long long)section->sh_addr);
	}
	if (image->sections[header->e_shstrndx].sh_type != SHT_STRTAB)
		return ctx_error(ctx, -EBADMSG, "damaged: section %u is not a name table",
				 header->e_shstrndx);
	return 0;
}

int image_read(struct ocp_ctx *ctx, const char *path, struct linked_file *image)
{
	int fd, err;

	memset(image, 0, sizeof(*image));
	image->ctx = ctx;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return ctx_error(ctx, -errno, "%s", strerror(errno));
	err = read_whole_file(image, fd);
	close(fd);
	if (!err)
		err = parse_header(image);
	if (!err)
		err = parse_tables(image);
	if (err)
		image_release(image);
	return err;
}

void image_release(struct linked_file *image)
{
	free(image->bytes);
	free(image->segments);
	free(image->sections);
	memset(image, 0, sizeof(*image));
}

/*
 * Return the string at INDEX of the string table section TABLE. Return NULL if INDEX is outside of
 * TABLE or if the string is not terminated.
 */
static const char *table_string(const struct linked_file *image, const Elf64_Shdr *table,
				uint64_t index)
{
	const char *text;

	if (index >= table->sh_size)
		return NULL;
	text = (const char *)image->bytes + table->sh_offset + index;
	return memchr(text, '\0', table->sh_size - index) ? text : NULL;
}

/* Return the name of section number SECTION; "" if it is not in the name table. */
static const char *section_name(const struct linked_file *image, size_t section)
{
	const Elf64_Shdr *table = &image->sections[image->header.e_shstrndx];
	const char *name = table_string(image, table, image->sections[section].sh_name);

	return name ? name : "";
}

const Elf64_Shdr *image_find_section(const struct linked_file *image, const char *name)
{
	for (size_t i = 1; i < image->n_sections; i++)
		if (strcmp(section_name(image, i), name) == 0)
			return &image->sections[i];
	return NULL;
}

/* Return the *N PT_LOAD segments; NULL if there is no memory. The caller frees the list. */
static struct elf_segment *loaded_segments(const struct linked_file *image, size_t *n)
{
	struct elf_segment *segments = calloc(image->n_segments + 1, sizeof(*segments));

	*n = 0;
	for (size_t i = 0; segments && i < image->n_segments; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_LOAD)
			segments[(*n)++] = (struct elf_segment){
				.off = segment->p_offset,
				.va = segment->p_vaddr,
				.file_bytes = segment->p_filesz,
				.mem_bytes = segment->p_memsz,
				.readable = segment->p_flags & PF_R,
				.writable = segment->p_flags & PF_W,
				.executable = segment->p_flags & PF_X,
			};
	}
	return segments;
}

int image_object(const struct linked_file *image, struct object *object)
{
	size_t n_segments;
	struct elf_segment *segments = loaded_segments(image, &n_segments);
	int err = segments ? 0 : ctx_no_memory(image->ctx);

	*object = (struct object){
		.ctx = image->ctx,
		.is_fixed = image->header.e_type == ET_EXEC,
	};
	for (size_t i = 1; i < image->n_sections && !err; i++) {
		const Elf64_Shdr *section = &image->sections[i];

		err = object_add(object,
				 &(struct elf_section){
					 .off = section->sh_offset,
					 .va = section->sh_addr,
					 .bytes = section->sh_size,
					 .type = section->sh_type,
					 .flags = section->sh_flags,
					 .index = (uint32_t)i,
					 .link = section->sh_link,
				 },
				 segments, n_segments);
	}
	for (size_t i = 0; i < object->n_sections; i++)
		object->sections[i].bytes = image->bytes + object->sections[i].off;
	free(segments);
	if (err)
		object_free(object);
	else
		object_sort(object);
	return err;
}

static int compare_symbol_addresses(const void *a, const void *b)
{
	const struct image_symbol *x = a, *y = b;

	return COMPARE(x->va, y->va);
}

size_t image_find_symbols(const struct linked_file *image)
{
	for (size_t i = 1; i < image->n_sections; i++) {
		const Elf64_Shdr *table = &image->sections[i];

		if (table->sh_type != SHT_SYMTAB)
			continue;
		if (table->sh_flags & SHF_ALLOC || table->sh_entsize != sizeof(Elf64_Sym) ||
		    table->sh_size % sizeof(Elf64_Sym) || table->sh_link == 0 ||
		    table->sh_link >= image->n_sections ||
		    image->sections[table->sh_link].sh_type != SHT_STRTAB ||
		    image->sections[table->sh_link].sh_flags & SHF_ALLOC)
			return 0;
		return i;
	}
	return 0;
}

int image_read_functions(const struct linked_file *image, struct image_symbol **symbols, size_t *n)
{
	const Elf64_Shdr *table = &image->sections[image_find_symbols(image)], *strings;
	size_t n_entries;

	*symbols = NULL;
	*n = 0;
	if (table == image->sections)
		return 0;
	strings = &image->sections[table->sh_link];
	n_entries = table->sh_size / sizeof(Elf64_Sym);
	*symbols = malloc((n_entries + 1) * sizeof(**symbols));
	if (!*symbols)
		return ctx_no_memory(image->ctx);
	for (size_t i = 0; i < n_entries; i++) {
		const char *name;
		Elf64_Sym sym;

		memcpy(&sym, image->bytes + table->sh_offset + i * sizeof(sym), sizeof(sym));
		if (ELF64_ST_TYPE(sym.st_info) != STT_FUNC || sym.st_shndx == SHN_UNDEF)
			continue;
		name = table_string(image, strings, sym.st_name);
		if (name)
			(*symbols)[(*n)++] =
				(struct image_symbol){ sym.st_value, sym.st_size, name };
	}
	qsort(*symbols, *n, sizeof(**symbols), compare_symbol_addresses);
	return 0;
}

const char *image_function_at(const struct image_symbol *symbols, size_t n, uint64_t va)
{
	const size_t next = SEARCH(i, n, symbols[i].va <= va);

	if (next == 0 || va - symbols[next - 1].va >= symbols[next - 1].bytes)
		return NULL;
	return symbols[next - 1].name;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
	return n && bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0;
}

/*
 * Write the image to FD, with holes in place of blocks of zeros: a .bss that has become part of the
 * file takes no space on disk.
 */
static int write_sparse(const struct linked_file *image, int fd)
{
	enum { CHUNK = 64 * 1024 };
	struct interruptions interruptions = { 0 };

	for (size_t at = 0; at < image->n_bytes;) {
		size_t n = image->n_bytes - at;
		ssize_t done;

		n = n < CHUNK - at % CHUNK ? n : CHUNK - at % CHUNK;
		if (n == CHUNK && is_zero(image->bytes + at, n)) {
			at += n;
			continue;
		}
		done = pwrite(fd, image->bytes + at, n, (off_t)at);
		if (done < 0 && is_interrupted(&interruptions))
			continue;
		if (done < 0)
			return -errno;
		at += (size_t)done;
	}
	return ftruncate(fd, (off_t)image->n_bytes) ? -errno : 0;
}

static int write_whole_file(const struct linked_file *image, int fd)
{
	mode_t mode = image->stat.st_mode & 07777;
	int err = write_sparse(image, fd);

	if (err)
		return err;
	/*
	 * Set the owner before the mode, since chown(2) clears the set-id bits. If the owner cannot
	 * be set, leave the set-id bits out: they would give the rights of another owner.
	 */
	if (fchown(fd, image->stat.st_uid, image->stat.st_gid)) {
		if (errno != EPERM)
			return -errno;
		mode &= 0777;
	}
	return fchmod(fd, mode) ? -errno : 0;
}

int image_write(const struct linked_file *image, const char *path)
{
	struct ocp_ctx *ctx = image->ctx;
	char *target = realpath(path, NULL);
	char *temporary = NULL;
	sigset_t all, before;
	int fd = -1, err = 0;

	if (!target && errno == ENOENT)
		target = strdup(path);
	if (!target)
		return ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	if (asprintf(&temporary, "%s.ocaml-probes-XXXXXX", target) < 0) {
		free(target);
		return ctx_no_memory(ctx);
	}

	/* Block signals, such as that of Ctrl-C, until the temporary file is renamed or removed. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0) {
		err = ctx_error(ctx, -errno, "%s: cannot create a file beside it: %s", target,
				strerror(errno));
		goto out;
	}
	err = write_whole_file(image, fd);
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(temporary, target))
		err = -errno;
	if (err) {
		unlink(temporary);
		ctx_error(ctx, err, "%s: cannot write it: %s", target, strerror(-err));
	}
out:
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(temporary);
	free(target);
	return err;
}
