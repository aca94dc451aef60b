// SPDX-License-Identifier: MIT
/* The note reader, on hand-built sections: what it reads, and that it never reads too far. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/note.h"
#include "note_bytes.h"
#include "unit.h"

static const struct note_spec PLAIN = { 0x1000, 0x2000, 0x3000, "ocaml_1", "plain", "8@%rax" };
static const struct note_spec OTHER = { 0, 0x2000, 0, "libc", "setjmp", "" };

static void assert_note_is(const struct note *note, size_t off, const struct note_spec *spec)
{
	assert_int_equal(note->off, off);
	assert_int_equal(note->site_va, spec->site);
	assert_int_equal(note->base_va, spec->base);
	assert_int_equal(note->semaphore_va, spec->semaphore);
	assert_string_equal(note->provider, spec->provider);
	assert_string_equal(note->name, spec->name);
	assert_string_equal(note->args, spec->args);
}

/*
 * Read BYTES from a block of exactly N bytes (the sanitizer sees any byte too many) that starts
 * SHIFT bytes off alignment. Returns the last answer and counts the notes before it.
 */
static int read_all(const uint8_t *bytes, size_t n, size_t shift, size_t *count)
{
	uint8_t *block = malloc(n + shift);
	struct note_reader reader;
	struct note note;
	size_t touched = 0;
	int answer;

	assert_non_null(block);
	if (n)
		memcpy(block + shift, bytes, n);
	note_reader_init(&reader, block + shift, n);
	*count = 0;
	while ((answer = note_next(&reader, &note)) > 0) {
		touched += strlen(note.provider) + strlen(note.name) + strlen(note.args);
		++*count;
	}
	assert_true(touched <= n);
	if (answer < 0) {
		assert_non_null(reader.why);
		assert_true(reader.pos < n);
	}
	free(block);
	return answer;
}

TEST(fields_are_read)
{
	static const struct note_spec last = { 1, 2, 4, "", "", "" };
	struct note_bytes notes = { 0 };
	size_t offs[] = { put_stapsdt(&notes, &PLAIN), put_stapsdt(&notes, &OTHER),
			  put_stapsdt(&notes, &last) };
	struct note_reader reader;
	struct note note;

	note_reader_init(&reader, notes.bytes, notes.n);
	assert_int_equal(note_next(&reader, &note), 1);
	assert_note_is(&note, offs[0], &PLAIN);
	assert_int_equal(note_next(&reader, &note), 1);
	assert_note_is(&note, offs[1], &OTHER);
	assert_int_equal(note_next(&reader, &note), 1);
	assert_note_is(&note, offs[2], &last);
	assert_int_equal(note_next(&reader, &note), 0);
	assert_int_equal(note_next(&reader, &note), 0);
	note_bytes_free(&notes);
}

TEST(an_empty_section_has_no_notes)
{
	size_t count;

	assert_int_equal(read_all(NULL, 0, 0, &count), 0);
	assert_int_equal(count, 0);
}

TEST(notes_may_lie_at_any_address)
{
	struct note_bytes notes = { 0 };
	size_t count;

	put_stapsdt(&notes, &PLAIN);
	put_stapsdt(&notes, &OTHER);
	for (size_t shift = 0; shift < 8; shift++) {
		assert_int_equal(read_all(notes.bytes, notes.n, shift, &count), 0);
		assert_int_equal(count, 2);
	}
	note_bytes_free(&notes);
}

/* The end of a note's own bytes, without the padding after its descriptor. */
static size_t unpadded_end(const struct note_bytes *notes, size_t off)
{
	uint32_t descsz;

	memcpy(&descsz, notes->bytes + off + NOTE_DESCSZ, sizeof(descsz));
	return off + 12 + 8 + descsz;
}

TEST(a_section_cut_anywhere_is_an_error)
{
	struct note_bytes notes = { 0 };
	size_t offs[3], ends[3], count;

	offs[0] = put_stapsdt(&notes, &PLAIN);
	offs[1] = put_stapsdt(&notes, &OTHER);
	offs[2] = put_stapsdt(&notes, &PLAIN);
	for (size_t i = 0; i < 3; i++)
		ends[i] = unpadded_end(&notes, offs[i]);
	for (size_t cut = 0; cut <= notes.n; cut++) {
		size_t whole = 0, next_off;
		int answer = read_all(notes.bytes, cut, 0, &count);

		while (whole < 3 && ends[whole] <= cut)
			whole++;
		next_off = whole < 3 ? offs[whole] : notes.n;
		assert_int_equal(count, whole);
		assert_int_equal(answer, cut > next_off ? -1 : 0);
	}
	note_bytes_free(&notes);
}

