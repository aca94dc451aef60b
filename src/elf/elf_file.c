// SPDX-License-Identifier: MIT
/*
 * The headers of an ELF file.
 *
 * The file may be hostile: it may belong to another user. Offsets are checked against the size of
 * the file, but a sparse file can have any size. So no allocation depends on the number of
 * sections: unless the file has few sections, each search for a section reads the headers again, a
 * few at a time, and the names through a small window. (libelf allocates 272 bytes for each section
 * header that the file claims.)
 */
#include "elf/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "base/populate.h"

/*
 * If the number of segments does not fit into e_phnum, the header of section 0 has the number. Only
 * core dumps have that many segments, so such files are refused. If there are 65 280 or more
 * sections, the header of section 0 has the number of sections, too. A program that is built with
 * -ffunction-sections can have that many sections.
 */
enum { MAX_SEGMENTS = PN_XNUM - 1, MAX_SECTIONS = 1 << 20 };

/* The number of section headers in one read. Most files have fewer. */
enum { HEADERS_AT_ONCE = 64 };

/* The table of section names, of which only a window is in memory. */
struct section_names {
	uint64_t off, bytes; /* offset of the table in the file, and its size */
	uint64_t window_off; /* offset of the window in the table */
	size_t window_bytes;
	char window[4096];
};

struct elf_file {
	struct ocp_ctx *ctx;
	int fd;
	char *name;
	Elf64_Ehdr ehdr;
	uint64_t n_sections;
	uint64_t names_index; /* index of the section with the section names; SHN_UNDEF: none */
	uint64_t file_bytes;
	struct elf_segment *segments;
	size_t n_segments;
	bool has_interpreter;
	uint64_t tls_bytes;
	/* The members below are read when they are first needed. */
	/* all section headers except number 0; NULL if they do not fit into one read */
	Elf64_Shdr *headers;
	struct section_names *names;
};

static int read_exactly(const struct elf_file *elf, void *buf, size_t bytes, uint64_t off)
{
	struct interruptions interruptions = { 0 };
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = pread(elf->fd, (char *)buf + done, bytes - done, (off_t)(off + done));

		if (n < 0 && is_interrupted(&interruptions))
			continue;
		if (n < 0)
			return ctx_error(elf->ctx, -errno,
					 "%s: cannot read at offset 0x%" PRIx64 ": %s", elf->name,
					 off, strerror(errno));
		if (n == 0)
			return ctx_error(elf->ctx, -EBADMSG,
					 "%s: file ends at offset 0x%" PRIx64
					 ", but its headers describe more",
					 elf->name, off + done);
		done += (size_t)n;
	}
	return 0;
}

/*
 * Return true if the file ends like OCaml bytecode: ocamlc ends each program with this magic and
 * the number of the format. Without -custom, ocamlc writes a file that is not ELF.
 */
static bool ends_as_bytecode(struct elf_file *elf)
{
	static const char magic[] = "Caml1999X";
	enum { END_BYTES = sizeof(magic) - 1 + 3 };
	char end[END_BYTES];

	return elf->file_bytes >= END_BYTES &&
	       read_exactly(elf, end, END_BYTES, elf->file_bytes - END_BYTES) == 0 &&
	       memcmp(end, magic, sizeof(magic) - 1) == 0;
}

static int check_ident(struct elf_file *elf, const Elf64_Ehdr *eh)
{
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 && ends_as_bytecode(elf)) {
		ctx_set_error(elf->ctx, "%s: OCaml bytecode, not an ELF file with native code",
			      elf->name);
		ctx_hint(elf->ctx, ELF_NO_BYTECODE_HINT);
		return -ENOEXEC;
	}
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0)
		return ctx_error(elf->ctx, -ENOEXEC, "%s: not an ELF file", elf->name);
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB ||
	    eh->e_machine != EM_X86_64)
		return ctx_error(elf->ctx, -ENOEXEC, "%s: not an x86-64 ELF file", elf->name);
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return ctx_error(elf->ctx, -ENOEXEC,
				 "%s: not an executable or shared object (ELF type %u)", elf->name,
				 eh->e_type);
	return 0;
}

