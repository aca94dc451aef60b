// SPDX-License-Identifier: MIT
#include "tracee/auxv.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "tracee/proc_file.h"

uint64_t auxv_find(const char *bytes, size_t n_bytes, uint64_t type)
{
	Elf64_auxv_t aux;

	for (size_t at = 0; at + sizeof(aux) <= n_bytes; at += sizeof(aux)) {
		memcpy(&aux, bytes + at, sizeof(aux));
		if (aux.a_type == AT_NULL)
			break;
		if (aux.a_type == type)
			return aux.a_un.a_val;
	}
	return 0;
}

int auxv_read(struct ocp_ctx *ctx, pid_t pid, uint64_t type, uint64_t *value)
{
	size_t n_bytes;
	char *bytes;
	int err = proc_memory_file_read(ctx, pid, "auxv", &bytes, &n_bytes);

	*value = 0;
	if (err)
		return err;
	*value = auxv_find(bytes, n_bytes, type);
	free(bytes);
	return 0;
}
