// SPDX-License-Identifier: MIT
/* What the engine leaves inside of a process: it is read as it was written, and nothing else is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "measure/engine/inside_meta.h"
#include "unit.h"

enum { N_SITES = 3, N_NUMBERS = 4, HEAD_BYTES = 104, NAME_OFF = 32, TEXT_BYTES = 6 };
enum { TEXT_OFF = HEAD_BYTES + N_NUMBERS * 8 };

static struct inside_number numbers[N_NUMBERS] = {
	{ 7, 0 }, { 0, 1 }, { UINT32_MAX, 2 }, { 5, 1 }
};
static char text[TEXT_BYTES] = "text\n";

static void *written(size_t *n)
{
	const struct inside_meta meta = { .name = "night-1_A",
					  .numbers = numbers,
					  .n_numbers = N_NUMBERS,
					  .n_sites = N_SITES,
					  .text = text,
					  .text_bytes = sizeof(text) };
	struct inside_meta_head head;
	struct iovec pieces[INSIDE_META_PIECES];
	char *bytes, *to;

	*n = inside_meta_pieces(&meta, &head, pieces);
	assert_int_equal(*n, HEAD_BYTES + sizeof(numbers) + sizeof(text));
	bytes = to = malloc(*n);
	assert_non_null(bytes);
	for (size_t i = 0; i < INSIDE_META_PIECES; i++)
		to = mempcpy(to, pieces[i].iov_base, pieces[i].iov_len);
	assert_ptr_equal(to, bytes + *n);
	return bytes;
}

/* The error of reading N of BYTES, in a buffer of their size. */
static int read_error(const void *bytes, size_t n, size_t n_sites)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct inside_meta meta;
	void *copy = malloc(n ? n : 1);
	int err;

	assert_non_null(copy);
	memcpy(copy, bytes, n);
	err = inside_meta_read(ctx, copy, n, n_sites, &meta);
	inside_meta_free(&meta);
	free(copy);
	ocp_ctx_free(ctx);
	return err;
}

TEST(what_is_written_is_read)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct inside_meta meta;
	size_t n;
	void *bytes = written(&n);

	assert_int_equal(inside_meta_read(ctx, bytes, n, N_SITES, &meta), 0);
	assert_string_equal(meta.name, "night-1_A");
	assert_int_equal(meta.n_sites, N_SITES);
	assert_int_equal(meta.n_numbers, N_NUMBERS);
	assert_memory_equal(meta.numbers, numbers, sizeof(numbers));
	assert_int_equal(meta.text_bytes, sizeof(text));
	assert_string_equal(meta.text, text);
	inside_meta_free(&meta);
	free(bytes);
	ocp_ctx_free(ctx);
}

TEST(a_part_is_damaged)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	size_t n;
	void *bytes = written(&n);

	for (size_t part = 0; part < n; part++)
		assert_int_equal(read_error(bytes, part, N_SITES), -EBADMSG);
	free(bytes);
	ocp_ctx_free(ctx);
}

TEST(nothing_else_is_read)
{
	static const struct {
		size_t at;
		uint8_t byte;
		int err;
	} changes[] = {
		{ 0, 'x', -EBADMSG },
		{ 8, 1, -EPROTO },
		{ 12, N_SITES + 1, -EBADMSG },
		{ 15, 0xff, -EBADMSG }, /* sites */
		{ 16, N_NUMBERS - 1, -EBADMSG },
		{ 16, N_NUMBERS + 1, -EBADMSG },
		{ 23, 0xff, -EBADMSG }, /* the numbers */
		{ 24, TEXT_BYTES - 1, -EBADMSG },
		{ 31, 0xff, -EBADMSG }, /* the length of the text */
		{ NAME_OFF, '/', -EBADMSG },
		{ NAME_OFF + 2, 0x1b, -EBADMSG },
		{ NAME_OFF + 9, 'x', 0 },
		{ NAME_OFF + 10, 'x', -EBADMSG }, /* behind the end of the name */
		{ HEAD_BYTES, 0, -EBADMSG },	  /* the number of another site */
		{ HEAD_BYTES + 4, 2, 0 },
		{ HEAD_BYTES + 4, N_SITES, -EBADMSG }, /* a site that the block lacks */
		{ HEAD_BYTES + 31, 0xff, -EBADMSG },
		{ TEXT_OFF + 2, 0, -EBADMSG }, /* two texts */
		{ TEXT_OFF + 5, 'x', -EBADMSG },
		{ HEAD_BYTES, 8, 0 },
	};
	struct ocp_ctx *ctx = ocp_ctx_new();
	size_t n;
	uint8_t *bytes = written(&n);

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		const uint8_t before = bytes[changes[i].at];

		bytes[changes[i].at] = changes[i].byte;
		if (read_error(bytes, n, N_SITES) != changes[i].err)
			fail_msg("change %zu: %d", i, read_error(bytes, n, N_SITES));
		bytes[changes[i].at] = before;
	}
	assert_int_equal(read_error(bytes, n, N_SITES - 1), -EBADMSG);
	assert_int_equal(read_error(bytes, n, N_SITES + 1), -EBADMSG);
	memset(bytes + NAME_OFF, 'a', INSIDE_META_NAME_BYTES);
	assert_int_equal(read_error(bytes, n, N_SITES), -EBADMSG);
	memset(bytes + NAME_OFF, 0, INSIDE_META_NAME_BYTES);
	assert_int_equal(read_error(bytes, n, N_SITES), 0);
	free(bytes);
	ocp_ctx_free(ctx);
}
