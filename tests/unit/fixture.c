// SPDX-License-Identifier: MIT
#include "fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/note.h"
#include "note_bytes.h"
#include "unit.h"

const char *fixture_path(const char *name)
{
	static char path[4096];
	const char *build = getenv("O");

	snprintf(path, sizeof(path), "%s/tests/fixtures/%s", build ? build : "build", name);
	return path;
}

void fixture_load(struct fixture *fixture, const char *name)
{
	int fd = open(fixture_path(name), O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		fail_msg("%s cannot be read", fixture_path(name));
	fixture->n = (size_t)st.st_size;
	fixture->bytes = malloc(fixture->n);
	assert_non_null(fixture->bytes);
	assert_int_equal(read(fd, fixture->bytes, fixture->n), fixture->n);
	close(fd);
}

void fixture_free(struct fixture *fixture)
{
	free(fixture->bytes);
	*fixture = (struct fixture){ 0 };
}

Elf64_Ehdr *fixture_ehdr(const struct fixture *fixture)
{
	return (Elf64_Ehdr *)fixture->bytes;
}

Elf64_Phdr *fixture_phdr(const struct fixture *fixture, size_t index)
{
	return (Elf64_Phdr *)(fixture->bytes + fixture_ehdr(fixture)->e_phoff) + index;
}

Elf64_Shdr *fixture_shdr(const struct fixture *fixture, size_t index)
{
	return (Elf64_Shdr *)(fixture->bytes + fixture_ehdr(fixture)->e_shoff) + index;
}

Elf64_Shdr *fixture_section(const struct fixture *fixture, const char *name)
{
	const Elf64_Ehdr *eh = fixture_ehdr(fixture);
	const char *names =
		(const char *)fixture->bytes + fixture_shdr(fixture, eh->e_shstrndx)->sh_offset;

	for (size_t i = 0; i < eh->e_shnum; i++)
		if (strcmp(names + fixture_shdr(fixture, i)->sh_name, name) == 0)
			return fixture_shdr(fixture, i);
	fail_msg("the fixture has no section %s", name);
	return NULL;
}

struct fixture_note *fixture_note(const struct fixture *fixture, size_t index)
{
	const Elf64_Shdr *section = fixture_section(fixture, ".note.stapsdt");
	struct note_reader reader;
	struct note note;

	note_reader_init(&reader, fixture->bytes + section->sh_offset, section->sh_size);
	while (note_next(&reader, &note) > 0)
		if (strncmp(note.provider, "ocaml", 5) == 0 && index-- == 0)
			return (struct fixture_note *)(fixture->bytes + section->sh_offset +
						       note.off + 20);
	fail_msg("the fixture has too few notes");
	return NULL;
}

uint64_t fixture_append(struct fixture *fixture, const void *bytes, size_t n)
{
	uint64_t off = fixture->n;

	fixture->bytes = realloc(fixture->bytes, fixture->n + n);
	assert_non_null(fixture->bytes);
	memcpy(fixture->bytes + off, bytes, n);
	fixture->n += n;
	return off;
}

int fixture_fd(const struct fixture *fixture)
{
	int fd = memfd_create("fixture", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, fixture->bytes, fixture->n), fixture->n);
	return fd;
}

int fixture_open(const struct fixture *fixture, struct ocp_ctx *ctx, struct ocp_program **out)
{
	return program_open_fd(ctx, fixture_fd(fixture), "spoilt", out);
}

size_t fixture_load_noted(struct fixture *fixture, size_t n)
{
	struct note_bytes notes = { 0 };
	struct fixture_note first;
	Elf64_Shdr *section;
	uint64_t off;

	fixture_load(fixture, "v1");
	first = *fixture_note(fixture, 0);
	for (size_t i = 0; i < n; i++) {
		char name[24];

		snprintf(name, sizeof(name), "p%zu", i);
		put_stapsdt(&notes, &(struct note_spec){ first.site, first.base, first.semaphore,
							 "ocaml_1", name, NULL });
	}
	off = fixture_append(fixture, notes.bytes, notes.n);
	section = fixture_section(fixture, ".note.stapsdt");
	section->sh_offset = off;
	section->sh_size = notes.n;
	note_bytes_free(&notes);
	return section->sh_size;
}
