// SPDX-License-Identifier: MIT
#include "program/host_sites.h"

#include <stdlib.h>

#include "program/dormant/external.h"

static void count_host_site(void *data, uint64_t va)
{
	size_t *n = data;

	(void)va;
	(*n)++;
}

int program_count_host_sites(const struct ocp_program *prog, size_t *n)
{
	struct object_external *externals = NULL;
	struct object object;
	size_t n_externals;
	bool may;
	int err;

	*n = 0;
	/* An executable is not loaded by a host program. */
	if (elf_file_has_interpreter(prog->elf))
		return 0;
	err = external_may_be_in(prog->ctx, prog->elf, &may);
	if (err || !may)
		return err;
	err = object_read(prog->ctx, prog->elf, &object);
	if (err)
		return err;
	err = external_list(&object, &externals, &n_externals);
	if (!err)
		external_each_site(&object, externals, n_externals, count_host_site, n);
	free(externals);
	object_free(&object);
	return err;
}
