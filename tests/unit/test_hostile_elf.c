// SPDX-License-Identifier: MIT
/*
 * Files that lie. Each is a sound fixture, spoilt in one way: reading it gives an error that names
 * the file and the place, or, where the lie is about something that nobody asks for, its probes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "unit.h"

static int load_fixture(void **state)
{
	static struct fixture fixture;

	fixture_load(&fixture, "v2-stripped");
	*state = &fixture;
	return 0;
}

static int free_fixture(void **state)
{
	fixture_free(*state);
	return 0;
}

EACH_TEST(load_fixture, free_fixture);

/* An error's sentence starts with the file and, if the file is damaged, says where. */
static void check_sentence(const struct ocp_ctx *ctx, int err)
{
	const char *sentence = ocp_error(ctx);

	if (strncmp(sentence, "spoilt: ", 8) != 0)
		fail_msg("error %d does not name the file: %s", err, sentence);
	if (err == -EBADMSG && !strstr(sentence, "offset 0x"))
		fail_msg("does not say where: %s", sentence);
	if (err != -EBADMSG && err != -ENOEXEC)
		fail_msg("unexpected error %d: %s", err, sentence);
}

/* Open it; it must fail with ERR and say REASON. */
static void expect_error(const struct fixture *fixture, int err, const char *reason)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog;

	assert_non_null(ctx);
	assert_int_equal(fixture_open(fixture, ctx, &prog), err);
	assert_null(prog);
	check_sentence(ctx, err);
	if (!strstr(ocp_error(ctx), reason))
		fail_msg("expected \"%s\", the error is: %s", reason, ocp_error(ctx));
	ocp_ctx_free(ctx);
}

TEST(other_files_are_refused)
{
	struct fixture *f = *state;

	fixture_ehdr(f)->e_type = ET_REL;
	expect_error(f, -ENOEXEC, "not an executable or shared object");
	fixture_ehdr(f)->e_machine = EM_AARCH64;
	expect_error(f, -ENOEXEC, "not an x86-64 ELF file");
	fixture_ehdr(f)->e_ident[EI_CLASS] = ELFCLASS32;
	expect_error(f, -ENOEXEC, "not an x86-64 ELF file");
	f->bytes[0] = '#';
	expect_error(f, -ENOEXEC, "not an ELF file");
	f->n = 10;
	expect_error(f, -ENOEXEC, "not an ELF file");
	f->n = 0;
	expect_error(f, -ENOEXEC, "not an ELF file");
}

TEST(section_headers_outside_of_the_file)
{
	struct fixture *f = *state;

	fixture_ehdr(f)->e_shoff = f->n - 63;
	expect_error(f, -EBADMSG, "section headers");
	fixture_ehdr(f)->e_shoff = f->n + 1;
	expect_error(f, -EBADMSG, "section headers");
	fixture_ehdr(f)->e_shoff = UINT64_MAX - 8;
	expect_error(f, -EBADMSG, "section headers");
}

TEST(program_headers_outside_of_the_file)
{
	struct fixture *f = *state;

	fixture_ehdr(f)->e_phoff = f->n - 55;
	expect_error(f, -EBADMSG, "program headers");
	fixture_ehdr(f)->e_phoff = UINT64_MAX - 8;
	expect_error(f, -EBADMSG, "program headers");
}

TEST(too_many_sections)
{
	struct fixture *f = *state;

	fixture_ehdr(f)->e_shnum = SHN_LORESERVE - 1;
	expect_error(f, -EBADMSG, "section headers");
	fixture_ehdr(f)->e_shnum = 0;
	for (int shift = 16; shift < 64; shift++) {
		fixture_shdr(f, 0)->sh_size = UINT64_C(1) << shift;
		expect_error(f, -EBADMSG, "section headers");
	}
	fixture_shdr(f, 0)->sh_size = UINT64_MAX;
	expect_error(f, -EBADMSG, "section headers");
	/* Extended numbering, with section 0 itself outside of the file. */
	fixture_ehdr(f)->e_shoff = f->n - 1;
	expect_error(f, -EBADMSG, "");
	fixture_ehdr(f)->e_shoff = UINT64_MAX;
	expect_error(f, -EBADMSG, "section headers");
}

