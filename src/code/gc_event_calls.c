// SPDX-License-Identifier: MIT
#include "code/gc_event_calls.h"

#include <errno.h>
#include <string.h>

#include "code/code_insn.h"

enum {
	MOST_BYTES = 8192,
	REG_RDI = 7,
	MOV_EDI = 0xbf, /* mov $imm32,%edi */
	MOV_EDI_BYTES = 5,
};

/* A call, and the instruction before it that sets its argument. */
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
 * Return true if the jump INSN leads between a call and the instruction that sets the call's
 * argument.
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

int gc_event_calls_find(struct ocp_ctx *ctx, const struct elf_file *elf, uint64_t va,
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