static int check_table(const struct elf_file *elf, const char *what, uint64_t off, uint64_t count,
		       uint64_t max, uint64_t entry_bytes, uint64_t entry_bytes_expected)
{
	if (count == 0)
		return 0;
	if (entry_bytes != entry_bytes_expected)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: %s at offset 0x%" PRIx64 " have entries of %" PRIu64
				 " bytes, not %" PRIu64,
				 elf->name, what, off, entry_bytes, entry_bytes_expected);
	if (count > max)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: %s at offset 0x%" PRIx64 " claim %" PRIu64 " entries",
				 elf->name, what, off, count);
	if (off > elf->file_bytes || count * entry_bytes > elf->file_bytes - off)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: %s at offset 0x%" PRIx64 " reach past the end of the file",
				 elf->name, what, off);
	return 0;
}

static int check_sections(const struct elf_file *elf, uint64_t count)
{
	return check_table(elf, "section headers", elf->ehdr.e_shoff, count, MAX_SECTIONS,
			   elf->ehdr.e_shentsize, sizeof(Elf64_Shdr));
}

/*
 * Read the number of sections and the index of the section with their names. Numbers that are too
 * large for the ELF header are in the header of section 0 (ELF gABI, e_shnum, e_shstrndx).
 */
static int load_section_count(struct elf_file *elf)
{
	const Elf64_Ehdr *eh = &elf->ehdr;
	Elf64_Shdr first;
	int err;

	if (eh->e_shoff == 0)
		return 0;
	elf->n_sections = eh->e_shnum;
	elf->names_index = eh->e_shstrndx;
	if (eh->e_shnum == 0 || eh->e_shstrndx == SHN_XINDEX) {
		err = check_sections(elf, 1);
		if (!err)
			err = read_exactly(elf, &first, sizeof(first), eh->e_shoff);
		if (err)
			return err;
		if (eh->e_shnum == 0)
			elf->n_sections = first.sh_size;
		if (eh->e_shstrndx == SHN_XINDEX)
			elf->names_index = first.sh_link;
	}
	return check_sections(elf, elf->n_sections);
}

static int load_header(struct elf_file *elf)
{
	int err;

	if (elf->file_bytes < sizeof(elf->ehdr))
		return ctx_error(elf->ctx, -ENOEXEC, "%s: not an ELF file (%" PRIu64 " bytes)",
				 elf->name, elf->file_bytes);
	err = read_exactly(elf, &elf->ehdr, sizeof(elf->ehdr), 0);
	return err ? err : check_ident(elf, &elf->ehdr);
}

static int add_segment(struct elf_file *elf, size_t index, const Elf64_Phdr *ph)
{
	if (ph->p_type != PT_LOAD)
		return 0;
	if (ph->p_filesz > ph->p_memsz || ph->p_vaddr + ph->p_memsz < ph->p_vaddr ||
	    ph->p_offset + ph->p_filesz < ph->p_offset)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: program header %zu: impossible sizes (file offset 0x%" PRIx64
				 ")",
				 elf->name, index, (uint64_t)ph->p_offset);
	elf->segments[elf->n_segments++] = (struct elf_segment){
		.off = ph->p_offset,
		.va = ph->p_vaddr,
		.file_bytes = ph->p_filesz,
		.mem_bytes = ph->p_memsz,
		.readable = ph->p_flags & PF_R,
		.writable = ph->p_flags & PF_W,
		.executable = ph->p_flags & PF_X,
	};
	return 0;
}

/*
 * Record the size of the part that is made read-only after relocation (PT_GNU_RELRO). Linkers put
 * this part first in its segment. Any other position is ignored.
 */
