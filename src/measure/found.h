/* SPDX-License-Identifier: MIT */
/*
 * Meters that count inside of a process and whose tool has ended, or was killed. Nothing but the process
 * knows of them. They are found by /proc, by those who may trace the process. Forked children share the
 * counters: all processes that do are one meter. So are the processes that a tool has attached to at once.
 */
#ifndef MEASURE_FOUND_H
#define MEASURE_FOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"

struct ocp_meter;

/*
 * Open the meter NAME, or the one that counts in PID, whatever its name. It can be read; ocp_meter_free()
 * leaves it measuring, ocp_meter_detach() ends it in all processes. The processes of the meter are the one
 * that was attached to, which may have ended, and those that share its counters. The errors are:
 *
 *	-ENOENT   no such meter; NAME gets no message
 *	-EEXIST   several processes have a meter of this NAME
 *	-EBADMSG, -EPROTO   what describes it is damaged, or of another version
 *	-EPERM, -ESRCH, ...   PID may not be traced, does not exist, ...
 */
int found_open_name(struct ocp_ctx *ctx, const char *name, struct ocp_meter **out);
int found_open_pid(struct ocp_ctx *ctx, pid_t pid, struct ocp_meter **out);

/* End it without reading it, even if it is damaged. NAME is NULL, or PID is 0. */
int found_remove(struct ocp_ctx *ctx, const char *name, pid_t pid);

/*
 * Find the living tool that counts in PID for itself, not for a kept meter. Returns 0 without one, or if PID
 * cannot be looked at. It is recognised by its name, and has started before it began to count.
 */
pid_t found_living_tool(struct ocp_ctx *ctx, pid_t pid);

/*
 * METER cannot attach to its process, because the process counts inside already. If that is for a tool that was
 * killed, and for nothing that METER does not count, end it, and log that. False: it is left as it is.
 */
bool found_take_over(struct ocp_meter *meter);

/* -EEXIST, with a message, if NAME is one of them. */
int found_check_name_free(struct ocp_ctx *ctx, const char *name);

/* All names; they and *NAMES are one block, which the caller frees. */
int found_list_names(struct ocp_ctx *ctx, char ***names, size_t *n);

#endif
