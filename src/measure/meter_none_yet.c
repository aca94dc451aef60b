// SPDX-License-Identifier: MIT
/*
 * Meters of processes that have no probes yet. A program without probes may load plugins with
 * probes, so the meter starts measuring and logs which probes are missing. It is an error if the
 * program has probes but not the requested one, or if it cannot load any files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "elf/dynsym.h"
#include "elf/elf_file.h"
#include "measure/meter.h"
#include "process/process.h"

bool meter_has_none_yet(const struct ocp_meter *meter)
{
	/* The functions of files that are loaded later are measured, but not waited for. */
	if (meter_asks_for_code(meter))
		return false;
	for (size_t i = 0; i < meter->table.n_files; i++)
		if (meter->table.files[i].prog && meter->table.files[i].prog->n_probes)
			return false;
	return true;
}

/* ---- could one come? ------------------------------------------------------------------------ */

/* A dynamic loader that runs as a program has no interpreter. */
static bool can_load(struct elf_file *elf)
{
	uint64_t va;

	return elf_file_has_interpreter(elf) || dynsym_find(elf, "_dl_debug_state", &va) > 0;
}

/* If this cannot be found out, assume that it can. */
static bool process_can_load(const struct ocp_meter *meter, const struct ocp_process *proc)
{
	struct elf_file *elf;
	char path[32];
	bool can = true;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)proc->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return true;
	if (elf_file_open(meter->ctx, fd, proc->images.exe_path, &elf) == 0) {
		can = can_load(elf);
		elf_file_close(elf);
	}
	close(fd);
	return can;
}

int meter_check_can_load(struct ocp_meter *meter)
{
	bool can = meter->program && can_load(meter->program->elf);

	for (size_t i = 0; !can && i < meter->n_procs; i++)
		can = process_can_load(meter, meter->procs[i]);
	if (can)
		return 0;
	return ctx_error(meter->ctx, -ENOENT,
			 "%s: has no OCaml probes and can load none: it is statically linked, "
			 "without a dynamic loader",
			 meter_where(meter));
}

/* ---- what is waited for --------------------------------------------------------------------- */

static void log_selection(const struct ocp_meter *meter, const struct selection *selection)
{
	const struct item *item;

	for (size_t i = 0; (item = selection_item(selection, i)); i++)
		ctx_log(meter->ctx, OCP_LOG_WARN,
			item->kind == ITEM_PROBE
				? "%s: no probe '%s' yet: it is measured when a file that has it "
				  "is loaded"
				: "%s: no probe that matches '%s' yet: it is measured when a file "
				  "that has one is loaded",
			meter_where(meter), item->text);
}

void meter_log_none_yet(const struct ocp_meter *meter)
{
	const struct selection *printed = &meter->arg_requests.printed;

	if (meter->counted.all || printed->all) {
		ctx_log(meter->ctx, OCP_LOG_WARN,
			"%s: no probes yet: those of files that are loaded later are measured from "
			"then on",
			meter_where(meter));
		return;
	}
	log_selection(meter, &meter->counted);
	log_selection(meter, printed);
	for (size_t i = 0; i < meter->n_ends; i++)
		ctx_log(meter->ctx, OCP_LOG_WARN,
			"%s: no probe '%s' yet: pairs are timed when files that have their probes "
			"are loaded",
			meter_where(meter), meter->ends[i].name);
}
