// SPDX-License-Identifier: MIT
/* Frame tables that are made by hand: sound ones in both forms, and ones that lie. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "code/frametable.h"
#include "made_elf.h"
#include "unit.h"

/* Offsets in the data. */
enum {
	LIST = 0x10,
	TABLE = 0x100,
	FIRST = TABLE + 8, /* its descriptors */
	SECOND = FIRST + 16,
	SECOND_DEBUG = SECOND + 12,
	THIRD = SECOND + 16,
	THIRD_DEBUG = THIRD + 20, /* of its second length: the first one has none */
	FOURTH = THIRD + 24,
	DEBUG = 0x200,
	NAMES = 0x300,
	FILE_NAME = 0x380,
};

struct test {
	struct made_elf made;
	struct ocp_ctx *ctx;
	struct frametable *table;
};

static void put(struct test *test, uint64_t off, uint64_t value, size_t bytes)
{
	memcpy(test->made.data + off, &value, bytes);
}

static void put_entry(struct test *test, uint64_t off, uint64_t name_off, uint64_t place)
{
	put(test, off, place | (name_off - off), 8);
}

/* As to 5.1: line 97, columns 3 to 300. */
#define OLD_PLACE ((UINT64_C(97) << 44) | (UINT64_C(3) << 36) | (UINT64_C(300) << 26))

/*
 * A list of one table with four descriptors: without debug information, with it, with two
 * allocations of which one has it, and the end of a chunk.
 */
static int make(void **state)
{
	struct test *test = calloc(1, sizeof(*test));

	assert_non_null(test);
	test->ctx = ocp_ctx_new();
	made_symbol(&test->made, "caml_frametable", MADE_DATA_VA + LIST, 0, false);
	put(test, LIST, MADE_DATA_VA + TABLE, 8);
	put(test, TABLE, 4, 8);
	/* One live slot. The addresses descend, as OCaml writes them. */
	put(test, FIRST, MADE_CODE_VA + 0x40, 8);
	put(test, FIRST + 8, 32, 2);
	put(test, FIRST + 10, 1, 2);
	put(test, SECOND, MADE_CODE_VA + 0x30, 8);
	put(test, SECOND + 8, 48 | 1, 2);
	put(test, SECOND_DEBUG, DEBUG - SECOND_DEBUG, 4);
	put(test, THIRD, MADE_CODE_VA + 0x20, 8);
	put(test, THIRD + 8, 16 | 2 | 1, 2);
	put(test, THIRD + 12, 0x010102, 3);
	put(test, THIRD_DEBUG, DEBUG + 8 - THIRD_DEBUG, 4);
	put(test, FOURTH, MADE_CODE_VA + 0x10, 8);
	put(test, FOURTH + 8, 0xffff, 2);
	/* A function that is inlined into another. */
	put_entry(test, DEBUG, NAMES, OLD_PLACE | 1);
	put_entry(test, DEBUG + 8, NAMES + 0x40, (UINT64_C(600000) << 44) | 2);
	put(test, NAMES, FILE_NAME - NAMES, 4);
	strcpy((char *)test->made.data + NAMES + 4, "M.inner");
	put(test, NAMES + 0x40, FILE_NAME - NAMES - 0x40, 4);
	strcpy((char *)test->made.data + NAMES + 0x44, "M.outer");
	strcpy((char *)test->made.data + FILE_NAME, "m.ml");
	*state = test;
	return 0;
}

static int unmake(void **state)
{
	struct test *test = *state;

	frametable_free(test->table);
	ocp_ctx_free(test->ctx);
	free(test);
	return 0;
}

EACH_TEST(make, unmake);

static int read_it(struct test *test)
{
	const int fd = made_fd(&test->made);
	struct elf_file *elf;
	int err;

	frametable_free(test->table);
	test->table = NULL;
	assert_int_equal(elf_file_open(test->ctx, fd, "made", &elf), 0);
	err = frametable_read(test->ctx, elf, &test->table);
	elf_file_close(elf);
	close(fd);
	return err;
}

