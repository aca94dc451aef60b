// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: any bytes as an executable for the post-linker. Whatever they are, converting
 * them is clean under the sanitizers; and no site is converted twice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link/convert.h"
#include "link/image.h"

enum { MAX_BYTES = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require(int condition)
{
	if (!condition)
		abort();
}

/* Returns how many sites were converted. */
static size_t convert_file(struct ocp_ctx *ctx, int fd)
{
	const struct convert_options options = { .show_all = true };
	struct convert_result result = { 0 };
	struct linked_file image;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (image_read(ctx, path, &image) != 0)
		return 0;
	if (convert(&image, &options, &result) != 0)
		result = (struct convert_result){ 0 };
	/* A .bss of up to a gigabyte becomes bytes of the file: no need to write that down. */
	if (result.n_sites && image.n_bytes > MAX_BYTES)
		result.n_sites = 0;
	if (result.n_sites && ftruncate(fd, 0) == 0)
		require(pwrite(fd, image.bytes, image.n_bytes, 0) == (ssize_t)image.n_bytes);
	image_release(&image);
	return result.n_sites;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	int fd = memfd_create("input", MFD_CLOEXEC);

	require(ctx && fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
	if (convert_file(ctx, fd) > 0)
		require(convert_file(ctx, fd) == 0);
	close(fd);
	ocp_ctx_free(ctx);
	return 0;
}
