// SPDX-License-Identifier: MIT
/*
 * The protocol between dynamic linkers and debuggers (<link.h>). Before and after the linker maps
 * or unmaps files, it sets _r_debug.r_state and calls an empty function, _dl_debug_state. At the
 * start of a program the second call comes when all shared libraries are mapped and relocated, and
 * before any constructor runs. glibc exports both names.
 *
 * Test: tests/e2e/trace.sh: test_constructors_of_shared_libraries.
 */
#include "tracee/rtld.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <unistd.h>

#include "elf/symbols.h"
#include "tracee/auxv.h"
#include "tracee/maps.h"

static int find_symbols(struct ocp_ctx *ctx, int fd, const char *path, uint64_t base,
			struct rtld *rtld)
{
	struct elf_file *elf;
	uint64_t notify_va, debug_va;
	int found = elf_file_open(ctx, fd, path, &elf);

	if (found < 0)
		return found;
	found = dynsym_find(elf, "_dl_debug_state", &notify_va);
	if (found > 0)
		found = dynsym_find(elf, "_r_debug", &debug_va);
	if (found > 0) {
		/* Linkers are linked at address 0, so AT_BASE is the load bias. */
		rtld->notify_addr = base + notify_va;
		rtld->state_addr = base + debug_va + offsetof(struct r_debug, r_state);
	}
	elf_file_close(elf);
	return found;
}

int rtld_find(struct ocp_ctx *ctx, pid_t pid, struct rtld *rtld)
{
	const struct mapping *mapping;
	struct maps maps;
	uint64_t base;
	int fd, found;

	found = auxv_read(ctx, pid, AT_BASE, &base);
	if (found || !base)
		return found;
	found = maps_read(ctx, pid, &maps);
	if (found)
		return found;
	mapping = maps_find(&maps, base);
	fd = mapping && mapping->inode ? maps_open_file(pid, mapping) : -1;
	if (fd >= 0) {
		found = find_symbols(ctx, fd, mapping->path, base, rtld);
		close(fd);
	}
	maps_free(&maps);
	return found;
}
