// SPDX-License-Identifier: MIT
/*
 * Makes a uprobe_multi link, even if other tracers use the same sites.
 *
 * For a place (file, offset) the kernel has one uprobe in the whole machine, for all processes.
 * This uprobe either maintains a semaphore (ref_ctr) or does not. Its first user decides which; a
 * later user who requests the opposite gets EINVAL. So, for a site whose note has a semaphore for
 * tracers:
 *
 *   - We ask for the semaphore, as bpftrace's usdt: and perf's sdt_ probes do, so that there is no
 *     conflict with these. An OCaml site is hit even if the semaphore is 0. But if our uprobe did
 *     not maintain the semaphore, such a tracer could not attach after us.
 *   - If another tracer already has a uprobe without semaphore at the site (bpftrace's uprobe:,
 *     perf probe with an address, tracefs), we ask for a uprobe without semaphore. The hits do not
 *     differ.
 *
 * EINVAL does not say which site is meant, and has many other causes. The site is found by
 * bisection with links that are closed at once. The BPF program of these links does nothing, so the
 * counts do not change. Closing such a link takes up to 60 ms (the kernel waits for its RCU
 * readers), so the number of attempts is limited. Beyond the limit, whole ranges of sites do
 * without the semaphore.
 *
 * If the note has no semaphore for tracers (provider `ocaml` of the oldest compilers, where raising
 * the semaphore would run the handler), our uprobe must not maintain one. If another tracer's
 * uprobe at the site maintains a semaphore, we cannot attach.
 */
#include "kernel/uprobe_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/bpf_support.h"
#include "kernel/link.h"

enum {
	MAX_SITES = 1 << 20, /* the kernel's MAX_UPROBE_MULTI_CNT */
	MAX_ATTEMPTS = 128,
	MAX_NAMED_SITES = 4,
	KERNEL_ENOTSUPP = 524, /* an errno internal to the kernel, but uprobes return it */
};

/* The uprobes of a spec in the form that the system call takes: as parallel arrays. */
struct link_request {
	struct ocp_ctx *ctx;
	const struct uprobe_link_spec *spec;
	unsigned long *offsets;
	unsigned long *ref_ctrs;
	uint64_t *cookies;
	size_t n;
	unsigned int attempts_left;
};

/* Make a link for the N sites from index FIRST on. Returns a descriptor or a negative errno. */
static int request_link(const struct link_request *req, int prog_fd, size_t first, size_t n)
{
	const struct uprobe_places places = {
		.path = req->spec->path,
		.offsets = req->offsets + first,
		.ref_ctrs = req->ref_ctrs + first,
		.cookies = req->cookies + first,
		.n = n,
		.pid = req->spec->pid,
		.is_return = req->spec->is_return,
	};

	return link_uprobes(prog_fd, &places);
}

static int explain_refusal(const struct link_request *req, int code)
{
	const char *name = req->spec->name;

	switch (code) {
	case -ESRCH:
		return ctx_error(req->ctx, code, "process %d: it ended", (int)req->spec->pid);
	case -EINVAL:
		return ctx_error(req->ctx, code,
				 "%s: the kernel refuses uprobes on these %zu sites "
				 "together, though not one by one",
				 name, req->n);
	case -KERNEL_ENOTSUPP:
		return ctx_error(req->ctx, -EOPNOTSUPP,
				 "%s: the kernel cannot put a uprobe onto a site's "
				 "instruction",
				 name);
	default:
		return bpf_support_explain(req->ctx, code, "putting uprobes onto the sites");
	}
}

static int explain_refused_site(const struct link_request *req, size_t site)
{
	if (req->spec->uprobes[site].ref_ctr_off) {
		ctx_error(req->ctx, -EINVAL,
			  "%s: the kernel refuses a uprobe at file offset 0x%lx, "
			  "with and without its semaphore",
			  req->spec->name, req->offsets[site]);
		/*
		 * The kernel's record of a uprobe identifies the file by the address of the file's
		 * inode in memory. After that inode is freed, the inode of another file can get the
		 * same address, and then the old record applies to this file.
		 */
		ctx_hint(req->ctx,
			 "the kernel may have a record of a uprobe that a killed tool left "
			 "(dmesg: \"leaking uprobe\"): use a copy of the file, or "
			 "restart the machine");
		return -EINVAL;
	}
	ctx_error(req->ctx, -EINVAL,
		  "%s: the kernel refuses a uprobe at file offset 0x%lx: another tracer "
		  "(such as bpftrace usdt:) is there and raises the handlers' semaphore, which "
		  "counting must not do",
		  req->spec->name, req->offsets[site]);
	ctx_hint(req->ctx, "end the other tracer first");
	return -EINVAL;
}

