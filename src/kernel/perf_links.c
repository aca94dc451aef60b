// SPDX-License-Identifier: MIT
/*
 * Makes the uprobes on kernels before Linux 6.6, where each uprobe is a perf event. The counts are
 * the same as with uprobe_multi, but attaching takes 0.2 to 1 ms per site, and detaching takes 80
 * to 125 ms per site, because the kernel waits for several RCU grace periods. After a kill of the
 * tool, the detach by the kernel takes as long. CAP_BPF and CAP_PERFMON are not enough: perf
 * requires CAP_SYS_ADMIN for uprobes.
 *
 * Each event gets a BPF link. The descriptor of the event can then be closed at once, because the
 * link keeps the event. The descriptor of the link stays open: one per site. So the soft limit on
 * descriptors is raised if necessary. If the hard limit is too low for this, attaching fails.
 */
#include "kernel/uprobe_link.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "kernel/link.h"
#include "kernel/perf_event.h"

enum {
	DETACH_MS = 100,	/* time of the detach per site: see above */
	REF_CTR_SHIFT = 32,	/* /sys/bus/event_source/devices/uprobe/format/ref_ctr_offset */
	IS_RETPROBE = 1,	/* /sys/bus/event_source/devices/uprobe/format/retprobe */
	SPARE_DESCRIPTORS = 64, /* number of descriptors left for other uses */
};

#define UPROBE_PMU_TYPE "/sys/bus/event_source/devices/uprobe/type"

static int read_pmu_type(struct ocp_ctx *ctx, __u32 *type)
{
	FILE *f = fopen(UPROBE_PMU_TYPE, "re");
	bool ok = f && fscanf(f, "%u", type) == 1;

	if (f)
		fclose(f);
	if (!ok)
		return ctx_error(ctx, -EOPNOTSUPP,
				 "%s: cannot be read: this kernel has neither uprobe_multi links "
				 "nor uprobes as perf events",
				 UPROBE_PMU_TYPE);
	return 0;
}

static int open_event(__u32 type, const struct uprobe_link_spec *spec, uint64_t off,
		      uint64_t ref_ctr_off)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = ref_ctr_off << REF_CTR_SHIFT | (spec->is_return ? IS_RETPROBE : 0),
		.uprobe_path = (uintptr_t)spec->path,
		.probe_offset = off,
	};

	return perf_event(&attr, spec->pid ? spec->pid : -1, spec->pid ? -1 : 0);
}

static int report_link_error(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, uint64_t off,
			     int code)
{
	if (code == -ESRCH)
		return ctx_error(ctx, code, "process %d: it ended", (int)spec->pid);
	if (code == -EACCES || code == -EPERM) {
		ctx_error(ctx, -EPERM,
			  "%s: without uprobe_multi links (Linux 6.6) uprobes need CAP_SYS_ADMIN",
			  spec->name);
		ctx_hint(ctx, "run it as root");
		return -EPERM;
	}
	return ctx_error(ctx, code, "%s: a uprobe at file offset 0x%llx: %s", spec->name,
			 (unsigned long long)off, strerror(-code));
}

static int create_one(struct ocp_ctx *ctx, __u32 type, const struct uprobe_link_spec *spec,
		      struct uprobe *uprobe, int *fd)
{
	int event =
		open_event(type, spec, uprobe->off, uprobe->no_semaphore ? 0 : uprobe->ref_ctr_off);

	/* Another tracer has a uprobe without the semaphore on this site: see uprobe_link.c. */
	if (event == -EINVAL && uprobe->ref_ctr_off && !uprobe->no_semaphore) {
		event = open_event(type, spec, uprobe->off, 0);
		uprobe->no_semaphore = event >= 0;
		if (event >= 0)
			ctx_log(ctx, OCP_LOG_WARN,
				"%s: the site at file offset 0x%llx is counted without raising its "
				"tracers' semaphore, because another tracer's uprobe without "
				"semaphore is in the way",
				spec->name, (unsigned long long)uprobe->off);
	}
	if (event < 0)
		return report_link_error(ctx, spec, uprobe->off, event);
	*fd = link_perf_event(spec->prog_fd, event, uprobe->cookie);
	return *fd < 0 ? report_link_error(ctx, spec, uprobe->off, *fd) : 0;
}

/* Count all open descriptors of this process, including those of the library's caller. */
static size_t count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	size_t n = 0;

	while (folder && readdir(folder))
		n++;
	if (folder)
		closedir(folder);
	return n;
}

/*
 * Raise the soft limit on descriptors so that one descriptor per uprobe of SPEC can be opened. A
 * new descriptor gets the lowest free number, and each number must be below the limit. So the limit
 * must be at least the number of open descriptors plus the number of uprobes.
 */
static int raise_descriptor_limit(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec)
{
	const size_t n_open = count_descriptors();
	const rlim_t needed = n_open + spec->n + SPARE_DESCRIPTORS;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= needed)
		return 0;
	if (limit.rlim_max < needed)
		return ctx_error(
			ctx, -EMFILE,
			"%s: without uprobe_multi links (Linux 6.6) %zu sites need as many "
			"descriptors; %zu are open, and the hard limit is %llu",
			spec->name, spec->n, n_open, (unsigned long long)limit.rlim_max);
	limit.rlim_cur = needed;
	setrlimit(RLIMIT_NOFILE, &limit);
	return 0;
}

int perf_links_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fds)
{
	size_t done = 0;
	__u32 type = 0;
	int err = read_pmu_type(ctx, &type);

	if (!err)
		err = raise_descriptor_limit(ctx, spec);
	if (err)
		return err;
	ctx_log(ctx, OCP_LOG_WARN,
		"%s: this kernel has no uprobe_multi links: detaching from %zu sites will take "
		"about %.1f s",
		spec->name, spec->n, (double)spec->n * DETACH_MS / 1000);
	while (!err && done < spec->n) {
		err = create_one(ctx, type, spec, &spec->uprobes[done], &fds[done]);
		done += !err;
	}
	if (err)
		links_close(fds, done);
	return err;
}
