// SPDX-License-Identifier: MIT
/*
 * Opens, attaches and refreshes a meter, which maps probe names to the numbered sites of an engine.
 *
 * The data flows in one direction: first the processes are listed (meter_processes.c), then the
 * files that they map are added to the table (meter_files.c), then the engine attaches to these
 * files (meter_files.c). None of these three steps calls an earlier step.
 *
 * Opening a meter resolves its request: it finds the requested probes in the files that the
 * processes map, and all sites of these probes (site_table.c). The engine gets one struct
 * engine_file per file, however many processes map the file. The engine is opened with spare room,
 * for the sites of files that are loaded later. sample.c converts the engine's reading into rows.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "elf/elf_file.h"
#include "elf/symbols.h"
#include "kernel/kernel_file.h"
#include "measure/meter.h"
#include "measure/open_pairs.h"
#include "process/process.h"
#include "process/process_kind.h"
#include "look/maps.h"
#include "look/proc_file.h"

enum {
	/* room for sites of files that are loaded later: this number plus a quarter of the sites */
	SPARE_SITES = 4096,
	MAX_PROCESSES = 32768,
	/*
	 * combinations of a thread and a pair with open starts; 520 bytes each, allocated at open
	 */
	MAX_OPEN_STARTS = 16384,
	MAX_FRAMES = 131072, /* calls that are active at one time; 72 bytes each */
	MAX_KEYS = 65536,    /* combinations of a thread or process and a probe; 40 bytes each */
	MAX_ROLES = 8,	     /* pairs that one probe can belong to */
	PRINT_LIMIT = 1000,
	/* room for 1361 records: more than a second at the default limit */
	LIMITED_PRINT_BYTES = 4 << 20,
	/* enough for 270 000 records a second, if the reader takes the records every 20 ms */
	UNLIMITED_PRINT_BYTES = 16 << 20,
	SPARE_ARGS = 256, /* for files that are loaded later */
	SPARE_HISTOGRAMS = 16,
};

/* ---- a meter, and where it measures --------------------------------------------------------- */

struct ocp_meter *ocp_meter_new(struct ocp_ctx *ctx)
{
	struct ocp_meter *meter = calloc(1, sizeof(*meter));

	if (!meter) {
		ctx_no_memory(ctx);
		return NULL;
	}
	meter->ctx = ctx;
	meter->table.ctx = ctx;
	meter->ops = &engine_bpf;
	meter->request.depth = OCP_MAX_DEPTH;
	meter->request.print_limit = PRINT_LIMIT;
	arg_requests_init(&meter->arg_requests, meter->ctx, &meter->table, &meter->request);
	return meter;
}

int ocp_meter_check(struct ocp_ctx *ctx)
{
	return engine_bpf.check(ctx);
}

bool meter_lacks_bpf(struct ocp_ctx *ctx)
{
	const int err = ocp_meter_check(ctx);

	return err == -EPERM || err == -EACCES || err == -EOPNOTSUPP;
}

void ocp_meter_free(struct ocp_meter *meter)
{
	if (!meter)
		return;
	meter_stacks_free(meter);
	ended_calls_free(meter->ended_calls);
	if (meter->engine)
		meter->ops->close(meter->engine);
	calibration_free(meter->calibration);
	site_table_free(&meter->table);
	selection_free(&meter->counted);
	selection_free(&meter->timed);
	arg_requests_free(&meter->arg_requests);
	measure_request_free(&meter->request);
	ocp_program_free(meter->program);
	free(meter->program_name);
	free(meter->pids);
	meter_processes_free(meter);
	free(meter->procs);
	free(meter->ends);
	free(meter->roles);
	free(meter);
}

int ocp_meter_add_process(struct ocp_meter *meter, struct ocp_process *proc)
{
	struct ocp_process **procs;
	pid_t *pids;

	if (meter->program)
		return ctx_error(meter->ctx, -EINVAL,
				 "measuring: a program and single processes cannot be combined");
	pids = array_grow(meter->pids, meter->n_pids, sizeof(*pids));
	if (!pids)
		return ctx_no_memory(meter->ctx);
	meter->pids = pids;
	procs = array_grow(meter->procs, meter->n_procs, sizeof(void *));
	if (!procs)
		return ctx_no_memory(meter->ctx);
	meter->procs = procs;
	pids[meter->n_pids++] = ocp_process_tgid(proc);
	procs[meter->n_procs++] = proc;
	return 0;
}

