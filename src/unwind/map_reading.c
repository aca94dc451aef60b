// SPDX-License-Identifier: MIT
#include "unwind/map_reading.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int map_read_all(struct ocp_ctx *ctx, int fd, size_t key_bytes, size_t value_bytes, size_t room,
		 void **keys, void **values, size_t *n)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	uint64_t position = 0; /* opaque; the kernel uses 4 bytes of it */
	bool is_first = true;
	int err = 0;

	*n = 0;
	*keys = calloc(room, key_bytes);
	*values = calloc(room, value_bytes);
	if (!*keys || !*values)
		return ctx_no_memory(ctx);
	while (!err && *n < room) {
		uint32_t count = (uint32_t)(room - *n);

		err = bpf_map_lookup_batch(fd, is_first ? NULL : &position, &position,
					   (char *)*keys + *n * key_bytes,
					   (char *)*values + *n * value_bytes, &count, &opts);
		if (err && errno != ENOENT)
			return ctx_error(ctx, -errno, "cannot read samples: %s", strerror(errno));
		*n += count;
		is_first = false;
	}
	return 0;
}
