// SPDX-License-Identifier: MIT
/* The questions that elf_file answers about a sound file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "unit.h"

/* A fixture, opened. */
struct opened {
	struct fixture fixture;
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	int fd;
};

static struct opened open_fixture(const char *name)
{
	struct opened o = { .ctx = ocp_ctx_new() };

	assert_non_null(o.ctx);
	fixture_load(&o.fixture, name);
	o.fd = fixture_fd(&o.fixture);
	assert_int_equal(elf_file_open(o.ctx, o.fd, name, &o.elf), 0);
	return o;
}

static void close_fixture(struct opened *o)
{
	elf_file_close(o->elf);
	close(o->fd);
	ocp_ctx_free(o->ctx);
	fixture_free(&o->fixture);
}

TEST(headers_are_those_of_the_file)
{
	static const char *const names[] = { "v1", "v1-nopie" };

	for (size_t i = 0; i < 2; i++) {
		struct opened o = open_fixture(names[i]);

		assert_string_equal(elf_file_name(o.elf), names[i]);
		assert_int_equal(elf_file_is_relocatable(o.elf), i == 0);
		close_fixture(&o);
	}
}

TEST(segments_are_the_loaded_ones)
{
	struct opened o = open_fixture("v1");
	size_t n, seen = 0;
	const struct elf_segment *segs = elf_file_segments(o.elf, &n);

	for (size_t i = 0; i < fixture_ehdr(&o.fixture)->e_phnum; i++) {
		const Elf64_Phdr *ph = fixture_phdr(&o.fixture, i);

		if (ph->p_type != PT_LOAD)
			continue;
		assert_true(seen < n);
		assert_int_equal(segs[seen].off, ph->p_offset);
		assert_int_equal(segs[seen].va, ph->p_vaddr);
		assert_int_equal(segs[seen].file_bytes, ph->p_filesz);
		assert_int_equal(segs[seen].mem_bytes, ph->p_memsz);
		assert_int_equal(segs[seen].readable, (ph->p_flags & PF_R) != 0);
		assert_int_equal(segs[seen].writable, (ph->p_flags & PF_W) != 0);
		assert_int_equal(segs[seen].executable, (ph->p_flags & PF_X) != 0);
		seen++;
	}
	assert_int_equal(seen, n);
	assert_true(n >= 4);
	close_fixture(&o);
}

TEST(addresses_at_a_segments_edges)
{
	struct opened o = open_fixture("v1");
	size_t n;
	const struct elf_segment *segs = elf_file_segments(o.elf, &n), *last = &segs[n - 1];
	uint64_t end = last->va + last->mem_bytes, file_end = last->va + last->file_bytes, off;

	assert_ptr_equal(elf_file_segment_of(o.elf, last->va, 1), last);
	assert_ptr_equal(elf_file_segment_of(o.elf, last->va, last->mem_bytes), last);
	assert_ptr_equal(elf_file_segment_of(o.elf, end - 2, 2), last);
	assert_null(elf_file_segment_of(o.elf, last->va, last->mem_bytes + 1));
	assert_null(elf_file_segment_of(o.elf, end - 1, 2));
	assert_null(elf_file_segment_of(o.elf, end, 1));
	assert_null(elf_file_segment_of(o.elf, UINT64_MAX, 2));
	assert_null(elf_file_segment_of(o.elf, 0, UINT64_MAX));

	assert_true(elf_file_va_to_off(o.elf, last->va, &off));
	assert_int_equal(off, last->off);
	assert_true(elf_file_va_to_off(o.elf, file_end - 1, &off));
	assert_int_equal(off, last->off + last->file_bytes - 1);
	assert_true(last->mem_bytes > last->file_bytes); /* it ends in .bss */
	assert_false(elf_file_va_to_off(o.elf, file_end, &off));
	assert_false(elf_file_va_to_off(o.elf, UINT64_MAX, &off));
	close_fixture(&o);
}

TEST(sections_are_found_by_name_and_type)
{
	struct opened o = open_fixture("v1-stripped");
	const Elf64_Shdr *sh = fixture_section(&o.fixture, ".note.stapsdt");
	struct elf_section section;
	uint8_t *bytes;

	assert_int_equal(elf_file_find_section(o.elf, ".note.stapsdt", SHT_NOTE, &section), 1);
	assert_int_equal(section.off, sh->sh_offset);
	assert_int_equal(section.bytes, sh->sh_size);
	assert_int_equal(section.type, SHT_NOTE);
	assert_int_equal(elf_file_read_section(o.elf, &section, section.bytes, &bytes), 0);
	assert_memory_equal(bytes, o.fixture.bytes + sh->sh_offset, sh->sh_size);
	free(bytes);
	assert_int_equal(elf_file_read_section(o.elf, &section, section.bytes - 1, &bytes),
			 -EBADMSG);
	assert_null(bytes);

	assert_int_equal(elf_file_find_section(o.elf, ".probes", SHT_PROGBITS, &section), 1);
	assert_int_equal(section.va, fixture_section(&o.fixture, ".probes")->sh_addr);
	assert_int_equal(elf_file_find_section(o.elf, ".probes", SHT_NOTE, &section), 0);
	assert_int_equal(elf_file_find_section(o.elf, ".probe", SHT_PROGBITS, &section), 0);
	assert_int_equal(elf_file_find_section(o.elf, ".bss", SHT_NOBITS, &section), 1);
	assert_int_equal(elf_file_read_section(o.elf, &section, 1 << 20, &bytes), -EBADMSG);
	close_fixture(&o);
}

TEST(a_file_without_sections_has_none)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog;
	struct fixture fixture;

	fixture_load(&fixture, "v1");
	fixture_ehdr(&fixture)->e_shoff = 0;
	fixture_ehdr(&fixture)->e_shnum = 0;
	fixture_ehdr(&fixture)->e_shstrndx = SHN_UNDEF;
	assert_int_equal(fixture_open(&fixture, ctx, &prog), 0);
	assert_int_equal(ocp_program_probe_count(prog), 0);
	ocp_program_free(prog);
	fixture_free(&fixture);
	ocp_ctx_free(ctx);
}

/* More than 65 279 sections: their number and the name table's index are in section 0. */
TEST(extended_numbering_is_understood)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *plain, *prog;
	struct fixture fixture;

	fixture_load(&fixture, "v1");
	assert_int_equal(fixture_open(&fixture, ctx, &plain), 0);
	fixture_shdr(&fixture, 0)->sh_size = fixture_ehdr(&fixture)->e_shnum;
	fixture_shdr(&fixture, 0)->sh_link = fixture_ehdr(&fixture)->e_shstrndx;
	fixture_ehdr(&fixture)->e_shnum = 0;
	fixture_ehdr(&fixture)->e_shstrndx = SHN_XINDEX;
	assert_int_equal(fixture_open(&fixture, ctx, &prog), 0);
	assert_int_equal(prog->n_sites, plain->n_sites);
	ocp_program_free(plain);
	ocp_program_free(prog);
	fixture_free(&fixture);
	ocp_ctx_free(ctx);
}
