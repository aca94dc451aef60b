// SPDX-License-Identifier: MIT
/*
 * Finds the functions that a meter is to measure, in files with and without probes, and explains
 * why a function was not found. A file without probes is read only if functions are requested.
 * Functions that a process has changed in memory are left out.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base_name.h"
#include "base/file_rules.h"
#include "elf/elf_file.h"
#include "elf/symbols.h"
#include "measure/meter.h"
#include "look/changed_code.h"
#include "process/code_images.h"
#include "process/image.h"
#include "process/mapped_files.h"
#include "process/process.h"
#include "program/code_probes.h"
#include "look/maps.h"
#include "look/proc_file.h"

/* ---- which files are read ------------------------------------------------------------------- */

/*
 * A meter remembers the files that need not or must not be read. Otherwise it would try to read
 * such a file again for each new process that maps the file.
 */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Return true if the file with status ST was remembered and has not changed since. */
static bool code_files_has(const struct code_files *files, const struct stat *st)
{
	for (size_t i = 0; i < CODE_FILES_REMEMBERED; i++) {
		const struct code_file_state *state = &files->states[i];

		if (state->ino == st->st_ino && state->dev == st->st_dev &&
		    state->bytes == st->st_size && same_time(&state->modified, &st->st_mtim) &&
		    same_time(&state->changed, &st->st_ctim))
			return true;
	}
	return false;
}

static void code_files_remember(struct code_files *files, const struct stat *st)
{
	files->states[files->next] = (struct code_file_state){ st->st_dev, st->st_ino, st->st_size,
							       st->st_mtim, st->st_ctim };
	files->next = (files->next + 1) % CODE_FILES_REMEMBERED;
}

/*
 * Return true if user UID owns the file /proc/PID/NAME. If NAME is "", this is the directory
 * /proc/PID, whose owner is the user of the process.
 */
static bool is_owner(pid_t pid, const char *name, uid_t uid)
{
	char path[PROC_PATH_BYTES];
	struct stat st;

	proc_path(path, pid, name);
	return stat(path, &st) == 0 && st.st_uid == uid;
}

/*
 * Return true if METER may read the code of the file with status ST, which PID maps. Every file may
 * be read unless the ctx demands that owners are checked. A monitor that runs for a long time
 * demands this, since reading a hostile file could take seconds. In this case the file must belong
 * to root, to our own user, or to one of these users: if METER measures a program, the owner of
 * this program; if METER measures single processes, the user of PID or the owner of PID's
 * executable.
 */
static bool code_files_may_read(const struct ocp_meter *meter, const struct stat *st, pid_t pid)
{
	struct stat named;

	if (!file_rules_check_owners(meter->ctx) || st->st_uid == 0 || st->st_uid == geteuid())
		return true;
	if (meter->program)
		return fstat(meter->program->fd, &named) == 0 && named.st_uid == st->st_uid;
	return is_owner(pid, "exe", st->st_uid) || is_owner(pid, "", st->st_uid);
}

/* ---- the requested functions ---------------------------------------------------------------- */

struct wishes {
	struct code_wish *list;
	size_t n;
};

bool meter_has_conditions(const struct ocp_meter *meter)
{
	for (size_t i = 0; i < meter->request.n_pairs; i++)
		if (meter->request.pairs[i].start.kind == ITEM_GC_PHASE)
			return true;
	return selection_has_kind(&meter->counted, ITEM_GC_PHASE);
}

bool meter_times_only_phases(const struct ocp_meter *meter)
{
	for (size_t i = 0; i < meter->request.n_pairs; i++)
		if (request_pair_is_calls(&meter->request.pairs[i]) &&
		    meter->request.pairs[i].start.kind != ITEM_GC_PHASE)
			return false;
	return true;
}

static size_t selection_count(const struct selection *selection)
{
	size_t n = 0;

	while (selection_item(selection, n))
		n++;
	return n;
}

/*
 * HAS_ARGS: the arguments are needed. PRINTS: they are printed. HAS_GROUPS: the hits are grouped by
 * one.
 */
