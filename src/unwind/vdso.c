// SPDX-License-Identifier: MIT
#include "unwind/vdso.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* Return the size of the mapping of our own vDSO, which begins at START; 0 if it is unknown. */
static size_t own_bytes(uint64_t start)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const struct mapping *own;
	struct maps maps;
	size_t bytes = 0;

	if (ctx && maps_read(ctx, getpid(), &maps) == 0) {
		own = maps_find(&maps, start);
		if (own && own->start == start)
			bytes = own->end - own->start;
		maps_free(&maps);
	}
	ocp_ctx_free(ctx);
	return bytes;
}

int vdso_open(const struct mapping *m)
{
	const void *start = (const void *)getauxval(AT_SYSINFO_EHDR);
	size_t bytes;
	int fd;

	if (strcmp(m->path, "[vdso]") != 0 || !start)
		return -ENOENT;
	bytes = own_bytes((uint64_t)start);
	if (!bytes || bytes != m->end - m->start)
		return -ENOENT;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, start, bytes) == (ssize_t)bytes)
		return fd;
	close(fd);
	return -EIO;
}
