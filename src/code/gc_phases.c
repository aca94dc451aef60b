// SPDX-License-Identifier: MIT
/*
 * The functions and events of the collector's phases in each version of the runtime.
 *
 * The sources are runtime/minor_gc.c, major_gc.c, compact.c, shared_heap.c and domain.c of OCaml
 * 4.13.1, 4.14.1, 5.1.0 and 5.3.0, and the code of the packages of 5.4.1 and 5.5.2. 5.2 was not
 * read: its functions are assumed to do the same if they have the same symbols. If the compiler has
 * inlined or cloned a function ("f.constprop.0"), no symbol has the function's plain name, and the
 * next row of the phase is tried.
 *
 * The phases were checked with uprobes. On 4.13.1 and 4.14.1, their numbers equal the numbers that
 * programs print at exit with OCAMLRUNPARAM=v=0x400. (Compactions are not counted as calls of
 * caml_compact_heap, because 3 calls made 6 compactions.) On 5.1.0, 5.3.0, 5.4.1 and 5.5.2, with
 * four domains, the numbers equal those of runtime_events: a pause is what the runtime reports as
 * one.
 * In functions there is more: a waiting domain calls handle_incoming (311 000 calls, 323 pauses)
 * and major_collection_slice very often without any work to do. The rows with functions for 5.1 to
 * 5.3 are for files whose code does not show the calls that report events.
 */
#include "code/gc_phases.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/symbols.h"

/* ---- phases ---------------------------------------------------------------------------------- */

const char *const gc_phase_names[N_GC_PHASES] = {
	"gc:minor", "gc:major_slice", "gc:major_cycle", "gc:compact", "gc:stw", "gc:stw_wait",
};

enum {
	LATEST = 505, /* the latest version whose runtime was read */
	LATER = 599,  /* all of OCaml 5: the code itself shows what is needed */
};

struct phase_versions {
	int first, last; /* versions: 100 x major + minor */
	struct gc_phase phase;
};