static void read_well(struct test *test)
{
	if (read_it(test))
		fail_msg("%s", ocp_error(test->ctx));
}

static void expect_error(struct test *test, int err, const char *reason)
{
	assert_int_equal(read_it(test), err);
	assert_null(test->table);
	if (!strstr(ocp_error(test->ctx), reason))
		fail_msg("expected \"%s\", the error is: %s", reason, ocp_error(test->ctx));
}

static size_t locate(struct test *test, uint64_t off, struct frame_location *locations, size_t room)
{
	const struct frame_descr *descr;

	read_well(test);
	descr = frametable_find(test->table, MADE_CODE_VA + off);
	assert_non_null(descr);
	return frametable_locations(test->table, descr, locations, room);
}

TEST(descriptors)
{
	struct test *test = *state;
	const struct frame_descr *list;
	size_t n;

	read_well(test);
	list = frametable_list(test->table, &n);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(list[i].va, MADE_CODE_VA + 0x10 * (i + 1));
		assert_ptr_equal(frametable_find(test->table, list[i].va), &list[i]);
		assert_null(frametable_find(test->table, list[i].va + 1));
		assert_int_equal(frametable_from(test->table, list[i].va - 1), i);
	}
	assert_true(list[0].is_chunk_end && !list[0].frame_bytes && !list[0].debuginfo_va);
	assert_int_equal(list[1].frame_bytes, 16);
	assert_int_equal(list[1].debuginfo_va, MADE_DATA_VA + DEBUG + 8);
	assert_int_equal(list[2].frame_bytes, 48);
	assert_int_equal(list[2].debuginfo_va, MADE_DATA_VA + DEBUG);
	assert_int_equal(list[3].frame_bytes, 32);
	assert_int_equal(list[3].debuginfo_va, 0);
	assert_int_equal(frametable_from(test->table, UINT64_MAX), 4);
	/* Of several allocations the first one that has debug information counts. */
	put(test, THIRD_DEBUG - 4, DEBUG - (THIRD_DEBUG - 4), 4);
	read_well(test);
	assert_int_equal(frametable_find(test->table, MADE_CODE_VA + 0x20)->debuginfo_va,
			 MADE_DATA_VA + DEBUG);
}

TEST(places)
{
	struct frame_location locations[2];
	struct test *test = *state;

	assert_int_equal(locate(test, 0x40, locations, 2), 0);
	assert_int_equal(locate(test, 0x20, locations, 2), 1);
	assert_string_equal(locations[0].function, "M.outer");
	assert_int_equal(locations[0].line, 600000);
	assert_true(locations[0].is_raise && !locations[0].is_inlined);
	assert_int_equal(locate(test, 0x30, locations, 2), 2);
	assert_string_equal(locations[0].function, "M.inner");
	assert_string_equal(locations[0].file, "m.ml");
	assert_int_equal(locations[0].line, 97);
	assert_int_equal(locations[0].end_line, 97);
	assert_int_equal(locations[0].start_col, 3);
	assert_int_equal(locations[0].end_col, 300);
	assert_int_equal(locations[0].end_char, 300);
	assert_true(locations[0].is_inlined && !locations[0].is_raise);
	assert_string_equal(locations[1].function, "M.outer");
	assert_int_equal(locate(test, 0x30, locations, 1), 1);
}

