// SPDX-License-Identifier: MIT
#include "unwind/stack_walker.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "kernel/kernel_file.h"
#include "kernel/maps.h"
#include "process/mapped_files.h"
#include "look/maps.h"
#include "unwind/unwind_table.h"

/* ---- the vDSO -------------------------------------------------------------------------------- */

/*
 * Return the size of the mapping of our own vDSO, which begins at START; 0 if the size is unknown.
 */
static size_t own_bytes(uint64_t start)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const struct mapping *own;
	struct maps maps;
	size_t bytes = 0;

	if (ctx && maps_read(ctx, getpid(), &maps) == 0) {
		own = maps_find(&maps, start);
		if (own && own->start == start)
			bytes = own->end - own->start;
		maps_free(&maps);
	}
	ocp_ctx_free(ctx);
	return bytes;
}

int vdso_open(const struct mapping *m)
{
	const void *start = (const void *)getauxval(AT_SYSINFO_EHDR);
	size_t bytes;
	int fd;

	if (strcmp(m->path, "[vdso]") != 0 || !start)
		return -ENOENT;
	bytes = own_bytes((uint64_t)start);
	if (!bytes || bytes != m->end - m->start)
		return -ENOENT;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, start, bytes) == (ssize_t)bytes)
		return fd;
	close(fd);
	return -EIO;
}

/* ---- the walker ------------------------------------------------------------------------------ */

struct known_walked_file {
	struct walked_file file; /* the first member */
	char *path;
	dev_t dev; /* device, as stat() gives it */
	ino_t ino;
	struct walk_inode inode; /* the file as BPF programs know it; see mapped_inode() */
	int table_fd;		 /* the BPF map of the rows; -1: no map */
	struct walk_row *rows;	 /* the rows, if no BPF programs walk; otherwise NULL */
	char *why_none;		 /* why the file has no unwind table; NULL if the file has one */
	bool is_told;
};

/* A file with code that cannot be read: stacks end in its code. */
struct blind_file {
	struct walk_inode inode;
	char *path, *why;
	bool is_told;
};

/* Addresses where a process has mapped the code of a blind file. */
struct blind_range {
	uint64_t start, end;
	struct blind_file *file;
};

struct walker_process {
	pid_t pid;
	uint32_t tgid;
	struct walk_process *image;
};

struct stack_walker {
	struct ocp_ctx *ctx;
	bool has_maps; /* BPF programs walk, with the maps `maps` */
	struct walk_maps maps;
	struct known_walked_file **files; /* the index is the number of the file */
	size_t n_files;
	struct walker_process **processes;
	size_t n_processes;
	uint32_t newcomers[WALK_MAX_NEWS];
	size_t n_newcomers;
	struct walk_rule *rules; /* all rules; the BPF map of rules has the same */
	size_t n_rules;
	size_t n_rows;
	size_t n_loaded; /* the first n_loaded files are in the maps of the BPF programs */
	struct blind_file **blind;
	size_t n_blind;
	struct blind_range *ranges;
	size_t n_ranges;
};

/* ---- tables --------------------------------------------------------------------------------- */

/*
 * Set NUMBERS[i] to the number that rule I of TABLE has among the rules of all files. Add the rules
 * that are missing there. Few are added, since programs share most rules.
 */
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
		if (w->has_maps &&
		    bpf_map_update_elem(w->maps.rules, &number, &table->rules[i], BPF_ANY) != 0)
			return ctx_error(w->ctx, -errno, "cannot store an unwind rule: %s",
					 strerror(errno));
	}
	return 0;
}

static void copy_rows(const struct unwind_table *table, const uint32_t *numbers,
		      struct walk_row *rows)
{
	for (size_t i = 0; i < table->n; i++)
		rows[i] = (struct walk_row){ table->rows[i].va, numbers[table->rows[i].rule] };
}

/*
 * Make the map of the rows of TABLE. NUMBERS[i] is the number of TABLE's rule I in the map of
 * rules. The rows are written through a mapping of the map into memory, because a system call for
 * each row would take 300 ns.
 */
static int make_row_map(struct stack_walker *w, const struct unwind_table *table,
			const uint32_t *numbers, int *fd)
{
	const size_t bytes = table->n * sizeof(struct walk_row);
	struct walk_row *rows = MAP_FAILED;

	*fd = map_create_array("walk_table", sizeof(*rows), table->n, WALK_TABLE_FLAGS);
	if (*fd >= 0)
		rows = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (rows == MAP_FAILED)
		return ctx_error(w->ctx, -errno, "cannot store an unwind table: %s",
				 strerror(errno));
	copy_rows(table, numbers, rows);
	munmap(rows, bytes);
	return 0;
}

