/* SPDX-License-Identifier: MIT */
/*
 * Room elf: any ELF file, whether OCaml made it or not.
 * In: a descriptor of a file, which may be hostile.
 * Out: segments, symbols, line tables, call frame information.
 * Callers: all rooms above that read a file.
 */
/*
 * An ELF file: its headers, and parts of its contents, read through a descriptor of the caller.
 * Every size in the headers is checked against the size of the file before memory is allocated for
 * it.
 */
#ifndef ELF_ELF_FILE_H
#define ELF_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"

/* One PT_LOAD program header. Addresses are link-time addresses. */
struct elf_segment {
	uint64_t off; /* offset in the file */
	uint64_t va;
	uint64_t file_bytes;
	uint64_t mem_bytes;
	uint64_t relro_bytes; /* size of the part at the start that is read-only after relocation */
	bool readable, writable, executable;
};

/* One section header. */
struct elf_section {
	uint64_t off; /* offset in the file */
	uint64_t va;
	uint64_t bytes;
	uint32_t type;	/* SHT_ */
	uint64_t flags; /* SHF_ */
	uint32_t index;
	uint32_t link; /* the index of a related section; the meaning depends on the type */
	uint32_t name; /* offset in the table of section names */
};

struct elf_file;

/* A hint for the user: what to do if a program is bytecode. */
#define ELF_NO_BYTECODE_HINT "compile the program to native code: ocamlopt, or dune's mode `exe`"

/*
 * Read the headers of the file of FD. The caller keeps FD open as long as the elf_file exists. NAME
 * is for messages and is copied. Returns -ENOEXEC if the file is not an x86-64 ELF executable or
 * shared object, -EBADMSG if its headers are inconsistent.
 */
int elf_file_open(struct ocp_ctx *ctx, int fd, const char *name, struct elf_file **out);
void elf_file_close(struct elf_file *elf);

const char *elf_file_name(const struct elf_file *elf);
/* Return true if the file is ET_DYN: its addresses are then relative to a load bias. */
bool elf_file_is_relocatable(const struct elf_file *elf);

/*
 * Return true if the file names an interpreter, which is the dynamic linker that the kernel starts
 * together with the program.
 */
bool elf_file_has_interpreter(const struct elf_file *elf);

/*
 * Return the distance from the FS base down to the start of this executable's thread-local
 * variables (variant II of the TLS ABI), or 0 if it has no such variables.
 */
uint64_t elf_file_tls_bytes(const struct elf_file *elf);

/* Return the PT_LOAD segments, in file order. */
const struct elf_segment *elf_file_segments(const struct elf_file *elf, size_t *n);

/*
 * Return 0, or -EBADMSG if the file ends before the end of a segment. Such a file is truncated, and
 * the program would crash.
 */
int elf_file_check_complete(const struct elf_file *elf);

/* Return the segment whose memory image holds BYTES bytes at VA; NULL if no segment does. */
const struct elf_segment *elf_file_segment_of(const struct elf_file *elf, uint64_t va,
					      uint64_t bytes);

/*
 * Find the file offset of link-time address VA. Returns false if the file has no byte for VA (.bss,
 * or outside of every segment).
 */
bool elf_file_va_to_off(const struct elf_file *elf, uint64_t va, uint64_t *off);

/*
 * Call FN(DATA, section) for each section. If FN returns a value other than 0, stop and return that
 * value.
 */
typedef int (*elf_section_fn)(void *data, const struct elf_section *section);
int elf_file_each_section(struct elf_file *elf, elf_section_fn fn, void *data);

/*
 * Find the first section called NAME of the given SHT_ TYPE. Return 1 and fill *SECTION; return 0
 * if there is no such section, or a negative errno.
 */
int elf_file_find_section(struct elf_file *elf, const char *name, uint32_t type,
			  struct elf_section *section);

/* Read BYTES bytes at file offset OFF. Returns -EBADMSG if the file ends earlier. */
int elf_file_read(const struct elf_file *elf, uint64_t off, void *to, size_t bytes);

/*
 * Read SECTION into *BYTES, which the caller frees. Returns -EBADMSG if SECTION has more than LIMIT
 * bytes.
 */
int elf_file_read_section(struct elf_file *elf, const struct elf_section *section, uint64_t limit,
			  uint8_t **bytes);

#endif
