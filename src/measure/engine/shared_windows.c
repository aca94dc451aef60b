// SPDX-License-Identifier: MIT
#include "measure/engine/shared_windows.h"

#include <errno.h>
#include <stdlib.h>

#include "base/search.h"

static int compare_addrs(const void *a, const void *b, void *data)
{
	const struct inside_site *sites = data, *x = sites + *(const uint32_t *)a,
				 *y = sites + *(const uint32_t *)b;

	return x->addr != y->addr ? COMPARE(x->addr, y->addr) : COMPARE(x, y);
}

/* Make SITE, which is at the same address as KEPT, a part of KEPT. */
static int join_sites(struct ocp_ctx *ctx, struct inside_site *kept, const struct inside_site *site)
{
	if (kept->n_window != site->n_window || kept->n_before != site->n_before ||
	    (kept->n_roles && site->n_roles))
		return ctx_error(ctx, -ENOTSUP,
				 "a line begins where a timed function ends: the engine `inside` "
				 "measures one of them at a time");
	if (site->n_roles) {
		kept->roles = site->roles;
		kept->n_roles = site->n_roles;
	}
	return 0;
}

int shared_windows_join(struct ocp_ctx *ctx, struct inside_site *sites, size_t *n_sites,
			struct inside_number *numbers)
{
	const size_t n = *n_sites;
	uint32_t *order = calloc(n + 1, sizeof(*order)), *kept = calloc(n + 1, sizeof(*kept));
	int err = order && kept ? 0 : ctx_no_memory(ctx);

	for (size_t i = 0; !err && i < n; i++)
		order[i] = (uint32_t)i;
	if (!err)
		qsort_r(order, n, sizeof(*order), compare_addrs, sites);
	for (size_t i = 0; !err && i < n; i++) {
		const bool is_new = !i || sites[order[i]].addr != sites[order[i - 1]].addr;

		kept[order[i]] = is_new ? order[i] : kept[order[i - 1]];
		if (!is_new)
			err = join_sites(ctx, &sites[kept[order[i]]], &sites[order[i]]);
	}
	*n_sites = 0;
	for (size_t i = 0; !err && i < n; i++) {
		const bool stays = kept[i] == i;

		/* A kept site precedes those that are joined to it, so its new index is known. */
		numbers[i].site = stays ? (uint32_t)*n_sites : numbers[kept[i]].site;
		if (stays)
			sites[(*n_sites)++] = sites[i];
	}
	free(order);
	free(kept);
	return err;
}
