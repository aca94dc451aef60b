// SPDX-License-Identifier: MIT
/*
 * The functions of the collector's phases in each version of the runtime.
 *
 * The sources are runtime/minor_gc.c, major_gc.c, compact.c, shared_heap.c and domain.c of OCaml
 * 4.13.1, 4.14.1, 5.1.0 and 5.3.0. 5.2 was not read: its functions are assumed to do the same if
 * they have the same symbols. If the compiler has inlined or cloned a function ("f.constprop.0"),
 * no symbol has the function's plain name, and the next row of the phase is tried.
 *
 * The events were checked with uprobes. On 4.13.1 and 4.14.1, their numbers equal the numbers that
 * programs print at exit with OCAMLRUNPARAM=v=0x400. (Compactions are not counted as calls of
 * caml_compact_heap, because 3 calls made 6 compactions.) On 5.3.0, with three domains, the numbers
 * equal those of runtime_events. A waiting domain calls two of the functions very often without any
 * work to do: handle_incoming (311 000 calls, 323 pauses) and major_collection_slice. So on 5.3 a
 * pause lasts from the call of caml_ev_begin to the call of caml_ev_end. The runtime makes these
 * calls whether or not runtime_events is on. The rows for 5.1 to 5.3 are for files without these
 * calls.
 */
#include "code/gc_phases.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "code/code_insn.h"
#include "elf/symbols.h"

/* ---- calls that mark phases ------------------------------------------------------------------ */

enum {
	MOST_BYTES = 8192,
	REG_RDI = 7,
	MOV_EDI = 0xbf, /* mov $imm32,%edi */
	MOV_EDI_BYTES = 5,
};

/* A call, and the earlier instruction that sets the argument of the call. */
struct event_call {
	uint32_t mov, call;
	unsigned int n;
};

struct event_call_search {
	const uint8_t *bytes;
	size_t n_bytes;
	int64_t targets[2]; /* the called functions, as offsets from the start of the function */
	uint32_t event;
	struct event_call found[2];
	bool is_set; /* %edi holds EVENT */
	uint32_t mov;
};

static void see_insn(struct event_call_search *s, const struct insn_decoder *decoder,
		     const struct insn *insn)
{
	const uint8_t *bytes = s->bytes + insn->off;

	for (int i = 0; i < 2; i++)
		if (insn->kind == INSN_CALL && s->is_set && insn->value == s->targets[i]) {
			s->found[i].mov = s->mov;
			s->found[i].call = insn->off;
			s->found[i].n++;
		}
	if (bytes[0] == MOV_EDI && insn->n_bytes == MOV_EDI_BYTES) {
		s->is_set = memcmp(bytes + 1, &s->event, sizeof(s->event)) == 0;
		s->mov = insn->off;
	} else if ((insn->kind != INSN_OTHER && insn->kind != INSN_NOP) ||
		   insn_writes(decoder, bytes, s->n_bytes - insn->off, REG_RDI)) {
		s->is_set = false;
	}
}

/*
 * Return true if the jump INSN leads to a place between a call and the instruction that sets the
 * call's argument.
 */
static bool enters(const struct event_call_search *s, const struct insn *insn)
{
	for (int i = 0; i < 2; i++)
		if ((insn->kind == INSN_JCC || insn->kind == INSN_JMP) &&
		    insn->value > s->found[i].mov && insn->value <= s->found[i].call)
			return true;
	return false;
}

static int search(struct event_call_search *s, struct insn_decoder *decoder)
{
	struct insn insn;

	for (uint32_t off = 0; insn_decode(decoder, s->bytes + off, s->n_bytes - off, off, &insn);
	     off += insn.n_bytes)
		see_insn(s, decoder, &insn);
	if (s->found[0].n != 1 || s->found[1].n != 1)
		return -ENODATA;
	for (uint32_t off = 0; insn_decode(decoder, s->bytes + off, s->n_bytes - off, off, &insn);
	     off += insn.n_bytes)
		if (enters(s, &insn))
			return -ENODATA;
	return 0;
}

/*
 * Find two calls in the function at VA: a call of the function at EV_BEGIN, and a call of the
 * function at EV_END. Both must have the constant EVENT as argument. N_BYTES is the size of the
 * function at VA, 0 if it is not known. Returns -ENODATA if one of the two calls is missing or
 * occurs several times, or if a jump leads between a call and the instruction that loads its
 * constant.
 */
static int gc_event_calls_find(struct ocp_ctx *ctx, const struct elf_file *elf, uint64_t va,
			       uint64_t n_bytes, uint64_t ev_begin, uint64_t ev_end, uint32_t event,
			       struct gc_event_calls *calls)
{
	uint8_t bytes[MOST_BYTES];
	struct event_call_search s = {
		.bytes = bytes,
		.n_bytes = n_bytes && n_bytes < MOST_BYTES ? n_bytes : MOST_BYTES,
		.targets = { (int64_t)(ev_begin - va), (int64_t)(ev_end - va) },
		.event = event,
	};
	struct insn_decoder decoder;
	uint64_t off;
	int err;

	if (!elf_file_va_to_off(elf, va, &off) || elf_file_read(elf, off, bytes, s.n_bytes) != 0)
		return -ENODATA;
	if (!insn_decoder_init(&decoder))
		return ctx_no_memory(ctx);
	err = search(&s, &decoder);
	insn_decoder_free(&decoder);
	if (!err)
		*calls = (struct gc_event_calls){ va + s.found[0].call, va + s.found[1].call };
	return err;
}

/* ---- phases ---------------------------------------------------------------------------------- */

