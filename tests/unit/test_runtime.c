// SPDX-License-Identifier: MIT
/*
 * Which OCaml runtime a file contains: files made of the few things that tell it, and spoilt ones.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "code/gc_phases.h"
#include "code/runtime.h"
#include "elf/symbols.h"
#include "made_elf.h"
#include "unit.h"

enum {
	/* In the code: functions of 0x40 bytes. */
	MINOR_WORDS = 0x100,
	HEAP_SIZE = 0x140,
	INIT_DOMAINS = 0x180,
	ORPHANED_WORDS = 0x1c0,
	ORPHANED_HEAP = 0x200,
	OPPORTUNISTIC = 0x240,
	HANDLE_INTERRUPTS = 0x280,
	FUNCTION_BYTES = 0x40,
	/* In the data. */
	SYS = 0x100,
	SYS_BYTES = 0x80,
	/* In .bss. */
	BSS = MADE_DATA_VA + MADE_BYTES,
	ALL_DOMAINS = BSS + 0x40,
	POOL_FREELIST = BSS + 0x100,
	ORPHANED = BSS + 0x200,
	ORPHAN_LOCK = ORPHANED + 32,
};

/* What is found in a file. */
struct found {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	int fd, err;
	struct runtime runtime;
	struct gc_phase_place phases[N_GC_PHASES];
};

static struct found find(const struct made_elf *made)
{
	struct found found = { .ctx = ocp_ctx_new(), .fd = made_fd(made) };

	assert_non_null(found.ctx);
	assert_int_equal(elf_file_open(found.ctx, found.fd, "made", &found.elf), 0);
	found.err = runtime_recognise(found.ctx, found.elf, &found.runtime);
	if (!found.err)
		assert_int_equal(gc_phases_find(found.ctx, found.elf, &found.runtime, found.phases),
				 0);
	return found;
}

static void found_free(struct found *found)
{
	elf_file_close(found->elf);
	close(found->fd);
	ocp_ctx_free(found->ctx);
}

static void expect_error(const struct made_elf *made, int err, const char *message)
{
	struct found found = find(made);

	assert_int_equal(found.err, err);
	assert_string_equal(ocp_error(found.ctx), message);
	found_free(&found);
}

static void function(struct made_elf *made, const char *name, uint64_t off, bool is_local)
{
	made_symbol(made, name, MADE_CODE_VA + off, FUNCTION_BYTES, is_local);
}

static void put_32(struct made_elf *made, size_t at, uint32_t value)
{
	memcpy(made->code + at, &value, sizeof(value));
}

/* A string of OCaml's at OFF of the data, of WORDS words. */
static void put_string(struct made_elf *made, size_t off, const char *text, size_t words)
{
	const uint64_t header = words << 10 | 0x300 | 252;

	memset(made->data + off, 0, 8 * (words + 1));
	memcpy(made->data + off, &header, sizeof(header));
	memcpy(made->data + off + 8, text, strlen(text));
	made->data[off + 7 + 8 * words] = (uint8_t)(8 * words - 1 - strlen(text));
}

static void put_version(struct made_elf *made, const char *version)
{
	put_string(made, SYS + 0x10, "Stdlib.Sys.Break", 3);
	put_string(made, SYS + 0x40, version, strlen(version) / 8 + 1);
}

static struct made_elf made_4(const char *version)
{
	struct made_elf made = { 0 };

	made_symbol(&made, "caml_frametable", MADE_DATA_VA, 8, false);
	made_symbol(&made, "Caml_state", BSS, 8, false);
	made_symbol(&made, "caml_allocated_words", BSS + 8, 8, false);
	made_symbol(&made, "caml_do_exit", MADE_CODE_VA, 16, false);
	function(&made, "caml_gc_minor_words_unboxed", MINOR_WORDS, false);
	put_32(&made, MINOR_WORDS + 0x20, 296);
	if (version) {
		made_symbol(&made, "camlStdlib__Sys__data_begin", MADE_DATA_VA + SYS, 0, false);
		made_symbol(&made, "camlStdlib__Sys__data_end", MADE_DATA_VA + SYS + SYS_BYTES, 0,
			    false);
		put_version(&made, version);
	}
	function(&made, "caml_empty_minor_heap", 0x400, false);
	function(&made, "caml_final_update_minor_roots", 0x440, false);
	function(&made, "caml_major_collection_slice", 0x480, false);
	function(&made, "caml_final_update_clean_phase", 0x4c0, false);
	function(&made, "caml_compact_heap", 0x500, false);
	function(&made, "caml_shrink_mark_stack", 0x540, false);
	return made;
}