/* From 5.2 on: lines 97 to 99, columns 3 to 20; and with more room, columns 300 to 400. */
TEST(places_of_later_versions)
{
	struct frame_location locations[2];
	struct test *test = *state;

	put_entry(test, DEBUG, NAMES,
		  (UINT64_C(97) << 51) | (UINT64_C(2) << 48) | (UINT64_C(3) << 42) |
			  (UINT64_C(20) << 35) | (UINT64_C(90) << 26) | 1);
	put_entry(test, DEBUG + 8, NAMES + 0x40,
		  (UINT64_C(1) << 63) | (UINT64_C(5000) << 44) | (UINT64_C(2) << 26));
	put(test, NAMES + 0x44, 300 | 400 << 16 | UINT64_C(777) << 32, 8);
	strcpy((char *)test->made.data + NAMES + 0x4c, "M.outer");
	assert_int_equal(locate(test, 0x30, locations, 2), 2);
	assert_string_equal(locations[0].function, "M.inner");
	assert_int_equal(locations[0].line, 97);
	assert_int_equal(locations[0].end_line, 99);
	assert_int_equal(locations[0].start_col, 3);
	assert_int_equal(locations[0].end_col, 20);
	assert_int_equal(locations[0].end_char, 110);
	assert_string_equal(locations[1].function, "M.outer");
	assert_string_equal(locations[1].file, "m.ml");
	assert_int_equal(locations[1].line, 5000);
	assert_int_equal(locations[1].end_line, 5002);
	assert_int_equal(locations[1].start_col, 300);
	assert_int_equal(locations[1].end_col, 400);
	assert_int_equal(locations[1].end_char, 777);
}

/* A plugin has no list. Tables that stand there twice have their descriptors once. */
TEST(several_tables)
{
	struct test *test = *state;
	size_t n;

	put(test, LIST + 8, MADE_DATA_VA + TABLE, 8);
	read_well(test);
	frametable_list(test->table, &n);
	assert_int_equal(n, 4);
	made_symbol_change(&test->made, "caml_frametable", 0, 0);
	expect_error(test, -ENODATA, "has no OCaml frame tables");
	test->made.is_stripped = true;
	made_symbol(&test->made, "camlM__frametable", MADE_DATA_VA + TABLE, 0, false);
	read_well(test);
	frametable_list(test->table, &n);
	assert_int_equal(n, 4);
}

TEST(tables_that_lie)
{
	struct test *test = *state;

	for (uint64_t n = 5; n; n <<= 1) {
		put(test, TABLE, n, 8);
		assert_int_equal(read_it(test), -EBADMSG);
	}
	put(test, TABLE, UINT64_MAX, 8);
	expect_error(test, -EBADMSG, "claims more descriptors than the file has room for");
	put(test, TABLE, 4, 8);
	put(test, LIST, MADE_DATA_VA + TABLE + 4, 8);
	expect_error(test, -EBADMSG, "0x5104: is not in the file's data");
	put(test, LIST, MADE_DATA_VA + MADE_BYTES, 8);
	expect_error(test, -EBADMSG, "is not in the file's data");
	put(test, LIST, MADE_DATA_VA + TABLE, 8);
	put(test, FIRST + 10, 0xffff, 2); /* live slots */
	expect_error(test, -EBADMSG, "is damaged");
	put(test, FIRST + 10, 1, 2);
	put(test, FIRST, MADE_DATA_VA, 8);
	expect_error(test, -EBADMSG, "has a return address outside of the code");
	put(test, FIRST, MADE_CODE_VA + 0x40, 8);
	for (uint64_t offset = 1; offset <= UINT32_MAX; offset = 2 * offset + 1) {
		put(test, SECOND_DEBUG, offset, 4);
		assert_int_equal(read_it(test), SECOND_DEBUG + offset < MADE_BYTES ? 0 : -EBADMSG);
	}
	put(test, SECOND_DEBUG, DEBUG - SECOND_DEBUG, 4);
	for (uint64_t at = LIST; at < MADE_BYTES; at += 8)
		put(test, at, MADE_DATA_VA + TABLE, 8);
	expect_error(test, -EBADMSG, "is not terminated in the file's data");
	made_symbol_change(&test->made, "caml_frametable", MADE_CODE_VA, 0);
	expect_error(test, -EBADMSG, "is not terminated in the file's data");
}

/*
 * The formats of OxCaml. Its tables are in a part of the file that is not writable: here in the
 * code, from TABLE on.
 */

static void put_code(struct test *test, size_t off, uint64_t value, size_t bytes)
{
	memcpy(test->made.code + off, &value, bytes);
}

/* The distance from OFF to the return address at RETURN_OFF, both in the code; a call precedes. */
static void put_return(struct test *test, size_t off, size_t return_off)
{
	put_code(test, off, return_off - off, 4);
	put_code(test, return_off - 5, 0xe8, 1);
}

