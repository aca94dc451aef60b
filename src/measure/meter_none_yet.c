// SPDX-License-Identifier: MIT
/*
 * Decides what a meter does whose processes have no probes yet. A program without probes may load
 * plugins with probes, so the meter starts measuring and logs which probes are missing. If the
 * program has no probes and cannot load files, that is an error; so it is if the program has
 * probes, but not the requested ones.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf/symbols.h"
#include "elf/elf_file.h"
#include "measure/meter.h"
#include "process/process.h"
#include "process/process_kind.h"
#include "tracee/proc_file.h"

bool meter_has_none_yet(const struct ocp_meter *meter)
{
	/*
	 * Functions of files that are loaded later are measured, but the meter does not wait for
	 * them.
	 */
	if (meter_asks_for_code(meter))
		return false;
	for (size_t i = 0; i < meter->table.n_files; i++)
		if (meter->table.files[i].prog && meter->table.files[i].prog->n_probes)
			return false;
	return true;
}

/* ---- can a file with probes be loaded? ------------------------------------------------------ */

/*
 * Return true if the program ELF can load files. The dynamic loader itself can, too, if it runs as
 * a program; it has no interpreter.
 */
static bool can_load(struct elf_file *elf)
{
	uint64_t va;

	return elf_file_has_interpreter(elf) || dynsym_find(elf, "_dl_debug_state", &va) > 0;
}

/* Return true if the program of PROC can load files, or if this cannot be found out. */
static bool process_can_load(const struct ocp_meter *meter, const struct ocp_process *proc)
{
	struct elf_file *elf;
	const int fd = proc_open_exe(proc->pid);
	bool can = true;

	if (fd < 0)
		return true;
	if (elf_file_open(meter->ctx, fd, proc->images.exe_path, &elf) == 0) {
		can = can_load(elf);
		elf_file_close(elf);
	}
	close(fd);
	return can;
}

void meter_need_ocaml(struct ocp_meter *meter, enum meter_ocaml needs)
{
	meter->needs_ocaml = needs;
}

static enum program_kind kind_of_program(const struct ocp_meter *meter)
{
	enum program_kind kind;
	pid_t *pids;
	size_t n;

	if (program_kind_read(meter->ctx, meter->program->elf, &kind))
		return PROGRAM_NATIVE;
	if (kind != PROGRAM_FOREIGN ||
	    ocp_find_processes(meter->ctx, meter->program_path, &pids, &n))
		return kind;
	/* The processes of the program may have loaded a library with OCaml code. */
	for (size_t i = 0; i < n && kind == PROGRAM_FOREIGN; i++)
		kind = process_kind(meter->ctx, pids[i]);
	free(pids);
	return kind;
}

/*
 * Return PROGRAM_NATIVE if any process runs native code, otherwise the kind of the first process:
 * messages name the first process.
 */
static enum program_kind kind_of_processes(const struct ocp_meter *meter)
{
	const enum program_kind first = process_kind(meter->ctx, meter->procs[0]->pid);
	enum program_kind kind = first;

	for (size_t i = 1; i < meter->n_procs && kind != PROGRAM_NATIVE; i++)
		kind = process_kind(meter->ctx, meter->procs[i]->pid);
	return kind == PROGRAM_NATIVE ? kind : first;
}

static int check_process_kind(struct ocp_meter *meter)
{
	char who[PATH_MAX + 32] = "";
	enum program_kind kind;

	if (meter->needs_ocaml == METER_OCAML_LATER)
		return 0;
	kind = meter->program ? kind_of_program(meter) : kind_of_processes(meter);
	meter->is_foreign = kind == PROGRAM_FOREIGN;
	if (meter->is_foreign && meter->needs_ocaml == METER_NOT_BYTECODE)
		return 0;
	if (meter->program)
		return program_kind_need_native(meter->ctx, kind, meter_where(meter));
	snprintf(who, sizeof(who), "pid %d (%s)", (int)meter->procs[0]->pid,
		 meter->procs[0]->images.exe_path);
	return program_kind_need_native(meter->ctx, kind, who);
}

bool meter_remained_foreign(const struct ocp_meter *meter)
{
	return meter->is_foreign && meter_has_none_yet(meter);
}

int meter_check_can_load(struct ocp_meter *meter)
{
	bool can = meter->program && can_load(meter->program->elf);

	for (size_t i = 0; !can && i < meter->n_procs; i++)
		can = process_can_load(meter, meter->procs[i]);
	if (can)
		return check_process_kind(meter);
	return ctx_error(meter->ctx, -ENOENT,
			 "%s: has no OCaml probes and can load none: it is statically linked, "
			 "without a dynamic loader",
			 meter_where(meter));
}

/* ---- missing probes ------------------------------------------------------------------------- */

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
			"then on%s",
			meter_where(meter),
			meter->is_foreign ? "" : "; functions need none (fn:NAME)");
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