TEST(sizes_that_lie_are_errors)
{
	static const uint32_t huge[] = { 0x7fffffff, 0x80000000, 0xfffffff4,
					 0xfffffffc, 0xfffffffd, 0xffffffff };
	size_t count;

	for (size_t i = 0; i < 3 * sizeof(huge) / sizeof(huge[0]); i++) {
		struct note_bytes notes = { 0 };
		size_t off;

		put_stapsdt(&notes, &PLAIN);
		off = put_stapsdt(&notes, &PLAIN);
		put_stapsdt(&notes, &PLAIN);
		if (i % 3 != 0)
			set_note_word(&notes, off, NOTE_NAMESZ, huge[i / 3]);
		if (i % 3 != 1)
			set_note_word(&notes, off, NOTE_DESCSZ, huge[i / 3]);
		assert_int_equal(read_all(notes.bytes, notes.n, 0, &count), -1);
		assert_int_equal(count, 1);
		note_bytes_free(&notes);
	}
}

TEST(every_descriptor_size_is_safe)
{
	struct note_bytes notes = { 0 };
	size_t off = put_stapsdt(&notes, &PLAIN), count;
	uint32_t whole = (uint32_t)(unpadded_end(&notes, off) - off - 20);

	for (uint32_t descsz = 0; descsz < whole; descsz++) {
		set_note_word(&notes, off, NOTE_DESCSZ, descsz);
		assert_int_equal(read_all(notes.bytes, notes.n, 0, &count), -1);
		assert_int_equal(count, 0);
	}
	note_bytes_free(&notes);
}

TEST(strings_without_an_end_are_errors)
{
	struct note_bytes notes = { 0 };
	size_t off = put_stapsdt(&notes, &PLAIN), count;
	size_t strings = off + 12 + 8 + 24, end = unpadded_end(&notes, off);

	/* From the last NUL to the first: args, name, provider. */
	for (size_t at = end; at-- > strings;) {
		if (notes.bytes[at] != '\0')
			continue;
		notes.bytes[at] = 'x';
		assert_int_equal(read_all(notes.bytes, notes.n, 0, &count), -1);
		assert_int_equal(count, 0);
	}
	note_bytes_free(&notes);
}

TEST(notes_of_other_owners_and_types_are_skipped)
{
	struct note_bytes notes = { 0 };
	size_t count;

	put_note(&notes, "GNU", 3, "abcdef", 6);
	put_note(&notes, "stapsdx", 3, "", 0);
	put_note(&notes, "stapsdt", 2, "no probe", 8);
	put_note(&notes, "stapsdt", 3 + (1 << 8), "no probe", 8);
	put_note(&notes, "stapsdt2", 3, "", 0);
	put_note(&notes, "", 3, "", 0);
	set_note_word(&notes, put_note(&notes, "", 0, "", 0), NOTE_NAMESZ, 0);
	notes.n -= 4; /* a name of 0 bytes has no padding */
	put_stapsdt(&notes, &PLAIN);
	put_note(&notes, "an owner of more than eight bytes", 3, "x", 1);
	assert_int_equal(read_all(notes.bytes, notes.n, 0, &count), 0);
	assert_int_equal(count, 1);
	note_bytes_free(&notes);
}

TEST(zeros_are_notes_of_nobody)
{
	static const uint8_t zeros[12 * 1000];
	size_t count;

	assert_int_equal(read_all(zeros, sizeof(zeros), 0, &count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(read_all(zeros, sizeof(zeros) - 1, 0, &count), -1);
}

TEST(the_error_says_where_and_why)
{
	struct note_bytes notes = { 0 };
	struct note_reader reader;
	struct note note;
	size_t off;

	put_stapsdt(&notes, &PLAIN);
	off = put_stapsdt(&notes, &PLAIN);
	set_note_word(&notes, off, NOTE_DESCSZ, 23);
	note_reader_init(&reader, notes.bytes, notes.n);
	assert_int_equal(note_next(&reader, &note), 1);
	assert_int_equal(note_next(&reader, &note), -1);
	assert_int_equal(reader.pos, off);
	assert_string_equal(reader.why, "descriptor too short for three addresses");
	note_bytes_free(&notes);
}

TEST(many_notes_are_all_read)
{
	enum { MANY = 10000 };
	struct note_bytes notes = { 0 };
	size_t count;

	for (int i = 0; i < MANY; i++) {
		char name[20];

		snprintf(name, sizeof(name), "probe_%d", i);
		put_stapsdt(&notes, &(struct note_spec){ .site = 1, .name = name });
	}
	assert_int_equal(read_all(notes.bytes, notes.n, 0, &count), 0);
	assert_int_equal(count, MANY);
	note_bytes_free(&notes);
}
