// SPDX-License-Identifier: MIT
#include "kernel/link.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/bpf_support.h"

/* BPF_F_UPROBE_MULTI_RETURN in linux/bpf.h, which may be older. */
enum { MULTI_RETURN = 1 << 0 };

int link_uprobes(int prog, const struct uprobe_places *places)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);

	opts.uprobe_multi.path = places->path;
	opts.uprobe_multi.offsets = places->offsets;
	opts.uprobe_multi.ref_ctr_offsets = places->ref_ctrs;
	opts.uprobe_multi.cookies = (const __u64 *)places->cookies;
	opts.uprobe_multi.cnt = (__u32)places->n;
	opts.uprobe_multi.flags = places->is_return ? MULTI_RETURN : 0;
	opts.uprobe_multi.pid = (__u32)places->pid;
	return bpf_link_create(prog, -1, ATTACH_UPROBE_MULTI, &opts);
}

int link_tracepoint(int prog, const char *name)
{
	return bpf_raw_tracepoint_open(name, prog);
}

int link_perf_event(int prog, int event, uint64_t cookie)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	int link;

	opts.perf_event.bpf_cookie = cookie;
	link = bpf_link_create(prog, event, BPF_PERF_EVENT, &opts);
	close(event);
	return link;
}

int perf_event(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	const int fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int link_open_next(uint32_t *id)
{
	int fd = -ENOENT, err;

	while (fd == -ENOENT) {
		err = bpf_link_get_next_id(*id, id);
		if (err)
			return err;
		/* -ENOENT: the link was closed meanwhile. */
		fd = bpf_link_get_fd_by_id(*id);
	}
	return fd;
}

/* The page of an event has the kernel's own factor: see time_mult in perf_event_open(2). */
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
