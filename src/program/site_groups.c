// SPDX-License-Identifier: MIT
#include "program/site_groups.h"
#include "base/search.h"

#include <stdlib.h>
#include <string.h>

int site_groups_compare_probes(const void *a, const void *b)
{
	return strcmp(((const struct probe *)a)->name, ((const struct probe *)b)->name);
}

static int compare_group_sites(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	if (x->has_code != y->has_code)
		return x->has_code ? -1 : 1;
	return COMPARE(x->va, y->va);
}

/*
 * Sort SITES if necessary. Most compilers write the notes of each name in the order of addresses.
 */
static void sort_sites(struct site *sites, size_t n)
{
	size_t i = 1;

	while (i < n && compare_group_sites(&sites[i - 1], &sites[i]) <= 0)
		i++;
	if (i < n)
		qsort(sites, n, sizeof(*sites), compare_group_sites);
}

int site_groups_begin(struct ocp_program *prog, uint32_t **rank)
{
	size_t next = 0;

	*rank = calloc(prog->n_probes + 1, sizeof(**rank));
	if (!*rank)
		return ctx_no_memory(prog->ctx);
	for (size_t i = 0; i < prog->n_probes; i++)
		prog->probes[i].first_site = i; /* the probe's number before sorting */
	qsort(prog->probes, prog->n_probes, sizeof(*prog->probes), site_groups_compare_probes);
	for (size_t i = 0; i < prog->n_probes; i++) {
		struct probe *probe = &prog->probes[i];

		(*rank)[probe->first_site] = (uint32_t)i;
		probe->first_site = next;
		next += probe->n_sites;
		probe->n_sites = 0;
	}
	return 0;
}

struct site *site_groups_next(struct ocp_program *prog, struct site *sites, uint32_t probe)
{
	return &sites[prog->probes[probe].first_site + prog->probes[probe].n_sites++];
}

void site_groups_end(struct ocp_program *prog)
{
	for (size_t i = 0; i < prog->n_probes; i++)
		sort_sites(prog->sites + prog->probes[i].first_site, prog->probes[i].n_sites);
}

int site_groups_make(struct ocp_program *prog)
{
	struct site *grouped = malloc((prog->n_sites + 1) * sizeof(*grouped));
	uint32_t *rank = NULL;
	int err = grouped ? 0 : ctx_no_memory(prog->ctx);

	for (size_t i = 0; i < prog->n_probes; i++)
		prog->probes[i].n_sites = 0;
	for (size_t i = 0; i < prog->n_sites; i++)
		prog->probes[prog->sites[i].probe].n_sites++;
	if (!err)
		err = site_groups_begin(prog, &rank);
	if (err) {
		free(grouped);
		return err;
	}
	for (size_t i = 0; i < prog->n_sites; i++) {
		prog->sites[i].probe = rank[prog->sites[i].probe];
		*site_groups_next(prog, grouped, prog->sites[i].probe) = prog->sites[i];
	}
	free(rank);
	free(prog->sites);
	prog->sites = grouped;
	site_groups_end(prog);
	return 0;
}