static void list_code_table(struct test *test, uint64_t n)
{
	put(test, LIST, MADE_CODE_VA + TABLE, 8);
	put_code(test, TABLE, n, 8);
}

static void expect_descr(const struct frame_descr *descr, uint64_t off, uint32_t bytes,
			 bool collects)
{
	assert_int_equal(descr->va, MADE_CODE_VA + off);
	assert_int_equal(descr->frame_bytes, bytes);
	assert_int_equal(descr->collects, collects);
	assert_int_equal(descr->is_chunk_end, !bytes);
}

/* A frame with debug information, one of 100 000 bytes with a live word, the end of a chunk. */
static void make_relative(struct test *test)
{
	list_code_table(test, 3);
	put_return(test, FIRST, 0x60);
	put_code(test, FIRST + 4, 48 | 1, 2);
	put_code(test, FIRST + 8, 0x300 - (FIRST + 8), 4);
	put_return(test, FIRST + 16, 0x50);
	put_code(test, FIRST + 20, 0x7fff, 2);
	put_code(test, FIRST + 24, 100000 | 2, 4);
	put_code(test, FIRST + 28, 1, 4);
	put_code(test, FIRST + 36, 1, 1); /* one length */
	put_return(test, FIRST + 40, 0x40);
	put_code(test, FIRST + 44, 0xffff, 2);
	/* The debug information, as from 5.2 on: line 97, columns 3 to 20. */
	put_code(test, 0x300,
		 (UINT64_C(97) << 51) | (UINT64_C(3) << 42) | (UINT64_C(20) << 35) | 0x40, 8);
	put_code(test, 0x340, 0x20, 4);
	memcpy(test->made.code + 0x344, "M.f", 4);
	memcpy(test->made.code + 0x360, "m.ml", 5);
}

TEST(relative_descriptors_of_oxcaml)
{
	struct frame_location location;
	struct test *test = *state;
	const struct frame_descr *list;
	size_t n;

	make_relative(test);
	assert_int_equal(locate(test, 0x60, &location, 1), 1);
	assert_string_equal(location.function, "M.f");
	assert_string_equal(location.file, "m.ml");
	assert_int_equal(location.line, 97);
	list = frametable_list(test->table, &n);
	assert_int_equal(n, 3);
	expect_descr(&list[0], 0x40, 0, false);
	expect_descr(&list[1], 0x50, 100000, true);
	expect_descr(&list[2], 0x60, 48, false);
	/* The call of a probe that is off, and return addresses that no calls precede. */
	put_code(test, 0x60 - 5, 0x90, 1);
	read_well(test);
	put_code(test, 0x50 - 5, 0x90, 1);
	put_code(test, 0x40 - 5, 0x90, 1);
	expect_error(test, -EBADMSG, "frame table at 0x1100");
	make_relative(test);
	put_code(test, FIRST + 4, 1, 2); /* a frame without bytes */
	expect_error(test, -EBADMSG, "frame table at 0x1100");
}

/* A full frame, a short one, a short one with three allocations, a large one, and the end. */
static size_t make_compact(struct test *test)
{
	size_t at = FIRST + 1;

	list_code_table(test, 5);
	put_return(test, at, 0x40);
	put_code(test, at + 4, 24 | 1, 2);
	put_code(test, at + 6, 2, 2); /* two live words */
	at += 4 + 2 + 2 + 2 * 2 + 4;
	put_code(test, at++, 0x10, 1);
	put_code(test, at++, 3 << 2 | 1, 1); /* 48 bytes, 6 words: 1 byte of live words */
	put_code(test, at++, 0x3f, 1);
	put_code(test, at, UINT32_MAX, 4);
	at += 4;
	put_code(test, at, 0x0190, 2); /* 0x90, in two bytes */
	at += 2;
	put_code(test, at++, 63 << 2 | 3, 1); /* 1008 bytes, 126 words: 16 bytes of live words */
	put_code(test, at, UINT32_C(0x5503aa), 3); /* registers, three lengths in two bytes */
	at += 1 + 1 + 2 + 16 + 3 * 4;
	at++;
	put_return(test, at, 0x800);
	put_code(test, at + 4, 0x7fff, 2);
	put_code(test, at + 8, 65536, 4);
	at += 4 + 4 + 4 + 4;
	at++;
	put_return(test, at, 0x900);
	put_code(test, at + 4, 0xffff, 2);
	/* The calls of the short descriptors. */
	put_code(test, 0x50 - 5, 0xe8, 1);
	put_code(test, 0xe0 - 5, 0xe8, 1);
	return at + 8;
}