/* For each phase and version, the first row whose symbols exist is used. */
static const struct phase_versions rows[] = {
	{ 413,
	  414,
	  { .name = "gc:minor",
	    .timed_symbols = { "caml_empty_minor_heap" },
	    .counted_symbol = "caml_final_update_minor_roots",
	    .counted_in_timed = true,
	    .source = "caml_empty_minor_heap does nothing if the minor heap is empty; otherwise it "
		      "calls caml_final_update_minor_roots once, and adds 1 to "
		      "Caml_state->stat_minor_collections" } },
	{ 413,
	  414,
	  { .name = "gc:major_slice",
	    .timed_symbols = { "caml_major_collection_slice" },
	    .source = "each slice, with a compaction that it starts; a forced cycle "
		      "(Gc.full_major) is no slice: caml_finish_major_cycle" } },
	{ 413,
	  414,
	  { .name = "gc:major_cycle",
	    .counted_symbol = "caml_final_update_clean_phase",
	    .source = "mark_slice calls it once in a cycle, when marking ends; "
		      "Caml_state->stat_major_collections follows when sweeping ends" } },
	{ 413,
	  414,
	  { .name = "gc:compact",
	    .timed_symbols = { "caml_compact_heap" },
	    .counted_symbol = "caml_shrink_mark_stack",
	    .source = "caml_compact_heap compacts once, or twice to leave a large first chunk; "
		      "do_compaction calls caml_shrink_mark_stack, which nothing else does, right "
		      "after it adds 1 to Caml_state->stat_compactions" } },
	{ 501,
	  LATER,
	  { .name = "gc:minor",
	    .events = { GC_EVENT_MINOR },
	    .is_per_domain = true,
	    .source = "EV_MINOR: without the wait for the other domains, which follows it" } },
	{ 501,
	  LATER,
	  { .name = "gc:major_slice",
	    .events = { GC_EVENT_SLICE },
	    .is_per_domain = true,
	    .source = "EV_MAJOR_SLICE: without the end of a cycle, which follows it, and without "
		      "the slices of a domain that waits for others" } },
	{ 502,
	  LATER,
	  { .name = "gc:compact",
	    .events = { GC_EVENT_COMPACT },
	    .reporter = "caml_compact_heap",
	    .is_per_domain = true,
	    .source = "EV_COMPACT: all of caml_compact_heap, which each domain calls in each "
		      "compaction" } },
	{ 501,
	  LATER,
	  { .name = "gc:stw",
	    .events = { GC_EVENT_STW_LEADER, GC_EVENT_STW_HANDLER },
	    .reporter = "caml_try_run_on_all_domains_with_spin_work",
	    .is_per_domain = true,
	    .source = "EV_STW_LEADER: once the domain may stop the others; EV_STW_HANDLER" } },
	{ 504,
	  LATER,
	  { .name = "gc:stw_wait",
	    .events = { GC_EVENT_EMPTY_MINOR },
	    .reporter = "caml_empty_minor_heaps_once",
	    .is_per_domain = true,
	    .source =
		    "EV_EMPTY_MINOR: caml_empty_minor_heaps_once tries to lead a stop until its "
		    "minor heap is empty, which is also the work of a stop that another leads" } },
	{ 501,
	  503,
	  { .name = "gc:minor",
	    .timed_symbols = { "caml_empty_minor_heap_promote" },
	    .is_per_domain = true,
	    .source = "each domain calls it in each minor collection; EV_MINOR begins and ends "
		      "in it, and it then waits for the other domains" } },
	{ 501,
	  503,
	  { .name = "gc:major_slice",
	    .timed_symbols = { "major_collection_slice" },
	    .jumps_to = { "caml_opportunistic_major_collection_slice" },
	    .argument = 4,
	    .not_argument = 2,
	    .is_per_domain = true,
	    .source =
		    "argument 4 is 2 (Slice_opportunistic) while a domain waits for others: it "
		    "returns at once if there is no work, and EV_MAJOR_SLICE has no such slices" } },
	{ 501,
	  505,
	  { .name = "gc:major_cycle",
	    .counted_symbol = "caml_cycle_heap_from_stw_single",
	    .source = "one domain calls it, right before it adds 1 to "
		      "caml_major_cycles_completed" } },
	{ 501,
	  502,
	  { .name = "gc:major_cycle",
	    .counted_symbol = "caml_cycle_heap_stw",
	    .source = "the name in 5.1 of caml_cycle_heap_from_stw_single" } },
	{ 502,
	  503,
	  { .name = "gc:compact",
	    .timed_symbols = { "caml_compact_heap" },
	    .is_per_domain = true,
	    .source = "each domain calls it in each compaction" } },
	{ 501,
	  503,
	  { .name = "gc:stw",
	    .timed_symbols = { "caml_try_run_on_all_domains_with_spin_work", "handle_incoming" },
	    .jumps_to = { NULL, "caml_handle_incoming_interrupts" },
	    .only_if_true = true,
	    .is_per_domain = true,
	    .source = "the domain that stops the others runs the first function, which returns 0 "
		      "if another domain was faster; the others run the second one, which returns "
		      "0 if nothing was asked for: EV_STW_LEADER, EV_STW_HANDLER" } },
};

/*
 * The numbers of events: positions in enum ev_runtime_phase (runtime/caml/runtime_events.h). 5.3
 * inserted four events of Memprof, before EV_MINOR, EV_MINOR_FINALIZED and
 * EV_MINOR_FINALIZERS_ADMIN; all other new events were appended (EV_COMPACT in 5.2, EV_EMPTY_MINOR
 * in 5.4). Read in the headers of 5.1.0, 5.3.0, 5.4.1 and 5.5.2; those of 5.2 follow from the tags
 * @since in runtime_events.mli. Derived compilers have other numbers than their version says, and
 * later versions may have: so event_reporters decide which of these rows a file has.
 */
