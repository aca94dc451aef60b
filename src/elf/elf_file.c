// SPDX-License-Identifier: MIT
/*
 * An ELF file's headers, read through libelf.
 *
 * The file may be hostile: it is somebody else's, perhaps of a process under our eyes. libelf
 * checks offsets against the file's size, but a sparse file can be as large as it likes to claim,
 * so the tables' sizes are bounded here before libelf allocates for them. Section names are read
 * one by one from the file rather than loading a string table of unknown size.
 */
#include "elf/elf_file.h"

#include <errno.h>
#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * No linked file has more sections or segments than this (an object file may), and libelf takes 272
 * bytes for each that is claimed. PN_XNUM itself would refer to section 0 for the real number.
 */
enum { MAX_HEADERS = PN_XNUM - 1 };

/* Longest section name asked for, with its NUL. */
enum { MAX_SECTION_NAME = 32 };

struct elf_file {
	struct ocp_ctx *ctx;
	int fd;
	char *name;
	Elf *elf;
	GElf_Ehdr ehdr;
	uint64_t file_bytes;
	struct elf_segment *segments;
	size_t n_segments;
};

static int read_exactly(const struct elf_file *elf, void *buf, size_t bytes, uint64_t off)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = pread(elf->fd, (char *)buf + done, bytes - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ctx_error(elf->ctx, -errno,
					 "%s: cannot read at offset 0x%" PRIx64 ": %s", elf->name,
					 off, strerror(errno));
		if (n == 0)
			return ctx_error(elf->ctx, -EBADMSG,
					 "%s: file ends at offset 0x%" PRIx64
					 ", inside of what its headers describe",
					 elf->name, off + done);
		done += (size_t)n;
	}
	return 0;
}

static int check_ident(const struct elf_file *elf, const Elf64_Ehdr *eh)
{
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

/* The number of sections, from section 0 if the header has no room for it (ELF gABI, e_shnum). */
static int section_count(const struct elf_file *elf, const Elf64_Ehdr *eh, uint64_t *count)
{
	Elf64_Shdr first;
	int err;

	*count = eh->e_shnum;
	if (eh->e_shoff == 0 || eh->e_shnum != 0)
		return 0;
	if (eh->e_shoff > elf->file_bytes)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: section headers at offset 0x%" PRIx64
				 " are outside of the file",
				 elf->name, (uint64_t)eh->e_shoff);
	err = read_exactly(elf, &first, sizeof(first), eh->e_shoff);
	if (!err)
		*count = first.sh_size;
	return err;
}

static int check_table(const struct elf_file *elf, const char *what, uint64_t off, uint64_t count,
		       uint64_t entry_bytes, uint64_t entry_bytes_expected)
{
	if (count == 0)
		return 0;
	if (entry_bytes != entry_bytes_expected)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: %s at offset 0x%" PRIx64 " have entries of %" PRIu64
				 " bytes, not %" PRIu64,
				 elf->name, what, off, entry_bytes, entry_bytes_expected);
	if (count > MAX_HEADERS)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: %s at offset 0x%" PRIx64 " claim %" PRIu64 " entries",
				 elf->name, what, off, count);
	if (off > elf->file_bytes || count * entry_bytes > elf->file_bytes - off)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: %s at offset 0x%" PRIx64 " reach past the end of the file",
				 elf->name, what, off);
	return 0;
}

/* Refuse what would make libelf allocate for tables that are not there. */
static int check_headers(struct elf_file *elf)
{
	uint64_t sections;
	Elf64_Ehdr eh;
	int err;

	if (elf->file_bytes < sizeof(eh))
		return ctx_error(elf->ctx, -ENOEXEC, "%s: not an ELF file (%" PRIu64 " bytes)",
				 elf->name, elf->file_bytes);
	err = read_exactly(elf, &eh, sizeof(eh), 0);
	if (!err)
		err = check_ident(elf, &eh);
	if (!err)
		err = section_count(elf, &eh, &sections);
	if (!err)
		err = check_table(elf, "program headers", eh.e_phoff, eh.e_phnum, eh.e_phentsize,
				  sizeof(Elf64_Phdr));
	if (!err && eh.e_shoff != 0)
		err = check_table(elf, "section headers", eh.e_shoff, sections, eh.e_shentsize,
				  sizeof(Elf64_Shdr));
	return err;
}

