/* SPDX-License-Identifier: MIT */
/*
 * Checks whether the measuring user may read the memory of the task that hits a site. A uprobe
 * belongs to a file, so it is also hit by processes that start later or that the user cannot see.
 * Therefore, if the measuring process lacks CAP_SYS_PTRACE, the BPF program makes this check at
 * each hit before it counts anything.
 */
#ifndef MEASURE_ACCESS_BPF_H
#define MEASURE_ACCESS_BPF_H

#include "measure_core.bpf.h"

static __always_inline int may_inspect_current(void)
{
	return may_user_inspect(config.uid, config.gid, config.userns_ino, config.capabilities);
}

#endif
