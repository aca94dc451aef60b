// SPDX-License-Identifier: MIT
#include "look/exit_status.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/ctx.h"
#include "look/proc_file.h"

/*
 * The first version (64 bytes) of struct pidfd_info. Older versions of linux/pidfd.h lack this
 * struct.
 */
struct pidfd_info_0 {
	uint64_t mask;
	uint64_t cgroupid;
	uint32_t ids[11]; /* pid, tgid, ppid, and eight user and group ids */
	int32_t exit_code;
};

enum { INFO_EXIT = 1 << 3 }; /* PIDFD_INFO_EXIT */

_Static_assert(sizeof(struct pidfd_info_0) == 64, "the kernel's PIDFD_INFO_SIZE_VER0");

#define GET_INFO _IOWR(0xFF, 11, struct pidfd_info_0) /* PIDFD_GET_INFO */

/*
 * Read, through PIDFD, the exit status of a process after its parent has waited for it. Return
 * false if the kernel does not show the status.
 */
static bool read_by_pidfd(int pidfd, int *status)
{
	struct pidfd_info_0 info = { .mask = INFO_EXIT };

	if (ioctl(pidfd, GET_INFO, &info) != 0 || !(info.mask & INFO_EXIT))
		return false;
	*status = info.exit_code;
	return true;
}

/*
 * Read the exit status of the zombie PID from the last field of /proc/PID/stat. The kernel shows
 * this field only to users who may inspect the process.
 */
static bool read_of_zombie(pid_t pid, int *status)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	char *text = NULL, *field, *end;
	bool is_known = false;

	if (ctx && proc_file_read(ctx, pid, "stat", &text, NULL) == 0) {
		field = strrchr(text, ')');
		if (field && (field[2] == 'Z' || field[2] == 'X')) {
			text[strcspn(text, "\n")] = '\0';
			field = strrchr(field, ' ');
			*status = (int)strtol(field, &end, 10);
			is_known = end != field;
		}
	}
	free(text);
	ocp_ctx_free(ctx);
	return is_known;
}

bool exit_status_read(int pidfd, pid_t pid, int *status)
{
	/*
	 * Try the pidfd again: the parent may have waited for the process after the first attempt,
	 * so that the process was no longer a zombie at the second attempt.
	 */
	return read_by_pidfd(pidfd, status) || read_of_zombie(pid, status) ||
	       read_by_pidfd(pidfd, status);
}