static const uint32_t event_numbers[][N_GC_EVENTS] = {
	{ [GC_EVENT_MINOR] = 11,
	  [GC_EVENT_EXPLICIT_SLICE] = 16,
	  [GC_EVENT_SLICE] = 27,
	  [GC_EVENT_STW_HANDLER] = 34,
	  [GC_EVENT_STW_LEADER] = 35,
	  [GC_EVENT_COMPACT] = 44,
	  [GC_EVENT_EMPTY_MINOR] = 48 },
	{ [GC_EVENT_MINOR] = 10,
	  [GC_EVENT_EXPLICIT_SLICE] = 13,
	  [GC_EVENT_SLICE] = 24,
	  [GC_EVENT_STW_HANDLER] = 31,
	  [GC_EVENT_STW_LEADER] = 32,
	  [GC_EVENT_COMPACT] = 40,
	  [GC_EVENT_EMPTY_MINOR] = GC_EVENT_UNKNOWN },
};

/*
 * Global functions that report a known event. An event that is inserted moves all events behind it:
 * if these two have their numbers, the events before them have theirs. EV_COMPACT and
 * EV_EMPTY_MINOR are behind them: the member `reporter` of their phases names a function that
 * confirms them.
 */
static const struct {
	const char *symbol;
	enum gc_event event;
} event_reporters[] = {
	{ "caml_gc_major_slice", GC_EVENT_EXPLICIT_SLICE },
	{ "caml_try_run_on_all_domains_with_spin_work", GC_EVENT_STW_LEADER },
};

enum {
	N_ROWS = sizeof(rows) / sizeof(rows[0]),
	N_EVENT_REPORTERS = sizeof(event_reporters) / sizeof(event_reporters[0]),
	SYMBOLS_PER_ROW = 6,
};

struct phase_finder {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	const struct runtime *runtime;
	/* The symbols of all rows of this version, without duplicates. */
	struct named_symbol symbols[N_ROWS * SYMBOLS_PER_ROW + N_EVENT_REPORTERS + 2];
	size_t n_symbols;
	struct gc_event_calls calls; /* all calls that report events */
	const uint32_t *numbers;     /* the row of event_numbers; NULL: none fits */
	/* why no call can be used, as the end of a sentence; or NULL */
	const char *problem;
};

/* Return LATER if only the major version is known, because Stdlib.Sys is not linked in. */
static int version_of(const struct runtime *runtime)
{
	if (runtime->major == 5 && !strchr(runtime->version, '.'))
		return LATER;
	return 100 * runtime->major + runtime->minor;
}

static bool is_row_of(const struct phase_versions *row, const struct runtime *runtime)
{
	return row->first <= version_of(runtime) && version_of(runtime) <= row->last;
}

static const struct named_symbol *find_symbol(const struct phase_finder *f, const char *name)
{
	for (size_t i = 0; i < f->n_symbols; i++)
		if (strcmp(f->symbols[i].name, name) == 0)
			return &f->symbols[i];
	return NULL;
}

static void look_for_symbol(struct phase_finder *f, const char *name)
{
	if (name && !find_symbol(f, name))
		f->symbols[f->n_symbols++].name = name;
}

/*
 * Return the address of function NAME; 0 if it has no symbol, or if several functions have the
 * symbol.
 */
static uint64_t va_of(const struct phase_finder *f, const char *name)
{
	const struct named_symbol *symbol = name ? find_symbol(f, name) : NULL;

	return symbol && symbol->is_defined && !symbol->is_ambiguous ? symbol->va : 0;
}

/*
 * Return the target of the jump at the end of the function NAME; 0 if this function does not end
 * with a jump of 5 bytes.
 */
