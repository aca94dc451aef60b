// SPDX-License-Identifier: MIT
/*
 * Probes of files that were not post-linked: which bytes are sites, which byte of each is switched,
 * what is refused, and what files that lie come to.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program/dormant/x86_site.h"
#include "fixture.h"
#include "process/site_form.h"
#include "unit.h"

static const char *const FIXTURES[] = { "binaries/dormant", "binaries/dormant-pie" };

static struct ocp_program *open_fixture(struct ocp_ctx *ctx, const char *name)
{
	struct ocp_program *prog = NULL;
	struct fixture fixture;

	fixture_load(&fixture, name);
	assert_int_equal(fixture_open(&fixture, ctx, &prog), 0);
	fixture_free(&fixture);
	return prog;
}

TEST(sites_are_found)
{
	/* By probe, then by address; the last of `a` is its query. */
	static const struct {
		uint8_t first, n_bytes, opcode_at, off, on;
		bool has_code;
	} want[] = {
		{ 0x48, 13, 11, 0x75, 0x74, true }, { 0x48, 13, 11, 0x74, 0x75, true },
		{ 0, 0, 0, 0, 1, false },	    { 0x4c, 17, 12, 0x85, 0x84, true },
		{ 0x48, 17, 12, 0x84, 0x85, true }, { 0x48, 23, 21, 0x75, 0x74, true },
	};
	struct ocp_ctx *ctx = ocp_ctx_new();

	for (size_t f = 0; f < 2; f++) {
		struct ocp_program *prog = open_fixture(ctx, FIXTURES[f]);

		assert_int_equal(prog->n_probes, 3);
		assert_int_equal(ocp_program_probe_sites(prog, 0), 2);
		assert_int_equal(prog->n_sites, 6);
		for (size_t i = 0; i < prog->n_sites; i++) {
			const struct site *site = &prog->sites[i];

			assert_int_equal(site->abi, SITE_ABI_DORMANT);
			assert_int_equal(site->has_code, want[i].has_code);
			assert_int_equal(site->n_bytes, want[i].n_bytes);
			assert_int_equal(site->tracer_semaphore_va, 0);
			if (!site->has_code)
				continue;
			assert_int_equal(site->dormant->code[0], want[i].first);
			assert_int_equal(site->opcode_at, want[i].opcode_at);
			assert_int_equal(site->off_opcode, want[i].off);
			assert_int_equal(site->on_opcode, want[i].on);
		}
		/* The first marker is the sites', the query has its own. */
		assert_int_equal(prog->sites[0].semaphore_va, prog->sites[1].semaphore_va);
		assert_int_not_equal(prog->sites[2].semaphore_va, prog->sites[0].semaphore_va);
		assert_string_equal(prog->sites[0].args,
				    "8@$7 8@%rcx 8f@%xmm0 8@16(%rdi) 8@8(%rsp)");
		assert_string_equal(prog->sites[1].args, "");
		ocp_program_free(prog);
	}
	ocp_ctx_free(ctx);
}

/* The switched byte turns one condition into its opposite and the handler's place stays. */
TEST(a_switched_site_matches_inverted)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog = open_fixture(ctx, FIXTURES[0]);

	for (size_t i = 0; i < prog->n_sites; i++) {
		const struct site *site = &prog->sites[i];
		uint8_t bytes[1024] = { 0 };
		struct x86_code code = { bytes, sizeof(bytes), site->va };
		struct x86_site off, on;
		struct x86_load load;

		if (!site->has_code)
			continue;
		memcpy(bytes, site->dormant->code, site->n_bytes);
		assert_true(x86_decode_load(&code, 0, &load));
		assert_null(x86_match_site(&code, 0, &load, &off));
		bytes[site->opcode_at] = site->on_opcode;
		assert_null(x86_match_site(&code, 0, &load, &on));
		assert_int_equal(off.n_bytes, on.n_bytes);
		assert_int_equal(off.jump, on.jump);
		assert_int_not_equal(off.is_inverted, on.is_inverted);
	}
	ocp_program_free(prog);
	ocp_ctx_free(ctx);
}

