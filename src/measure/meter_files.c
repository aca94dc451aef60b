// SPDX-License-Identifier: MIT
/* The files that a meter measures in: they go to its table with the probes that are wanted of them.
 */
#include <stdlib.h>
#include <string.h>

#include "elf/elf_file.h"
#include "measure/meter.h"
#include "process/process.h"

int meter_append(struct ocp_ctx *ctx, struct ocp_process ***list, size_t *n,
		 struct ocp_process *proc)
{
	struct ocp_process **grown = realloc(*list, (*n + 1) * sizeof(void *));

	if (!grown)
		return ctx_no_memory(ctx);
	*list = grown;
	grown[(*n)++] = proc;
	return 0;
}

int meter_add_own(struct ocp_meter *meter, struct ocp_process *proc)
{
	return meter_append(meter->ctx, &meter->own, &meter->n_own, proc);
}

static bool is_in_a_pair(const struct ocp_meter *meter, const char *name)
{
	for (size_t i = 0; i < meter->n_pairs; i++)
		if (strcmp(meter->pairs[i].start, name) == 0 ||
		    strcmp(meter->pairs[i].stop, name) == 0)
			return true;
	return false;
}

static bool column_is_wanted(void *data, const char *name, struct column *column)
{
	struct ocp_meter *meter = data;

	column->is_counted = selection_takes(&meter->counted, name);
	column->is_printed = selection_takes(&meter->arguments.printed, name);
	return column->is_counted || column->is_printed || is_in_a_pair(meter, name);
}

int meter_add_program(struct ocp_meter *meter, size_t *n_new)
{
	return site_table_add_file(&meter->table, meter->program,
				   elf_file_name(meter->program->elf), 0, column_is_wanted, meter,
				   n_new);
}

int meter_add_images(struct ocp_meter *meter, const struct ocp_process *proc, size_t *n_new)
{
	int err = 0;

	for (size_t i = 0; !err && i < proc->images.n; i++) {
		const struct image *image = &proc->images.images[i];
		size_t n;

		err = site_table_add_file(&meter->table, image->prog, image->path,
					  meter->program ? 0 : proc->pid, column_is_wanted, meter,
					  &n);
		*n_new += err ? 0 : n;
	}
	return err;
}
