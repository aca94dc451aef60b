// SPDX-License-Identifier: MIT
#include "code/window_copy.h"

#include <string.h>

#include "code/code_flow.h"

enum {
	JMP_NEAR = 0xe9,
	JCC_NEAR_0 = 0x0f,
	JCC_NEAR_1 = 0x80,
	GROUP5 = 0xff,
	GROUP5_CALL = 2 << 3,
	GROUP5_JMP = 4 << 3,
	GROUP5_REG = 7 << 3,
};

/* One copy that is being made. */
struct copying {
	const struct insn_decoder *decoder;
	const uint8_t *from;
	uint64_t from_va, to_va;
	struct window_copy *to;
};

static bool append(struct window_copy *copy, const void *bytes, size_t n)
{
	if (n > sizeof(copy->bytes) - copy->n_bytes)
		return false;
	memcpy(copy->bytes + copy->n_bytes, bytes, n);
	copy->n_bytes += n;
	return true;
}

/*
 * Append the distance from the end of an instruction, AFTER bytes behind the distance, to TARGET.
 */
static bool append_distance(const struct copying *it, uint64_t target, size_t after)
{
	const uint64_t end = it->to_va + it->to->n_bytes + sizeof(int32_t) + after;
	const int64_t distance = (int64_t)(target - end);
	const int32_t near = (int32_t)distance;

	return near == distance && append(it->to, &near, sizeof(near));
}

static bool append_branch(const struct copying *it, const uint8_t *opcode, size_t n,
			  uint64_t target)
{
	return append(it->to, opcode, n) && append_distance(it, target, 0);
}

static bool append_jump(const struct copying *it, uint64_t target)
{
	return append_branch(it, (const uint8_t[]){ JMP_NEAR }, 1, target);
}

/* Append INSN as it is, but for the distance of its operand relative to rip. */
static bool append_insn(const struct copying *it, const struct insn *insn, const uint8_t *bytes)
{
	const uint64_t end = it->from_va + insn->off + insn->n_bytes;
	struct insn_distance field;
	int32_t distance;
	size_t after;

	if (!insn_distance(it->decoder, bytes, insn->n_bytes, &field))
		return false;
	if (field.n_bytes == 0)
		return append(it->to, bytes, insn->n_bytes);
	if (field.n_bytes != sizeof(distance))
		return false;
	memcpy(&distance, bytes + field.at, sizeof(distance));
	after = insn->n_bytes - field.at - sizeof(distance);
	return append(it->to, bytes, field.at) &&
	       append_distance(it, end + (uint64_t)(int64_t)distance, after) &&
	       append(it->to, bytes + field.at + sizeof(distance), after);
}

/* Conditional jumps but jrcxz and loop, which have no near form. */
static bool append_jcc(const struct copying *it, const struct insn *insn, const uint8_t *bytes)
{
	const bool is_short = bytes[0] >= 0x70 && bytes[0] <= 0x7f;
	const bool is_near = bytes[0] == JCC_NEAR_0 && (bytes[1] & 0xf0) == JCC_NEAR_1;
	const uint8_t opcode[] = { JCC_NEAR_0,
				   (uint8_t)(JCC_NEAR_1 | (bytes[is_short ? 0 : 1] & 0xf)) };

	return (is_short || is_near) &&
	       append_branch(it, opcode, sizeof(opcode), it->from_va + (uint64_t)insn->value);
}

/*
 * Append an indirect call as a jump: both are opcode ff, and differ in the reg field of the ModRM
 * byte. The address must not depend on rsp, which has moved by the push of the return address.
 */
static bool append_indirect(const struct copying *it, const struct insn *insn, const uint8_t *bytes)
{
	uint8_t changed[15];
	size_t i = 0;

	if (insn->n_bytes > sizeof(changed) || insn_reads_rsp(it->decoder, bytes, insn->n_bytes))
		return false;
	memcpy(changed, bytes, insn->n_bytes);
	while (i + 1 < insn->n_bytes && changed[i] != GROUP5)
		i++;
	if (i + 1 == insn->n_bytes || (changed[i + 1] & GROUP5_REG) != GROUP5_CALL)
		return false;
	changed[i + 1] = (uint8_t)((changed[i + 1] & ~GROUP5_REG) | GROUP5_JMP);
	return append_insn(it, insn, changed);
}

/*
 * Append a call of the last instruction: push its return address, which is a constant behind the
 * code, in one instruction, and jump.
 */
static bool append_call(const struct copying *it, const struct insn *insn, const uint8_t *bytes)
{
	static const uint8_t push_rip[] = { GROUP5, 0x35, 0, 0, 0, 0 };
	const uint64_t back = it->from_va + insn->off + insn->n_bytes;
	const size_t push = it->to->n_bytes;
	int32_t distance;

	if (!append(it->to, push_rip, sizeof(push_rip)))
		return false;
	if (insn->kind == INSN_CALL_INDIRECT
		    ? !append_indirect(it, insn, bytes)
		    : !append_jump(it, it->from_va + (uint64_t)insn->value))
		return false;
	distance = (int32_t)(it->to->n_bytes - (push + sizeof(push_rip)));
	memcpy(it->to->bytes + push + 2, &distance, sizeof(distance));
	return append(it->to, &back, sizeof(back));
}

static bool copy_one(const struct copying *it, const struct insn *insn, bool is_last)
{
	const uint8_t *bytes = it->from + insn->off;

	switch (insn->kind) {
	case INSN_JCC:
		return append_jcc(it, insn, bytes);
	case INSN_JMP:
		return append_jump(it, it->from_va + (uint64_t)insn->value);
	case INSN_CALL:
	case INSN_CALL_INDIRECT:
		if (insn->off == 0 && is_last && window_is_call(*bytes))
			return append_jump(it, it->from_va + (uint64_t)insn->value);
		return is_last && append_call(it, insn, bytes);
	case INSN_TRAP:
		return false;
	default:
		return append_insn(it, insn, bytes);
	}
}

static bool are_nops(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct insn insn;

	for (size_t off = 0; off < n; off += insn.n_bytes)
		if (!insn_decode(decoder, bytes + off, n - off, (uint32_t)off, &insn) ||
		    insn.kind != INSN_NOP)
			return false;
	return true;
}

bool window_copy_make(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		      uint64_t from_va, uint64_t to_va, bool jumps_back, struct window_copy *copy)
{
	const struct copying it = { decoder, bytes, from_va, to_va, copy };
	struct insn insn = { .kind = INSN_OTHER };

	*copy = (struct window_copy){ 0 };
	for (size_t off = 0; off < n; off += insn.n_bytes) {
		if (copy->n_insns == WINDOW_MAX_INSNS ||
		    !insn_decode(decoder, bytes + off, n - off, (uint32_t)off, &insn))
			return false;
		copy->insns[copy->n_insns].from = (uint8_t)off;
		copy->insns[copy->n_insns++].to = (uint8_t)copy->n_bytes;
		if (!copy_one(&it, &insn, off + insn.n_bytes == n))
			return false;
		if (!code_flow_goes_on(&insn))
			return are_nops(decoder, bytes + off + insn.n_bytes,
					n - off - insn.n_bytes);
	}
	return code_flow_is_call(&insn) || !jumps_back || append_jump(&it, from_va + n);
}