const char *const gc_phase_names[N_GC_PHASES] = {
	"gc:minor", "gc:major_slice", "gc:major_cycle", "gc:compact", "gc:stw",
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
	{ 503,
	  503,
	  { .name = "gc:minor",
	    .timed_symbols = { "caml_empty_minor_heap_promote" },
	    .events = { 11 },
	    .is_per_domain = true,
	    .source = "EV_MINOR: without the wait for the other domains, which follows it" } },
	{ 503,
	  503,
	  { .name = "gc:major_slice",
	    .timed_symbols = { "major_collection_slice" },
	    .jumps_to = { "caml_opportunistic_major_collection_slice" },
	    .events = { 27 },
	    .is_per_domain = true,
	    .source = "EV_MAJOR_SLICE: without the end of a cycle, which follows it" } },
	{ 503,
	  503,
	  { .name = "gc:stw",
	    .timed_symbols = { "caml_try_run_on_all_domains_with_spin_work", "handle_incoming" },
	    .jumps_to = { NULL, "caml_handle_incoming_interrupts" },
	    .events = { 35, 34 },
	    .is_per_domain = true,
	    .source = "EV_STW_LEADER: once the domain may stop the others; EV_STW_HANDLER" } },
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
	  503,
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

enum {
	N_ROWS = sizeof(rows) / sizeof(rows[0]),
	SYMBOLS_PER_ROW = 7,
};

struct phase_finder {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	const struct runtime *runtime;
	/* The symbols of all rows of this version, without duplicates. */
	struct named_symbol symbols[N_ROWS * SYMBOLS_PER_ROW];
	size_t n_symbols;
};

static bool is_row_of(const struct phase_versions *row, const struct runtime *runtime)
{
	const int version = 100 * runtime->major + runtime->minor;

	return row->first <= version && version <= row->last;
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

/*
 * Find the calls that begin and end the pauses of timed function I. Return false if they are not
 * found.
 */
static bool find_calls(const struct phase_finder *f, const struct gc_phase *phase, int i,
		       struct gc_phase_place *place)
{
	const uint64_t begin = va_of(f, "caml_ev_begin"), end = va_of(f, "caml_ev_end");
	const uint64_t va = place->timed_vas[i];
	const struct named_symbol *symbol = find_symbol(f, phase->timed_symbols[i]);

	return begin && end &&
	       gc_event_calls_find(f->ctx, f->elf, va,
				   symbol && symbol->va == va ? symbol->bytes : 0, begin, end,
				   phase->events[i], &place->calls[i]) == 0;
}

/* Fill PLACE from PHASE. Set `missing` to the name of a symbol that was not found, or to NULL. */
static void fill_phase_place(const struct phase_finder *f, const struct gc_phase *phase,
			     struct gc_phase_place *place)
{
	place->phase = phase;
	place->missing = NULL;
	for (int i = 0; i < 2; i++) {
		place->timed_vas[i] = va_of(f, phase->timed_symbols[i]);
		if (phase->timed_symbols[i] && !place->timed_vas[i])
			place->timed_vas[i] = jump_target(f, phase->jumps_to[i]);
		if (phase->timed_symbols[i] &&
		    (!place->timed_vas[i] || (phase->events[i] && !find_calls(f, phase, i, place))))
			place->missing = phase->timed_symbols[i];
	}
	place->counted_va = va_of(f, phase->counted_symbol);
	if (phase->counted_symbol && !place->counted_va)
		place->missing = phase->counted_symbol;
}

int gc_phases_find(struct ocp_ctx *ctx, struct elf_file *elf, const struct runtime *runtime,
		   struct gc_phase_place places[N_GC_PHASES])
{
	struct phase_finder f = { .ctx = ctx, .elf = elf, .runtime = runtime };
	bool is_stripped;
	int err;

	for (size_t i = 0; i < N_ROWS; i++) {
		const struct gc_phase *phase = &rows[i].phase;

		if (!is_row_of(&rows[i], runtime))
			continue;
		for (int j = 0; j < 2; j++) {
			look_for_symbol(&f, phase->timed_symbols[j]);
			look_for_symbol(&f, phase->jumps_to[j]);
		}
		look_for_symbol(&f, phase->counted_symbol);
		look_for_symbol(&f, phase->events[0] ? "caml_ev_begin" : NULL);
		look_for_symbol(&f, phase->events[0] ? "caml_ev_end" : NULL);
	}
	err = named_symbols_find(ctx, elf, f.symbols, f.n_symbols, &is_stripped);
	for (size_t i = 0; !err && i < N_GC_PHASES; i++) {
		places[i] = (struct gc_phase_place){ .name = gc_phase_names[i] };
		for (size_t j = 0; j < N_ROWS; j++)
			if (is_row_of(&rows[j], runtime) &&
			    strcmp(rows[j].phase.name, places[i].name) == 0 &&
			    (!places[i].phase || places[i].missing))
				fill_phase_place(&f, &rows[j].phase, &places[i]);
	}
	return err;
}

int gc_phase_check(struct ocp_ctx *ctx, const struct elf_file *elf, const struct runtime *runtime,
		   const struct gc_phase_place *place)
{
	if (!place->phase)
		return ctx_error(ctx, -ENOENT, "%s: OCaml %s has no %s", elf_file_name(elf),
				 runtime->version, place->name);
	if (place->missing)
		return ctx_error(ctx, -ENODATA,
				 "%s: %s cannot be measured: the file has no symbol %s%s",
				 elf_file_name(elf), place->name, place->missing,
				 runtime->is_stripped ? " (it is stripped)" : "");
	return 0;
}
