// SPDX-License-Identifier: MIT
#include "profile/allocation.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/search.h"
#include "code/code_file.h"
#include "code/code_insn.h"
#include "code/runtime.h"
#include "code/x86_function.h"
#include "elf/symbols.h"
#include "kernel/bpf_support.h"
#include "kernel/link.h"
#include "process/gc_gauges.h"
#include "process/image.h"
#include "samples.h"

/* ---- places of uprobes ----------------------------------------------------------------------- */

enum { REG_RDI = 7 };

/* Return true if the instructions at BYTES[0..N) neither branch nor change rdi or memory. */
static bool changes_nothing(struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct insn insn;

	for (size_t at = 0; at < n; at += insn.n_bytes) {
		if (!insn_decode(decoder, bytes + at, n - at, (uint32_t)at, &insn))
			return false;
		if (insn.kind != INSN_OTHER && insn.kind != INSN_NOP && insn.kind != INSN_RSP_ADD &&
		    insn.kind != INSN_RSP_SAVE && insn.kind != INSN_LEA_RIP)
			return false;
		if (insn_writes(decoder, bytes + at, n - at, REG_RDI) ||
		    insn_stores(decoder, bytes + at, n - at))
			return false;
	}
	return true;
}

int entry_place_find(struct ocp_ctx *ctx, struct code_file *file,
		     const struct named_symbol *function, struct entry_place *place)
{
	struct insn_decoder decoder;
	struct code_function decoded;
	struct code_bytes bytes;
	int err;

	*place = (struct entry_place){ .va = function->va, .is_stepped = true };
	err = code_file_bytes(file, true, function->va, function->bytes, &bytes);
	if (err)
		return err == -ENOMEM ? ctx_no_memory(ctx) : 0;
	err = code_function_find_place(ctx, &bytes, file, &decoded);
	if (err)
		return err;
	place->is_stepped = decoded.entry_cost == CODE_STEPPED;
	if (place->is_stepped && !decoded.no_count && decoded.place_cost == CODE_EMULATED) {
		if (!insn_decoder_init(&decoder)) {
			err = ctx_no_memory(ctx);
		} else if (changes_nothing(&decoder, bytes.bytes, decoded.place)) {
			place->va += decoded.place;
			place->is_stepped = false;
		}
		insn_decoder_free(&decoder);
	}
	code_function_free(&decoded);
	return err;
}

/* ---- samples --------------------------------------------------------------------------------- */

enum { N_LARGE = 6, LINKS_A_PROCESS = 2 };

struct sampled_process {
	uint32_t tgid;
	struct gc_reader *reader;
	/* words allocated in minor heaps when sampling began, and at the newest reading */
	double first, last;
	double unsure;	     /* error bound of last - first, in words */
	uint64_t last_heaps; /* how many minor heaps had run out when `last` was read */
	uint64_t end_heaps;  /* how many minor heaps had run out when sampling ended */
	bool is_sampled;
	/* The link for small blocks and the one for large blocks; -1: not attached. */
	int links[LINKS_A_PROCESS];
};

struct allocation {
	struct ocp_ctx *ctx;
	struct allocation_bpf bpf;
	bool large_stopped; /* large blocks are not sampled, even in processes added later */
	bool is_stepped; /* the kernel single-steps an instruction with a uprobe for large blocks */
	struct sampled_process *processes;
	size_t n;
};

/*
 * Check that the kernel supports uprobes of one process. Before Linux 6.10, the kernel takes the
 * process id of a uprobe link for the id of a single thread.
 */
static int check_kernel(struct ocp_ctx *ctx)
{
	struct bpf_support support;
	int err = bpf_support_probe(ctx, &support);

	if (err)
		return err;
	close(support.idle_prog_fd);
	if (support.has_uprobe_multi && support.pid_filter_is_sound)
		return 0;
	return ctx_error(ctx, -EOPNOTSUPP,
			 "sampling allocation needs uprobes of one process (Linux 6.10)");
}

int allocation_open(struct ocp_ctx *ctx, const struct allocation_bpf *bpf, struct allocation **out)
{
	int err = check_kernel(ctx);

	*out = NULL;
	if (err)
		return err;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return ctx_no_memory(ctx);
	**out = (struct allocation){ .ctx = ctx, .bpf = *bpf };
	return 0;
}

/* ---- uprobes -------------------------------------------------------------------------------- */

/*
 * What a uprobe link is attached to: the file of one process. Each process has its own links, even
 * if several processes run the same file.
 */