/* With every byte changed to every other value: what is still a site is on, off or held. */
TEST(every_change_is_seen)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog = open_fixture(ctx, FIXTURES[1]);

	for (size_t i = 0; i < prog->n_sites; i++) {
		const struct site *site = &prog->sites[i];
		uint8_t code[UINT8_MAX];

		for (size_t at = 0; at < site->n_bytes; at++) {
			memcpy(code, site->dormant->code, site->n_bytes);
			for (unsigned int byte = 0; byte < 256; byte++) {
				enum site_form form, want = SITE_FORM_CHANGED;

				code[at] = (uint8_t)byte;
				form = site_form(prog->elf, site, code);
				if (at == site->opcode_at)
					want = byte == site->on_opcode ? SITE_FORM_ON
					       : byte == SITE_INT3     ? SITE_FORM_BREAKPOINT
								       : SITE_FORM_OPCODE;
				if (byte == site->dormant->code[at] ||
				    (at == 0 && byte == SITE_INT3))
					want = SITE_FORM_OFF;
				assert_int_equal(form, want);
				assert_int_equal(site_form_is_sound(form),
						 form == SITE_FORM_OFF || form == SITE_FORM_ON);
			}
		}
	}
	ocp_program_free(prog);
	ocp_ctx_free(ctx);
}

/* ---- files that lie ------------------------------------------------------------------------- */

static int open_spoilt(const struct fixture *fixture, size_t *n_sites)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog = NULL;
	int err = fixture_open(fixture, ctx, &prog);

	if (err)
		assert_memory_equal(ocp_error(ctx), "spoilt: ", 8);
	*n_sites = err ? 0 : prog->n_sites;
	ocp_program_free(prog);
	ocp_ctx_free(ctx);
	return err;
}

/* Sections that do not lie where the loader puts their bytes are not gone by. */
TEST(sections_must_agree_with_segments)
{
	static const char *const sections[] = { ".text", ".data" };
	struct fixture f;
	size_t n;

	for (size_t i = 0; i < 2; i++) {
		fixture_load(&f, FIXTURES[1]);
		fixture_section(&f, sections[i])->sh_addr += 0x1000;
		assert_int_equal(open_spoilt(&f, &n), 0);
		assert_int_equal(n, 0);
		fixture_section(&f, sections[i])->sh_addr -= 0x1000;
		fixture_section(&f, sections[i])->sh_size = UINT64_MAX - 7;
		assert_int_equal(open_spoilt(&f, &n), 0);
		assert_int_equal(n, 0);
		fixture_free(&f);
	}
}

TEST(relocations_beyond_the_end)
{
	struct fixture f;
	size_t n;

	fixture_load(&f, FIXTURES[0]);
	fixture_section(&f, ".shstrtab")->sh_type = SHT_RELA;
	fixture_section(&f, ".shstrtab")->sh_flags = SHF_ALLOC;
	fixture_section(&f, ".shstrtab")->sh_size = f.n;
	assert_int_equal(open_spoilt(&f, &n), -EBADMSG);
	fixture_free(&f);
}

/* A file as large as it likes to claim, with as many sections. */
TEST(claims_are_not_believed)
{
	enum { MANY = 20000 };
	struct fixture f;
	Elf64_Shdr text, *headers;
	uint64_t off;
	size_t n;

	fixture_load(&f, FIXTURES[0]);
	text = *fixture_section(&f, ".text");
	headers = calloc(MANY, sizeof(*headers));
	assert_non_null(headers);
	memcpy(headers, fixture_shdr(&f, 0), fixture_ehdr(&f)->e_shnum * sizeof(*headers));
	for (size_t i = fixture_ehdr(&f)->e_shnum; i < MANY; i++)
		headers[i] = text;
	off = fixture_append(&f, headers, MANY * sizeof(*headers));
	fixture_ehdr(&f)->e_shoff = off;
	fixture_ehdr(&f)->e_shnum = MANY;
	assert_int_equal(open_spoilt(&f, &n), -EBADMSG);
	/* Below the limit: every site is seen many times; it is one as often, and no harm. */
	fixture_ehdr(&f)->e_shnum = 100;
	assert_int_equal(open_spoilt(&f, &n), 0);
	assert_true(n > 6);
	free(headers);
	fixture_free(&f);
}

/* The file cut off anywhere, and each of its bytes spoilt: an error or a consistent answer. */
TEST(cut_and_spoilt_files)
{
	struct fixture f;
	size_t n, whole, wrong = 0;

	fixture_load(&f, FIXTURES[1]);
	whole = f.n;
	for (f.n = 0; f.n < whole; f.n += 97)
		wrong += open_spoilt(&f, &n) != 0;
	assert_true(wrong > 0);
	f.n = whole;
	for (size_t at = 0; at < whole; at += 13) {
		f.bytes[at] ^= 0xff;
		open_spoilt(&f, &n);
		f.bytes[at] ^= 0xff;
	}
	assert_int_equal(open_spoilt(&f, &n), 0);
	assert_int_equal(n, 6);
	fixture_free(&f);
}