static void wish_selected(struct wishes *wishes, const struct selection *selection, bool has_args,
			  bool prints, bool has_groups)
{
	const struct item *item;

	for (size_t i = 0; (item = selection_item(selection, i)); i++)
		if (item_is_code(item->text))
			wishes->list[wishes->n++] = (struct code_wish){ .text = item->text,
									.has_args = has_args,
									.wants_args = prints,
									.uses_stack = has_groups };
}

/*
 * STARTS: the arguments of the start are needed. BOTH: those of the start and the stop are needed.
 * PRINTS: both are printed.
 */
static void wish_pair(struct wishes *wishes, const struct request_pair *pair, bool starts,
		      bool both, bool prints)
{
	const bool is_calls = request_pair_is_calls(pair);

	if (item_is_code(pair->start.text))
		wishes->list[wishes->n++] = (struct code_wish){ .text = pair->start.text,
								.is_timed = is_calls,
								.has_args = starts || both,
								.wants_args = prints,
								.uses_stack = !is_calls };
	if (!is_calls && item_is_code(pair->stop.text))
		wishes->list[wishes->n++] = (struct code_wish){ .text = pair->stop.text,
								.has_args = both,
								.wants_args = prints,
								.uses_stack = true };
}

/* List the requested functions in WISHES. The caller frees the list, also after an error. */
static int make_wishes(const struct ocp_meter *meter, struct wishes *wishes)
{
	const struct arg_requests *args = &meter->arg_requests;
	const bool has_args = args->has_filter || args->hist_arg >= 0 || args->by_arg >= 0;

	*wishes = (struct wishes){ .list = calloc(selection_count(&meter->counted) +
							  selection_count(&meter->timed) +
							  selection_count(&args->printed) +
							  2 * meter->request.n_pairs + 1,
						  sizeof(*wishes->list)) };
	if (!wishes->list)
		return ctx_no_memory(meter->ctx);
	wish_selected(wishes, &meter->counted, has_args, false, args->by_arg >= 0);
	wish_selected(wishes, &args->printed, has_args, true, false);
	for (size_t i = 0; i < meter->request.timed.n; i++)
		wishes->list[wishes->n++] =
			(struct code_wish){ .text = meter->request.timed.list[i].text,
					    .is_timed = true,
					    .has_args = has_args,
					    .wants_args = meter->request.has_slower };
	for (size_t i = 0; i < meter->request.n_pairs; i++)
		wish_pair(wishes, &meter->request.pairs[i], has_args, args->key_arg >= 0,
			  meter->request.has_slower);
	for (size_t i = 0; i < wishes->n; i++) {
		wishes->list[i].spans = meter->request.spans;
		wishes->list[i].by_window = meter_is_inside(meter);
	}
	return 0;
}

/*
 * Set *OUT to the requested functions in PROG. If this fails and PROG is a library, log a warning,
 * measure none of the library's functions, and return 0. There are two exceptions, which are
 * returned: -ENOMEM, and -EOPNOTSUPP, which means that a function was requested by its name but
 * cannot be measured.
 */
static int find_in_file(struct ocp_meter *meter, const struct ocp_program *prog,
			struct code_probes **out)
{
	struct wishes wishes;
	int err = make_wishes(meter, &wishes);

	if (!err)
		err = code_probes_find(meter->ctx, prog, wishes.list, wishes.n, out);
	free(wishes.list);
	if (!err || err == -ENOMEM || err == -EOPNOTSUPP || !prog->is_library)
		return err;
	ctx_log(meter->ctx, OCP_LOG_WARN, "%s: its functions are not measured",
		ocp_error(meter->ctx));
	return 0;
}

int meter_find_code(struct ocp_meter *meter, const struct ocp_program *prog, pid_t pid,
		    struct code_probes **out)
{
	struct stat st;
	int err = 0;

	*out = NULL;
	if (!measure_request_has_code(&meter->request) || fstat(prog->fd, &st) != 0 ||
	    code_files_has(&meter->without_code, &st))
		return 0;
	if (code_files_may_read(meter, &st, pid))
		err = find_in_file(meter, prog, out);
	else
		ctx_log(meter->ctx, OCP_LOG_WARN,
			"pid %d: %s belongs to user %u: its functions are not measured", (int)pid,
			elf_file_name(prog->elf), (unsigned int)st.st_uid);
	if (!err && *out)
		err = meter_add_matching(meter, *out);
	if (err) {
		code_probes_free(*out);
		*out = NULL;
	}
	if (!err && !*out)
		code_files_remember(&meter->without_code, &st);
	return err;
}