static int keep_rows(struct stack_walker *w, const struct unwind_table *table,
		     const uint32_t *numbers, struct walk_row **rows)
{
	*rows = calloc(table->n, sizeof(**rows));
	if (!*rows)
		return ctx_no_memory(w->ctx);
	copy_rows(table, numbers, *rows);
	return 0;
}

static int store_table(struct stack_walker *w, const struct unwind_table *table,
		       struct known_walked_file *file)
{
	uint32_t *numbers = calloc(table->n_rules, sizeof(*numbers));
	int err;

	if (!numbers)
		return ctx_no_memory(w->ctx);
	err = add_rules(w, table, numbers);
	if (!err)
		err = w->has_maps ? make_row_map(w, table, numbers, &file->table_fd)
				  : keep_rows(w, table, numbers, &file->rows);
	free(numbers);
	if (err)
		return err;
	file->file.n_rows = (uint32_t)table->n;
	w->n_rows += table->n;
	return 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

static void free_file(struct known_walked_file *file)
{
	elf_file_close(file->file.elf);
	if (file->file.fd >= 0)
		close(file->file.fd);
	if (file->table_fd >= 0)
		close(file->table_fd);
	free(file->rows);
	free(file->why_none);
	free(file->path);
	free(file);
}

/* Return MESSAGE without "PATH: " if it begins with this text. */
static const char *without_path(const char *message, const char *path)
{
	const size_t n = strlen(path);

	return strncmp(message, path, n) == 0 && strncmp(message + n, ": ", 2) == 0
		       ? message + n + 2
		       : message;
}

/* Make the unwind table of FILE. If the code of FILE cannot be unwound, set why_none instead. */
static int make_table(struct stack_walker *w, struct known_walked_file *file)
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
	file->why_none = strdup(err ? without_path(ocp_error(w->ctx), file->path)
				    : "no call frame information");
	return file->why_none ? 0 : ctx_no_memory(w->ctx);
}

/* Make room for one more file. */
static int extend_files(struct stack_walker *w)
{
	void *files;

	if (w->n_files == WALK_MAX_TABLES)
		return ctx_error(w->ctx, -E2BIG, "more than %d files with code", WALK_MAX_TABLES);
	files = array_grow(w->files, w->n_files, sizeof(struct known_walked_file *));
	if (!files)
		return ctx_no_memory(w->ctx);
	w->files = files;
	return 0;
}

/*
 * Return the inode by which BPF programs know the file of FD, which user space knows as INODE. The
 * two differ on overlayfs.
 */
static struct walk_inode mapped_inode(const struct stack_walker *w, int fd,
				      const struct walk_inode *inode)
{
	struct kernel_file file;

	if (!w->has_maps || !kernel_file_is_layered(fd) || kernel_file_find_mapped(fd, &file) != 0)
		return *inode;
	return (struct walk_inode){ file.dev, file.ino };
}

/*
 * Add the file of FD as *OUT. FD then belongs to W, even after an error. *OUT is NULL after an
 * error.
 */
static int open_walked_file(struct stack_walker *w, int fd, const char *path, const struct stat *st,
			    const struct walk_inode *inode, struct known_walked_file **out)
{
	struct known_walked_file *file = calloc(1, sizeof(*file));
	int err = file ? extend_files(w) : ctx_no_memory(w->ctx);

	*out = NULL;
	if (err) {
		free(file);
		close(fd);
		return err;
	}
	*file = (struct known_walked_file){ .file = { .fd = fd, .table = (uint32_t)w->n_files },
					    .path = strdup(path),
					    .dev = st->st_dev,
					    .ino = st->st_ino,
					    .inode = mapped_inode(w, fd, inode),
					    .table_fd = -1 };
	file->file.path = file->path;
	err = file->path ? elf_file_open(w->ctx, fd, path, &file->file.elf) : ctx_no_memory(w->ctx);
	if (!err)
		err = make_table(w, file);
	if (err) {
		free_file(file);
		return err;
	}
	w->files[w->n_files++] = file;
	*out = file;
	return 0;
}

/*
 * Like open_walked_file(), but if the file was added before, only set *OUT to that file and close
 * FD.
 */
