// SPDX-License-Identifier: MIT
#include "measure/site_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "elf/lines.h"
#include "elf/symbols.h"

void site_table_remove(struct site_table *table, struct measured_file *file, bool keeps)
{
	struct measured_site *sites = table->sites + file->first_site;

	file_guard_release(&file->guard);
	ocp_program_free(file->own);
	free(file->pids);
	file->own = NULL;
	file->prog = NULL;
	file->pids = NULL;
	file->n_pids = 0;
	file->is_attached = false;
	file->is_gone = true;
	for (size_t i = 0; i < file->n_sites; i++) {
		sites[i].site = NULL;
		if (!keeps)
			sites[i].file = NO_FILE;
	}
	if (keeps)
		return;
	free(file->name);
	file->name = NULL;
	file->n_sites = 0;
}

void site_table_free(struct site_table *table)
{
	for (size_t i = 0; i < table->n_columns; i++)
		free(table->columns[i].name);
	for (size_t i = 0; i < table->n_files; i++)
		site_table_remove(table, &table->files[i], false);
	for (size_t i = 0; i < table->n_kept; i++)
		free(table->kept[i]);
	free(table->kept);
	free(table->columns);
	free(table->by_name);
	free(table->files);
	free(table->sites);
	*table = (struct site_table){ 0 };
}

/* ---- columns -------------------------------------------------------------------------------- */

