// SPDX-License-Identifier: MIT
#include "ocaml_heap.h"

#include <string.h>
#include <sys/mman.h>
#include "unit.h"

enum { HEAP_WORDS = 1 << 16 };

static uint64_t heap[HEAP_WORDS];
static size_t heap_top;

uint64_t of_int(int64_t n)
{
	return (uint64_t)n << 1 | 1;
}

uint64_t of_block(unsigned int tag, size_t words)
{
	uint64_t *header = &heap[heap_top];

	assert_true(heap_top + words + 1 <= HEAP_WORDS);
	heap_top += words + 1;
	/* The collector's two bits are anything. */
	*header = (uint64_t)words << 10 | (words & 3) << 8 | tag;
	memset(header + 1, 0, words * 8);
	return (uint64_t)(uintptr_t)(header + 1);
}

uint64_t *words_of(uint64_t value)
{
	return (uint64_t *)(uintptr_t)value;
}

uint64_t of_fields(unsigned int tag, size_t n, ...)
{
	uint64_t value = of_block(tag, n);
	va_list ap;

	va_start(ap, n);
	for (size_t i = 0; i < n; i++)
		words_of(value)[i] = va_arg(ap, uint64_t);
	va_end(ap);
	return value;
}

uint64_t of_bytes(const char *bytes, size_t n)
{
	size_t words = n / 8 + 1;
	uint64_t value = of_block(STRING, words);

	memcpy(words_of(value), bytes, n);
	((char *)words_of(value))[words * 8 - 1] = (char)(words * 8 - 1 - n);
	return value;
}

uint64_t of_string(const char *text)
{
	return of_bytes(text, strlen(text));
}

uint64_t of_double(double number)
{
	uint64_t value = of_block(DOUBLE, 1);

	memcpy(words_of(value), &number, 8);
	return value;
}

uint64_t of_custom(const char *identifier, uint64_t payload)
{
	static const void *operations[64][2];
	static size_t n;

	assert_true(n < 64);
	operations[n][0] = identifier;
	return of_fields(CUSTOM, 2, (uint64_t)(uintptr_t)operations[n++], payload);
}

uint64_t of_list(size_t n)
{
	uint64_t list = of_int(0);

	while (n)
		list = of_fields(0, 2, of_int((int64_t)n--), list);
	return list;
}

uint64_t of_nowhere(void)
{
	static void *page;

	if (!page) {
		page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(page, MAP_FAILED);
	}
	/* The header, which is before it, is nowhere either. */
	return (uint64_t)(uintptr_t)page + 4096;
}

/* The header can be read, what follows cannot. */
uint64_t of_header_only(unsigned int tag, size_t words)
{
	const size_t page = 4096;
	char *pages =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t header = words << 10 | tag;

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
	memcpy(pages + page - sizeof(header), &header, sizeof(header));
	return (uint64_t)(uintptr_t)(pages + page);
}