static void add_relro(struct elf_file *elf, const Elf64_Phdr *ph)
{
	for (size_t i = 0; ph->p_type == PT_GNU_RELRO && i < elf->n_segments; i++)
		if (elf->segments[i].va == ph->p_vaddr)
			elf->segments[i].relro_bytes = ph->p_memsz;
}

/*
 * Record the size of the thread-local variables, rounded up to their alignment. The linker that
 * made the program has rounded the size in the same way. Impossible sizes are ignored.
 */
static void add_tls(struct elf_file *elf, const Elf64_Phdr *ph)
{
	const uint64_t align = ph->p_align ? ph->p_align : 1;

	if (ph->p_type == PT_TLS && (align & (align - 1)) == 0 && align <= UINT32_MAX &&
	    ph->p_memsz <= UINT32_MAX)
		elf->tls_bytes = (ph->p_memsz + align - 1) & ~(align - 1);
}

static int load_segments(struct elf_file *elf)
{
	size_t n = elf->ehdr.e_phoff ? elf->ehdr.e_phnum : 0;
	Elf64_Phdr *headers;
	int err = check_table(elf, "program headers", elf->ehdr.e_phoff, n, MAX_SEGMENTS,
			      elf->ehdr.e_phentsize, sizeof(*headers));

	if (err)
		return err;
	headers = calloc(n + 1, sizeof(*headers));
	elf->segments = calloc(n + 1, sizeof(*elf->segments));
	err = headers && elf->segments ? 0 : ctx_no_memory(elf->ctx);
	if (!err)
		err = read_exactly(elf, headers, n * sizeof(*headers), elf->ehdr.e_phoff);
	for (size_t i = 0; !err && i < n; i++)
		err = add_segment(elf, i, &headers[i]);
	for (size_t i = 0; !err && i < n; i++) {
		add_relro(elf, &headers[i]);
		add_tls(elf, &headers[i]);
		elf->has_interpreter |= headers[i].p_type == PT_INTERP;
	}
	free(headers);
	return err;
}