static int add_walked_file(struct stack_walker *w, int fd, const char *path, const struct stat *st,
			   const struct walk_inode *inode, struct known_walked_file **out)
{
	for (size_t i = 0; i < w->n_files; i++) {
		if (w->files[i]->dev == st->st_dev && w->files[i]->ino == st->st_ino) {
			close(fd);
			*out = w->files[i];
			return 0;
		}
	}
	return open_walked_file(w, fd, path, st, inode, out);
}

/*
 * Return the vDSO if it was added before. Its name identifies it, since each descriptor from
 * vdso_open() has a new inode.
 */
static struct known_walked_file *find_vdso(const struct stack_walker *w)
{
	for (size_t i = 0; i < w->n_files; i++)
		if (strcmp(w->files[i]->path, "[vdso]") == 0)
			return w->files[i];
	return NULL;
}

static struct walk_inode inode_of(const struct mapping *m)
{
	return (struct walk_inode){ (uint64_t)m->dev_major << 20 | m->dev_minor, m->inode };
}

/* ---- files that cannot be read -------------------------------------------------------------- */

static struct blind_file *find_blind(const struct stack_walker *w, const struct walk_inode *inode,
				     const char *path)
{
	for (size_t i = 0; i < w->n_blind; i++)
		if (w->blind[i]->inode.dev == inode->dev && w->blind[i]->inode.ino == inode->ino &&
		    strcmp(w->blind[i]->path, path) == 0)
			return w->blind[i];
	return NULL;
}

static void free_blind(struct blind_file *file)
{
	free(file->path);
	free(file->why);
	free(file);
}

static int add_blind(struct stack_walker *w, const struct mapping *m, const char *why,
		     struct blind_file **out)
{
	struct blind_file *file = calloc(1, sizeof(*file));
	void *list = array_grow(w->blind, w->n_blind, sizeof(struct blind_file *));

	if (list)
		w->blind = list;
	if (file) {
		file->inode = inode_of(m);
		file->path = strdup(m->path);
		file->why = strdup(why);
	}
	if (!list || !file || !file->path || !file->why) {
		if (file)
			free_blind(file);
		return ctx_no_memory(w->ctx);
	}
	w->blind[w->n_blind++] = *out = file;
	return 0;
}

/* Record that the mapping M has code of FILE. */
static int add_range(struct stack_walker *w, const struct mapping *m, struct blind_file *file)
{
	struct blind_range *new;

	for (size_t i = 0; i < w->n_ranges; i++)
		if (w->ranges[i].file == file && w->ranges[i].start == m->start &&
		    w->ranges[i].end == m->end)
			return 0;
	new = array_add(w->ranges, w->n_ranges);
	if (!new)
		return ctx_no_memory(w->ctx);
	*new = (struct blind_range){ m->start, m->end, file };
	return 0;
}

/* Record that the file of M cannot be read, and the reason WHY. */
static int add_unreadable_file(struct stack_walker *w, const struct mapping *m, const char *why)
{
	const struct walk_inode inode = inode_of(m);
	struct blind_file *file = find_blind(w, &inode, m->path);
	int err = file ? 0 : add_blind(w, m, why, &file);

	return err ? err : add_range(w, m, file);
}

void stack_walker_tell_end(const struct stack_walker *w, const struct stored_stack *stack)
{
	const uint64_t frame = stack->n ? stack->frames[stack->n - 1] : 0;
	const uint64_t address = frame & ~WALK_EXACT;
	const uint32_t number = walk_frame_table(frame);

	if (stack->end != WALK_NO_RULE || !stack->n)
		return;
	if (frame & WALK_IN_FILE) {
		struct known_walked_file *file = number < w->n_files ? w->files[number] : NULL;

		if (file && file->why_none && !file->is_told) {
			ctx_log(w->ctx, OCP_LOG_WARN, "%s: stacks end in its code: %s", file->path,
				file->why_none);
			file->is_told = true;
		}
		return;
	}
	for (size_t i = 0; i < w->n_ranges; i++) {
		struct blind_file *file = w->ranges[i].file;

		if (file->is_told || address < w->ranges[i].start || address > w->ranges[i].end)
			continue;
		ctx_log(w->ctx, OCP_LOG_WARN, "%s: stacks end in its code: %s",
			*file->path ? file->path : "code that belongs to no file", file->why);
		file->is_told = true;
		return;
	}
}