struct uprobe_target {
	pid_t pid;
	const struct image_exe *exe;
	const char *path; /* path of the executable, through our open descriptor */
};

static int attach_uprobes(struct allocation *a, int prog, const struct uprobe_target *target,
			  const unsigned long *offsets, const uint64_t *cookies, size_t n,
			  int *link)
{
	const struct uprobe_places places = {
		.path = target->path,
		.offsets = offsets,
		.cookies = cookies,
		.n = n,
		.pid = target->pid,
	};

	*link = link_uprobes(prog, &places);
	return *link < 0 ? bpf_support_explain(a->ctx, *link, "sample allocation") : 0;
}

static int find_uprobe_place(struct allocation *a, struct code_file *code,
			     const struct uprobe_target *target, const struct named_symbol *symbol,
			     unsigned long *offset, bool *is_stepped)
{
	struct entry_place place;
	uint64_t off = 0;
	int err = entry_place_find(a->ctx, code, symbol, &place);

	if (!err && !elf_file_va_to_off(target->exe->elf, place.va, &off))
		err = ctx_error(a->ctx, -ENODATA, "%s: the file lacks the code of %s",
				target->exe->path, symbol->name);
	*offset = off;
	*is_stepped = place.is_stepped;
	return err;
}

/* Check that the words of the minor heap of OCaml 5 are where has_run_out() reads them. */
static int check_minor_heap(struct ocp_ctx *ctx, const struct image_exe *exe,
			    const struct runtime *runtime)
{
	static const enum runtime_fact needed[] = { FACT_YOUNG_PTR, FACT_YOUNG_TRIGGER };
	static const char what[] = "allocation cannot be sampled";
	const uint16_t *facts = runtime->facts.at;
	int err = runtime_facts_need(ctx, &runtime->facts, exe->path, needed, 2, what);

	if (!err && (facts[FACT_YOUNG_PTR] != KERNEL_YOUNG_PTR ||
		     facts[FACT_YOUNG_TRIGGER] != KERNEL_YOUNG_TRIGGER))
		err = ctx_error(ctx, -EPROTONOSUPPORT,
				"%s: young_ptr or young_trigger is at another place than in OCaml "
				"5.1 to 5.5: %s",
				exe->path, what);
	return err;
}

/* Check that small blocks can be sampled at the function SYMBOL. */
static int check_small(struct ocp_ctx *ctx, const struct image_exe *exe,
		       const struct runtime *runtime, const struct named_symbol *symbol)
{
	if (!symbol->is_defined)
		return ctx_error(ctx, -ENODATA,
				 "%s: has no symbol %s, which allocation is "
				 "sampled at",
				 exe->path, symbol->name);
	if (!runtime->has_domains && !runtime->places.caml_state)
		return ctx_error(ctx, -ENODATA, "%s: has no symbol Caml_state", exe->path);
	return runtime->has_domains ? check_minor_heap(ctx, exe, runtime) : 0;
}

static int attach_small(struct allocation *a, struct code_file *code,
			const struct uprobe_target *target, const struct runtime *runtime,
			const struct named_symbol *symbol, int *link)
{
	const uint64_t cookie =
		runtime->has_domains ? PROFILE_STATE_IN_RDI : runtime->places.caml_state;
	unsigned long offset;
	bool is_stepped;
	int err = check_small(a->ctx, target->exe, runtime, symbol);

	if (!err)
		err = find_uprobe_place(a, code, target, symbol, &offset, &is_stepped);
	return err ? err : attach_uprobes(a, a->bpf.small, target, &offset, &cookie, 1, link);
}

/*
 * Attach to the functions that allocate blocks directly in the major heap. Blocks that a minor
 * collection moves to the major heap are not sampled here, since other functions allocate them.
 */
static int attach_large(struct allocation *a, struct code_file *code,
			const struct uprobe_target *target, const struct named_symbol *symbols,
			int *link)
{
	unsigned long offsets[N_LARGE];
	size_t n = 0;

	for (size_t i = 0; i < N_LARGE; i++) {
		bool is_stepped;
		int err;

		if (!symbols[i].is_defined)
			continue;
		err = find_uprobe_place(a, code, target, &symbols[i], &offsets[n++], &is_stepped);
		if (err)
			return err;
		a->is_stepped |= is_stepped;
	}
	return n ? attach_uprobes(a, a->bpf.large, target, offsets, NULL, n, link) : 0;
}

static int compare_entries(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return COMPARE(*x, *y);
}