TEST(compact_descriptors_of_oxcaml)
{
	struct frame_location location;
	struct test *test = *state;
	const struct frame_descr *list;
	size_t n;

	make_compact(test);
	read_well(test);
	list = frametable_list(test->table, &n);
	assert_int_equal(n, 5);
	expect_descr(&list[0], 0x40, 24, false);
	expect_descr(&list[1], 0x50, 48, false);
	expect_descr(&list[2], 0xe0, 1008, true);
	expect_descr(&list[3], 0x800, 65536, false);
	expect_descr(&list[4], 0x900, 0, false);
	/* The places have a format that is not read. */
	assert_int_equal(frametable_locations(test->table, &list[1], &location, 1), 0);
}

TEST(compact_descriptors_that_lie)
{
	struct test *test = *state;
	const size_t end = make_compact(test), first_short = FIRST + 17;

	read_well(test);
	/* A distance of 0 cannot be written; a number that does not end; a frame without bytes. */
	put_code(test, first_short, 0x80, 2);
	expect_error(test, -EBADMSG, "frame table at 0x1100");
	make_compact(test);
	memset(test->made.code + first_short, 0xff, 16);
	expect_error(test, -EBADMSG, "frame table at 0x1100");
	make_compact(test);
	put_code(test, first_short + 1, 1, 1);
	expect_error(test, -EBADMSG, "frame table at 0x1100");
	/* More descriptors than the table has. */
	make_compact(test);
	memset(test->made.code + end, 0, MADE_BYTES - end);
	put_code(test, TABLE, 6, 8);
	expect_error(test, -EBADMSG, "frame table at 0x1100");
	for (size_t at = TABLE; at < end; at++) {
		make_compact(test);
		test->made.code[at] ^= 0xff;
		read_it(test); /* with any result */
	}
}

TEST(places_that_lie)
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	struct test *test = *state;

	for (uint64_t offset = 4; offset < UINT32_MAX; offset <<= 1) {
		put(test, NAMES, offset, 4);
		locate(test, 0x30, locations, 2);
		put(test, NAMES, (uint32_t)-offset, 4);
		locate(test, 0x30, locations, 2);
	}
	put(test, NAMES, 0x7fffffff, 4);
	assert_int_equal(locate(test, 0x30, locations, 2), 0);
	put(test, NAMES, 0x80000000, 4);
	assert_int_equal(locate(test, 0x30, locations, 2), 0);
	put(test, NAMES, FILE_NAME - NAMES, 4);
	/* The name of the file has no end. */
	memset(test->made.data + FILE_NAME, 'x', MADE_BYTES - FILE_NAME);
	assert_int_equal(locate(test, 0x30, locations, 2), 0);
	test->made.data[FILE_NAME + 4] = '\0';
	assert_int_equal(locate(test, 0x30, locations, 2), 2);
	/* Entries that never end, up to the room that there is and up to the end of the data. */
	for (uint64_t off = FILE_NAME + 8; off < MADE_BYTES; off += 8)
		put_entry(test, off, off + 8, 1);
	put(test, SECOND_DEBUG, FILE_NAME + 8 - SECOND_DEBUG, 4);
	assert_in_range(locate(test, 0x30, locations, FRAME_LOCATIONS_MAX), 0, FRAME_LOCATIONS_MAX);
	put(test, SECOND_DEBUG, MADE_BYTES - 4 - SECOND_DEBUG, 4);
	assert_int_equal(locate(test, 0x30, locations, 2), 0);
}
