// SPDX-License-Identifier: MIT
#include "tool/collector_share.h"

#include <stdlib.h>

#include "base/ctx.h"
#include "profile/profile.h"
#include "tool/profile_output.h"

/*
 * Samples per second. After one second the share is known to 2%; a sample takes some microseconds.
 */
enum { HZ = 499 };

struct collector_share {
	struct ocp_ctx *ctx; /* its messages are not shown: without samples no line is printed */
	struct profiler_spec spec;
	struct profiler *profiler;
	struct frame_names *names;
};

static int start_collector_profile(struct collector_share *share)
{
	const pid_t pid = share->spec.pid;
	int err = profiler_open(share->ctx, &share->spec, &share->profiler);

	if (!err)
		err = profiler_add_process(share->profiler, pid);
	if (!err)
		err = frame_names_open(share->ctx, profiler_walker(share->profiler), &share->names);
	return err ? err : profiler_start(share->profiler);
}

struct collector_share *collector_share_begin(pid_t pid)
{
	struct collector_share *share = calloc(1, sizeof(*share));

	if (!share)
		return NULL;
	share->ctx = ocp_ctx_new();
	share->spec = (struct profiler_spec){
		.kind = PROFILE_GC, .hz = HZ, .max_processes = 1, .pid = pid
	};
	if (share->ctx && start_collector_profile(share) == 0)
		return share;
	collector_share_close(share);
	return NULL;
}

void collector_share_refresh(struct collector_share *share)
{
	if (share)
		profiler_refresh(share->profiler);
}

void collector_share_print(struct collector_share *share)
{
	struct profile_reading reading;
	struct profile profile;

	if (!share)
		return;
	profiler_stop(share->profiler);
	if (profiler_read(share->profiler, &reading) == 0) {
		if (profile_make(share->ctx, &reading, share->names, &share->spec, &profile) == 0) {
			profile_print_collector(&profile);
			profile_free(&profile);
		}
		profile_reading_free(&reading);
	}
}

void collector_share_close(struct collector_share *share)
{
	if (!share)
		return;
	frame_names_close(share->names);
	profiler_close(share->profiler);
	ocp_ctx_free(share->ctx);
	free(share);
}