/* ---- the file of a mapping ------------------------------------------------------------------ */

/*
 * Set *OUT to the file that M maps. Read the file if it was not read before. *OUT is NULL if the
 * file cannot be read.
 */
static int find_walked_file(struct stack_walker *w, pid_t pid, const struct mapping *m,
			    struct known_walked_file **out)
{
	const struct walk_inode inode = inode_of(m);
	struct stat st;
	int fd, err;

	*out = m->inode ? NULL : find_vdso(w);
	if (*out)
		return 0;
	if (find_blind(w, &inode, m->path))
		return add_unreadable_file(w, m, "");
	fd = m->inode ? maps_open_file(pid, m) : vdso_open(m);
	err = fd < 0 ? fd : 0;
	if (!err && fstat(fd, &st) != 0)
		err = -errno;
	if (err) {
		if (fd >= 0)
			close(fd);
		/* If the process has ended, the error does not show that the file is unreadable. */
		return kill(pid, 0) != 0 ? 0 : add_unreadable_file(w, m, strerror(-err));
	}
	err = add_walked_file(w, fd, m->path, &st, &inode, out);
	return !err || err == -ENOMEM
		       ? err
		       : add_unreadable_file(w, m, without_path(ocp_error(w->ctx), m->path));
}

/* ---- files, for programs -------------------------------------------------------------------- */

static void list_segments(const struct elf_file *elf, struct walk_file *file)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	size_t n, n_listed = 0;
	const struct elf_segment *segments = elf_file_segments(elf, &n);

	for (size_t i = 0; i < n && n_listed < WALK_SEGMENTS; i++) {
		const struct elf_segment *segment = &segments[i];

		if (segment->executable)
			file->segments[n_listed++] =
				(struct walk_segment){ segment->off & ~(page - 1),
						       segment->off + segment->file_bytes,
						       segment->va - segment->off };
	}
}

/*
 * Let the BPF programs find the unwind table and the segments of FILE by INODE. If FILE is NULL,
 * the file with INODE cannot be read: let the BPF programs end each stack that reaches the code of
 * that file.
 */
static int store_file(struct stack_walker *w, const struct walk_inode *inode,
		      const struct known_walked_file *file)
{
	struct walk_file stored = { .table = WALK_NO_TABLE };

	if (file) {
		stored.table = file->file.table;
		stored.n_rows = file->file.n_rows;
		list_segments(file->file.elf, &stored);
	}
	if (bpf_map_update_elem(w->maps.files, inode, &stored, BPF_NOEXIST) != 0 &&
	    errno != EEXIST && errno != E2BIG)
		return ctx_error(w->ctx, -errno, "cannot store a file: %s", strerror(errno));
	return 0;
}

/*
 * Give the tables of all new files to the BPF programs in one call. After each call the kernel
 * waits 5 to 20 ms, until no running program can use the old contents of the map.
 */
static int load_tables(struct stack_walker *w)
{
	LIBBPF_OPTS(bpf_map_batch_opts, update);
	const size_t room = w->has_maps ? w->n_files - w->n_loaded : 0;
	uint32_t *keys = calloc(2 * room + 1, sizeof(*keys)), *fds, n = 0, count;
	int err = 0;

	if (!keys)
		return ctx_no_memory(w->ctx);
	fds = keys + room;
	for (size_t i = w->n_files - room; i < w->n_files; i++) {
		if (w->files[i]->table_fd < 0)
			continue;
		keys[n] = (uint32_t)i;
		fds[n++] = (uint32_t)w->files[i]->table_fd;
	}
	count = n;
	if (n && bpf_map_update_batch(w->maps.tables, keys, fds, &count, &update) != 0)
		/* Linux before 5.19 updates one element at a time. */
		for (uint32_t i = 0; i < n && !err; i++)
			err = bpf_map_update_elem(w->maps.tables, &keys[i], &fds[i], BPF_ANY);
	if (err)
		err = ctx_error(w->ctx, -errno, "cannot store an unwind table: %s",
				strerror(errno));
	for (; room && w->n_loaded < w->n_files && !err; w->n_loaded++)
		err = store_file(w, &w->files[w->n_loaded]->inode, w->files[w->n_loaded]);
	free(keys);
	return err;
}

