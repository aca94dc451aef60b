// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: any bytes as an ELF file and as a section of notes. Whatever they are, reading
 * them is clean under the sanitizers, and what is accepted is consistent.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/dynsym.h"
#include "elf/note.h"
#include "elf/program.h"
#include "elf/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void read_notes(const uint8_t *bytes, size_t n)
{
	struct note_reader reader;
	struct note note;
	size_t before = 0;
	int more;

	note_reader_init(&reader, bytes, n);
	while ((more = note_next(&reader, &note)) > 0) {
		require(note.off >= before && reader.pos > note.off);
		require(strlen(note.provider) + strlen(note.name) + strlen(note.args) < n);
		before = reader.pos;
	}
	require(more == 0 || reader.why);
}

static void check_program(const struct ocp_program *prog)
{
	size_t next = 0;

	for (size_t i = 0; i < prog->n_probes; i++) {
		const struct probe *probe = &prog->probes[i];

		require(probe->n_sites > 0 && probe->first_site == next);
		require(i == 0 || strcmp(prog->probes[i - 1].name, probe->name) < 0);
		require(program_find_probe(prog, probe->name) == (ptrdiff_t)i);
		next += probe->n_sites;
	}
	require(next == prog->n_sites);
	for (size_t i = 0; i < prog->n_sites; i++) {
		const struct site *site = &prog->sites[i];
		const struct elf_segment *seg;

		require(site->probe < prog->n_probes && strlen(site->args) < (size_t)-1);
		seg = elf_file_segment_of(prog->elf, site->semaphore_va, 2);
		require(seg && seg->writable);
		if (!site->has_code)
			continue;
		require(site->opcode_at > 0 && site->opcode_at < site->n_bytes);
		require(site->code || site->n_bytes == SITE_BYTES);
		require(!site->code || site->code[site->opcode_at] == site->off_opcode);
		seg = elf_file_segment_of(prog->elf, site->va, site->n_bytes);
		require(seg && seg->executable);
	}
}

static void find_symbols(struct ocp_ctx *ctx, struct ocp_program *prog)
{
	struct symbol_of asked[2] = { { .va = 0x401000 }, { .va = 0x1000 } };
	char *names = NULL;
	uint64_t va;

	require(dynsym_find(prog->elf, "main", &va) >= 0 || *ocp_error(ctx));
	if (symbols_find(ctx, prog->elf, asked, 2, &names) == 0)
		for (int i = 0; i < 2; i++)
			require(!asked[i].name || strlen(asked[i].name) < (size_t)-1);
	free(names);
}

static void read_program(const uint8_t *bytes, size_t n)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog;
	int err;

	require(fd >= 0 && ctx && write(fd, bytes, n) == (ssize_t)n);
	err = program_open_fd(ctx, fd, "fuzz", &prog);
	require(err ? !prog && *ocp_error(ctx) : prog != NULL);
	if (!err)
		check_program(prog);
	if (!err)
		find_symbols(ctx, prog);
	ocp_program_free(prog);
	ocp_ctx_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	read_notes(bytes, n);
	read_program(bytes, n);
	return 0;
}