static struct made_elf made_5(const char *version)
{
	struct made_elf made = { 0 };

	made_symbol(&made, "caml_frametable", MADE_DATA_VA, 8, false);
	made_symbol(&made, "caml_domain_spawn", MADE_CODE_VA, 16, false);
	made_symbol(&made, "caml_minor_collections_count", BSS, 8, false);
	made_symbol(&made, "caml_major_cycles_completed", BSS + 8, 8, false);
	made_symbol(&made, "caml_compactions_count", BSS + 16, 8, false);
	made_symbol(&made, "all_domains", ALL_DOMAINS, 8, true);
	made_symbol(&made, "orphaned_alloc_stats", ORPHANED, 32, true);
	made_symbol(&made, "pool_freelist", POOL_FREELIST, 200, true);
	made_symbol(&made, "camlStdlib__Sys.data_begin", MADE_DATA_VA + SYS, 0, false);
	made_symbol(&made, "camlStdlib__Sys.data_end", MADE_DATA_VA + SYS + SYS_BYTES, 0, false);
	put_version(&made, version);
	function(&made, "caml_heap_size", HEAP_SIZE, false);
	/* mov 1056(%rdi), %rax; add 1096(%rdi), %rax */
	memcpy(made.code + HEAP_SIZE, (const uint8_t[]){ 0x48, 0x8b, 0x87 }, 3);
	put_32(&made, HEAP_SIZE + 3, 1056);
	memcpy(made.code + HEAP_SIZE + 7, (const uint8_t[]){ 0x48, 0x03, 0x87 }, 3);
	put_32(&made, HEAP_SIZE + 10, 1096);
	function(&made, "caml_init_domains", INIT_DOMAINS, false);
	made_distance(&made, INIT_DOMAINS + 7, ALL_DOMAINS);
	made_distance(&made, INIT_DOMAINS + 0x10, BSS + 0x80);
	made_distance(&made, INIT_DOMAINS + 0x20, ALL_DOMAINS);
	/* Locks, takes the four members, unlocks. */
	function(&made, "caml_accum_orphan_alloc_stats", ORPHANED_WORDS, false);
	made.code[ORPHANED_WORDS + 2] = 0x8d;
	made_distance(&made, ORPHANED_WORDS + 4, ORPHAN_LOCK);
	for (size_t i = 0; i < 4; i++)
		made_distance(&made, ORPHANED_WORDS + 0x10 + 8 * i, ORPHANED + 8 * i);
	function(&made, "caml_accum_orphan_heap_stats", ORPHANED_HEAP, false);
	made_distance(&made, ORPHANED_HEAP + 4, POOL_FREELIST);
	made_distance(&made, ORPHANED_HEAP + 0x14, POOL_FREELIST + 48);
	function(&made, "caml_empty_minor_heap_promote", 0x400, false);
	function(&made, "major_collection_slice", 0x440, true);
	function(&made, "caml_opportunistic_major_collection_slice", OPPORTUNISTIC, false);
	made.code[OPPORTUNISTIC + FUNCTION_BYTES - 5] = 0xe9;
	made_distance(&made, OPPORTUNISTIC + FUNCTION_BYTES - 4, MADE_CODE_VA + 0x440);
	function(&made, "caml_cycle_heap_from_stw_single", 0x480, false);
	function(&made, "caml_compact_heap", 0x4c0, false);
	function(&made, "caml_try_run_on_all_domains_with_spin_work", 0x500, false);
	function(&made, "handle_incoming", 0x540, true);
	function(&made, "caml_handle_incoming_interrupts", HANDLE_INTERRUPTS, false);
	made.code[HANDLE_INTERRUPTS + FUNCTION_BYTES - 5] = 0xe9;
	made_distance(&made, HANDLE_INTERRUPTS + FUNCTION_BYTES - 4, MADE_CODE_VA + 0x540);
	return made;
}

