// SPDX-License-Identifier: MIT
#include "kernel/maps.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int possible_cpus(void)
{
	const libbpf_print_fn_t print = libbpf_set_print(NULL);
	const int n = libbpf_num_possible_cpus();

	libbpf_set_print(print);
	return n;
}

int map_sum_counters(int fd, void *sums, size_t n)
{
	const int n_cpus = possible_cpus();
	const uint32_t zero = 0;
	__u64 *values, *sum = sums;
	int err;

	memset(sums, 0, n * sizeof(*sum));
	if (n_cpus < 0)
		return n_cpus;
	values = calloc((size_t)n_cpus, n * sizeof(*values));
	err = values ? bpf_map_lookup_elem(fd, &zero, values) : -ENOMEM;
	for (size_t i = 0; !err && i < (size_t)n_cpus * n; i++)
		sum[i % n] += values[i];
	free(values);
	return err;
}

int map_create_array(const char *name, size_t value_bytes, size_t n, uint32_t flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, create);

	create.map_flags = flags;
	return bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(uint32_t), (uint32_t)value_bytes,
			      (uint32_t)n, &create);
}

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
