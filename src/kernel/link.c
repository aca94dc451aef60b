// SPDX-License-Identifier: MIT
#include "kernel/link.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <unistd.h>

#include "kernel/bpf_support.h"

/* BPF_F_UPROBE_MULTI_RETURN of linux/bpf.h, which older headers lack. */
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

int link_open_next(uint32_t *id)
{
	int fd = -ENOENT, err;

	while (fd == -ENOENT) {
		err = bpf_link_get_next_id(*id, id);
		if (err)
			return err;
		/* -ENOENT here means that link *ID was closed meanwhile: try the next id. */
		fd = bpf_link_get_fd_by_id(*id);
	}
	return fd;
}