static int open_headers(struct elf_file *elf)
{
	struct stat st;
	int err;

	if (fstat(elf->fd, &st) != 0)
		return ctx_error(elf->ctx, -errno, "%s: %s", elf->name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return ctx_error(elf->ctx, -ENOEXEC, "%s: not a regular file", elf->name);
	elf->file_bytes = (uint64_t)st.st_size;
	err = load_header(elf);
	if (!err)
		err = load_segments(elf);
	if (!err)
		err = load_section_count(elf);
	return err;
}

int elf_file_open(struct ocp_ctx *ctx, int fd, const char *name, struct elf_file **out)
{
	struct elf_file *elf = calloc(1, sizeof(*elf));
	int err;

	*out = NULL;
	if (!elf)
		return ctx_no_memory(ctx);
	elf->ctx = ctx;
	elf->fd = fd;
	elf->name = strdup(name);
	err = elf->name ? open_headers(elf) : ctx_no_memory(ctx);
	if (err) {
		elf_file_close(elf);
		return err;
	}
	*out = elf;
	return 0;
}

void elf_file_close(struct elf_file *elf)
{
	if (!elf)
		return;
	free(elf->segments);
	free(elf->headers);
	free(elf->names);
	free(elf->name);
	free(elf);
}

const char *elf_file_name(const struct elf_file *elf)
{
	return elf->name;
}

bool elf_file_is_relocatable(const struct elf_file *elf)
{
	return elf->ehdr.e_type == ET_DYN;
}

bool elf_file_has_interpreter(const struct elf_file *elf)
{
	return elf->has_interpreter;
}

uint64_t elf_file_tls_bytes(const struct elf_file *elf)
{
	return elf->tls_bytes;
}

const struct elf_segment *elf_file_segments(const struct elf_file *elf, size_t *n)
{
	*n = elf->n_segments;
	return elf->segments;
}

int elf_file_check_complete(const struct elf_file *elf)
{
	uint64_t end = 0;

	for (size_t i = 0; i < elf->n_segments; i++)
		if (elf->segments[i].off + elf->segments[i].file_bytes > end)
			end = elf->segments[i].off + elf->segments[i].file_bytes;
	if (end <= elf->file_bytes)
		return 0;
	return ctx_error(elf->ctx, -EBADMSG,
			 "%s: ends after %" PRIu64 " bytes, but its segments reach to %" PRIu64,
			 elf->name, elf->file_bytes, end);
}

const struct elf_segment *elf_file_segment_of(const struct elf_file *elf, uint64_t va,
					      uint64_t bytes)
{
	for (size_t i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *seg = &elf->segments[i];

		if (va >= seg->va && bytes <= seg->mem_bytes &&
		    va - seg->va <= seg->mem_bytes - bytes)
			return seg;
	}
	return NULL;
}

bool elf_file_va_to_off(const struct elf_file *elf, uint64_t va, uint64_t *off)
{
	const struct elf_segment *seg = elf_file_segment_of(elf, va, 1);

	if (!seg || va - seg->va >= seg->file_bytes)
		return false;
	*off = seg->off + (va - seg->va);
	return true;
}

static int bad_sections(const struct elf_file *elf, const char *why)
{
	return ctx_error(elf->ctx, -EBADMSG, "%s: section headers at offset 0x%" PRIx64 ": %s",
			 elf->name, (uint64_t)elf->ehdr.e_shoff, why);
}

/*
 * Find the table of section names. Return 1; 0 if the file has no such table; or a negative errno.
 */
static int names_init(struct elf_file *elf)
{
	struct section_names *names;
	Elf64_Shdr sh;
	int err;

	if (elf->names)
		return 1;
	if (elf->n_sections == 0 || elf->names_index == SHN_UNDEF)
		return 0;
	if (elf->names_index >= elf->n_sections)
		return bad_sections(elf, "the section name table is a section that does not exist");
	err = read_exactly(elf, &sh, sizeof(sh), elf->ehdr.e_shoff + elf->names_index * sizeof(sh));
	if (err)
		return err;
	names = calloc(1, sizeof(*names));
	if (!names)
		return ctx_no_memory(elf->ctx);
	elf->names = names;
	names->off = sh.sh_offset;
	names->bytes = sh.sh_size;
	/* Leave out the part of the table that is beyond the end of the file. */
	if (names->off > elf->file_bytes)
		names->bytes = 0;
	else if (names->bytes > elf->file_bytes - names->off)
		names->bytes = elf->file_bytes - names->off;
	return 1;
}

/* Return 1 if the name at OFF of the name table is NAME, 0 if not, or a negative errno. */
static int names_match(const struct elf_file *elf, uint64_t off, const char *name)
{
	struct section_names *names = elf->names;
	size_t bytes = strlen(name) + 1;
	int err;

	if (off > names->bytes || bytes > names->bytes - off)
		return 0;
	if (off < names->window_off || off + bytes > names->window_off + names->window_bytes) {
		/*
		 * If the whole table fits into the window, read all of it: no later search has to
		 * read it again.
		 */
		names->window_off = names->bytes <= sizeof(names->window) ? 0 : off;
		names->window_bytes = sizeof(names->window);
		if (names->window_bytes > names->bytes - names->window_off)
			names->window_bytes = names->bytes - names->window_off;
		err = read_exactly(elf, names->window, names->window_bytes,
				   names->off + names->window_off);
		if (err) {
			names->window_bytes = 0;
			return err;
		}
	}
	return memcmp(names->window + (off - names->window_off), name, bytes) == 0;
}

/* Read the headers of section FIRST and of the sections after it, at most HEADERS_AT_ONCE. */
static int read_headers(const struct elf_file *elf, uint64_t first, Elf64_Shdr *headers)
{
	const uint64_t left = elf->n_sections - first,
		       n = left < HEADERS_AT_ONCE ? left : HEADERS_AT_ONCE;

	return read_exactly(elf, headers, n * sizeof(*headers),
			    elf->ehdr.e_shoff + first * sizeof(*headers));
}

/* If the file has so few sections that one read returns all headers, read and keep them. */
static int keep_headers(struct elf_file *elf)
{
	int err;

	if (elf->headers || elf->n_sections < 2 || elf->n_sections - 1 > HEADERS_AT_ONCE)
		return 0;
	elf->headers = calloc(elf->n_sections - 1, sizeof(*elf->headers));
	if (!elf->headers)
		return ctx_no_memory(elf->ctx);
	err = read_headers(elf, 1, elf->headers);
	if (err) {
		free(elf->headers);
		elf->headers = NULL;
	}
	return err;
}

int elf_file_each_section(struct elf_file *elf, elf_section_fn fn, void *data)
{
	Elf64_Shdr headers[HEADERS_AT_ONCE] = { 0 };
	int done = keep_headers(elf);

	/* Header 0 does not describe a section. */
	for (uint64_t i = 1; i < elf->n_sections && !done; i++) {
		const Elf64_Shdr *sh =
			elf->headers ? &elf->headers[i - 1] : &headers[(i - 1) % HEADERS_AT_ONCE];

		if (!elf->headers && (i - 1) % HEADERS_AT_ONCE == 0)
			done = read_headers(elf, i, headers);
		if (!done)
			done = fn(data, &(struct elf_section){
						.off = sh->sh_offset,
						.va = sh->sh_addr,
						.bytes = sh->sh_size,
						.type = sh->sh_type,
						.flags = sh->sh_flags,
						.index = (uint32_t)i,
						.link = sh->sh_link,
						.name = sh->sh_name,
					});
	}
	return done;
}

struct section_search {
	const struct elf_file *elf;
	const char *name;
	uint32_t type;
	struct elf_section *section;
};

static int is_searched(void *data, const struct elf_section *section)
{
	struct section_search *search = data;
	int found;

	if (section->type != search->type)
		return 0;
	found = names_match(search->elf, section->name, search->name);
	if (found > 0)
		*search->section = *section;
	return found;
}

int elf_file_find_section(struct elf_file *elf, const char *name, uint32_t type,
			  struct elf_section *section)
{
	struct section_search search = {
		.elf = elf, .name = name, .type = type, .section = section
	};
	int found = names_init(elf);

	return found <= 0 ? found : elf_file_each_section(elf, is_searched, &search);
}

int elf_file_read(const struct elf_file *elf, uint64_t off, void *to, size_t bytes)
{
	return read_exactly(elf, to, bytes, off);
}

int elf_file_read_section(struct elf_file *elf, const struct elf_section *section, uint64_t limit,
			  uint8_t **bytes)
{
	int err;

	*bytes = NULL;
	if (section->type == SHT_NOBITS || (section->flags & SHF_COMPRESSED))
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: section at offset 0x%" PRIx64
				 " is compressed or has no bytes in the file",
				 elf->name, section->off);
	if (section->off > elf->file_bytes || section->bytes > elf->file_bytes - section->off)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: section at offset 0x%" PRIx64
				 " reaches past the end of the file",
				 elf->name, section->off);
	if (section->bytes > limit)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: section at offset 0x%" PRIx64 " claims %" PRIu64
				 " bytes, more than the limit of %" PRIu64,
				 elf->name, section->off, section->bytes, limit);
	*bytes = populated_malloc(section->bytes ? section->bytes : 1);
	if (!*bytes)
		return ctx_no_memory(elf->ctx);
	err = read_exactly(elf, *bytes, section->bytes, section->off);
	if (err) {
		free(*bytes);
		*bytes = NULL;
	}
	return err;
}