int stack_walker_add_file(struct stack_walker *w, const char *path, const struct walk_inode *inode)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct known_walked_file *file;
	struct stat st;
	int err;

	if (fd < 0 || fstat(fd, &st) != 0) {
		err = ctx_error(w->ctx, -errno, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return err;
	}
	err = add_walked_file(w, fd, path, &st, inode, &file);
	return err ? err : load_tables(w);
}

/* ---- processes ------------------------------------------------------------------------------ */

static int add_mapping(struct stack_walker *w, struct walker_process *process,
		       const struct mapping *m)
{
	struct walk_process *image = process->image;
	struct walk_mapping *to = &image->mappings[image->n];
	struct known_walked_file *file;
	uint64_t bias;
	int err = find_walked_file(w, process->pid, m, &file);

	/*
	 * If the image has no room for this mapping, the BPF programs find the mapping in the
	 * kernel's tree of mappings.
	 */
	if (err || image->n == WALK_MAPPINGS)
		return err;
	*to = (struct walk_mapping){ .start = m->start, .end = m->end, .table = WALK_NO_TABLE };
	if (file && mapped_files_bias(file->file.elf, m, &bias)) {
		to->bias = bias;
		to->table = file->file.table;
		to->n_rows = file->file.n_rows;
	}
	image->n++;
	return 0;
}

static int read_mappings(struct stack_walker *w, struct walker_process *process)
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
	maps_free(&maps);
	if (!err)
		err = load_tables(w);
	if (err || !w->has_maps)
		return err;
	if (bpf_map_update_elem(w->maps.processes, &process->tgid, process->image, BPF_ANY) != 0 &&
	    errno != E2BIG) /* the map is full: walks use the kernel's tree */
		return ctx_error(w->ctx, -errno, "pid %d: cannot store its mappings: %s",
				 (int)process->pid, strerror(errno));
	/*
	 * After its mappings were read above, the process may have executed another program, one
	 * that this user must not see. In that case reading the mappings again fails, and the
	 * process is removed from the map. If the process executes another program from now on, the
	 * BPF programs remove it.
	 */
	err = maps_read(w->ctx, process->pid, &maps);
	if (err)
		bpf_map_delete_elem(w->maps.processes, &process->tgid);
	else
		maps_free(&maps);
	return err;
}

static void free_process(struct walker_process *process)
{
	free(process->image);
	free(process);
}

static void forget_process(struct stack_walker *w, size_t i)
{
	free_process(w->processes[i]);
	w->processes[i] = w->processes[--w->n_processes];
}