/*
 * Attach all uprobes of a process. SYMBOLS[0..N_LARGE) are the functions for large blocks,
 * SYMBOLS[N_LARGE] is the function for small blocks.
 */
static int attach_all(struct allocation *a, const struct uprobe_target *target,
		      const struct runtime *runtime, const struct named_symbol *symbols,
		      int links[])
{
	uint64_t entries[N_LARGE + 1];
	struct code_file *code;
	int err;

	for (size_t i = 0; i <= N_LARGE; i++)
		entries[i] = symbols[i].va;
	qsort(entries, N_LARGE + 1, sizeof(*entries), compare_entries);
	err = code_file_open(a->ctx, target->exe->elf, entries, N_LARGE + 1, &code);
	if (err)
		return err;
	err = attach_small(a, code, target, runtime, &symbols[N_LARGE], &links[0]);
	if (!err && !a->large_stopped)
		err = attach_large(a, code, target, symbols, &links[1]);
	code_file_close(code);
	return err;
}

static int find_symbols(struct ocp_ctx *ctx, const struct image_exe *exe, struct runtime *runtime,
			struct named_symbol symbols[N_LARGE + 1])
{
	static const char *const names[N_LARGE + 1] = {
		"caml_alloc_shr",
		"caml_alloc_shr_noexc",
		"caml_alloc_shr_no_track_noexc",
		"caml_alloc_shr_with_profinfo",
		"caml_alloc_shr_reserved",
		"caml_alloc_shr_no_raise",
		"caml_alloc_small_dispatch",
	};
	bool is_stripped;
	int err = runtime_recognise(ctx, exe->elf, runtime);

	for (size_t i = 0; i <= N_LARGE; i++)
		symbols[i] = (struct named_symbol){ .name = names[i] };
	return err ? err : named_symbols_find(ctx, exe->elf, symbols, N_LARGE + 1, &is_stripped);
}

static int attach_process(struct allocation *a, pid_t pid, const struct image_exe *exe, int links[])
{
	struct named_symbol symbols[N_LARGE + 1];
	struct runtime runtime;
	char path[64];
	const struct uprobe_target target = { pid, exe, path };
	int err = find_symbols(a->ctx, exe, &runtime, symbols);

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", exe->fd);
	return attach_all(a, &target, &runtime, symbols, links);
}

/* ---- processes ------------------------------------------------------------------------------ */

static int read_minor_words(struct sampled_process *process, double *words)
{
	struct gc_gauges gauges;
	int err = gc_reader_read(process->reader, &gauges);

	if (!err)
		*words = gauges.words.minor;
	return err;
}

/* Return the number of minor heaps of PROCESS that have run out so far. */
static uint64_t heaps_of(const struct allocation *a, const struct sampled_process *process)
{
	struct profile_sampled sampled;

	if (!process->is_sampled)
		return process->end_heaps;
	return bpf_map_lookup_elem(a->bpf.sampled, &process->tgid, &sampled) ? 0 : sampled.heaps;
}

/*
 * Read, at about the same time, how many words PROCESS has allocated and how many of its minor
 * heaps have run out. Return -ESRCH if the process has ended.
 */
static int refresh_process(struct allocation *a, struct sampled_process *process)
{
	const uint64_t heaps = heaps_of(a, process);
	double words;
	int err = read_minor_words(process, &words);

	if (err)
		return err;
	process->last = words;
	process->last_heaps = heaps;
	return 0;
}

/*
 * Begin to count samples of PROCESS. The words allocated up to this moment cannot be read at the
 * very same moment: the process continues to run between a reading and the start, for a long time
 * if the tool has to wait for a processor. So use the mean of a reading before and a reading after
 * the start.
 */
static int begin_sampling(struct allocation *a, struct sampled_process *process)
{
	const struct profile_sampled sampled = { 0 };
	double after = 0;
	int err = read_minor_words(process, &process->first);

	if (err)
		return err;
	err = bpf_map_update_elem(a->bpf.sampled, &process->tgid, &sampled, 0 /* BPF_ANY */);
	if (err)
		return bpf_support_explain(a->ctx, err, "sample allocation");
	process->is_sampled = true;
	err = read_minor_words(process, &after);
	process->unsure = err ? 0 : (after - process->first) / 2;
	process->first += process->unsure;
	process->last = process->first;
	return err;
}