/*
 * Open the program of the first process, to look for names in it, and set *OWN to it; the caller
 * frees *OWN. Set *WHERE to its name in messages.
 */
static int open_main_program(struct ocp_meter *meter, const char **where, struct ocp_program **own)
{
	const pid_t pid = meter->procs[0]->pid;
	const int fd = proc_open_exe(pid);

	*where = meter_where(meter);
	return fd < 0 ? ctx_error(meter->ctx, fd, "/proc/%d/exe: %s", (int)pid, strerror(-fd))
		      : program_open_fd(meter->ctx, fd, *where, own);
}

/*
 * TEXT is c:LIBRARY:NAME, where LIBRARY has BYTES bytes. Find the mapping of the file LIBRARY in
 * the first process.
 */
static int find_library(struct ocp_meter *meter, const char *text, size_t bytes,
			struct mapping *found, struct maps *maps)
{
	const pid_t pid = meter->procs[0]->pid;
	int err = maps_read(meter->ctx, pid, maps);

	if (err)
		return err;
	for (size_t i = 0; i < maps->n; i++) {
		const char *base = base_name(maps->mappings[i].path);

		if (strlen(base) == bytes && memcmp(base, item_body(text), bytes) == 0 &&
		    mapped_files_is_first(maps, i)) {
			*found = maps->mappings[i];
			return 0;
		}
	}
	return ctx_error(meter->ctx, -ENOENT, "'%s': pid %d has not loaded a file called %.*s",
			 text, pid, (int)bytes, item_body(text));
}

/*
 * TEXT is c:LIBRARY:NAME, where LIBRARY has BYTES bytes. Set the error to the reason why this
 * function was not found.
 */
static int explain_library(struct ocp_meter *meter, const char *text, size_t bytes)
{
	struct file_origin origin = { .pid = meter->procs[0]->pid, .is_library = true };
	struct ocp_program *prog = NULL;
	struct mapping found;
	struct maps maps = { 0 };
	int fd, err = find_library(meter, text, bytes, &found, &maps);

	if (!err) {
		origin.name = found.path;
		fd = maps_open_file(origin.pid, &found);
		err = fd < 0 ? ctx_error(meter->ctx, fd, "%s: %s", found.path, strerror(-fd))
			     : program_open_from(meter->ctx, fd, &origin, &prog);
		if (!err) {
			err = code_probes_unknown(meter->ctx, prog, text, found.path);
			ocp_program_free(prog);
		}
	}
	maps_free(&maps);
	return err;
}

/* Return true if the file that PID maps at M defines the function SYMBOL. */
static bool defines(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m, const char *symbol)
{
	struct named_symbol asked = { .name = symbol };
	const int fd = maps_open_file(pid, m);
	struct elf_file *elf;
	bool is_stripped;

	if (fd < 0)
		return false;
	if (elf_file_open(ctx, fd, m->path, &elf) == 0) {
		named_symbols_find(ctx, elf, &asked, 1, &is_stripped);
		elf_file_close(elf);
	}
	close(fd);
	return asked.is_defined && !asked.is_thread_local;
}

enum { LIBRARIES_BYTES = 512 };

/*
 * TEXT is c:NAME. Find the libraries of PID that define the function NAME. Write to LIST what the
 * user can request instead of TEXT: "'c:libc.so.6:NAME' or ...". If no library defines NAME, write
 * "".
 */
static void find_in_libraries(struct ocp_ctx *ctx, pid_t pid, const char *text,
			      char list[LIBRARIES_BYTES])
{
	enum { MAX_NAMED = 3 };
	const char *symbol = item_body(text);
	struct maps maps = { 0 };
	size_t n = 0, used = 0;

	list[0] = '\0';
	if (strlen(symbol) > NAMED_SYMBOL_BYTES || maps_read(ctx, pid, &maps))
		return;
	for (size_t i = 0; n < MAX_NAMED && used < LIBRARIES_BYTES && i < maps.n; i++) {
		const char *slash = strrchr(maps.mappings[i].path, '/');

		if (slash && mapped_files_is_first(&maps, i) &&
		    defines(ctx, pid, &maps.mappings[i], symbol))
			used += (size_t)snprintf(list + used, LIBRARIES_BYTES - used, "%s'c:%s:%s'",
						 n++ ? " or " : "", slash + 1, symbol);
	}
	maps_free(&maps);
}

