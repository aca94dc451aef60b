// SPDX-License-Identifier: MIT
/*
 * Programs can place their code on 1 GiB pages to save TLB misses. Such a page is private, so the
 * first write to it makes the kernel copy the whole page: that takes seconds, and needs a second
 * GiB that may not be free. /proc/PID/smaps has the page size of each mapping:
 *
 *	start-end perms ...
 *	KernelPageSize:  1048576 kB
 *
 * Reading smaps makes the kernel walk the page tables of the whole process. So /proc/PID/maps,
 * which is cheap, is read first: it nearly always shows that no mapping with code to be written has
 * the alignment of such pages.
 */
#include "process/gigatext.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracee/maps.h"
#include "tracee/proc_file.h"

#define GIGAPAGE_BYTES (UINT64_C(1) << 30)

static bool could_be_gigapages(const struct mapping *m)
{
	return m->start % GIGAPAGE_BYTES == 0 && m->end % GIGAPAGE_BYTES == 0;
}

static bool writes_code_in(uint64_t start, uint64_t end, const struct patch_write *writes, size_t n,
			   uint64_t *addr)
{
	for (size_t i = 0; i < n; i++) {
		if (writes[i].bytes == 1 && writes[i].addr >= start && writes[i].addr < end) {
			*addr = writes[i].addr;
			return true;
		}
	}
	return false;
}

bool gigatext_in_smaps(const char *text, const struct patch_write *writes, size_t n, uint64_t *addr)
{
	uint64_t start = 0, end = 0, kb;

	for (; text && *text; text = strchr(text, '\n'), text = text ? text + 1 : NULL) {
		uint64_t from, to;

		if (sscanf(text, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
			start = from;
			end = to;
		} else if (sscanf(text, "KernelPageSize: %" SCNu64 " kB", &kb) == 1 &&
			   kb * 1024 == GIGAPAGE_BYTES &&
			   writes_code_in(start, end, writes, n, addr)) {
			return true;
		}
	}
	return false;
}

static int check_smaps(struct ocp_ctx *ctx, pid_t pid, const struct plan *plan)
{
	uint64_t addr;
	char *text;
	int err = proc_memory_file_read(ctx, pid, "smaps", &text, NULL);

	if (err)
		return err;
	if (gigatext_in_smaps(text, plan->writes, plan->n_writes, &addr)) {
		err = ctx_error(ctx, -EOVERFLOW,
				"pid %d: the code at 0x%" PRIx64
				" is on a 1 GiB page, which the kernel would have to copy",
				(int)pid, addr);
		ctx_hint(ctx, "allow the copy with -gigatext");
	}
	free(text);
	return err;
}

int gigatext_check(struct ocp_ctx *ctx, pid_t pid, const struct plan *plan)
{
	bool possible = false;
	struct maps maps;
	uint64_t addr;
	int err;

	if (ctx_gigatext_is_allowed(ctx))
		return 0;
	err = maps_read(ctx, pid, &maps);
	if (err)
		return err;
	for (size_t i = 0; !possible && i < maps.n; i++)
		possible = could_be_gigapages(&maps.mappings[i]) &&
			   writes_code_in(maps.mappings[i].start, maps.mappings[i].end,
					  plan->writes, plan->n_writes, &addr);
	maps_free(&maps);
	return possible ? check_smaps(ctx, pid, plan) : 0;
}