int stack_walker_add_process(struct stack_walker *w, pid_t pid, uint32_t tgid)
{
	struct walker_process *process = calloc(1, sizeof(*process));
	void *list;
	int err = 0;

	for (size_t i = w->n_processes; i-- > 0;)
		if (w->processes[i]->tgid == tgid)
			forget_process(w, i);
	if (process)
		process->image = calloc(1, sizeof(*process->image));
	list = array_grow(w->processes, w->n_processes, sizeof(struct walker_process *));
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

/*
 * Set *N to the number of addresses that walks of PROCESS have met outside of its mappings. NOW is
 * working memory. Return false if the process has ended.
 */
static bool count_unmapped(const struct stack_walker *w, const struct walker_process *process,
			   struct walk_process *now, uint32_t *n)
{
	if (!w->has_maps) {
		*n = process->image->n_unmapped;
		return kill(process->pid, 0) == 0 || errno != ESRCH;
	}
	if (bpf_map_lookup_elem(w->maps.processes, &process->tgid, now) != 0)
		return false;
	*n = now->n_unmapped;
	return true;
}

static int refresh_processes(struct stack_walker *w)
{
	struct walk_process *now = malloc(sizeof(*now));
	int err = now ? 0 : ctx_no_memory(w->ctx);

	for (size_t i = w->n_processes; i-- > 0 && !err;) {
		struct walker_process *process = w->processes[i];
		uint32_t n_unmapped;

		if (!count_unmapped(w, process, now, &n_unmapped)) {
			forget_process(w, i);
			continue;
		}
		if (n_unmapped)
			err = read_mappings(w, process);
		if (err == -ESRCH) { /* the process has ended; the stored stacks are kept */
			forget_process(w, i);
			err = 0;
		}
	}
	free(now);
	return err;
}

/* ---- news ----------------------------------------------------------------------------------- */

static pid_t pid_of(const struct stack_walker *w, uint32_t tgid)
{
	for (size_t i = 0; i < w->n_processes; i++)
		if (w->processes[i]->tgid == tgid)
			return w->processes[i]->pid;
	return (pid_t)tgid;
}

/*
 * Return true if INODE is the inode of FILE, which a process has mapped at M. On an overlay file
 * system, a file has two inodes: that of the overlay, and that of the file in the layer below, from
 * which the code is mapped. stat() gives the inode number of the file in the layer below.
 */
static bool is_inode(const struct mapping *m, const struct known_walked_file *file,
		     const struct walk_inode *inode)
{
	const struct walk_inode of_mapping = inode_of(m);

	if (of_mapping.dev == inode->dev && of_mapping.ino == inode->ino)
		return true;
	return m->inode && file && file->ino == inode->ino;
}

/*
 * Read the file INODE, in whose code a walk has met an address. If the process has ended since
 * then, or has mapped another file at that address, do nothing: if INODE is still in use, another
 * walk will meet it.
 */
static int learn_file(struct stack_walker *w, const struct walk_inode *inode,
		      const struct walk_news *news)
{
	const pid_t pid = pid_of(w, news->tgid);
	const struct mapping *m;
	struct known_walked_file *file = NULL;
	struct walk_file known;
	struct maps maps;
	int err = 0;

	if (bpf_map_lookup_elem(w->maps.files, inode, &known) == 0 ||
	    maps_read(w->ctx, pid, &maps) != 0)
		return 0;
	m = maps_find(&maps, news->address);
	if (m && m->executable) {
		err = find_walked_file(w, pid, m, &file);
		if (!err)
			err = load_tables(w);
		if (!err && is_inode(m, file, inode))
			err = store_file(w, inode, file);
	}
	maps_free(&maps);
	return err;
}

static int hear_news(struct stack_walker *w)
{
	void *keys, *values;
	size_t n;
	int err = map_read_all(w->ctx, w->maps.news, sizeof(struct walk_inode),
			       sizeof(struct walk_news), WALK_MAX_NEWS, &keys, &values, &n);

	w->n_newcomers = 0;
	for (size_t i = 0; i < n && !err; i++) {
		const struct walk_inode *inode = (struct walk_inode *)keys + i;

		bpf_map_delete_elem(w->maps.news, inode);
		if (inode->dev == WALK_PROCESS)
			w->newcomers[w->n_newcomers++] = (uint32_t)inode->ino;
		else
			err = learn_file(w, inode, (struct walk_news *)values + i);
	}
	free(keys);
	free(values);
	return err;
}

int stack_walker_refresh(struct stack_walker *w)
{
	int err = refresh_processes(w);

	return err || !w->has_maps ? err : hear_news(w);
}

const uint32_t *stack_walker_newcomers(const struct stack_walker *w, size_t *n)
{
	*n = w->n_newcomers;
	return w->newcomers;
}

/* ---- frames --------------------------------------------------------------------------------- */

bool stack_walker_locate(const struct stack_walker *w, uint64_t frame, struct walked_place *place)
{
	const uint32_t number = walk_frame_table(frame);

	if (!(frame & WALK_IN_FILE) || number >= w->n_files)
		return false;
	place->file = &w->files[number]->file;
	place->va = (uint32_t)frame;
	return true;
}

struct walk_process *stack_walker_image(const struct stack_walker *w, uint32_t tgid)
{
	for (size_t i = 0; i < w->n_processes; i++)
		if (w->processes[i]->tgid == tgid)
			return w->processes[i]->image;
	return NULL;
}

const struct walk_rule *stack_walker_rule(const struct stack_walker *w, uint32_t table, uint32_t va)
{
	const struct known_walked_file *file = table < w->n_files ? w->files[table] : NULL;
	size_t low = 0, high = file && file->rows ? file->file.n_rows : 0;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (file->rows[middle].va <= va)
			low = middle + 1;
		else
			high = middle;
	}
	/* rule 0: nothing is known */
	return low && file->rows[low - 1].rule ? &w->rules[file->rows[low - 1].rule] : NULL;
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
	w->has_maps = maps;
	if (maps)
		w->maps = *maps;
	/* rule 0 (nothing is known) is all zero, which is also the contents of a new map */
	w->n_rules = 1;
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
	for (size_t i = 0; i < w->n_blind; i++)
		free_blind(w->blind[i]);
	free(w->blind);
	free(w->ranges);
	free(w->files);
	free(w->processes);
	free(w->rules);
	free(w);
}
