// SPDX-License-Identifier: MIT
#include "measure/engine/inside_meta.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "kernel/pinned.h"

static const char brand[8] = "ocInMeta";

_Static_assert(sizeof(((struct inside_meta_head *)NULL)->brand) == sizeof(brand), "the brand");

size_t inside_meta_pieces(const struct inside_meta *meta, struct inside_meta_head *head,
			  struct iovec pieces[INSIDE_META_PIECES])
{
	size_t bytes = 0;

	*head = (struct inside_meta_head){
		.version = INSIDE_META_VERSION,
		.n_sites = (uint32_t)meta->n_sites,
		.n_numbers = meta->n_numbers,
		.text_bytes = meta->text_bytes,
	};
	memcpy(head->brand, brand, sizeof(brand));
	memcpy(head->name, meta->name, sizeof(head->name));
	pieces[0] = (struct iovec){ head, sizeof(*head) };
	pieces[1] = (struct iovec){ meta->numbers, meta->n_numbers * sizeof(*meta->numbers) };
	pieces[2] = (struct iovec){ meta->text, meta->text_bytes };
	for (size_t i = 0; i < INSIDE_META_PIECES; i++)
		bytes += pieces[i].iov_len;
	return bytes;
}

static int compare_numbers(const void *a, const void *b)
{
	const struct inside_number *x = a, *y = b;

	return COMPARE(x->number, y->number);
}

/*
 * Check that no site of the engine occurs twice in NUMBERS, and that the block has the sites that
 * NUMBERS names. Return 0, -EBADMSG or -ENOMEM.
 */
static int check_numbers(const struct inside_number *numbers, size_t n, size_t n_sites)
{
	struct inside_number *sorted = malloc((n + 1) * sizeof(*sorted));
	int err = 0;

	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, numbers, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_numbers);
	for (size_t i = 0; !err && i < n; i++)
		if (sorted[i].site >= n_sites || (i && sorted[i].number == sorted[i - 1].number))
			err = -EBADMSG;
	free(sorted);
	return err;
}

static bool is_good_name(const char name[INSIDE_META_NAME_BYTES])
{
	const size_t length = strnlen(name, INSIDE_META_NAME_BYTES);

	for (size_t i = length; i < INSIDE_META_NAME_BYTES; i++)
		if (name[i])
			return false;
	return length < INSIDE_META_NAME_BYTES && (!length || pin_name_is_valid(name));
}

/* Return true if the last of the BYTES bytes of TEXT is a NUL, and no other byte is. */
static bool is_one_string(const char *text, size_t bytes)
{
	return memchr(text, '\0', bytes) == text + bytes - 1;
}

/*
 * Check HEAD, and that N is the total number of meta bytes according to HEAD. Return 0, -EBADMSG or
 * -EPROTO.
 */
static int check_head(const struct inside_meta_head *head, size_t n, size_t n_sites)
{
	const size_t rest = n - sizeof(*head);

	if (memcmp(head->brand, brand, sizeof(brand)) != 0)
		return -EBADMSG;
	if (head->version != INSIDE_META_VERSION)
		return -EPROTO;
	if (head->n_sites != n_sites || head->n_numbers < n_sites ||
	    head->n_numbers > rest / sizeof(struct inside_number) || !head->text_bytes ||
	    head->text_bytes != rest - head->n_numbers * sizeof(struct inside_number) ||
	    !is_good_name(head->name))
		return -EBADMSG;
	return 0;
}

int inside_meta_read(struct ocp_ctx *ctx, const void *bytes, size_t n, size_t n_sites,
		     struct inside_meta *meta)
{
	const char *numbers = (const char *)bytes + sizeof(struct inside_meta_head);
	const char *text;
	struct inside_meta_head head;
	int err;

	*meta = (struct inside_meta){ 0 };
	if (n < sizeof(head))
		return -EBADMSG;
	/* The process may change BYTES at any time, so check a copy of the head. */
	memcpy(&head, bytes, sizeof(head));
	err = check_head(&head, n, n_sites);
	if (err)
		return err;
	text = numbers + head.n_numbers * sizeof(*meta->numbers);
	/*
	 * Check the text before copying it, because copying a long text takes long, and check the
	 * copy again.
	 */
	if (!is_one_string(text, head.text_bytes))
		return -EBADMSG;
	meta->n_sites = n_sites;
	meta->n_numbers = head.n_numbers;
	meta->text_bytes = head.text_bytes;
	memcpy(meta->name, head.name, sizeof(meta->name));
	meta->numbers = malloc((head.n_numbers + 1) * sizeof(*meta->numbers));
	meta->text = malloc(head.text_bytes);
	if (!meta->numbers || !meta->text)
		return ctx_no_memory(ctx);
	memcpy(meta->numbers, numbers, head.n_numbers * sizeof(*meta->numbers));
	memcpy(meta->text, text, head.text_bytes);
	if (!is_one_string(meta->text, head.text_bytes))
		return -EBADMSG;
	err = check_numbers(meta->numbers, head.n_numbers, n_sites);
	return err == -ENOMEM ? ctx_no_memory(ctx) : err;
}

void inside_meta_free(struct inside_meta *meta)
{
	free(meta->numbers);
	free(meta->text);
	*meta = (struct inside_meta){ 0 };
}
