// SPDX-License-Identifier: MIT
/*
 * Find the calls of caml_ev_begin and caml_ev_end in two steps. First look at every byte of the
 * code: where a call or jump of 5 bytes could begin that leads to one of the two functions, there
 * is a candidate. Then decode the functions that contain candidates, and no others: a large program
 * has 100 MB of code, and a hundred of these calls.
 */
#include "code/gc_events.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "code/code_insn.h"
#include "elf/eh_frame.h"
#include "elf/symbols.h"

enum {
	CHUNK_BYTES = 1 << 20, /* so much code is read at a time */
	/* limit for a function; the largest that has such calls, mark_slice, has 4 KB */
	EVENT_FUNCTION_BYTES = 1 << 16,
	MAX_CANDIDATES = 4096, /* genuine runtimes have about 110 */
	REL32_BYTES = 4,
	REG_RDI = 7, /* the first argument of a C function */
};

/* Bytes that could be a call. */
struct call_candidate {
	uint64_t end;	 /* address of the byte after the call */
	bool is_tried;	 /* a function that contains it was read */
	bool is_decoded; /* this function was decoded */
};

struct event_call_finder {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	uint64_t targets[2]; /* caml_ev_begin, caml_ev_end */
	struct insn_decoder decoder;
	struct call_candidate *candidates; /* sorted */
	size_t n_candidates;
	struct gc_event_calls calls;
};

/* ---- candidates ----------------------------------------------------------------------------- */

static int add_candidate(struct event_call_finder *f, uint64_t end)
{
	struct call_candidate *added = array_add(f->candidates, f->n_candidates);

	if (!added)
		return ctx_no_memory(f->ctx);
	*added = (struct call_candidate){ .end = end };
	return 0;
}

/*
 * Add the candidates in BYTES[0..N), which are at VA: e8 or e9, or 0f 80 to 0f 8f, before a
 * distance to one of the targets.
 */
static int scan_bytes(struct event_call_finder *f, const uint8_t *bytes, size_t n, uint64_t va)
{
	enum { CALL_OR_JMP = 0xe8, TWO_BYTES = 0x0f, JCC = 0x80 };

	for (size_t i = 2; i + REL32_BYTES <= n && f->n_candidates < MAX_CANDIDATES; i++) {
		const uint64_t end = va + i + REL32_BYTES;
		int32_t distance;
		int err;

		if ((bytes[i - 1] & 0xfe) != CALL_OR_JMP &&
		    (bytes[i - 2] != TWO_BYTES || (bytes[i - 1] & 0xf0) != JCC))
			continue;
		memcpy(&distance, bytes + i, sizeof(distance));
		if (end + (uint64_t)(int64_t)distance != f->targets[0] &&
		    end + (uint64_t)(int64_t)distance != f->targets[1])
			continue;
		err = add_candidate(f, end);
		if (err)
			return err;
	}
	return 0;
}

static int scan_code(struct event_call_finder *f, const struct elf_segment *segment, uint8_t *chunk)
{
	/* A call can begin in one chunk and end in the next. */
	const uint64_t overlap = 2 + REL32_BYTES - 1;
	int err = 0;

	for (uint64_t at = 0; !err && at < segment->file_bytes; at += CHUNK_BYTES - overlap) {
		const uint64_t left = segment->file_bytes - at;
		const size_t n = left < CHUNK_BYTES ? left : CHUNK_BYTES;

		if (elf_file_read(f->elf, segment->off + at, chunk, n) != 0)
			return 0;
		err = scan_bytes(f, chunk, n, segment->va + at);
	}
	return err;
}

static int compare_candidates(const void *a, const void *b)
{
	return COMPARE(((const struct call_candidate *)a)->end,
		       ((const struct call_candidate *)b)->end);
}

static int find_candidates(struct event_call_finder *f)
{
	size_t n;
	const struct elf_segment *segments = elf_file_segments(f->elf, &n);
	uint8_t *chunk = malloc(CHUNK_BYTES);
	int err = chunk ? 0 : ctx_no_memory(f->ctx);

	for (size_t i = 0; !err && i < n; i++)
		if (segments[i].executable)
			err = scan_code(f, &segments[i], chunk);
	free(chunk);
	if (!err && f->n_candidates)
		qsort(f->candidates, f->n_candidates, sizeof(*f->candidates), compare_candidates);
	return err;
}

/* ---- functions with candidates -------------------------------------------------------------- */

/* What is known of %edi before an instruction, if no jump leads to the instruction. */
struct argument {
	bool is_set;
	uint32_t value;
	uint32_t off; /* offset of the instruction that has set %edi */
};