static int try_link(struct link_request *req, size_t first, size_t n)
{
	int fd = request_link(req, req->spec->idle_prog_fd, first, n);

	if (req->attempts_left)
		req->attempts_left--;
	if (fd < 0)
		return fd;
	link_close(fd);
	return 0;
}

/*
 * Clear the ref_ctrs of some of the N sites from FIRST on, until the kernel accepts uprobes on all
 * N sites.
 */
static int drop_conflicts(struct link_request *req, size_t first, size_t n)
{
	int err;

	if (!req->attempts_left) {
		memset(req->ref_ctrs + first, 0, n * sizeof(*req->ref_ctrs));
		return 0;
	}
	err = try_link(req, first, n);
	if (err == 0)
		return 0;
	if (err != -EINVAL)
		return explain_refusal(req, err);
	if (n > 1) {
		err = drop_conflicts(req, first, n / 2);
		return err ? err : drop_conflicts(req, first + n / 2, n - n / 2);
	}
	if (!req->ref_ctrs[first])
		return explain_refused_site(req, first);
	req->ref_ctrs[first] = 0;
	err = try_link(req, first, 1);
	if (err == -EINVAL)
		return explain_refused_site(req, first);
	return err ? explain_refusal(req, err) : 0;
}

/*
 * Record and log the sites whose semaphore is not used. Leave out sites for which the caller has
 * set no_semaphore.
 */
static void note_dropped(const struct link_request *req)
{
	char list[128];
	size_t n_dropped = 0, len = 0;

	for (size_t i = 0; i < req->n; i++) {
		struct uprobe *uprobe = &req->spec->uprobes[i];

		if (uprobe->no_semaphore || req->ref_ctrs[i] == uprobe->ref_ctr_off)
			continue;
		uprobe->no_semaphore = true;
		if (n_dropped < MAX_NAMED_SITES)
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s0x%lx",
						n_dropped ? ", " : "", req->offsets[i]);
		n_dropped++;
	}
	if (n_dropped)
		ctx_log(req->ctx, OCP_LOG_WARN,
			"%s: %zu of %zu sites are counted without raising their tracers' "
			"semaphore, because another tracer's uprobe without semaphore is in the "
			"way (file offset %s%s)",
			req->spec->name, n_dropped, req->n, list,
			n_dropped > MAX_NAMED_SITES ? ", ..." : "");
}

static void free_request(struct link_request *req)
{
	free(req->offsets);
	free(req->ref_ctrs);
	free(req->cookies);
}

/*
 * Fill in REQ from SPEC. Return false if memory is short. The caller frees REQ also in this case.
 */
static bool init_request(struct link_request *req, struct ocp_ctx *ctx,
			 const struct uprobe_link_spec *spec)
{
	*req = (struct link_request){
		.ctx = ctx, .spec = spec, .n = spec->n, .attempts_left = MAX_ATTEMPTS
	};
	req->offsets = calloc(spec->n + 1, sizeof(*req->offsets));
	req->ref_ctrs = calloc(spec->n + 1, sizeof(*req->ref_ctrs));
	req->cookies = calloc(spec->n + 1, sizeof(*req->cookies));
	if (!req->offsets || !req->ref_ctrs || !req->cookies)
		return false;
	for (size_t i = 0; i < spec->n; i++) {
		const struct uprobe *uprobe = &spec->uprobes[i];

		req->offsets[i] = uprobe->off;
		req->ref_ctrs[i] = uprobe->no_semaphore ? 0 : uprobe->ref_ctr_off;
		req->cookies[i] = uprobe->cookie;
	}
	return true;
}

int uprobe_link_create(struct ocp_ctx *ctx, const struct uprobe_link_spec *spec, int *fd)
{
	struct link_request req;
	int err = 0;

	if (spec->n > MAX_SITES)
		return ctx_error(ctx, -E2BIG,
				 "%s: %zu sites in one file; the kernel takes at most %d",
				 spec->name, spec->n, MAX_SITES);
	if (!init_request(&req, ctx, spec)) {
		err = ctx_no_memory(ctx);
		goto out;
	}
	*fd = request_link(&req, spec->prog_fd, 0, req.n);
	if (*fd == -EINVAL) {
		ctx_log(ctx, OCP_LOG_DEBUG, "%s: EINVAL; looking for conflicting sites",
			spec->name);
		err = drop_conflicts(&req, 0, req.n);
		if (err)
			goto out;
		*fd = request_link(&req, spec->prog_fd, 0, req.n);
	}
	if (*fd < 0)
		err = explain_refusal(&req, *fd);
	else
		note_dropped(&req);
out:
	free_request(&req);
	return err;
}