static uint64_t jump_target(const struct phase_finder *f, const char *name)
{
	enum { JMP_REL32 = 0xe9, JMP_BYTES = 5 };
	const struct named_symbol *symbol = name ? find_symbol(f, name) : NULL;
	const struct elf_segment *segment;
	uint8_t code[JMP_BYTES];
	uint64_t end, off;
	int32_t distance;

	if (!symbol || !symbol->is_defined || symbol->bytes < JMP_BYTES ||
	    symbol->va > UINT64_MAX - symbol->bytes)
		return 0;
	end = symbol->va + symbol->bytes;
	if (!elf_file_va_to_off(f->elf, end - JMP_BYTES, &off) ||
	    elf_file_read(f->elf, off, code, sizeof(code)) != 0 || code[0] != JMP_REL32)
		return 0;
	memcpy(&distance, code + 1, sizeof(distance));
	end += (uint64_t)(int64_t)distance;
	segment = elf_file_segment_of(f->elf, end, 1);
	return segment && segment->executable ? end : 0;
}

/* ---- events --------------------------------------------------------------------------------- */

/* Return true if the function NAME calls caml_ev_begin with the event NUMBER. */
static bool reports(const struct phase_finder *f, const char *name, uint32_t number)
{
	const struct named_symbol *symbol = find_symbol(f, name);
	const uint64_t va = va_of(f, name);

	for (size_t i = 0; va && i < f->calls.n; i++) {
		const struct gc_event_call *call = &f->calls.list[i];

		if (call->va >= va && call->va - va < symbol->bytes && !call->is_end &&
		    call->event == number)
			return true;
	}
	return false;
}

/* Return the row of event_numbers that all event_reporters confirm, or NULL. */
static const uint32_t *find_event_numbers(const struct phase_finder *f)
{
	for (size_t i = 0; i < sizeof(event_numbers) / sizeof(event_numbers[0]); i++) {
		size_t n = 0;

		for (size_t j = 0; j < N_EVENT_REPORTERS; j++)
			n += reports(f, event_reporters[j].symbol,
				     event_numbers[i][event_reporters[j].event]);
		if (n == N_EVENT_REPORTERS)
			return event_numbers[i];
	}
	return NULL;
}

/* Find all calls that report events, and what their numbers mean. The only error is -ENOMEM. */
static int find_event_calls(struct phase_finder *f)
{
	const uint64_t begin = va_of(f, "caml_ev_begin"), end = va_of(f, "caml_ev_end");
	const int err =
		begin && end ? gc_event_calls_find(f->ctx, f->elf, begin, end, &f->calls) : 0;

	if (err)
		return err;
	f->numbers = find_event_numbers(f);
	if (!f->numbers)
		f->problem = "the numbers of its events are not known";
	for (size_t i = 0; i < f->calls.n; i++)
		if (f->calls.list[i].event == GC_EVENT_UNKNOWN)
			f->problem = "its code has a call of caml_ev_begin or caml_ev_end whose "
				     "argument is not known";
	return 0;
}

/* Add the calls that report event number NUMBER. Return NULL, or the reason why this fails. */
static const char *add_event_calls(const struct phase_finder *f, uint32_t number,
				   struct gc_phase_place *place)
{
	size_t n[2] = { 0, 0 };

	for (size_t i = 0; i < f->calls.n; i++) {
		if (f->calls.list[i].event != number)
			continue;
		if (place->n_calls == MAX_GC_PHASE_CALLS)
			return "its code reports the phase at too many places";
		n[f->calls.list[i].is_end]++;
		place->calls[place->n_calls++] = f->calls.list[i];
	}
	return n[0] && n[1] ? NULL : "its code does not report where the phase begins and ends";
}

static void fill_events(const struct phase_finder *f, const struct gc_phase *phase,
			struct gc_phase_place *place)
{
	place->n_calls = 0;
	if (!va_of(f, "caml_ev_begin") || !va_of(f, "caml_ev_end"))
		place->missing = va_of(f, "caml_ev_end") ? "caml_ev_begin" : "caml_ev_end";
	else
		place->problem = f->problem;
	for (int i = 0; i < 2 && phase->events[i] && !place->missing && !place->problem; i++)
		place->problem = add_event_calls(f, f->numbers[phase->events[i]], place);
	if (!place->missing && !place->problem && phase->reporter &&
	    !reports(f, phase->reporter, f->numbers[phase->events[0]]))
		place->problem = "the number of its event is not known";
}