/* A function, and the calls that were found in it: calls.list[first] and all that follow. */
struct event_function {
	const uint8_t *bytes;
	size_t n_bytes;
	uint64_t va;
	size_t first;
	uint32_t *set_at; /* for each of these calls, where its argument is set */
	size_t n_set_at;
};

/* Return true if INSN, at BYTES, sets %edi to a constant. Set *VALUE to the constant. */
static bool sets_edi(const uint8_t *bytes, const struct insn *insn, uint32_t *value)
{
	enum { MOV_EDI = 0xbf, MOV_EDI_BYTES = 5 };
	static const uint8_t clear_edi[] = { 0x31, 0xff };

	if (insn->n_bytes == sizeof(clear_edi) &&
	    memcmp(bytes, clear_edi, sizeof(clear_edi)) == 0) {
		*value = 0;
		return true;
	}
	if (insn->n_bytes != MOV_EDI_BYTES || bytes[0] != MOV_EDI)
		return false;
	memcpy(value, bytes + 1, sizeof(*value));
	return true;
}

static void follow_argument(const struct event_call_finder *f, const struct event_function *in,
			    const struct insn *insn, struct argument *argument)
{
	const uint8_t *bytes = in->bytes + insn->off;

	switch (insn->kind) {
	case INSN_CALL:
	case INSN_CALL_INDIRECT:
	case INSN_JMP:
	case INSN_JMP_REG:
	case INSN_JMP_MEM:
	case INSN_JMP_OTHER:
	case INSN_RET:
	case INSN_TRAP:
		argument->is_set = false;
		return;
	case INSN_JCC:
	case INSN_NOP:
		return;
	default:
		break;
	}
	if (sets_edi(bytes, insn, &argument->value)) {
		argument->is_set = true;
		argument->off = insn->off;
	} else if (insn_writes(&f->decoder, bytes, in->n_bytes - insn->off, REG_RDI)) {
		argument->is_set = false;
	}
}

static bool is_branch(const struct insn *insn)
{
	return insn->kind == INSN_JMP || insn->kind == INSN_JCC;
}

/* If INSN leads to one of the two functions, add it to the calls. */
static int add_event_call(struct event_call_finder *f, struct event_function *in,
			  const struct insn *insn, const struct argument *argument)
{
	const uint64_t target = in->va + (uint64_t)insn->value;
	struct gc_event_call *call;
	uint32_t *set_at;

	if ((insn->kind != INSN_CALL && !is_branch(insn)) ||
	    (target != f->targets[0] && target != f->targets[1]))
		return 0;
	call = array_add(f->calls.list, f->calls.n);
	set_at = call ? array_add(in->set_at, in->n_set_at) : NULL;
	if (!set_at)
		return ctx_no_memory(f->ctx);
	*set_at = argument->off;
	/* A uprobe on a conditional jump is also hit when the jump is not taken. */
	*call = (struct gc_event_call){
		.va = in->va + insn->off,
		.function_va = in->va,
		.function_bytes = in->n_bytes,
		.event = argument->is_set && insn->kind != INSN_JCC ? argument->value
								    : GC_EVENT_UNKNOWN,
		.is_end = target == f->targets[1],
		.is_jump = insn->kind != INSN_CALL,
	};
	return 0;
}

/*
 * If the jump INSN leads between a call and the instruction that sets the call's argument, the
 * argument is not known.
 */
static void see_jump(struct event_call_finder *f, const struct event_function *in,
		     const struct insn *insn)
{
	const uint64_t target = in->va + (uint64_t)insn->value;

	if (!is_branch(insn))
		return;
	for (size_t i = 0; i < in->n_set_at; i++) {
		struct gc_event_call *call = &f->calls.list[in->first + i];

		if (target > in->va + in->set_at[i] && target <= call->va)
			call->event = GC_EVENT_UNKNOWN;
	}
}

/*
 * Find the calls in the function IN. If not all of its bytes are instructions, find none and set
 * *IS_DECODED to false: a jump to one of the calls could be missed.
 */
static int find_calls_in(struct event_call_finder *f, struct event_function *in, bool *is_decoded)
{
	struct argument argument = { .is_set = false };
	struct insn insn;
	uint32_t off = 0;
	int err = 0;

	for (; !err && off < in->n_bytes &&
	       insn_decode(&f->decoder, in->bytes + off, in->n_bytes - off, off, &insn);
	     off += insn.n_bytes) {
		err = add_event_call(f, in, &insn, &argument);
		follow_argument(f, in, &insn, &argument);
	}
	*is_decoded = off == in->n_bytes;
	if (!*is_decoded)
		f->calls.n = in->first;
	for (off = 0; !err && *is_decoded && off < in->n_bytes &&
		      insn_decode(&f->decoder, in->bytes + off, in->n_bytes - off, off, &insn);
	     off += insn.n_bytes)
		see_jump(f, in, &insn);
	return err;
}