static void expect_phase(const struct found *found, const char *name, uint64_t timed,
			 uint64_t counted)
{
	for (size_t i = 0; i < N_GC_PHASES; i++) {
		const struct gc_phase_place *place = &found->phases[i];

		if (strcmp(place->name, name) != 0)
			continue;
		assert_int_equal(gc_phase_check(found->ctx, found->elf, &found->runtime, place), 0);
		assert_int_equal(place->timed_vas[0], timed ? MADE_CODE_VA + timed : 0);
		assert_int_equal(place->counted_va, counted ? MADE_CODE_VA + counted : 0);
		return;
	}
	fail_msg("no phase %s", name);
}

TEST(versions_4)
{
	static const char *const versions[] = { "4.13.1", "4.14.1", "4.14.2+flambda" };

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		for (int stripped = 0; stripped < 2; stripped++) {
			struct made_elf made = made_4(versions[i]);
			struct found found;

			made.is_stripped = stripped;
			found = find(&made);
			assert_int_equal(found.err, 0);
			assert_string_equal(found.runtime.version, versions[i]);
			assert_int_equal(found.runtime.is_stripped, stripped);
			assert_false(found.runtime.has_domains);
			assert_int_equal(found.runtime.facts.at[FACT_MINOR_WORDS], 296);
			assert_int_equal(found.runtime.places.caml_state, BSS);
			assert_int_equal(found.runtime.places.allocated_words, BSS + 8);
			expect_phase(&found, "gc:minor", 0x400, 0x440);
			expect_phase(&found, "gc:major_slice", 0x480, 0);
			expect_phase(&found, "gc:major_cycle", 0, 0x4c0);
			expect_phase(&found, "gc:compact", 0x500, 0x540);
			assert_int_equal(gc_phase_check(found.ctx, found.elf, &found.runtime,
							&found.phases[N_GC_PHASES - 1]),
					 -ENOENT);
			found_free(&found);
		}
}

/* The structures of both versions are the same. */
TEST(a_program_without_sys)
{
	struct made_elf made = made_4(NULL);
	struct found found = find(&made);

	assert_int_equal(found.err, 0);
	assert_string_equal(found.runtime.version, "4.13 or 4.14");
	expect_phase(&found, "gc:minor", 0x400, 0x440);
	found_free(&found);
	made_symbol_change(&made, "caml_do_exit", 0, 0);
	expect_error(&made, -EPROTONOSUPPORT,
		     "made: contains the runtime of OCaml 4, whose minor version is unknown: "
		     "Stdlib.Sys is not linked in (known: 4.13, 4.14, 5)");
}

static void expect_5(const struct found *found)
{
	const struct runtime_places *places = &found->runtime.places;

	assert_int_equal(found->err, 0);
	assert_string_equal(found->runtime.version, "5.3.0");
	assert_true(found->runtime.has_domains);
	assert_int_equal(found->runtime.facts.at[FACT_HEAP_OWNER], 1048);
	assert_int_equal(places->minor_collections, BSS);
	assert_int_equal(places->major_collections, BSS + 8);
	assert_int_equal(places->compactions, BSS + 16);
	assert_int_equal(places->domains[0], ALL_DOMAINS);
	assert_int_equal(places->orphaned_words, ORPHANED);
	assert_int_equal(places->orphaned_heap, POOL_FREELIST + 48);
	expect_phase(found, "gc:minor", 0x400, 0);
	expect_phase(found, "gc:major_slice", 0x440, 0);
	expect_phase(found, "gc:major_cycle", 0, 0x480);
	expect_phase(found, "gc:compact", 0x4c0, 0);
	expect_phase(found, "gc:stw", 0x500, 0);
	assert_int_equal(found->phases[4].timed_vas[1], MADE_CODE_VA + 0x540);
}

/* The local symbols are gone: the code that uses the variables tells where they are. */
TEST(version_5)
{
	struct made_elf made = made_5("5.3.0");
	struct found found = find(&made);

	expect_5(&found);
	assert_int_equal(found.runtime.places.n_domains, 1);
	found_free(&found);
	made.is_stripped = true;
	found = find(&made);
	expect_5(&found);
	assert_int_equal(found.runtime.places.n_domains, 2);
	found_free(&found);
}