/*
 * Return the pid of a process that is measured or that runs the measured program, or 0 if there is
 * none.
 */
static pid_t any_process(const struct ocp_meter *meter)
{
	pid_t *pids, first;
	size_t n;

	if (!meter->program)
		return meter->n_procs ? meter->procs[0]->pid : 0;
	if (ocp_find_processes(meter->ctx, meter->program_path, &pids, &n))
		return 0;
	first = n ? pids[0] : 0;
	free(pids);
	return first;
}

/*
 * TEXT names a line or the lines of a source file. If a library or plugin of the first process has
 * code of this source file, set the error to the reason why TEXT was not found. Otherwise return
 * -ENODATA.
 */
static int explain_line_of_library(struct ocp_meter *meter, const char *text)
{
	struct code_images images;
	int err = code_images_read(meter->ctx, meter->procs[0]->pid, &images);

	if (err)
		return -ENODATA;
	err = -ENODATA;
	for (size_t i = 0; err == -ENODATA && i < images.n; i++) {
		const struct code_image *image = &images.images[i];
		const struct ocp_program prog = { .elf = image->elf, .fd = image->fd };

		if (image->is_library &&
		    code_lines_has_source(meter->ctx, &prog, image->functions, text))
			err = code_lines_unknown(meter->ctx, &prog, image->functions, text,
						 image->path);
	}
	code_images_free(&images);
	return err;
}

/* Set the error to the reason why TEXT was not found. */
static int explain_unknown(struct ocp_meter *meter, const char *text)
{
	const bool is_line =
		item_kind_of(text) == ITEM_LINE || item_kind_of(text) == ITEM_FILE_LINES;
	struct ocp_program *own = NULL;
	const char *where = meter_where(meter);
	const char *colon = strchr(item_body(text), ':');
	char libraries[LIBRARIES_BYTES] = "";
	int err;

	if (item_kind_of(text) == ITEM_C_FUNCTION && !colon)
		find_in_libraries(meter->ctx, any_process(meter), text, libraries);
	if (item_kind_of(text) == ITEM_C_FUNCTION && colon && meter->n_procs)
		return explain_library(meter, text, (size_t)(colon - item_body(text)));
	if (is_line && meter->n_procs) {
		err = explain_line_of_library(meter, text);
		if (err != -ENODATA)
			return err;
	}
	err = meter->program ? 0 : open_main_program(meter, &where, &own);
	if (!err)
		err = code_probes_unknown(meter->ctx, own ? own : meter->program, text, where);
	ocp_program_free(own);
	if (*libraries)
		ctx_hint(meter->ctx, "did you mean %s?", libraries);
	return err;
}

static int check_selected(struct ocp_meter *meter, const struct selection *selection)
{
	const struct item *item;

	for (size_t i = 0; (item = selection_item(selection, i)); i++)
		if (item_is_code(item->text) && !selection_was_used(selection, i))
			return explain_unknown(meter, item->text);
	return 0;
}

int meter_check_code(struct ocp_meter *meter)
{
	int err = check_selected(meter, &meter->counted);

	if (!err)
		err = check_selected(meter, &meter->arg_requests.printed);
	if (!err)
		err = check_selected(meter, &meter->timed);
	for (size_t i = 0; !err && i < meter->request.n_pairs; i++) {
		const struct request_pair *pair = &meter->request.pairs[i];

		if (item_is_code(pair->start.text) &&
		    site_table_find(&meter->table, pair->start.text) < 0)
			err = explain_unknown(meter, pair->start.text);
		else if (!request_pair_is_calls(pair) && item_is_code(pair->stop.text) &&
			 site_table_find(&meter->table, pair->stop.text) < 0)
			err = explain_unknown(meter, pair->stop.text);
	}
	return err;
}