int ocp_meter_add_program(struct ocp_meter *meter, const char *path)
{
	int err;

	if (meter->program || meter->n_procs)
		return ctx_error(meter->ctx, -EINVAL,
				 "measuring: a program and single processes cannot be combined");
	meter->program_name = strdup(path);
	if (!meter->program_name)
		return ctx_no_memory(meter->ctx);
	err = ocp_program_open(meter->ctx, path, &meter->program);
	if (err)
		return err;
	snprintf(meter->program_path, sizeof(meter->program_path), "/proc/self/fd/%d",
		 meter->program->fd);
	meter->program_is_layered = kernel_file_is_layered(meter->program->fd);
	return 0;
}

/* ---- processes without probes yet ----------------------------------------------------------- */

/*
 * A program without probes may load plugins with probes, so the meter starts measuring and logs
 * which probes are missing. It is an error if the program has no probes and cannot load files, or
 * if it has probes but not the requested ones.
 */

static bool meter_has_none_yet(const struct ocp_meter *meter)
{
	/*
	 * If functions are requested, the meter does not wait for files that contain them, although
	 * it measures them in files that are loaded later.
	 */
	if (measure_request_has_code(&meter->request))
		return false;
	for (size_t i = 0; i < meter->table.n_files; i++)
		if (meter->table.files[i].prog && meter->table.files[i].prog->n_probes)
			return false;
	return true;
}

/*
 * Return true if the program ELF can load other files: if it is dynamically linked, or if it is the
 * dynamic loader itself, run as a program. The loader has no interpreter, so it is recognised by a
 * symbol.
 */
static bool can_load(struct elf_file *elf)
{
	uint64_t va;

	return elf_file_has_interpreter(elf) || dynsym_find(elf, "_dl_debug_state", &va) > 0;
}

/* Return true if the program of PROC can load files, or if we cannot find out whether it can. */
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
	/*
	 * The program itself contains no OCaml code, but its processes may have loaded a library
	 * with OCaml code. A process that has ended meanwhile says nothing of the program.
	 */
	for (size_t i = 0; i < n && kind == PROGRAM_FOREIGN; i++)
		kind = process_kind(meter->ctx, pids[i], PROGRAM_FOREIGN);
	free(pids);
	return kind;
}

/*
 * Return PROGRAM_NATIVE if any process runs native code, otherwise the kind of the first process,
 * because the caller's messages name the first process.
 */
static enum program_kind kind_of_processes(const struct ocp_meter *meter)
{
	const enum program_kind first =
		process_kind(meter->ctx, meter->procs[0]->pid, PROGRAM_NATIVE);
	enum program_kind kind = first;