TEST(entries_of_another_size)
{
	struct fixture *f = *state;

	fixture_ehdr(f)->e_shentsize = 63;
	expect_error(f, -EBADMSG, "section headers");
	fixture_ehdr(f)->e_phentsize = 0;
	expect_error(f, -EBADMSG, "program headers");
}

TEST(section_names_in_a_section_that_is_not_there)
{
	struct fixture *f = *state;
	uint16_t index = fixture_ehdr(f)->e_shstrndx;

	fixture_ehdr(f)->e_shstrndx = SHN_LORESERVE - 1;
	expect_error(f, -EBADMSG, "section name table");
	fixture_ehdr(f)->e_shstrndx = SHN_XINDEX;
	fixture_shdr(f, 0)->sh_link = UINT32_MAX;
	expect_error(f, -EBADMSG, "section name table");
	fixture_ehdr(f)->e_shstrndx = index;
}

TEST(notes_outside_of_the_file)
{
	struct fixture *f = *state;
	Elf64_Shdr *notes = fixture_section(f, ".note.stapsdt");
	uint64_t bytes = notes->sh_size;

	notes->sh_size = f->n - notes->sh_offset + 1;
	expect_error(f, -EBADMSG, "past the end of the file");
	notes->sh_size = UINT64_MAX;
	expect_error(f, -EBADMSG, "past the end of the file");
	notes->sh_size = UINT64_MAX - notes->sh_offset + 1;
	expect_error(f, -EBADMSG, "past the end of the file");
	notes->sh_size = bytes;
	notes->sh_offset = f->n + 1;
	expect_error(f, -EBADMSG, "past the end of the file");
	notes->sh_offset = UINT64_MAX;
	expect_error(f, -EBADMSG, "past the end of the file");
}

TEST(notes_that_end_too_early)
{
	struct fixture *f = *state;
	Elf64_Shdr *notes = fixture_section(f, ".note.stapsdt");

	notes->sh_size -= 8;
	expect_error(f, -EBADMSG, "note");
	notes->sh_size = 11;
	expect_error(f, -EBADMSG, "note");
	notes->sh_flags |= SHF_COMPRESSED;
	expect_error(f, -EBADMSG, "is compressed or has no bytes");
}

TEST(sites_outside_of_the_code)
{
	struct fixture *f = *state;
	const Elf64_Shdr *data = fixture_section(f, ".data");
	const Elf64_Phdr *code = NULL;
	struct fixture_note *note = fixture_note(f, 0);
	uint64_t bad[5];

	for (size_t i = 0; !code; i++)
		if (fixture_phdr(f, i)->p_type == PT_LOAD && fixture_phdr(f, i)->p_flags & PF_X)
			code = fixture_phdr(f, i);
	bad[0] = data->sh_addr;
	bad[1] = 1;
	bad[2] = code->p_vaddr - 1;
	bad[3] = code->p_vaddr + code->p_memsz - SITE_BYTES + 1;
	bad[4] = UINT64_MAX - 2;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		note->site = bad[i];
		expect_error(f, -EBADMSG, "site is outside the program's code");
	}
}

TEST(semaphores_outside_of_the_data)
{
	struct fixture *f = *state;
	const Elf64_Shdr *text = fixture_section(f, ".text");
	struct fixture_note *note = fixture_note(f, 0);
	uint64_t semaphore = note->semaphore, bad[5], end = 0;

	for (size_t i = 0; i < fixture_ehdr(f)->e_phnum; i++) {
		const Elf64_Phdr *ph = fixture_phdr(f, i);

		if (ph->p_type == PT_LOAD && ph->p_flags & PF_W)
			end = ph->p_vaddr + ph->p_memsz;
	}
	bad[0] = text->sh_addr;
	bad[1] = semaphore + 1; /* odd */
	bad[2] = 2;
	bad[3] = (end - 2) & ~UINT64_C(1); /* its second half is behind the segment */
	bad[4] = UINT64_MAX - 1;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		note->semaphore = bad[i];
		expect_error(f, -EBADMSG, "semaphore is odd or outside");
	}
	note->semaphore = 0;
	expect_error(f, -EBADMSG, "without a semaphore");
	/*
	 * Without a base, only an offset that is lower than all data says that the semaphore is
	 * lost.
	 */
	note->base = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		note->semaphore = bad[i];
		if (bad[i] > semaphore)
			expect_error(f, -EBADMSG, "semaphore is odd or outside");
	}
	note->semaphore = 0;
	note->site = 0;
	expect_error(f, -EBADMSG, "without a semaphore");
}

