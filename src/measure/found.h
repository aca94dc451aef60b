/* SPDX-License-Identifier: MIT */
/*
 * Finds meters that still count inside of processes after the tool that attached them has ended or
 * was killed. Such a meter exists only in the memory of its processes; a tool that may trace a
 * process finds the meter through /proc. A meter has one or more processes: forked children share
 * the counters of their parent, and all processes that share counters belong to one meter. All
 * processes that one tool attached to at the same time belong to one meter, too.
 */
#ifndef MEASURE_FOUND_H
#define MEASURE_FOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"

struct ocp_meter;

/*
 * Open the meter NAME, or the meter that counts in PID, whatever its name. The meter can be read;
 * ocp_meter_free() leaves it measuring, ocp_meter_detach() ends it in all processes. The processes
 * of the meter are those that the tool attached to, which may have ended, and all processes that
 * share counters with these. The errors are:
 *
 *	-ENOENT   no such meter; without a message for NAME
 *	-EEXIST   several meters have this NAME
 *	-EBADMSG, -EPROTO   the description of the meter is damaged, or of another version
 *	-EPERM, -ESRCH, ...   PID may not be traced, does not exist, ...
 */
int found_open_name(struct ocp_ctx *ctx, const char *name, struct ocp_meter **out);
int found_open_pid(struct ocp_ctx *ctx, pid_t pid, struct ocp_meter **out);

/*
 * End the meter NAME (PID is then 0), or the meter in PID (NAME is then NULL). The meter is not
 * read, so it may be damaged.
 */
int found_remove(struct ocp_ctx *ctx, const char *name, pid_t pid);

/*
 * Return the pid of the running tool that counts in PID and has not kept its meter under a name.
 * Return 0 if there is no such tool, or if PID cannot be inspected. The tool is recognised by its
 * process name, and must have started before its counters did.
 */
pid_t found_living_tool(struct ocp_ctx *ctx, pid_t pid);

/*
 * Call this if METER cannot attach to its process because the process already counts inside. If a
 * killed tool has left these counters, and they count nothing that METER does not count, end them,
 * log a warning, and return true. Otherwise leave them as they are, and return false.
 */
bool found_take_over(struct ocp_meter *meter);

/* Return -EEXIST, with a message, if a meter that counts inside has the name NAME. */
int found_check_name_free(struct ocp_ctx *ctx, const char *name);

/*
 * List the names of all meters that count inside. *NAMES and the strings are one block, which the
 * caller frees.
 */
int found_list_names(struct ocp_ctx *ctx, char ***names, size_t *n);

#endif