/* A symbol of which there are two is none. */
TEST(ambiguous_symbols)
{
	struct made_elf made = made_5("5.3.0");
	struct found found;

	made_symbol(&made, "all_domains", BSS + 0x300, 8, true);
	made_symbol(&made, "major_collection_slice", MADE_CODE_VA + 0x700, 8, true);
	found = find(&made);
	expect_5(&found);
	assert_int_equal(found.runtime.places.n_domains, 2);
	found_free(&found);
	/* A global one precedes it, wherever it is in the list. */
	made_symbol(&made, "all_domains", ALL_DOMAINS, 8, false);
	found = find(&made);
	expect_5(&found);
	assert_int_equal(found.runtime.places.n_domains, 1);
	found_free(&found);
}

TEST(a_stripped_file_without_the_jump)
{
	struct made_elf made = made_5("5.3.0");
	struct found found;

	made.is_stripped = true;
	made.code[OPPORTUNISTIC + FUNCTION_BYTES - 5] = 0xe8;
	found = find(&made);
	assert_int_equal(found.err, 0);
	assert_int_equal(gc_phase_check(found.ctx, found.elf, &found.runtime, &found.phases[1]),
			 -ENODATA);
	assert_string_equal(ocp_error(found.ctx),
			    "made: gc:major_slice cannot be measured: the file "
			    "has no symbol major_collection_slice (it is stripped)");
	found_free(&found);
	/* A jump that leads out of the code. */
	made.code[OPPORTUNISTIC + FUNCTION_BYTES - 5] = 0xe9;
	made_distance(&made, OPPORTUNISTIC + FUNCTION_BYTES - 4, MADE_DATA_VA);
	found = find(&made);
	assert_string_equal(found.phases[1].missing, "major_collection_slice");
	found_free(&found);
}

/* Words in a row that are not all there are not taken for the statistics. */
TEST(unclear_statistics)
{
	struct made_elf made = made_5("5.3.0");
	struct found found;

	made.is_stripped = true;
	made_distance(&made, ORPHANED_WORDS + 0x18, ORPHANED);
	made_distance(&made, ORPHANED_HEAP + 0x14, POOL_FREELIST + 56);
	found = find(&made);
	assert_int_equal(found.err, 0);
	assert_int_equal(found.runtime.places.orphaned_words, 0);
	assert_int_equal(found.runtime.places.orphaned_heap, 0);
	found_free(&found);
}

TEST(unknown_versions)
{
	static const char *const versions[] = { "4.12.1", "4.15.0", "4.9.0" };

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		const struct made_elf made = made_4(versions[i]);
		char message[256];

		snprintf(message, sizeof(message),
			 "made: contains the runtime of OCaml %s, which is not known (known: 4.13, "
			 "4.14, 5)",
			 versions[i]);
		expect_error(&made, -EPROTONOSUPPORT, message);
	}
}

/* Of OCaml 5, the code shows what is needed; what depends on the version is refused. */
TEST(a_program_without_sys_5)
{
	struct made_elf made = made_5("5.3.0");
	struct found found;

	made_symbol_change(&made, "camlStdlib__Sys.data_begin", 0, 0);
	found = find(&made);
	assert_int_equal(found.err, 0);
	assert_string_equal(found.runtime.version, "5");
	assert_int_equal(found.runtime.facts.at[FACT_HEAP_OWNER], 1048);
	assert_int_equal(gc_phase_check(found.ctx, found.elf, &found.runtime, &found.phases[2]),
			 -ENODATA);
	assert_string_equal(ocp_error(found.ctx), "made: gc:major_cycle cannot be measured: it is "
						  "not known in OCaml 5");
	found_free(&found);
}

/* Before 4.13, the module Sys has another symbol. */
TEST(an_old_version)
{
	struct made_elf made = made_4(NULL);

	made_symbol(&made, "camlStdlib__sys__data_begin", MADE_DATA_VA + SYS, 0, false);
	made_symbol(&made, "camlStdlib__sys__data_end", MADE_DATA_VA + SYS + SYS_BYTES, 0, false);
	put_version(&made, "4.11.2");
	expect_error(&made, -EPROTONOSUPPORT,
		     "made: contains the runtime of OCaml 4.11.2, which is not known (known: 4.13, "
		     "4.14, 5)");
}

