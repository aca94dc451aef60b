// SPDX-License-Identifier: MIT
#include "base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(struct ocp_ctx *ctx, const char *call)
{
	const int err = -errno;

	return ctx_error(ctx, err, "%s: %s", call, strerror(-err));
}

int confine_close_files(struct ocp_ctx *ctx, const int *kept, size_t n)
{
	unsigned int first = STDERR_FILENO + 1;
	const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 || dup2(null_fd, STDOUT_FILENO) < 0)
		return fail(ctx, "/dev/null");
	for (size_t i = 0; i <= n; i++) {
		const unsigned int last = i < n ? (unsigned int)kept[i] - 1 : ~0U;

		if (first <= last && syscall(SYS_close_range, first, last, 0) != 0)
			return fail(ctx, "close_range");
		if (i < n)
			first = (unsigned int)kept[i] + 1;
	}
	return 0;
}

int confine_drop_capabilities(struct ocp_ctx *ctx)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return fail(ctx, "prctl(PR_SET_NO_NEW_PRIVS)");
	/*
	 * Dropping capabilities from the bounding set needs CAP_SETPCAP. Without CAP_SETPCAP these
	 * calls fail. That does no harm: NO_NEW_PRIVS alone prevents programs from gaining
	 * capabilities.
	 */
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	if (syscall(SYS_capset, &head, none) != 0)
		return fail(ctx, "capset");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return fail(ctx, "prctl(PR_SET_DUMPABLE)");
	return 0;
}
