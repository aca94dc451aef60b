// SPDX-License-Identifier: MIT
#include "kernel/waiting.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "kernel/bpf_support.h"
#include "waiting.skel.h"

struct waiting {
	struct ocp_ctx *ctx;
	struct waiting_bpf *skel;
};

static int load_waiting_bpf(struct waiting *w, const struct waiting_map *maps, size_t n)
{
	w->skel = waiting_bpf__open();
	if (!w->skel)
		return -errno;
	for (size_t i = 0; i < n; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(w->skel->obj, maps[i].name);
		const int err = map ? bpf_map__reuse_fd(map, maps[i].fd) : -ENOENT;

		if (err)
			return err;
	}
	return waiting_bpf__load(w->skel);
}

int waiting_open(struct ocp_ctx *ctx, const struct waiting_map *maps, size_t n,
		 struct waiting **out)
{
	struct waiting *w = calloc(1, sizeof(*w));
	const libbpf_print_fn_t print = libbpf_set_print(NULL);
	int err;

	*out = NULL;
	if (!w)
		err = ctx_no_memory(ctx);
	else
		err = load_waiting_bpf(w, maps, n);
	libbpf_set_print(print);
	if (!w)
		return err;
	w->ctx = ctx;
	if (err) {
		waiting_close(w);
		return bpf_support_explain(ctx, err, "look at threads that wait");
	}
	*out = w;
	return 0;
}

void waiting_close(struct waiting *w)
{
	if (!w)
		return;
	waiting_bpf__destroy(w->skel);
	free(w);
}

/* Run the BPF program of LINK for each thread, by reading from the link's iterator to the end. */
static int run_iterator(int link)
{
	struct interruptions interruptions = { 0 };
	const int iterator = bpf_iter_create(link);
	char none[64];
	ssize_t got = 1;

	if (iterator < 0)
		return -errno;
	while (got > 0 || (got < 0 && (errno == EAGAIN || is_interrupted(&interruptions))))
		got = read(iterator, none, sizeof(none));
	got = got < 0 ? -errno : 0;
	close(iterator);
	return (int)got;
}

int waiting_record(struct waiting *w, pid_t pid, uint32_t tgid, bool has_namespace,
		   bool names_threads)
{
	union bpf_iter_link_info of = { .task.pid = (__u32)pid };
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	int link, err;

	opts.iter_info = &of;
	opts.iter_info_len = sizeof(of);
	w->skel->bss->tgid = tgid;
	w->skel->bss->has_namespace = has_namespace;
	w->skel->bss->names_threads = names_threads;
	link = bpf_link_create(bpf_program__fd(w->skel->progs.waiting_thread), 0, BPF_TRACE_ITER,
			       &opts);
	err = link < 0 ? -errno : run_iterator(link);
	if (link >= 0)
		close(link);
	return err ? bpf_support_explain(w->ctx, err, "look at threads that wait") : 0;
}