/* A derived compiler has other structures. */
TEST(changed_structures)
{
	struct made_elf made = made_4("4.14.1+x");
	struct found found = find(&made);

	assert_int_equal(found.err, 0);
	found_free(&found);
	put_32(&made, MINOR_WORDS + 0x20, 392);
	expect_error(&made, -EPROTONOSUPPORT,
		     "made: contains the runtime of OCaml 4.14.1+x, changed: its structures are "
		     "not known (known: 4.13, 4.14, 5)");
}

TEST(no_runtime)
{
	struct made_elf made = made_4("4.13.1");

	made_symbol(&made, "caml_startup_code", MADE_CODE_VA, 16, false);
	expect_error(&made, -ENODATA, "made: runs OCaml bytecode, not native code");
	made = made_4("4.13.1");
	/* The end of a longer name is another name. */
	made_symbol_change(&made, "caml_frametable", 0, 0);
	made_symbol(&made, "not_caml_frametable", MADE_DATA_VA, 8, false);
	expect_error(&made, -ENODATA, "made: not an OCaml program: it contains no OCaml runtime");
	made.is_stripped = true;
	expect_error(&made, -ENODATA, "made: not an OCaml program: it contains no OCaml runtime");
}

/* Data that are no version: the program is taken for one that does not tell it. */
static void expect_no_version(const struct made_elf *made)
{
	struct found found = find(made);

	assert_int_equal(found.err, 0);
	assert_string_equal(found.runtime.version, "4.13 or 4.14");
	found_free(&found);
}

TEST(spoilt_versions)
{
	static const char *const versions[] = { "4.13",	       "4.13.1\n",
						"4.13.1+a\nb", "x4.13.1",
						"4..1",	       "4.13.1x",
						"-4.13.1",     "4.13.1+aaaaaaaaaaaaaaaaaaaaaaaaa" };
	struct made_elf made;
	uint64_t header;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		made = made_4("4.13.1");
		put_string(&made, SYS + 0x40, versions[i], strlen(versions[i]) / 8 + 1);
		expect_no_version(&made);
	}
	/* A header that claims more than there is; a string that ends outside of its words. */
	made = made_4("4.13.1");
	for (header = 252 | UINT64_C(0x3fffff) << 40; header; header <<= 8) {
		memcpy(made.data + SYS + 0x40, &header, sizeof(header));
		expect_no_version(&made);
	}
	made = made_4("4.13.1");
	made.data[SYS + 0x40 + 15] = 0xff;
	expect_no_version(&made);
	/* Data that end before they begin, that are huge, or that are not in the file. */
	made = made_4("4.13.1");
	made_symbol_change(&made, "camlStdlib__Sys__data_end", MADE_DATA_VA, 0);
	expect_no_version(&made);
	made_symbol_change(&made, "camlStdlib__Sys__data_end", UINT64_MAX, 0);
	expect_no_version(&made);
	made_symbol_change(&made, "camlStdlib__Sys__data_begin", BSS, 0);
	made_symbol_change(&made, "camlStdlib__Sys__data_end", BSS + 0x100, 0);
	expect_no_version(&made);
}

/* Functions without an end, and functions that are no code of the file. */
TEST(spoilt_functions)
{
	static const uint64_t sizes[] = { 0, 1, 3, 0x10000, UINT64_MAX };
	struct made_elf made;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		static const char *const names[] = { "caml_init_domains",
						     "caml_accum_orphan_alloc_stats",
						     "caml_accum_orphan_heap_stats",
						     "caml_opportunistic_major_collection_slice" };
		struct found found;

		made = made_5("5.3.0");
		made.is_stripped = true;
		for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++)
			made_symbol_change(&made, names[j], MADE_CODE_VA + 0x180, sizes[i]);
		found = find(&made);
		assert_int_equal(found.err, 0);
		assert_int_equal(found.runtime.places.n_domains, 0);
		assert_int_equal(found.runtime.places.orphaned_words, 0);
		assert_string_equal(found.phases[1].missing, "major_collection_slice");
		found_free(&found);
		made = made_5("5.3.0");
		made_symbol_change(&made, "caml_heap_size", UINT64_MAX - 1, sizes[i]);
		found = find(&made);
		assert_int_equal(found.err, 0);
		assert_int_equal(found.runtime.facts.at[FACT_HEAP_OWNER], 0);
		found_free(&found);
		made = made_4("4.14.1");
		made_symbol_change(&made, "caml_gc_minor_words_unboxed", UINT64_MAX - 1, sizes[i]);
		found = find(&made);
		assert_int_equal(found.err, -EPROTONOSUPPORT);
		found_free(&found);
	}
}