/* Stop counting samples. Read the words before and after, as begin_sampling() does. */
static void end_sampling(struct allocation *a, struct sampled_process *process)
{
	struct profile_sampled sampled = { 0 };
	double after;

	if (!process->is_sampled)
		return;
	refresh_process(a, process);
	if (bpf_map_lookup_and_delete_elem(a->bpf.sampled, &process->tgid, &sampled))
		sampled.heaps = process->last_heaps;
	process->is_sampled = false;
	process->end_heaps = sampled.heaps;
	if (read_minor_words(process, &after))
		return;
	after = (after - process->last) / 2;
	process->unsure += after;
	process->last += after;
	process->last_heaps = sampled.heaps;
}

/* Stop sampling PROCESS, but keep its numbers for the profile. */
static void stop_process(struct allocation *a, struct sampled_process *process)
{
	end_sampling(a, process);
	gc_reader_free(process->reader);
	process->reader = NULL;
	for (int i = 0; i < LINKS_A_PROCESS; i++) {
		if (process->links[i] >= 0)
			link_close(process->links[i]);
		process->links[i] = -1;
	}
}

static int start_process(struct allocation *a, pid_t pid, struct sampled_process *process)
{
	struct image_exe exe;
	int err = gc_reader_open(a->ctx, pid, &process->reader);

	if (err)
		return err;
	err = image_exe_open(a->ctx, pid, &exe);
	if (err)
		return err;
	err = attach_process(a, pid, &exe, process->links);
	image_exe_close(&exe);
	return err ? err : begin_sampling(a, process);
}

int allocation_check(struct ocp_ctx *ctx, pid_t pid)
{
	struct named_symbol symbols[N_LARGE + 1];
	struct gc_reader *reader = NULL;
	struct runtime runtime;
	struct image_exe exe;
	int err = check_kernel(ctx);

	if (!err)
		err = gc_reader_open(ctx, pid, &reader);
	gc_reader_free(reader);
	if (!err)
		err = image_exe_open(ctx, pid, &exe);
	if (err)
		return err;
	err = find_symbols(ctx, &exe, &runtime, symbols);
	if (!err)
		err = check_small(ctx, &exe, &runtime, &symbols[N_LARGE]);
	image_exe_close(&exe);
	return err;
}

int allocation_add_process(struct allocation *a, pid_t pid, uint32_t tgid)
{
	struct sampled_process process = { .tgid = tgid, .links = { -1, -1 } }, *new = NULL;
	int err = start_process(a, pid, &process);

	if (!err) {
		new = array_add(a->processes, a->n);
		err = new ? 0 : ctx_no_memory(a->ctx);
	}
	if (err)
		stop_process(a, &process);
	else
		*new = process;
	return err;
}

void allocation_refresh(struct allocation *a)
{
	for (size_t i = 0; i < a->n; i++) {
		struct sampled_process *process = &a->processes[i];

		/*
		 * The process has ended: release its map entry and descriptors, which processes
		 * that start later need.
		 */
		if (process->is_sampled && refresh_process(a, process) == -ESRCH)
			stop_process(a, process);
	}
}

bool allocation_large_is_stepped(const struct allocation *a)
{
	return a->is_stepped;
}

void allocation_stop_large(struct allocation *a)
{
	a->large_stopped = true;
	for (size_t i = 0; i < a->n; i++) {
		if (a->processes[i].links[1] >= 0)
			link_close(a->processes[i].links[1]);
		a->processes[i].links[1] = -1;
	}
}

void allocation_stop(struct allocation *a)
{
	for (size_t i = 0; i < a->n; i++)
		end_sampling(a, &a->processes[i]);
	for (size_t i = 0; i < a->n; i++)
		stop_process(a, &a->processes[i]);
}

double allocation_minor_words(const struct allocation *a, uint32_t tgid)
{
	for (size_t i = 0; i < a->n; i++) {
		const struct sampled_process *process = &a->processes[i];
		const uint64_t heaps = process->tgid == tgid ? heaps_of(a, process) : 0;
		double words = process->last - process->first;

		if (process->tgid != tgid)
			continue;
		if (process->last_heaps && heaps > process->last_heaps)
			words *= (double)heaps / (double)process->last_heaps;
		return words;
	}
	return 0;
}

double allocation_unsure_words(const struct allocation *a)
{
	double words = 0;

	for (size_t i = 0; i < a->n; i++)
		words += a->processes[i].unsure;
	return words;
}

void allocation_close(struct allocation *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++)
		stop_process(a, &a->processes[i]);
	free(a->processes);
	free(a);
}
