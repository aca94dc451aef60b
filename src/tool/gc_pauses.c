// SPDX-License-Identifier: MIT
#include "tool/gc_pauses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code/gc_phases.h"
#include "measure/domain_pairs.h"
#include "program/program.h"
#include "tracee/proc_file.h"

/*
 * The maximum number of rows; a row has 4 KB, and counts one phase in one domain. The pauses of
 * further domains are in the sums only.
 */
enum { MAX_DOMAIN_ROWS = 1024 };

struct gc_pauses {
	struct ocp_process *proc;
	struct ocp_meter *meter;
	struct ocp_sample *last; /* at the end of the last interval, or at the start */
	struct ocp_sample *shown;
};

/*
 * Request the phases at PLACES that can be measured: count the phases that are moments, and time
 * the other phases. Leave out phases whose functions mostly return at once: OCaml 5 domains poll
 * for gc:stw, up to a thousand times for each pause.
 */
static int request_phases(struct ocp_ctx *ctx, struct ocp_meter *meter, const struct elf_file *elf,
			  const struct runtime *runtime, const struct gc_phase_place *places)
{
	size_t n = 0;
	int err = 0;

	for (size_t i = 0; !err && i < N_GC_PHASES; i++) {
		if (gc_phase_check(ctx, elf, runtime, &places[i]) || places[i].phase->only_if_true)
			continue;
		n++;
		err = places[i].timed_vas[0] ? ocp_meter_time(meter, places[i].name, NULL)
					     : ocp_meter_count(meter, places[i].name);
	}
	return err || n ? err : -ENODATA; /* the ctx has the message of the last phase */
}

static int ask_for_phases(struct ocp_ctx *ctx, struct ocp_meter *meter, pid_t pid, const char *exe)
{
	struct gc_phase_place places[N_GC_PHASES];
	struct ocp_program *prog = NULL;
	struct runtime runtime;
	const int fd = proc_open_exe(pid);
	int err;

	if (fd < 0)
		return ctx_error(ctx, fd, "/proc/%d/exe: %s", (int)pid, strerror(-fd));
	err = program_open_fd(ctx, fd, exe, &prog);
	if (!err)
		err = runtime_recognise(ctx, prog->elf, &runtime);
	if (!err)
		err = gc_phases_find(ctx, prog->elf, &runtime, places);
	if (!err)
		err = request_phases(ctx, meter, prog->elf, &runtime, places);
	ocp_program_free(prog);
	if (!err && runtime.layout.has_domains && runtime.places.state_tls)
		meter_split_by_domain(meter, &(struct engine_domains){
						     .max = MAX_DOMAIN_ROWS,
						     .tls = runtime.places.state_tls,
						     .id = runtime.layout.unique_id,
					     });
	return err;
}

int gc_pauses_open(struct ocp_ctx *ctx, pid_t pid, struct gc_pauses **out)
{
	struct gc_pauses *pauses = calloc(1, sizeof(*pauses));
	int err = pauses ? ocp_process_open(ctx, pid, &pauses->proc) : ctx_no_memory(ctx);

	if (!err) {
		pauses->meter = ocp_meter_new(ctx);
		err = pauses->meter ? ocp_meter_add_process(pauses->meter, pauses->proc) : -ENOMEM;
	}
	if (!err)
		err = ask_for_phases(ctx, pauses->meter, pid, ocp_process_exe(pauses->proc));
	if (!err)
		err = ocp_meter_open(pauses->meter);
	if (!err)
		err = ocp_meter_attach(pauses->meter);
	if (!err)
		err = ocp_meter_read(pauses->meter, &pauses->last);
	if (err) {
		gc_pauses_close(pauses);
		return err;
	}
	*out = pauses;
	return 0;
}

void gc_pauses_close(struct gc_pauses *pauses)
{
	if (!pauses)
		return;
	ocp_sample_free(pauses->shown);
	ocp_sample_free(pauses->last);
	ocp_meter_free(pauses->meter);
	ocp_process_free(pauses->proc);
	free(pauses);
}

int gc_pauses_read(struct gc_pauses *pauses, bool is_total, const struct ocp_sample **sample)
{
	struct ocp_sample *now;
	int err = ocp_meter_read(pauses->meter, &now);

	if (err)
		return err;
	ocp_sample_free(pauses->shown);
	pauses->shown = now;
	if (!is_total) {
		err = ocp_sample_difference(now, pauses->last, &pauses->shown);
		ocp_sample_free(pauses->last);
		pauses->last = now;
	}
	*sample = pauses->shown;
	return err;
}