/* ---- symbol tables by themselves ------------------------------------------------------------ */

struct asked {
	struct ocp_ctx *ctx;
	struct named_symbol symbols[2];
	bool is_stripped;
};

static int ask(int fd, struct asked *asked)
{
	struct elf_file *elf;
	int err;

	*asked = (struct asked){ .ctx = ocp_ctx_new(),
				 .symbols = { { .name = "wanted" }, { .name = "other" } } };
	assert_int_equal(elf_file_open(asked->ctx, fd, "made", &elf), 0);
	err = named_symbols_find(asked->ctx, elf, asked->symbols, 2, &asked->is_stripped);
	elf_file_close(elf);
	return err;
}

static void expect_damage(int fd, const char *reason)
{
	struct asked asked;

	assert_int_equal(ask(fd, &asked), -EBADMSG);
	if (!strstr(ocp_error(asked.ctx), reason))
		fail_msg("expected \"%s\", the error is: %s", reason, ocp_error(asked.ctx));
	ocp_ctx_free(asked.ctx);
}

TEST(damaged_tables)
{
	static const uint64_t sizes[] = { UINT64_MAX, UINT64_C(1) << 62, UINT64_C(1) << 32,
					  0x10000 };
	struct made_elf made = { 0 };
	struct asked asked;
	int fd;

	made_symbol(&made, "wanted", MADE_CODE_VA, 8, false);
	fd = made_fd(&made);
	assert_int_equal(ask(fd, &asked), 0);
	assert_true(asked.symbols[0].is_defined);
	assert_false(asked.symbols[1].is_defined);
	ocp_ctx_free(asked.ctx);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		made_section_change(fd, 1, MADE_TABLE_OFF, sizes[i]);
		expect_damage(fd, "made: ");
		close(fd);
		fd = made_fd(&made);
		made_section_change(fd, 2, 0x5000, sizes[i]);
		expect_damage(fd, "made: ");
		close(fd);
		fd = made_fd(&made);
	}
	made_section_change(fd, 1, UINT64_MAX - 8, 48);
	expect_damage(fd, "made: ");
	close(fd);
}

/* The names are searched for in pieces of 256 KiB. */
TEST(a_name_on_the_border_of_pieces)
{
	static char strings[2 * 262144];
	const off_t at = 0x8000;
	struct made_elf made = { 0 };
	Elf64_Sym symbol = { .st_shndx = 1, .st_value = MADE_CODE_VA, .st_size = 8 };

	for (size_t shift = 0; shift < 9; shift++) {
		const int fd = made_fd(&made);
		struct asked asked;

		memset(strings, 0, sizeof(strings));
		symbol.st_name = (Elf64_Word)(262144 - shift);
		strcpy(strings + symbol.st_name, "wanted");
		assert_int_equal(pwrite(fd, strings, sizeof(strings), at), sizeof(strings));
		assert_int_equal(pwrite(fd, &symbol, sizeof(symbol), MADE_TABLE_OFF),
				 sizeof(symbol));
		made_section_change(fd, 2, (uint64_t)at, sizeof(strings));
		assert_int_equal(ask(fd, &asked), 0);
		assert_true(asked.symbols[0].is_defined);
		ocp_ctx_free(asked.ctx);
		close(fd);
	}
}

TEST(a_name_without_an_end_of_places)
{
	enum { COPIES = 20000, NAME_BYTES = sizeof("wanted") };
	static char strings[COPIES * NAME_BYTES];
	struct made_elf made = { 0 };
	const int fd = made_fd(&made);

	for (size_t i = 0; i < COPIES; i++)
		memcpy(strings + i * NAME_BYTES, "wanted", NAME_BYTES);
	assert_int_equal(pwrite(fd, strings, sizeof(strings), 0x8000), sizeof(strings));
	made_section_change(fd, 2, 0x8000, sizeof(strings));
	expect_damage(fd, "repeats 'wanted' too often");
	close(fd);
}
