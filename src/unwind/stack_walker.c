// SPDX-License-Identifier: MIT
#include "unwind/stack_walker.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/image.h"
#include "process/maps.h"
#include "unwind/unwind_table.h"
#include "unwind/vdso.h"

enum { INNER_MAP = 1 << 12 }; /* BPF_F_INNER_MAP of linux/bpf.h */

struct known_file {
	struct walked_file file; /* the first member */
	char *path;
	dev_t dev;
	ino_t ino;
	int table_fd;
};

struct known_process {
	pid_t pid;
	uint32_t tgid;
	struct walk_process *image;
	struct known_file *files[WALK_MAPPINGS]; /* of each mapping */
};

struct stack_walker {
	struct ocp_ctx *ctx;
	struct walk_maps maps;
	struct known_file **files;
	size_t n_files;
	struct known_process **processes;
	size_t n_processes;
	struct walk_rule *rules; /* as in the map */
	size_t n_rules;
	uint32_t n_tables;
	size_t n_rows;
};

/* ---- tables --------------------------------------------------------------------------------- */

/* The number in the map of each of TABLE's rules. Few are new: programs share most of them. */
static int add_rules(struct stack_walker *w, const struct unwind_table *table, uint32_t *numbers)
{
	for (size_t i = 0; i < table->n_rules; i++) {
		uint32_t number = 0;

		while (number < w->n_rules &&
		       memcmp(&w->rules[number], &table->rules[i], sizeof(*w->rules)) != 0)
			number++;
		numbers[i] = number;
		if (number < w->n_rules)
			continue;
		if (w->n_rules == WALK_MAX_RULES)
			return ctx_error(w->ctx, -E2BIG, "more than %d different unwind rules",
					 WALK_MAX_RULES);
		w->rules[w->n_rules++] = table->rules[i];
		if (bpf_map_update_elem(w->maps.rules, &number, &table->rules[i], BPF_ANY) != 0)
			return ctx_error(w->ctx, -errno, "cannot store an unwind rule: %s",
					 strerror(errno));
	}
	return 0;
}

/* Make the map of the rows, which are changed to the rule numbers of the map. */
static int store_rows(struct stack_walker *w, struct unwind_table *table, int *fd)
{
	LIBBPF_OPTS(bpf_map_create_opts, create);
	LIBBPF_OPTS(bpf_map_batch_opts, update);
	uint32_t *keys = calloc(table->n, sizeof(*keys)), count = (uint32_t)table->n;
	int err = 0;

	create.map_flags = INNER_MAP;
	*fd = -1;
	if (!keys)
		return ctx_no_memory(w->ctx);
	for (uint32_t i = 0; i < count; i++)
		keys[i] = i;
	*fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "walk_table", sizeof(uint32_t),
			     sizeof(struct walk_row), count, &create);
	if (*fd < 0 || bpf_map_update_batch(*fd, keys, table->rows, &count, &update) != 0 ||
	    bpf_map_update_elem(w->maps.tables, &w->n_tables, fd, BPF_ANY) != 0)
		err = ctx_error(w->ctx, -errno, "cannot store an unwind table: %s",
				strerror(errno));
	free(keys);
	return err;
}

