/* SPDX-License-Identifier: MIT */
/*
 * Finds meters that still count inside of processes after the tool that attached them has ended or
 * was killed. Such a meter exists only in the memory of its processes. A tool that may trace one of
 * these processes finds the meter through /proc. All processes that a tool attached to at the same
 * time belong to one meter, and so do their forked children, which share the counters of their
 * parents.
 */
#ifndef MEASURE_FOUND_H
#define MEASURE_FOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"

struct ocp_meter;

/*
 * Open the meter NAME, or the meter that counts in PID, whatever its name. The caller can read the
 * meter. After ocp_meter_free() it continues to measure; ocp_meter_detach() ends it in all its
 * processes. The processes of the meter are those to which the tool attached (some may have ended),
 * and all processes that share counters with these. The errors are:
 *
 *	-ENOENT   no such meter; found_open_name() then sets no message
 *	-EEXIST   several meters have this NAME
 *	-EBADMSG, -EPROTO   the description of the meter is damaged, or of another version
 *	-EPERM, -ESRCH, ...   PID cannot be traced, does not exist, ...
 */
int found_open_name(struct ocp_ctx *ctx, const char *name, struct ocp_meter **out);
int found_open_pid(struct ocp_ctx *ctx, pid_t pid, struct ocp_meter **out);

/*
 * End the meter NAME if NAME is not NULL, otherwise the meter in PID. The text that describes the
 * meter (pin_meta.c) is not parsed, so this also works if the parser would reject it.
 */
int found_remove(struct ocp_ctx *ctx, const char *name, pid_t pid);

/*
 * Return the pid of the running tool whose meter counts in process PID. Return 0 if there is no
 * such tool, if the meter has a name (it is to be kept), or if PID cannot be inspected. The tool is
 * recognised by its process name and by its start time, which must be before the start of the
 * counters.
 */
pid_t found_living_tool(struct ocp_ctx *ctx, pid_t pid);

/*
 * Call this if METER cannot attach to its process because the process already counts inside. If a
 * killed tool has left these counters, and they count nothing that METER does not count, end them,
 * log a warning, and return true. Otherwise leave them as they are, and return false.
 */
bool found_take_over(struct ocp_meter *meter);

/*
 * Return 0 if no meter that counts inside of processes has the name NAME, -EEXIST with a message if
 * a meter has this name, or another negative errno.
 */
int found_check_name_free(struct ocp_ctx *ctx, const char *name);

/*
 * List the names of all meters that count inside of processes. *NAMES and the strings are one
 * block, which the caller frees.
 */
int found_list_names(struct ocp_ctx *ctx, char ***names, size_t *n);

#endif