static int load_segments(struct elf_file *elf)
{
	size_t n_headers;

	if (elf_getphdrnum(elf->elf, &n_headers) != 0)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: program headers at offset 0x%" PRIx64 ": %s", elf->name,
				 elf->ehdr.e_phoff, elf_errmsg(-1));
	elf->segments = calloc(n_headers ? n_headers : 1, sizeof(*elf->segments));
	if (!elf->segments)
		return ctx_no_memory(elf->ctx);
	for (size_t i = 0; i < n_headers; i++) {
		struct elf_segment *seg = &elf->segments[elf->n_segments];
		GElf_Phdr ph;

		if (!gelf_getphdr(elf->elf, (int)i, &ph))
			return ctx_error(elf->ctx, -EBADMSG,
					 "%s: program headers at offset 0x%" PRIx64
					 ": number %zu: %s",
					 elf->name, elf->ehdr.e_phoff, i, elf_errmsg(-1));
		if (ph.p_type != PT_LOAD)
			continue;
		if (ph.p_filesz > ph.p_memsz || ph.p_vaddr + ph.p_memsz < ph.p_vaddr ||
		    ph.p_offset + ph.p_filesz < ph.p_offset)
			return ctx_error(
				elf->ctx, -EBADMSG,
				"%s: program header %zu: impossible sizes (file offset 0x%" PRIx64
				")",
				elf->name, i, (uint64_t)ph.p_offset);
		*seg = (struct elf_segment){
			.off = ph.p_offset,
			.va = ph.p_vaddr,
			.file_bytes = ph.p_filesz,
			.mem_bytes = ph.p_memsz,
			.readable = ph.p_flags & PF_R,
			.writable = ph.p_flags & PF_W,
			.executable = ph.p_flags & PF_X,
		};
		elf->n_segments++;
	}
	return 0;
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
	err = check_headers(elf);
	if (err)
		return err;
	elf_version(EV_CURRENT);
	elf->elf = elf_begin(elf->fd, ELF_C_READ, NULL);
	if (!elf->elf || elf_kind(elf->elf) != ELF_K_ELF || !gelf_getehdr(elf->elf, &elf->ehdr))
		return ctx_error(elf->ctx, -EBADMSG, "%s: ELF header at offset 0x0: %s", elf->name,
				 elf_errmsg(-1));
	return load_segments(elf);
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
	elf_end(elf->elf);
	free(elf->segments);
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

uint64_t elf_file_entry_va(const struct elf_file *elf)
{
	return elf->ehdr.e_entry;
}

const struct elf_segment *elf_file_segments(const struct elf_file *elf, size_t *n)
{
	*n = elf->n_segments;
	return elf->segments;
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

/* Is the section name at OFF in the file NAME? A name outside of the file is no match. */
static int name_matches(const struct elf_file *elf, uint64_t off, const char *name)
{
	char found[MAX_SECTION_NAME];
	size_t bytes = strlen(name) + 1;
	int err;

	if (off > elf->file_bytes || bytes > elf->file_bytes - off)
		return 0;
	err = read_exactly(elf, found, bytes, off);
	return err ? err : memcmp(found, name, bytes) == 0;
}

static int bad_sections(const struct elf_file *elf, const char *why)
{
	return ctx_error(elf->ctx, -EBADMSG, "%s: section headers at offset 0x%" PRIx64 ": %s",
			 elf->name, (uint64_t)elf->ehdr.e_shoff, why);
}

/* Where the section names are; false when the file says it has none. */
static int section_names(struct elf_file *elf, GElf_Shdr *names)
{
	size_t index;
	Elf_Scn *scn;

	if (elf_getshdrstrndx(elf->elf, &index) != 0)
		return bad_sections(elf, "no index of the section name table");
	if (index == SHN_UNDEF)
		return 0;
	scn = elf_getscn(elf->elf, index);
	if (!scn || !gelf_getshdr(scn, names))
		return bad_sections(elf, "the section name table is a section that does not exist");
	return 1;
}

int elf_file_find_section(struct elf_file *elf, const char *name, uint32_t type,
			  struct elf_section *section)
{
	GElf_Shdr names, sh;
	Elf_Scn *scn = NULL;
	int found = section_names(elf, &names);

	if (found <= 0)
		return found;
	while ((scn = elf_nextscn(elf->elf, scn))) {
		if (!gelf_getshdr(scn, &sh))
			return bad_sections(elf, elf_errmsg(-1));
		if (sh.sh_type != type || sh.sh_name >= names.sh_size)
			continue;
		found = name_matches(elf, names.sh_offset + sh.sh_name, name);
		if (found < 0)
			return found;
		if (!found)
			continue;
		*section = (struct elf_section){
			.off = sh.sh_offset,
			.va = sh.sh_addr,
			.bytes = sh.sh_size,
			.type = sh.sh_type,
			.flags = sh.sh_flags,
		};
		return 1;
	}
	return 0;
}

int elf_file_read_section(struct elf_file *elf, const struct elf_section *section, uint64_t limit,
			  uint8_t **bytes)
{
	int err;

	*bytes = NULL;
	if (section->type == SHT_NOBITS || (section->flags & SHF_COMPRESSED))
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: section at offset 0x%" PRIx64
				 " has no plain bytes in the file",
				 elf->name, section->off);
	if (section->off > elf->file_bytes || section->bytes > elf->file_bytes - section->off)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: section at offset 0x%" PRIx64
				 " reaches past the end of the file",
				 elf->name, section->off);
	if (section->bytes > limit)
		return ctx_error(elf->ctx, -EBADMSG,
				 "%s: section at offset 0x%" PRIx64 " claims %" PRIu64
				 " bytes, more than %" PRIu64 " are not believed",
				 elf->name, section->off, section->bytes, limit);
	*bytes = malloc(section->bytes ? section->bytes : 1);
	if (!*bytes)
		return ctx_no_memory(elf->ctx);
	err = read_exactly(elf, *bytes, section->bytes, section->off);
	if (err) {
		free(*bytes);
		*bytes = NULL;
	}
	return err;
}