static int store_table(struct stack_walker *w, struct unwind_table *table, struct known_file *file)
{
	uint32_t *numbers = calloc(table->n_rules, sizeof(*numbers));
	int err;

	if (!numbers)
		return ctx_no_memory(w->ctx);
	err = w->n_tables == WALK_MAX_TABLES
		      ? ctx_error(w->ctx, -E2BIG, "more than %d files with code", WALK_MAX_TABLES)
		      : add_rules(w, table, numbers);
	for (size_t i = 0; i < table->n; i++)
		table->rows[i].rule = numbers[table->rows[i].rule];
	free(numbers);
	if (!err)
		err = store_rows(w, table, &file->table_fd);
	if (err)
		return err;
	file->file.table = w->n_tables++;
	file->file.n_rows = (uint32_t)table->n;
	w->n_rows += table->n;
	return 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

static void free_file(struct known_file *file)
{
	elf_file_close(file->file.elf);
	if (file->file.fd >= 0)
		close(file->file.fd);
	if (file->table_fd >= 0)
		close(file->table_fd);
	free(file->path);
	free(file);
}

/* FILE stays without a table if its code cannot be unwound. */
static int make_table(struct stack_walker *w, struct known_file *file)
{
	struct unwind_table *table;
	int err = unwind_table_read(w->ctx, file->file.elf, &table);

	if (!err && table->n) {
		err = store_table(w, table, file);
		unwind_table_free(table);
		return err;
	}
	unwind_table_free(err ? NULL : table);
	if (err == -ENOMEM)
		return err;
	ctx_log(w->ctx, OCP_LOG_WARN, "%s: stacks end in its code: %s", file->path,
		err ? ocp_error(w->ctx) : "no call frame information");
	return 0;
}

/* FD belongs to the file then. */
static int open_file(struct stack_walker *w, int fd, const char *path, const struct stat *st,
		     struct known_file **out)
{
	struct known_file *file = calloc(1, sizeof(*file));
	int err;

	*out = file;
	if (!file) {
		close(fd);
		return ctx_no_memory(w->ctx);
	}
	*file = (struct known_file){ .file = { .fd = fd, .table = WALK_NO_TABLE },
				     .path = strdup(path),
				     .dev = st->st_dev,
				     .ino = st->st_ino,
				     .table_fd = -1 };
	file->file.path = file->path;
	err = file->path ? elf_file_open(w->ctx, fd, path, &file->file.elf) : ctx_no_memory(w->ctx);
	if (!err)
		err = make_table(w, file);
	if (err)
		free_file(file);
	return err;
}

/* Each descriptor of the vDSO is a file of its own, so it is known by its name. */
static struct known_file *find_vdso(const struct stack_walker *w)
{
	for (size_t i = 0; i < w->n_files; i++)
		if (strcmp(w->files[i]->path, "[vdso]") == 0)
			return w->files[i];
	return NULL;
}

/* The file that M maps, which is read if it is new. *OUT is NULL if it cannot be read. */
static int find_file(struct stack_walker *w, pid_t pid, const struct mapping *m,
		     struct known_file **out)
{
	struct stat st;
	void *files;
	int fd, err;

	*out = m->inode ? NULL : find_vdso(w);
	if (*out)
		return 0;
	fd = m->inode ? image_open_mapped(pid, m) : vdso_open(m);
	if (fd < 0 || fstat(fd, &st) != 0) {
		ctx_log(w->ctx, OCP_LOG_WARN, "pid %d: stacks end in %s: %s", (int)pid,
			*m->path ? m->path : "code that belongs to no file", strerror(errno));
		if (fd >= 0)
			close(fd);
		return 0;
	}
	for (size_t i = 0; i < w->n_files; i++) {
		if (w->files[i]->dev == st.st_dev && w->files[i]->ino == st.st_ino) {
			close(fd);
			*out = w->files[i];
			return 0;
		}
	}
	files = reallocarray(w->files, w->n_files + 1, sizeof(struct known_file *));
	if (!files) {
		close(fd);
		return ctx_no_memory(w->ctx);
	}
	w->files = files;
	err = open_file(w, fd, m->path, &st, out);
	if (!err) {
		w->files[w->n_files++] = *out;
		return 0;
	}
	*out = NULL;
	if (err == -ENOMEM)
		return err;
	ctx_log(w->ctx, OCP_LOG_WARN, "pid %d: stacks end in %s", (int)pid, ocp_error(w->ctx));
	return 0;
}

/* ---- processes ------------------------------------------------------------------------------ */

static int add_mapping(struct stack_walker *w, struct known_process *process,
		       const struct mapping *m)
{
	struct walk_process *image = process->image;
	struct walk_mapping *to = &image->mappings[image->n];
	struct known_file *file;
	uint64_t va = 0;
	int err;

	if (image->n == WALK_MAPPINGS)
		return 0;
	err = find_file(w, process->pid, m, &file);
	if (err)
		return err;
	*to = (struct walk_mapping){ .start = m->start, .end = m->end, .table = WALK_NO_TABLE };
	if (file && image_off_to_va(file->file.elf, m->off, &va)) {
		to->bias = m->start - va;
		to->table = file->file.table;
		to->n_rows = file->file.n_rows;
	} else {
		file = NULL;
	}
	process->files[image->n++] = file;
	return 0;
}

static int read_mappings(struct stack_walker *w, struct known_process *process)
{
	struct maps maps;
	int err = maps_read(w->ctx, process->pid, &maps);

	if (err)
		return err;
	memset(process->image, 0, sizeof(*process->image));
	for (size_t i = 0; i < maps.n && !err; i++) {
		const struct mapping *m = &maps.mappings[i];

		if (m->executable && strcmp(m->path, "[vsyscall]") != 0)
			err = add_mapping(w, process, m);
	}
	if (process->image->n == WALK_MAPPINGS)
		ctx_log(w->ctx, OCP_LOG_WARN,
			"pid %d: stacks end in code above the first %d mappings", (int)process->pid,
			WALK_MAPPINGS);
	maps_free(&maps);
	if (err)
		return err;
	if (bpf_map_update_elem(w->maps.processes, &process->tgid, process->image, BPF_ANY) != 0)
		return ctx_error(w->ctx, -errno, "pid %d: cannot store its mappings: %s",
				 (int)process->pid, strerror(errno));
	/*
	 * It may have executed another program since its mappings were read, one that this user must
	 * not see. The BPF programs forget a process that does so from now on.
	 */
	err = maps_read(w->ctx, process->pid, &maps);
	if (err)
		bpf_map_delete_elem(w->maps.processes, &process->tgid);
	else
		maps_free(&maps);
	return err;
}

static void free_process(struct known_process *process)
{
	free(process->image);
	free(process);
}

int stack_walker_add_process(struct stack_walker *w, pid_t pid, uint32_t tgid)
{
	struct known_process *process = calloc(1, sizeof(*process));
	void *list;
	int err = 0;

	if (process)
		process->image = calloc(1, sizeof(*process->image));
	list = reallocarray(w->processes, w->n_processes + 1, sizeof(struct known_process *));
	if (list)
		w->processes = list;
	if (!process || !process->image || !list) {
		err = ctx_no_memory(w->ctx);
	} else {
		process->pid = pid;
		process->tgid = tgid;
		err = read_mappings(w, process);
	}
	if (err && process)
		free_process(process);
	if (!err)
		w->processes[w->n_processes++] = process;
	return err;
}

int stack_walker_refresh(struct stack_walker *w)
{
	struct walk_process *now = malloc(sizeof(*now));
	int err = now ? 0 : ctx_no_memory(w->ctx);

	for (size_t i = 0; i < w->n_processes && !err; i++) {
		struct known_process *process = w->processes[i];

		if (bpf_map_lookup_elem(w->maps.processes, &process->tgid, now) != 0 ||
		    now->n_unmapped == 0)
			continue;
		err = read_mappings(w, process);
		if (err == -ESRCH) /* it has ended: its stacks are kept */
			err = 0;
	}
	free(now);
	return err;
}

bool stack_walker_locate(const struct stack_walker *w, uint32_t tgid, uint64_t frame,
			 struct walked_place *place)
{
	const uint64_t address = frame & ~WALK_EXACT;
	const uint64_t inside = frame & WALK_EXACT ? address : address - 1;

	for (size_t i = 0; i < w->n_processes; i++) {
		const struct known_process *process = w->processes[i];

		if (process->tgid != tgid)
			continue;
		for (uint32_t j = 0; j < process->image->n; j++) {
			const struct walk_mapping *m = &process->image->mappings[j];

			if (inside < m->start || inside >= m->end || !process->files[j])
				continue;
			place->file = &process->files[j]->file;
			place->va = address - m->bias;
			return true;
		}
	}
	return false;
}

size_t stack_walker_rows(const struct stack_walker *w)
{
	return w->n_rows;
}

/* ---- open and close ------------------------------------------------------------------------- */

int stack_walker_open(struct ocp_ctx *ctx, const struct walk_maps *maps, struct stack_walker **out)
{
	struct stack_walker *w = calloc(1, sizeof(*w));

	*out = w;
	if (w)
		w->rules = calloc(WALK_MAX_RULES, sizeof(*w->rules));
	if (!w || !w->rules) {
		free(w);
		*out = NULL;
		return ctx_no_memory(ctx);
	}
	w->ctx = ctx;
	w->maps = *maps;
	w->n_rules = 1; /* number 0 is all zero, as the map is: nothing is known */
	return 0;
}

void stack_walker_close(struct stack_walker *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n_files; i++)
		free_file(w->files[i]);
	for (size_t i = 0; i < w->n_processes; i++)
		free_process(w->processes[i]);
	free(w->files);
	free(w->processes);
	free(w->rules);
	free(w);
}