static int read_event_function(struct event_call_finder *f, uint64_t va, size_t bytes,
			       bool *is_decoded)
{
	struct event_function in = { .va = va, .n_bytes = bytes, .first = f->calls.n };
	uint8_t *code = malloc(bytes);
	uint64_t off;
	int err = 0;

	*is_decoded = false;
	if (!code)
		return ctx_no_memory(f->ctx);
	in.bytes = code;
	if (elf_file_va_to_off(f->elf, va, &off) && elf_file_read(f->elf, off, code, bytes) == 0)
		err = find_calls_in(f, &in, is_decoded);
	free(in.set_at);
	free(code);
	return err;
}

/* If the function of BYTES bytes at VA contains candidates, read it, unless another one has. */
static int see_function(void *data, uint64_t va, uint64_t bytes)
{
	struct event_call_finder *f = data;
	const size_t first = SEARCH(i, f->n_candidates, f->candidates[i].end <= va);
	bool is_decoded;
	int err;

	if (bytes > EVENT_FUNCTION_BYTES || first == f->n_candidates ||
	    f->candidates[first].end - va > bytes || f->candidates[first].is_tried)
		return 0;
	err = read_event_function(f, va, bytes, &is_decoded);
	for (size_t i = first; i < f->n_candidates && f->candidates[i].end - va <= bytes; i++) {
		f->candidates[i].is_tried = true;
		f->candidates[i].is_decoded = is_decoded;
	}
	return err;
}

static int see_symbol(void *data, const Elf64_Sym *symbol)
{
	return symbol->st_shndx == SHN_UNDEF
		       ? 0
		       : see_function(data, symbol->st_value, symbol->st_size);
}

static bool all_are_decoded(const struct event_call_finder *f)
{
	for (size_t i = 0; i < f->n_candidates; i++)
		if (!f->candidates[i].is_decoded)
			return false;
	return true;
}

/*
 * Decode the functions that contain candidates. If a table is missing or damaged, return 0: the
 * candidates in unknown functions are not decoded.
 */
static int decode_functions(struct event_call_finder *f)
{
	struct elf_section table;
	int err = 0;

	/* Such a file is no genuine runtime. */
	if (f->n_candidates == MAX_CANDIDATES)
		return 0;
	if (f->n_candidates)
		err = eh_frame_each_function(f->ctx, f->elf, see_function, f);
	if (err == -ENOMEM || all_are_decoded(f))
		return err == -ENOMEM ? err : 0;
	if (elf_file_find_section(f->elf, ".symtab", SHT_SYMTAB, &table) > 0 ||
	    elf_file_find_section(f->elf, ".dynsym", SHT_DYNSYM, &table) > 0)
		err = symbol_table_each(f->ctx, f->elf, &table, see_symbol, f);
	return err == -ENOMEM ? err : 0;
}

/* ---- all calls ------------------------------------------------------------------------------ */

static int add_unknown_calls(struct event_call_finder *f)
{
	for (size_t i = 0; i < f->n_candidates; i++) {
		struct gc_event_call *call;

		if (f->candidates[i].is_decoded)
			continue;
		call = array_add(f->calls.list, f->calls.n);
		if (!call)
			return ctx_no_memory(f->ctx);
		*call = (struct gc_event_call){ .va = f->candidates[i].end,
						.event = GC_EVENT_UNKNOWN };
	}
	return 0;
}

static int compare_calls(const void *a, const void *b)
{
	return COMPARE(((const struct gc_event_call *)a)->va,
		       ((const struct gc_event_call *)b)->va);
}

int gc_event_calls_find(struct ocp_ctx *ctx, struct elf_file *elf, uint64_t begin_va,
			uint64_t end_va, struct gc_event_calls *calls)
{
	struct event_call_finder f = { .ctx = ctx, .elf = elf, .targets = { begin_va, end_va } };
	int err = insn_decoder_init(&f.decoder) ? 0 : ctx_no_memory(ctx);

	*calls = (struct gc_event_calls){ 0 };
	if (err)
		return err;
	err = find_candidates(&f);
	if (!err)
		err = decode_functions(&f);
	if (!err)
		err = add_unknown_calls(&f);
	insn_decoder_free(&f.decoder);
	free(f.candidates);
	if (err) {
		free(f.calls.list);
		return err;
	}
	if (f.calls.n)
		qsort(f.calls.list, f.calls.n, sizeof(*f.calls.list), compare_calls);
	*calls = f.calls;
	return 0;
}
