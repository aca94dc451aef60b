// SPDX-License-Identifier: MIT
#include "serve/profile_counts.h"

#include <string.h>

void heap_figures_write(struct strbuf *out, struct heaps *heaps)
{
	const double rate = heaps_rate(heaps);
	size_t n;
	const struct heap_program *programs = heaps_programs(heaps, &n);

	for (size_t i = 0; i < n; i++) {
		const struct heap_program *p = &programs[i];
		const struct heap_figures figures = {
			.processes = p->n_processes,
			.live_words = (uint64_t)((double)p->live / rate),
			.allocated_words = (uint64_t)((double)p->samples / rate),
			.lost_events = p->lost_allocations + p->lost_frees + p->left_out,
		};

		strbuf_add(out, (const char *)&figures, sizeof(figures));
		strbuf_add(out, p->exe, strlen(p->exe) + 1);
	}
}

bool heap_figures_next(const char **at, const char *end, struct heap_figures *figures,
		       const char **exe)
{
	const char *name = *at + sizeof(*figures), *zero;

	if (end - *at <= (ptrdiff_t)sizeof(*figures))
		return false;
	zero = memchr(name, 0, (size_t)(end - name));
	if (!zero)
		return false;
	memcpy(figures, *at, sizeof(*figures));
	*exe = name;
	*at = zero + 1;
	return true;
}