/* ---- phases in a file ----------------------------------------------------------------------- */

/*
 * Fill PLACE from PHASE. Set `missing` to the name of a symbol that was not found, or to NULL, and
 * `problem` likewise.
 */
static void fill_phase_place(const struct phase_finder *f, const struct gc_phase *phase,
			     struct gc_phase_place *place)
{
	*place = (struct gc_phase_place){ .name = place->name, .phase = phase };
	if (phase->events[0])
		fill_events(f, phase, place);
	for (int i = 0; i < 2; i++) {
		place->timed_vas[i] = va_of(f, phase->timed_symbols[i]);
		if (phase->timed_symbols[i] && !place->timed_vas[i])
			place->timed_vas[i] = jump_target(f, phase->jumps_to[i]);
		if (phase->timed_symbols[i] && !place->timed_vas[i])
			place->missing = phase->timed_symbols[i];
	}
	place->counted_va = va_of(f, phase->counted_symbol);
	if (phase->counted_symbol && !place->counted_va)
		place->missing = phase->counted_symbol;
}

static void look_for_symbols_of(struct phase_finder *f, const struct gc_phase *phase)
{
	for (int j = 0; j < 2; j++) {
		look_for_symbol(f, phase->timed_symbols[j]);
		look_for_symbol(f, phase->jumps_to[j]);
	}
	look_for_symbol(f, phase->counted_symbol);
	if (!phase->events[0])
		return;
	look_for_symbol(f, phase->reporter);
	look_for_symbol(f, "caml_ev_begin");
	look_for_symbol(f, "caml_ev_end");
	for (size_t i = 0; i < N_EVENT_REPORTERS; i++)
		look_for_symbol(f, event_reporters[i].symbol);
}

int gc_phases_find(struct ocp_ctx *ctx, struct elf_file *elf, const struct runtime *runtime,
		   struct gc_phase_place places[N_GC_PHASES])
{
	struct phase_finder f = { .ctx = ctx, .elf = elf, .runtime = runtime };
	bool is_stripped;
	int err;

	for (size_t i = 0; i < N_ROWS; i++)
		if (is_row_of(&rows[i], runtime))
			look_for_symbols_of(&f, &rows[i].phase);
	err = named_symbols_find(ctx, elf, f.symbols, f.n_symbols, &is_stripped);
	if (!err)
		err = find_event_calls(&f);
	for (size_t i = 0; !err && i < N_GC_PHASES; i++) {
		places[i] = (struct gc_phase_place){ .name = gc_phase_names[i] };
		for (size_t j = 0; j < N_ROWS; j++)
			if (is_row_of(&rows[j], runtime) &&
			    strcmp(rows[j].phase.name, places[i].name) == 0 &&
			    (!places[i].phase || places[i].missing || places[i].problem))
				fill_phase_place(&f, &rows[j].phase, &places[i]);
	}
	free(f.calls.list);
	return err;
}

int gc_phase_check(struct ocp_ctx *ctx, const struct elf_file *elf, const struct runtime *runtime,
		   const struct gc_phase_place *place)
{
	if (!place->phase && version_of(runtime) > LATEST)
		return ctx_error(ctx, -ENODATA,
				 "%s: %s cannot be measured: it is not known in OCaml %s",
				 elf_file_name(elf), place->name, runtime->version);
	if (!place->phase)
		return ctx_error(ctx, -ENOENT, "%s: OCaml %s has no %s", elf_file_name(elf),
				 runtime->version, place->name);
	if (place->problem)
		return ctx_error(ctx, -ENODATA, "%s: %s cannot be measured: %s", elf_file_name(elf),
				 place->name, place->problem);
	if (place->missing)
		return ctx_error(ctx, -ENODATA,
				 "%s: %s cannot be measured: the file has no symbol %s%s",
				 elf_file_name(elf), place->name, place->missing,
				 runtime->is_stripped ? " (it is stripped)" : "");
	return 0;
}
