// SPDX-License-Identifier: MIT
#include "kernel/perf_event.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int perf_event(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	const int fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/*
 * The mapped page of an event contains the rate that the kernel uses: see time_mult in
 * perf_event_open(2).
 */
bool perf_event_tick_rate(uint64_t *ns_per_tick)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	const int fd = perf_event(&attr, 0, -1);
	struct perf_event_mmap_page *page;
	bool is_known;

	if (fd < 0)
		return false;
	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return false;
	is_known = page->cap_user_time && page->time_mult && page->time_shift <= 32;
	if (is_known)
		*ns_per_tick = (uint64_t)page->time_mult << (32 - page->time_shift);
	munmap(page, (size_t)sysconf(_SC_PAGESIZE));
	return is_known;
}