/* Where NAME is in by_name, or should be. */
static size_t place_of(const struct site_table *table, const char *name, bool *found)
{
	size_t low = 0, high = table->n_columns;

	*found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(table->columns[table->by_name[middle]].name, name);

		if (order == 0)
			*found = true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

ptrdiff_t site_table_find(const struct site_table *table, const char *name)
{
	bool found;
	size_t place = place_of(table, name, &found);

	return found ? (ptrdiff_t)table->by_name[place] : -1;
}

static int add_column(struct site_table *table, size_t place, const struct column *column)
{
	char *name = strdup(column->name);

	if (!name)
		return ctx_no_memory(table->ctx);
	memmove(table->by_name + place + 1, table->by_name + place,
		(table->n_columns - place) * sizeof(*table->by_name));
	table->by_name[place] = (uint32_t)table->n_columns;
	table->columns[table->n_columns] = *column;
	table->columns[table->n_columns++].name = name;
	return 0;
}

/* OF[i] becomes the column of PROG's probe number i, or -1. */
static int add_columns(struct site_table *table, const struct ocp_program *prog,
		       column_wanted_fn wanted, void *data, ptrdiff_t *of)
{
	size_t room = table->n_columns + prog->n_probes + 1;
	struct column *columns = realloc(table->columns, room * sizeof(*columns));
	uint32_t *by_name = realloc(table->by_name, room * sizeof(*by_name));
	int err = 0;

	table->columns = columns ? columns : table->columns;
	table->by_name = by_name ? by_name : table->by_name;
	if (!columns || !by_name)
		return ctx_no_memory(table->ctx);
	for (size_t i = 0; !err && i < prog->n_probes; i++) {
		struct column column = { .name = (char *)prog->probes[i].name };
		bool found;
		size_t place = place_of(table, column.name, &found);

		of[i] = -1;
		if (!found && !wanted(data, column.name, &column))
			continue;
		if (!found)
			err = add_column(table, place, &column);
		if (!err)
			of[i] = (ptrdiff_t)table->by_name[place];
	}
	return err;
}

/* ---- files and their sites ------------------------------------------------------------------ */

static struct measured_file *find_file(const struct site_table *table, dev_t dev, ino_t ino)
{
	for (size_t i = 0; i < table->n_files; i++)
		if (!table->files[i].is_gone && table->files[i].dev == dev &&
		    table->files[i].ino == ino)
			return &table->files[i];
	return NULL;
}

size_t site_table_count(const struct site_table *table)
{
	size_t n = 0;

	for (size_t i = 0; i < table->n_sites; i++)
		n += table->sites[i].site != NULL;
	return n;
}

static int add_pid(struct site_table *table, struct measured_file *file, pid_t pid)
{
	pid_t *pids;

	for (size_t i = 0; i < file->n_pids; i++)
		if (file->pids[i] == pid)
			return 0;
	if (!pid)
		return 0;
	pids = realloc(file->pids, (file->n_pids + 1) * sizeof(*pids));
	if (!pids)
		return ctx_no_memory(table->ctx);
	file->pids = pids;
	file->pids[file->n_pids++] = pid;
	return 0;
}

static size_t count_sites(const struct ocp_program *prog, const ptrdiff_t *column_of)
{
	size_t n = 0;

	for (size_t i = 0; i < prog->n_sites; i++)
		n += prog->sites[i].has_code && column_of[prog->sites[i].probe] >= 0;
	return n;
}

/*
 * The first of N numbers, one after the other, that nobody has; if need be they are new. -E2BIG,
 * without a sentence, if there are not so many.
 */
static int find_numbers(struct site_table *table, size_t n, size_t *first)
{
	struct measured_site *sites;
	size_t run = 0;

	*first = table->n_sites;
	for (size_t i = 0; n && i < table->n_sites; i++) {
		run = table->sites[i].file == NO_FILE ? run + 1 : 0;
		if (run == n) {
			*first = i + 1 - n;
			return 0;
		}
	}
	*first -= run;
	if (table->max_sites && n > table->max_sites - *first)
		return -E2BIG;
	sites = realloc(table->sites, (*first + n + 1) * sizeof(*sites));
	if (!sites)
		return ctx_no_memory(table->ctx);
	table->sites = sites;
	if (*first + n > table->n_sites)
		table->n_sites = *first + n;
	return 0;
}

static int add_sites(struct site_table *table, struct measured_file *file,
		     const ptrdiff_t *column_of)
{
	const struct ocp_program *prog = file->prog;
	const size_t n = count_sites(prog, column_of);
	size_t next;
	int err = find_numbers(table, n, &next);

	/* Not to be measured, but a part of the process like others. */
	if (err == -E2BIG)
		file->n_left_out = n;
	if (err)
		return err == -E2BIG ? 0 : err;
	file->first_site = next;
	for (size_t i = 0; i < prog->n_probes; i++) {
		const struct probe *probe = &prog->probes[i];
		const size_t n_before = next;

		for (size_t j = 0; column_of[i] >= 0 && j < probe->n_sites; j++) {
			const struct site *site = &prog->sites[probe->first_site + j];

			if (site->has_code)
				table->sites[next++] = (struct measured_site){
					.site = site,
					.va = site->va,
					.file = (uint32_t)(file - table->files),
					.column = (uint32_t)column_of[i],
				};
		}
		if (column_of[i] >= 0 && next == n_before)
			ctx_log(table->ctx, OCP_LOG_WARN,
				"probe '%s': the compiler left its sites out, it cannot be "
				"measured",
				probe->name);
	}
	file->n_sites = n;
	return 0;
}

/* A uprobe on a dormant site is on no nop: the kernel has to single-step what it replaced. */
static void warn_of_dormant(const struct site_table *table, const struct measured_file *file)
{
	if (file->n_sites && table->sites[file->first_site].site->abi == SITE_ABI_DORMANT)
		ctx_log(table->ctx, OCP_LOG_WARN,
			"%s: was not post-linked: measuring a hit of its probes takes some twenty "
			"times as long as after ocaml-probes-link",
			file->name);
}

/* A place for one more. */
static struct measured_file *find_place(struct site_table *table)
{
	struct measured_file *files;

	for (size_t i = 0; i < table->n_files; i++)
		if (table->files[i].is_gone && !table->files[i].name)
			return &table->files[i];
	files = realloc(table->files, (table->n_files + 1) * sizeof(*files));
	if (!files)
		return NULL;
	table->files = files;
	files[table->n_files] = (struct measured_file){ .guard.fd = -1, .is_gone = true };
	return &files[table->n_files++];
}

static int new_file(struct site_table *table, const struct ocp_program *prog, const char *name,
		    const struct stat *st, struct measured_file **out)
{
	struct measured_file *file = find_place(table);
	char *copy = strdup(name);

	if (!file || !copy) {
		free(copy);
		return ctx_no_memory(table->ctx);
	}
	*file = (struct measured_file){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.name = copy,
		.prog = prog,
		.guard = { .fd = -1, .identity = file_identity_of(st) },
		.round = table->round,
	};
	snprintf(file->path, FD_PATH_BYTES, "/proc/self/fd/%d", prog->fd);
	*out = file;
	return 0;
}

static int add_file(struct site_table *table, const struct ocp_program *prog, pid_t pid,
		    column_wanted_fn wanted, void *data, struct measured_file *file)
{
	ptrdiff_t *column_of = calloc(prog->n_probes + 1, sizeof(*column_of));
	int err = column_of ? add_pid(table, file, pid) : ctx_no_memory(table->ctx);

	if (!err)
		err = add_columns(table, prog, wanted, data, column_of);
	if (!err)
		err = add_sites(table, file, column_of);
	free(column_of);
	return err;
}

int site_table_add_file(struct site_table *table, const struct ocp_program *prog, const char *name,
			pid_t pid, column_wanted_fn wanted, void *data, struct measured_file **file)
{
	struct measured_file *known;
	struct stat st;
	int err;

	*file = NULL;
	if (fstat(prog->fd, &st))
		return ctx_error(table->ctx, -errno, "%s: %s", name, strerror(errno));
	known = find_file(table, st.st_dev, st.st_ino);
	if (known)
		return add_pid(table, known, pid);
	err = new_file(table, prog, name, &st, file);
	if (err)
		return err;
	err = add_file(table, prog, pid, wanted, data, *file);
	if (err) {
		site_table_remove(table, *file, false);
		*file = NULL;
		return err;
	}
	warn_of_dormant(table, *file);
	return 0;
}

/* ---- where in the source ----------------------------------------------------------------------
 */

static int compare_vas(const void *a, const void *b)
{
	const struct symbol_of *x = a, *y = b;

	return (x->va > y->va) - (x->va < y->va);
}

int site_table_keep(struct site_table *table, void *memory)
{
	void **kept = realloc(table->kept, (table->n_kept + 1) * sizeof(*kept));

	if (!kept) {
		free(memory);
		return ctx_no_memory(table->ctx);
	}
	table->kept = kept;
	table->kept[table->n_kept++] = memory;
	return 0;
}

static int read_file_symbols(struct site_table *table, const struct measured_file *file)
{
	struct symbol_of *asked = calloc(file->n_sites + 1, sizeof(*asked));
	struct measured_site *sites = table->sites + file->first_site;
	char *names = NULL;
	int err;

	if (!asked)
		return ctx_no_memory(table->ctx);
	for (size_t i = 0; i < file->n_sites; i++)
		asked[i].va = sites[i].site->va;
	err = symbols_find(table->ctx, file->prog->elf, asked, file->n_sites, &names);
	if (err == -EBADMSG) {
		ctx_log(table->ctx, OCP_LOG_WARN, "%s", ocp_error(table->ctx));
		free(asked);
		return 0;
	}
	for (size_t i = 0; !err && i < file->n_sites; i++) {
		const struct symbol_of key = { .va = sites[i].site->va };
		const struct symbol_of *found =
			bsearch(&key, asked, file->n_sites, sizeof(*asked), compare_vas);

		sites[i].symbol = found ? found->name : NULL;
		sites[i].symbol_off = found ? found->off : 0;
	}
	free(asked);
	return err ? err : site_table_keep(table, names);
}

static int read_file_lines(struct site_table *table, const struct measured_file *file)
{
	struct line_of *asked = calloc(file->n_sites + 1, sizeof(*asked));
	struct measured_site *sites = table->sites + file->first_site;
	char *names = NULL;
	int err;

	if (!asked)
		return ctx_no_memory(table->ctx);
	for (size_t i = 0; i < file->n_sites; i++)
		asked[i].va = sites[i].site->va;
	err = lines_find(table->ctx, file->prog->fd, file->name, asked, file->n_sites, &names);
	for (size_t i = 0; !err && i < file->n_sites; i++) {
		sites[i].source = asked[i].file;
		sites[i].line = asked[i].line;
	}
	free(asked);
	return err ? err : site_table_keep(table, names);
}

int site_table_read_source(struct site_table *table, const struct measured_file *file)
{
	int err;

	if (!file->n_sites)
		return 0;
	err = read_file_symbols(table, file);
	return err ? err : read_file_lines(table, file);
}