/* Only ocaml_2 may leave a site out. */
TEST(sites_left_out_by_older_generations)
{
	struct fixture *f = *state;

	fixture_free(f);
	fixture_load(f, "v1");
	fixture_note(f, 3)->site = 0;
	expect_error(f, -EBADMSG, "site 0");
}

TEST(names_that_are_no_names)
{
	struct fixture *f = *state;
	char *provider = fixture_note(f, 0)->provider;
	char *name = provider + strlen(provider) + 1;
	static const char bad[] = "\x1b-/ .\x80\n";

	for (size_t i = 0; i < sizeof(bad) - 1; i++) {
		name[1] = bad[i];
		expect_error(f, -EBADMSG, "probe name");
	}
}

TEST(segments_of_impossible_size)
{
	struct fixture *f = *state;
	Elf64_Phdr *ph = fixture_phdr(f, 0), saved;

	while (ph->p_type != PT_LOAD)
		ph++;
	saved = *ph;
	ph->p_memsz = ph->p_filesz - 1;
	expect_error(f, -EBADMSG, "impossible sizes");
	*ph = saved;
	ph->p_vaddr = UINT64_MAX;
	expect_error(f, -EBADMSG, "impossible sizes");
	*ph = saved;
	ph->p_offset = UINT64_MAX;
	expect_error(f, -EBADMSG, "impossible sizes");
}

/* Whatever FD holds, opening it is safe, and an error is a proper one. */
static void open_anything(int fd)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog;
	int err;

	assert_non_null(ctx);
	err = program_open_fd(ctx, dup(fd), "spoilt", &prog);
	if (err) {
		assert_null(prog);
		check_sentence(ctx, err);
	} else {
		for (size_t i = 0; i < prog->n_sites; i++)
			assert_true(strlen(prog->sites[i].args) < 4096);
	}
	ocp_program_free(prog);
	ocp_ctx_free(ctx);
}

TEST(a_file_cut_anywhere)
{
	struct fixture *f = *state;
	int fd = fixture_fd(f);

	for (size_t cut = f->n; cut-- > 0;) {
		/* Every length near the headers, the notes and the end; steps elsewhere. */
		if (cut > 2048 && cut < f->n - 4096)
			cut -= cut % 64;
		assert_int_equal(ftruncate(fd, (off_t)cut), 0);
		open_anything(fd);
	}
	close(fd);
}

static void spoil_each_byte(const struct fixture *f, int fd, uint64_t off, uint64_t bytes)
{
	static const uint8_t flips[] = { 0x01, 0x80, 0xff, 0x10 };

	for (uint64_t at = off; at < off + bytes; at++) {
		for (size_t i = 0; i < sizeof(flips); i++) {
			uint8_t byte = f->bytes[at] ^ flips[i];

			assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
			open_anything(fd);
		}
		assert_int_equal(pwrite(fd, &f->bytes[at], 1, (off_t)at), 1);
	}
}

TEST(every_header_byte_spoilt)
{
	struct fixture *f = *state;
	const Elf64_Ehdr *eh = fixture_ehdr(f);
	int fd = fixture_fd(f);

	spoil_each_byte(f, fd, 0, sizeof(*eh));
	spoil_each_byte(f, fd, eh->e_phoff, eh->e_phnum * sizeof(Elf64_Phdr));
	spoil_each_byte(f, fd, eh->e_shoff, eh->e_shnum * sizeof(Elf64_Shdr));
	close(fd);
}

TEST(every_note_byte_spoilt)
{
	struct fixture *f = *state;
	const Elf64_Shdr *notes = fixture_section(f, ".note.stapsdt");
	int fd = fixture_fd(f);

	spoil_each_byte(f, fd, notes->sh_offset, notes->sh_size);
	close(fd);
}