/* ---- functions that a process has changed --------------------------------------------------- */
/*
 * Leaves out functions that a process has changed in memory. A uprobe on such a function would be
 * harmful: the kernel would execute the instruction in the file instead of the changed one. The
 * function is left out for all processes, since all processes that map a file share the file's
 * sites. If a process changes a function only after the attach, it overwrites the uprobe's int3,
 * and the kernel leaves the changed code as it is.
 */

static struct measured_file *find_measured_file(const struct ocp_meter *meter,
						const struct stat *st)
{
	for (size_t i = 0; i < meter->table.n_files; i++) {
		struct measured_file *file = &meter->table.files[i];

		if (!file->is_gone && file->dev == st->st_dev && file->ino == st->st_ino)
			return file;
	}
	return NULL;
}

static bool selection_names(const struct selection *selection, const char *name)
{
	const struct item *item;

	for (size_t i = 0; (item = selection_item(selection, i)); i++)
		if (strcmp(item->text, name) == 0)
			return true;
	return false;
}

/*
 * Return true if the request contains the function NAME by name. A regular expression that matches
 * NAME is not enough.
 */
static bool is_named(const struct ocp_meter *meter, const char *name)
{
	for (size_t i = 0; i < meter->request.n_pairs; i++)
		if (strcmp(meter->request.pairs[i].start.text, name) == 0 ||
		    strcmp(request_pair_stop(&meter->request.pairs[i]), name) == 0)
			return true;
	return selection_names(&meter->counted, name) ||
	       selection_names(&meter->arg_requests.printed, name);
}

/*
 * Leave out all sites of PROBE in FILE. Returns false if all of these sites were left out before.
 */
static bool leave_out_sites(struct ocp_meter *meter, const struct measured_file *file,
			    uint32_t probe)
{
	bool is_new = false;

	for (size_t i = file->first_site; i < file->first_site + file->n_sites; i++) {
		struct measured_site *site = &meter->table.sites[i];

		if (site->probe_index != probe || site->site->abi != SITE_ABI_CODE)
			continue;
		is_new |= !site->is_left_out;
		site->is_left_out = true;
	}
	return is_new;
}

/*
 * Leave out the functions of FILE that have a changed site. SITES are the sites in the code of
 * FILE; CHANGED[i] is true if SITES[i] has changed.
 */
static int leave_out_all(struct ocp_meter *meter, const struct measured_file *file, pid_t pid,
			 const struct site *sites, const bool *changed)
{
	const char *first = NULL;
	size_t n = 0;
	int err = 0;

	for (size_t i = file->first_site; i < file->first_site + file->n_sites; i++) {
		const struct measured_site *site = &meter->table.sites[i];
		const char *name = meter->table.probes[site->probe_index].name;

		if (site->site->abi != SITE_ABI_CODE || !changed[site->site - sites])
			continue;
		if (!meter->engine && is_named(meter, name))
			return ctx_error(meter->ctx, -EBADMSG,
					 "'%s': cannot be measured: pid %d has changed its code in "
					 "memory",
					 name, (int)pid);
		if (!leave_out_sites(meter, file, site->probe_index))
			continue;
		first = first ? first : name;
		n++;
	}
	if (!n)
		return 0;
	if (file->is_attached)
		err = meter_switch_file(meter, file);
	if (!err)
		ctx_log(meter->ctx, OCP_LOG_WARN,
			"%s: pid %d has changed the code of %zu function%s in memory: left out, the "
			"first one is %s",
			file->name, (int)pid, n, n == 1 ? "" : "s", first);
	return err;
}

/*
 * Leave out the functions that PID has changed in memory. M is a mapping of the file in PID, and ST
 * the status of the file. Return -EBADMSG if the user named one of these functions and the meter is
 * not open yet.
 */