	for (size_t i = 1; i < meter->n_procs && kind != PROGRAM_NATIVE; i++)
		kind = process_kind(meter->ctx, meter->procs[i]->pid, PROGRAM_NATIVE);
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

static int meter_check_can_load(struct ocp_meter *meter)
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

static void meter_log_none_yet(const struct ocp_meter *meter)
{
	const struct selection *printed = &meter->arg_requests.printed;

	if (meter->counted.all || printed->all) {
		ctx_log(meter->ctx, OCP_LOG_WARN,
			"%s: no probes yet: probes of files that are loaded later are measured from "
			"then on%s",
			meter_where(meter),
			meter->is_foreign ? "" : "; functions need no probes (fn:NAME)");
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

/* ---- open: resolve the request -------------------------------------------------------------- */

const char *meter_where(const struct ocp_meter *meter)
{
	if (meter->program)
		return meter->table.n_files ? meter->table.files[0].name : "the program";
	return meter->n_procs == 1 ? meter->procs[0]->images.exe_path : "the processes";
}

static int add_all_files(struct ocp_meter *meter, size_t *n_new)
{
	size_t n;
	int err = 0;

	if (meter->program) {
		err = meter_add_program(meter, n_new);
		return err ? err : meter_look_at_processes(meter, n_new);
	}
	for (size_t i = 0; !err && i < meter->n_procs; i++) {
		n = 0;
		err = meter_add_images(meter, meter->procs[i], false, &n);
		*n_new += n;
	}
	return err ? err : meter_look_at_processes(meter, &n);
}

/* Check that the files have everything that was requested by name. */
static int check_names(struct ocp_meter *meter)
{
	const char **names;
	size_t n = 0, room = 1;
	int err = meter_check_code(meter);

	if (err)
		return err;

	for (size_t i = 0; i < meter->table.n_files; i++)
		room += meter->table.files[i].prog->n_probes;
	names = calloc(room, sizeof(*names));
	if (!names)
		return ctx_no_memory(meter->ctx);
	for (size_t i = 0; i < meter->table.n_files; i++) {
		const struct ocp_program *prog = meter->table.files[i].prog;

		for (size_t j = 0; j < prog->n_probes; j++)
			names[n++] = prog->probes[j].name;
	}
	err = selection_check_used(meter->ctx, &meter->counted, names, n, meter_where(meter));
	if (!err)
		err = selection_check_used(meter->ctx, &meter->arg_requests.printed, names, n,
					   meter_where(meter));
	for (size_t i = 0; !err && i < meter->request.n_pairs; i++) {
		const struct request_pair *pair = &meter->request.pairs[i];

		if (site_table_find(&meter->table, pair->start.text) < 0)
			err = selection_unknown(meter->ctx, pair->start.text, names, n,
						meter_where(meter));
		else if (!request_pair_is_calls(pair) &&
			 site_table_find(&meter->table, pair->stop.text) < 0)
			err = selection_unknown(meter->ctx, pair->stop.text, names, n,
						meter_where(meter));
	}
	free(names);
	return err;
}

/* Return the place of the probe NAME among the ends, which are sorted by name. */
static size_t place_of_end(const struct ocp_meter *meter, const char *name)
{
	size_t low = 0, high = meter->n_ends;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (strcmp(meter->ends[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct meter_end *meter_find_end(const struct ocp_meter *meter, const char *name)
{
	const size_t i = place_of_end(meter, name);

	return i < meter->n_ends && strcmp(meter->ends[i].name, name) == 0 ? &meter->ends[i] : NULL;
}

/* Add the probe NAME, which is not among the ends yet and has no roles. There must be room. */
static struct meter_end *add_end(struct ocp_meter *meter, const char *name)
{
	struct meter_end *end = &meter->ends[place_of_end(meter, name)];

	memmove(end + 1, end, (size_t)(&meter->ends[meter->n_ends++] - end) * sizeof(*end));
	*end = (struct meter_end){ .name = name, .first_role = (uint32_t)meter->n_roles };
	return end;
}

static void add_role(struct ocp_meter *meter, const struct engine_role *role)
{
	meter->roles[meter->n_roles++] = *role;
}

enum { ROLES_OF_CALLS = 5 };

/* Append the ROLES_OF_CALLS roles of END, a function whose calls are pair number PAIR. */
static void add_call_roles(struct ocp_meter *meter, struct meter_end *end, uint32_t pair)
{
	add_role(meter, &(struct engine_role){ .pair = pair, .is_frame = true });
	end->n_roles++;
	add_role(meter, &(struct engine_role){ .pair = pair, .is_frame = true, .is_stop = true });
	add_role(meter, &(struct engine_role){ .pair = pair, .is_frame = true, .confirms = true });
	add_role(meter, &(struct engine_role){ .pair = pair });
	add_role(meter, &(struct engine_role){ .pair = pair, .is_stop = true });
	end->has_calls = end->begins_pair = true;
}

/* Append the roles of the probe NAME to meter->roles. */
static int add_roles_of(struct ocp_meter *meter, const char *name)
{
	const struct request_pair *calls = NULL;
	struct meter_end *end;

	if (meter_find_end(meter, name))
		return 0;
	end = add_end(meter, name);
	for (uint32_t i = 0; i < meter->request.n_pairs; i++) {
		const struct request_pair *pair = &meter->request.pairs[i];
		const bool is_start = strcmp(pair->start.text, name) == 0;
		const bool is_stop =
			!request_pair_is_calls(pair) && strcmp(pair->stop.text, name) == 0;

		if (is_start && request_pair_is_calls(pair))
			calls = pair;
		else if (is_start || is_stop)
			add_role(meter, &(struct engine_role){ .pair = i, .is_stop = is_stop });
		end->begins_pair |= is_start;
	}
	end->n_roles = (uint32_t)meter->n_roles - end->first_role;
	if (calls)
		add_call_roles(meter, end, (uint32_t)(calls - meter->request.pairs));
	if (end->n_roles > MAX_ROLES)
		return ctx_error(meter->ctx, -EINVAL, "probe '%s': part of %u pairs, at most %d",
				 name, end->n_roles, MAX_ROLES);
	return 0;
}

/* Make room for the roles of N more pairs. */
static int enlarge_roles(struct ocp_meter *meter, size_t n)
{
	struct meter_end *ends = realloc(meter->ends, (meter->n_ends + 2 * n + 1) * sizeof(*ends));
	struct engine_role *roles;

	if (!ends)
		return ctx_no_memory(meter->ctx);
	meter->ends = ends;
	roles = realloc(meter->roles, (meter->n_roles + ROLES_OF_CALLS * n + 1) * sizeof(*roles));
	if (!roles)
		return ctx_no_memory(meter->ctx);
	meter->roles = roles;
	return 0;
}

/*
 * Make the roles of all pairs. Roles are stored by the names of the probes, because files with
 * these probes may be loaded later.
 */
static int make_roles(struct ocp_meter *meter)
{
	int err;

	/* Forget the roles of an earlier ocp_meter_open() that failed. */
	meter->n_ends = meter->n_roles = 0;
	err = enlarge_roles(meter, meter->request.n_pairs);
	for (size_t i = 0; !err && i < meter->request.n_pairs; i++) {
		err = add_roles_of(meter, meter->request.pairs[i].start.text);
		if (!err && !request_pair_is_calls(&meter->request.pairs[i]))
			err = add_roles_of(meter, meter->request.pairs[i].stop.text);
	}
	return err;
}

/* Return true if METER times the calls of the function NAME. */
static bool times_calls_of(const struct ocp_meter *meter, const char *name)
{
	const struct meter_end *end = meter_find_end(meter, name);

	return end && end->has_calls;
}

static int add_matching_pair(struct ocp_meter *meter, const char *name)
{
	const size_t i = meter->request.n_pairs;
	struct meter_end *end;

	if (meter_find_end(meter, name))
		return ctx_error(meter->ctx, -EINVAL,
				 "'%s': matches a pattern, and is also part of a pair of functions",
				 name);
	if (measure_request_add_pair(&meter->request, name, NULL))
		return ctx_no_memory(meter->ctx);
	end = add_end(meter, meter->request.pairs[i].start.text);
	add_call_roles(meter, end, (uint32_t)i);
	return 0;
}

/* Fail because the patterns match N functions, which are more than MOST. */
static int refuse_matching(const struct ocp_meter *meter, size_t n, size_t most)
{
	ctx_error(meter->ctx, -EINVAL,
		  "%s: the patterns match %zu functions: at most %zu pairs and functions can be "
		  "timed",
		  meter_where(meter), n, most);
	ctx_hint(meter->ctx, n > METER_MAX_INSIDE_PAIRS || most > METER_MAX_PAIRS
				     ? "`attach --count` has no such limit"
				     : "`attach --engine inside` times them");
	return -EINVAL;
}

int meter_add_matching(struct ocp_meter *meter, const struct code_probes *code)
{
	const size_t most = meter_is_inside(meter) && !meter->request.event_bytes
				    ? METER_MAX_INSIDE_PAIRS
				    : METER_MAX_PAIRS;
	const struct probe_set set = code_probes_set(code);
	size_t n = 0;
	int err;

	if (meter->engine || selection_is_empty(&meter->timed))
		return 0;
	for (size_t i = 0; i < set.n_probes; i++)
		n += selection_takes(&meter->timed, set.probes[i].name) &&
		     !times_calls_of(meter, set.probes[i].name);
	if (n > most - meter->request.n_pairs)
		return refuse_matching(meter, n, most);
	err = enlarge_roles(meter, n);
	for (size_t i = 0; !err && i < set.n_probes; i++)
		if (selection_takes(&meter->timed, set.probes[i].name) &&
		    !times_calls_of(meter, set.probes[i].name))
			err = add_matching_pair(meter, set.probes[i].name);
	return err;
}

/*
 * Warn of sites of PROC in writable memory. Such sites are not measured: the kernel puts uprobes
 * only into mappings that are not writable (valid_vma() in kernel/events/uprobes.c), and ignores
 * writable mappings without an error.
 */
static int warn_of_writable_code(const struct ocp_meter *meter, const struct ocp_process *proc)
{
	const struct live *live = &proc->live;
	size_t n = 0, n_measured = 0;
	struct maps maps;
	int err = maps_read(meter->ctx, proc->pid, &maps);

	if (err)
		return err;
	for (size_t i = 0; i < live->n_probes; i++) {
		const struct live_probe *probe = &live->probes[i];

		if (site_table_find(&meter->table, probe->name) < 0)
			continue;
		n_measured += probe->n_sites;
		for (size_t j = 0; j < probe->n_sites; j++) {
			const struct mapping *m =
				maps_find(&maps, live->sites[probe->first_site + j].addr);

			n += m && m->writable;
		}
	}
	maps_free(&maps);
	if (n)
		ctx_log(meter->ctx, OCP_LOG_WARN,
			"pid %d: %zu of %zu sites are in memory that is writable now, where the "
			"kernel cannot count: their hits are missing",
			(int)proc->pid, n, n_measured);
	return 0;
}

/*
 * Return true if the main thread of the first process has exited. The kernel cannot filter hits by
 * such a process: it compares the address space of the thread that hits the uprobe with the address
 * space of the process's main thread, but a thread that has exited no longer has an address space.
 */
static bool has_lost_its_first_thread(const struct ocp_meter *meter)
{
	uint64_t start_time;

	return meter->n_procs && proc_start_time(meter->pids[0], &start_time) != 0;
}

/* Set the members of SPEC that concern arguments. */
static void fill_arguments(const struct ocp_meter *meter, struct engine_spec *spec)
{
	const struct arg_requests *requests = &meter->arg_requests;
	const size_t most = requests->n_histograms + SPARE_HISTOGRAMS;

	spec->filter = requests->has_filter ? &requests->filter : NULL;
	if (requests->hist_arg >= 0) {
		spec->hist_arg = (unsigned int)requests->hist_arg;
		spec->n_histograms = most < MAX_HISTOGRAMS ? most : MAX_HISTOGRAMS;
	}
	if (requests->by_arg >= 0)
		spec->by = (struct engine_by){ .is_on = true,
					       .arg = (unsigned int)requests->by_arg,
					       .max_hits = MEASURE_BY_MAX_HITS,
					       .max_times = MEASURE_BY_MAX_PAIRS };
	spec->print_bytes =
		meter->request.print_limit ? LIMITED_PRINT_BYTES : UNLIMITED_PRINT_BYTES;
	/* Records with stacks and records of slow pairs are larger than other records. */
	if (meter->request.stack_depth || meter->request.has_slower)
		spec->print_bytes *= 2;
	spec->max_args = requests->table.n + requests->table.n / 4 + SPARE_ARGS;
}

static int open_engine(struct ocp_meter *meter)
{
	meter->spec = (struct engine_spec){
		.max_sites = meter->table.n_sites + meter->table.n_sites / 4 + SPARE_SITES,
		.request = meter->request,
		.held = meter->n_procs == 1 ? meter->procs[0]->held : NULL,
		.can_switch = true,
		.domains = meter->domains,
		.max_keys = MAX_KEYS,
		.roles = meter->roles,
		.n_roles = meter->n_roles,
		.max_open = MAX_OPEN_STARTS,
		.max_frames = measure_request_times_calls(&meter->request) ? MAX_FRAMES : 0,
		.has_conditions = meter_has_conditions(meter),
		.times_only_phases = meter_times_only_phases(meter),
		.only_windows =
			meter_is_inside(meter) && measure_request_counts_only_code(&meter->request),
		.many_processes = meter->n_procs > 1 ||
				  (!meter_is_inside(meter) && has_lost_its_first_thread(meter)),
		.max_processes = MAX_PROCESSES,
		.counts_processes =
			meter->counts_processes && (meter->n_procs != 1 || meter->request.children),
		.exe = meter->program ? meter->program_path : NULL,
		.pid = meter->n_procs ? meter->procs[0]->pid : 0,
	};
	int err;

	meter->table.max_sites = meter->spec.max_sites;
	fill_arguments(meter, &meter->spec);
	err = meter->ops->open(meter->ctx, &meter->spec, &meter->engine);
	if (err == -EOPNOTSUPP && meter_drop_keys(meter)) {
		ctx_log(meter->ctx, OCP_LOG_WARN, "pairs are matched by thread: %s",
			ocp_error(meter->ctx));
		err = meter->ops->open(meter->ctx, &meter->spec, &meter->engine);
	}
	if (!err && meter->spec.n_histograms)
		meter->arg_requests.histogram_room = meter->spec.n_histograms;
	return err;
}

/* Return true if the output shows where sites are in the source. */
static bool needs_source(const struct ocp_meter *meter)
{
	return meter->request.split == OCP_BY_SITE || meter->request.stack_depth;
}

static int check_request(const struct ocp_meter *meter)
{
	static const struct {
		enum request_fault fault;
		const char *message;
	} faults[] = {
		{ REQUEST_KEY_WITHOUT_PAIR, "a key needs a pair" },
		{ REQUEST_HIST_WITHOUT_COUNT, "a histogram needs a counted probe" },
		{ REQUEST_SLOWER_WITHOUT_PAIR, "slow pairs need a pair" },
		{ REQUEST_SLOWER_AND_STACK, "slow pairs have no stacks" },
		{ REQUEST_OUTERMOST_WITHOUT_FUNCTION, "only calls of functions can be outermost" },
		{ REQUEST_OUTERMOST_AND_OTHERS,
		  "outermost calls exclude arguments, printed hits, slow pairs and stacks" },
		{ REQUEST_BY_AND_STACK, "groups by value exclude stacks" },
	};

	if (!meter->program && !meter->n_procs)
		return ctx_error(meter->ctx, -EINVAL, "measuring: no process");
	if (measure_request_is_empty(&meter->request))
		return ctx_error(meter->ctx, -EINVAL, "measuring: no probe given");
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (measure_request_has_fault(&meter->request, faults[i].fault))
			return ctx_error(meter->ctx, -EINVAL, "measuring: %s", faults[i].message);
	if (meter->program && meter->request.children)
		return ctx_error(meter->ctx, -EINVAL,
				 "measuring: children that run the program are measured anyway");
	return 0;
}

int ocp_meter_open(struct ocp_meter *meter)
{
	bool has_none_yet;
	size_t n_sites = 0;
	int err = check_request(meter);

	if (!err)
		err = make_roles(meter);
	if (!err && meter->wants_estimate)
		meter_start_calibration_early(meter);
	if (!err)
		err = add_all_files(meter, &n_sites);
	if (!err)
		err = meter_drop_left_out(meter, &n_sites);
	has_none_yet = !err && meter_has_none_yet(meter);
	if (has_none_yet)
		err = meter_check_can_load(meter);
	else if (!err)
		err = check_names(meter);
	if (!err && n_sites == 0 && !has_none_yet)
		err = ctx_error(meter->ctx, -ENOENT, "%s: no probe sites to measure",
				meter_where(meter));
	if (!err)
		err = meter_check_inside(meter);
	if (!err)
		err = meter_find_keys(meter);
	if (!err)
		err = arg_requests_resolve(&meter->arg_requests);
	if (!err)
		err = meter_check_filter_inside(meter);
	if (!err)
		err = meter_check_groups_inside(meter);
	for (size_t i = 0; !err && !meter_is_inside(meter) && i < meter->n_procs; i++)
		err = warn_of_writable_code(meter, meter->procs[i]);
	for (size_t i = 0; !err && needs_source(meter) && i < meter->table.n_files; i++)
		err = site_table_read_source(&meter->table, &meter->table.files[i]);
	if (!err)
		err = open_engine(meter);
	if (!err)
		arg_requests_tell_left_out(&meter->arg_requests);
	if (!err && has_none_yet)
		meter_log_none_yet(meter);
	return err;
}

/* ---- attach, refresh, detach ---------------------------------------------------------------- */

int ocp_meter_attach(struct ocp_meter *meter)
{
	int err;

	if (!meter->engine || meter->is_attached)
		return ctx_error(meter->ctx, -EINVAL, "measuring: %s",
				 meter->engine ? "attached already" : "not opened yet");
	err = meter_walk_processes(meter);
	if (!err)
		err = meter_describe(meter);
	if (!err)
		err = meter_attach_all(meter);
	if (!err) {
		meter_tell_without_sites(meter);
		meter_drop_ended(meter);
		meter->start_ns = clock_ns(CLOCK_MONOTONIC);
		meter->end_ns = 0;
		meter->is_attached = true;
		meter_start_calibration(meter);
	}
	return err;
}

/* Measure the new sites of FILE. */
static int measure_file(struct ocp_meter *meter, struct measured_file *file)
{
	int err = 0;

	if (file->n_left_out) {
		ctx_error(meter->ctx, -E2BIG, "%s: no room for %zu more sites", file->name,
			  file->n_left_out);
		ctx_hint(meter->ctx, "restart measuring to make room");
		return -E2BIG;
	}
	if (needs_source(meter))
		err = site_table_read_source(&meter->table, file);
	if (!err)
		err = arg_requests_resolve_later(&meter->arg_requests, file->first_site,
						 file->n_sites);
	if (!err && meter->is_attached)
		err = meter_attach_files(meter, &file, 1);
	return err;
}

/*
 * Measure the files that were added in this round. Remove a file that cannot be measured, and
 * measure the others nevertheless.
 */
static int measure_new_files(struct ocp_meter *meter, size_t *n_sites)
{
	int err = 0;

	for (size_t i = 0; i < meter->table.n_files; i++) {
		struct measured_file *file = &meter->table.files[i];
		int its_err;

		if (file->is_gone || file->round != meter->round)
			continue;
		if (meter_passes_over(meter, file)) {
			meter->has_passed_over = true;
			its_err = err;
		} else {
			its_err = measure_file(meter, file);
			if (!its_err)
				continue;
		}
		err = its_err;
		/* *N_SITES must not include sites that could not be attached. */
		*n_sites -= file->n_sites;
		site_table_remove(&meter->table, file, false);
	}
	return err;
}

int ocp_meter_refresh(struct ocp_meter *meter, size_t *n_sites)
{
	int err, its_err;

	*n_sites = 0;
	if (meter->is_pinned || !meter->engine)
		return 0;
	err = meter_look_at_processes(meter, n_sites);
	if (!err)
		err = meter_walk_processes(meter);
	if (!err)
		meter_give_up_files(meter);
	its_err = measure_new_files(meter, n_sites);
	err = its_err ? its_err : err;
	if (err)
		meter_forget_round(meter);
	/*
	 * Check the files even after an error: a process that wants to write to one of the files is
	 * blocked until this check releases the file.
	 */
	its_err = meter->is_attached ? meter_check_files(meter) : 0;
	return its_err ? its_err : err;
}

int ocp_meter_detach(struct ocp_meter *meter)
{
	int err;

	if (!meter->is_attached)
		return 0;
	meter->end_ns = clock_ns(CLOCK_MONOTONIC);
	err = meter->pin_folder[0] ? pin_remove_names(meter->ctx, meter->pin_folder) : 0;
	if (!err)
		err = meter->ops->detach(meter->engine);
	for (size_t i = 0; i < meter->table.n_files; i++)
		file_guard_release(&meter->table.files[i].guard);
	meter->is_attached = false;
	return err;
}

/* ---- questions ------------------------------------------------------------------------------ */

size_t ocp_meter_probe_count(const struct ocp_meter *meter)
{
	return meter->table.n_probes;
}

size_t ocp_meter_site_count(const struct ocp_meter *meter)
{
	return site_table_count(&meter->table);
}

size_t ocp_meter_process_count(const struct ocp_meter *meter)
{
	return meter->n_pids;
}

pid_t ocp_meter_process(const struct ocp_meter *meter, size_t i)
{
	return meter->pids[i];
}

const char *ocp_meter_program(const struct ocp_meter *meter)
{
	return meter->program_name;
}

int64_t meter_start_ns(const struct ocp_meter *meter)
{
	return meter->start_ns;
}

int64_t meter_hits_until(const struct ocp_meter *meter)
{
	return meter->engine ? meter->ops->printed_until(meter->engine) : 0;
}

enum ocp_split ocp_meter_get_split(const struct ocp_meter *meter)
{
	return meter->request.split;
}