static int meter_leave_out_changed(struct ocp_meter *meter, pid_t pid, const struct mapping *m,
				   const struct stat *st)
{
	const struct measured_file *file = find_measured_file(meter, st);
	const struct probe_set code = code_probes_set(file ? file->code : NULL);
	bool *changed;
	uint64_t bias;
	size_t n;
	int err;

	/*
	 * The engine `inside` looks itself. The code may be changed by this tool, or by a killed
	 * one.
	 */
	if (meter_is_inside(meter))
		return 0;
	if (!file || !code.n_sites || !file->n_sites ||
	    !mapped_files_bias(file->prog->elf, m, &bias))
		return 0;
	changed = calloc(code.n_sites, sizeof(*changed));
	if (!changed)
		return ctx_no_memory(meter->ctx);
	err = changed_code_find(meter->ctx, pid, file->prog, bias, file->code, changed, &n);
	if (err && err != -ENOMEM) {
		/*
		 * The process has ended, or we are not permitted to inspect it. In both cases it is
		 * not measured.
		 */
		ctx_log(meter->ctx, OCP_LOG_DEBUG, "%s", ocp_error(meter->ctx));
		err = 0;
	} else if (!err && n) {
		err = leave_out_all(meter, file, pid, code.sites, changed);
	}
	free(changed);
	return err;
}

int meter_drop_left_out(struct ocp_meter *meter, size_t *n_sites)
{
	struct site_table *table = &meter->table;
	size_t n = 0;
	int err;

	for (size_t i = 0; i < table->n_sites; i++)
		if (table->sites[i].is_left_out)
			table->probes[table->sites[i].probe_index].is_left_out = true;
	for (size_t i = 0; i < table->n_sites; i++)
		if (table->sites[i].file != NO_FILE && !table->sites[i].is_left_out)
			table->probes[table->sites[i].probe_index].is_left_out = false;
	for (size_t i = 0; i < table->n_probes; i++)
		n += table->probes[i].is_left_out;
	if (!n)
		return 0;
	err = site_table_drop_left_out(table);
	*n_sites = site_table_count(table);
	if (!err && !table->n_probes)
		err = ctx_error(meter->ctx, -EBADMSG,
				"%s: all functions that match have other code in memory than in "
				"their file: perhaps they are counted inside",
				meter_where(meter));
	return err;
}

/* ---- files without probes ------------------------------------------------------------------- */

/*
 * If PROG has requested functions, add its file to the table, which then owns PROG. Otherwise free
 * PROG.
 */
static int add_code_file(struct ocp_meter *meter, struct ocp_program *prog, const char *name,
			 pid_t pid, size_t *n_new)
{
	const struct new_file from = { prog, name, meter->program ? 0 : pid };
	struct measured_file *file = NULL;
	struct code_probes *code;
	int err = site_table_know_file(&meter->table, &from);

	if (err == -ENOENT) {
		err = meter_find_code(meter, prog, pid, &code);
		if (!err && code)
			err = site_table_add_file(&meter->table, &from, code, meter_wants_probe,
						  meter, &file);
	}
	if (file) {
		file->own = prog;
		*n_new += file->n_sites;
	} else {
		ocp_program_free(prog);
	}
	return err;
}

/*
 * Add the file that PID maps at M if it has requested functions. Leave out a file that cannot be
 * read, without a message: process/mapped_files.c has logged a warning.
 */
static int add_mapped(struct ocp_meter *meter, pid_t pid, const struct mapping *m, size_t *n_new)
{
	struct file_origin origin = { .name = m->path, .pid = pid };
	struct ocp_program *prog;
	const int fd = maps_open_file(pid, m);
	struct stat st;
	int err;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) != 0) {
		close(fd);
		return 0;
	}
	/*
	 * If METER measures a program, the table already has the program's file, so this file is a
	 * library.
	 */
	origin.is_library = meter->program || !image_is_exe(pid, fd);
	err = program_open_from(meter->ctx, fd, &origin, &prog);
	if (err)
		return err == -ENOMEM ? err : 0;
	err = add_code_file(meter, prog, m->path, pid, n_new);
	return err ? err : meter_leave_out_changed(meter, pid, m, &st);
}

int meter_add_files_without_probes(struct ocp_meter *meter, pid_t pid, size_t *n_new)
{
	struct maps maps;
	int err = 0;

	if (!measure_request_has_code(&meter->request) || maps_read(meter->ctx, pid, &maps))
		return 0;
	for (size_t i = 0; !err && i < maps.n; i++)
		if (mapped_files_is_first(&maps, i))
			err = add_mapped(meter, pid, &maps.mappings[i], n_new);
	maps_free(&maps);
	return err;
}
