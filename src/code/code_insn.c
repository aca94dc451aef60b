// SPDX-License-Identifier: MIT
/*
 * The library Zydis decodes the instructions. Its quick mode gives the opcode and the raw parts,
 * which determine the kind of nearly all instructions. Where the raw parts may name rsp as an
 * operand, the full mode finds out whether rsp is written.
 *
 * A memo avoids most calls of Zydis. Prefixes, opcode, ModRM and SIB byte determine all of an
 * instruction except its displacement and its immediates. If these four parts fit into the first
 * four bytes of the instruction, the memo stores the result of Zydis under these four bytes. Nine
 * in ten instructions of a program begin with the same four bytes as an earlier one. Near branches
 * are stored under their opcode alone, since the bytes that follow are the distance, and
 * instructions of one byte under this byte. What else the bytes determine, such as the flags that
 * the instruction writes, is stored when somebody asks for it.
 */
#include "code/code_insn.h"

#include <stdlib.h>
#include <string.h>
#include <Zydis/Register.h>

enum { HEADER_BYTES = 4, MEMO_BITS = 14, MEMO_SIZE = 1 << MEMO_BITS, GENERAL_REGISTERS = 16 };

/* The memo of an instruction. It is small, so that the whole memo stays in the cache of the CPU. */
struct insn_memo {
	uint32_t header;
	int32_t value;	 /* as in struct insn, unless distance_bytes is set */
	uint8_t n_bytes; /* 0: this memo is empty */
	uint8_t kind, reg;
	bool is_emulated;
	/*
	 * If `value` is an address that the instruction stores as a distance from its end: the
	 * position and the size of the field with this distance. Otherwise the size is 0.
	 */
	uint8_t distance_at, distance_bytes;
	uint8_t known; /* a set of enum known: what insn_facts has of the instruction */
};

enum known {
	KNOWS_FLAGS = 1,
	KNOWS_DISTANCE = 2,
	KNOWS_WRITTEN = 4,
	KNOWS_WRITES_STACK = 8,
	KNOWS_COST = 16,
};

/* More of the instruction in the memo with the same index. */
struct insn_facts {
	struct insn_flags flags;
	uint32_t written;
	struct insn_distance distance;
	bool has_distance; /* what insn_distance() returned */
	bool writes_stack;
	uint8_t cost; /* enum insn_cost */
};

struct insn_memos {
	struct insn_memo list[MEMO_SIZE];
	struct insn_facts facts[MEMO_SIZE];
	/*
	 * By the first byte, and by the byte that follows 0f: the bytes up to this one determine
	 * the instruction, except its distance.
	 */
	bool is_short[256], is_short_after_0f[256];
};

/* The mod, reg and rm fields of the ModRM byte, with the bits of the REX prefix. */
struct modrm {
	unsigned int mod, reg, rm;
	bool is_wide; /* 64 bits */
};

bool insn_decoder_init(struct insn_decoder *decoder)
{
	decoder->memos = calloc(1, sizeof(*decoder->memos));
	if (!decoder->memos)
		return false;
	ZydisDecoderInit(&decoder->quick, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	decoder->full = decoder->quick;
	ZydisDecoderEnableMode(&decoder->quick, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
	return true;
}

void insn_decoder_free(struct insn_decoder *decoder)
{
	free(decoder->memos);
}

static bool decode_quick(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
			 ZydisDecodedInstruction *it)
{
	return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder->quick, NULL, bytes, n, it));
}

struct full_insn {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand list[ZYDIS_MAX_OPERAND_COUNT];
};

static bool decode_full(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
			struct full_insn *to)
{
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder->full, bytes, n, &to->insn, to->list));
}

/* Return true if PART is general register REG or a part of that register. */
static bool is_same_register(ZydisRegister part, unsigned int reg)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, part) ==
	       (ZydisRegister)(ZYDIS_REGISTER_RAX + reg);
}

/* Return true if OPERAND is general register REG or a part of that register. */
static bool is_register(const ZydisDecodedOperand *operand, unsigned int reg)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       is_same_register(operand->reg.value, reg);
}

/* Return true if OPERAND is a general register of 64 bits, and set *REG to its number. */
static bool is_wide_register(const ZydisDecodedOperand *operand, unsigned int *reg)
{
	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER ||
	    operand->reg.value < ZYDIS_REGISTER_RAX || operand->reg.value > ZYDIS_REGISTER_R15)
		return false;
	*reg = (unsigned int)(operand->reg.value - ZYDIS_REGISTER_RAX);
	return true;
}

/* ---- the memo ------------------------------------------------------------------------------- */

static size_t memo_index(uint32_t header)
{
	return (header * 0x9e3779b1u) >> (32 - MEMO_BITS);
}

/* Return the bytes under which the memo has the instruction at BYTES, which has HEADER_BYTES. */
static uint32_t header_of(const struct insn_memos *memos, const uint8_t *bytes)
{
	uint32_t header;

	memcpy(&header, bytes, sizeof(header));
	if (memos->is_short[bytes[0]])
		return header & 0xff;
	if (bytes[0] == 0x0f && memos->is_short_after_0f[bytes[1]])
		return header & 0xffff;
	return header;
}

/*
 * Return the memo of the instruction at BYTES[0..N), and set *FACTS to its facts. NULL: there is
 * none.
 */
static struct insn_memo *memo_of(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
				 struct insn_facts **facts)
{
	struct insn_memo *memo;
	uint32_t header;
	size_t i;

	if (n < HEADER_BYTES)
		return NULL;
	header = header_of(decoder->memos, bytes);
	i = memo_index(header);
	memo = &decoder->memos->list[i];
	*facts = &decoder->memos->facts[i];
	return memo->header == header && memo->n_bytes && memo->n_bytes <= n ? memo : NULL;
}

static int64_t end_of(const struct insn *insn)
{
	return (int64_t)insn->off + insn->n_bytes;
}

/* ---- operands ------------------------------------------------------------------------------- */

static uint32_t find_written(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct full_insn it;
	uint32_t written = 0;

	if (!decode_full(decoder, bytes, n, &it))
		return UINT32_MAX;
	for (unsigned int i = 0; i < it.insn.operand_count; i++) {
		if (!(it.list[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		for (unsigned int reg = 0; reg < GENERAL_REGISTERS; reg++)
			if (is_register(&it.list[i], reg))
				written |= 1U << reg;
	}
	return written;
}

uint32_t insn_written(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct insn_facts *facts;
	struct insn_memo *memo = memo_of(decoder, bytes, n, &facts);

	if (!memo)
		return find_written(decoder, bytes, n);
	if (!(memo->known & KNOWS_WRITTEN))
		facts->written = find_written(decoder, bytes, n);
	memo->known |= KNOWS_WRITTEN;
	return facts->written;
}

bool insn_writes(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		 unsigned int reg)
{
	return insn_written(decoder, bytes, n) >> reg & 1;
}

bool insn_reads(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		unsigned int reg)
{
	enum { OVERWRITING_BITS = 32 }; /* a write of 32 bits clears the upper half */
	struct full_insn it;

	if (!decode_full(decoder, bytes, n, &it))
		return true;
	for (unsigned int i = 0; i < it.insn.operand_count; i++) {
		const ZydisDecodedOperand *operand = &it.list[i];
		const bool is_overwritten = operand->actions == ZYDIS_OPERAND_ACTION_WRITE &&
					    operand->size >= OVERWRITING_BITS;

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (is_same_register(operand->mem.base, reg) ||
		     is_same_register(operand->mem.index, reg)))
			return true;
		if (is_register(operand, reg) && !is_overwritten)
			return true;
	}
	return false;
}

/* Return true if OPERAND is memory that its instruction writes. */
static bool is_stored(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE);
}

bool insn_stores(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct full_insn it;

	if (!decode_full(decoder, bytes, n, &it))
		return true;
	for (unsigned int i = 0; i < it.insn.operand_count; i++)
		if (is_stored(&it.list[i]))
			return true;
	return false;
}

static bool find_writes_stack(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct full_insn it;

	if (!decode_full(decoder, bytes, n, &it))
		return true;
	/* The hidden operands, too: push and call have one. */
	for (unsigned int i = 0; i < it.insn.operand_count; i++)
		if (is_stored(&it.list[i]) && it.list[i].mem.base == ZYDIS_REGISTER_RSP)
			return true;
	return false;
}

bool insn_writes_stack(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct insn_facts *facts;
	struct insn_memo *memo = memo_of(decoder, bytes, n, &facts);

	if (!memo)
		return find_writes_stack(decoder, bytes, n);
	if (!(memo->known & KNOWS_WRITES_STACK))
		facts->writes_stack = find_writes_stack(decoder, bytes, n);
	memo->known |= KNOWS_WRITES_STACK;
	return facts->writes_stack;
}

/* Instructions of these categories write their flags whatever their operands are. */
static bool always_writes_flags(const ZydisDecodedInstruction *it)
{
	return it->meta.category == ZYDIS_CATEGORY_BINARY ||
	       it->meta.category == ZYDIS_CATEGORY_LOGICAL;
}

static struct insn_flags find_flags(const struct insn_decoder *decoder, const uint8_t *bytes,
				    size_t n)
{
	struct insn_flags flags = { .read = INSN_STATUS_FLAGS };
	struct full_insn it;

	if (!decode_full(decoder, bytes, n, &it))
		return flags;
	flags.read = 0;
	if (!it.insn.cpu_flags)
		return flags;
	flags.read = it.insn.cpu_flags->tested & INSN_STATUS_FLAGS;
	if (always_writes_flags(&it.insn))
		flags.written = (it.insn.cpu_flags->modified | it.insn.cpu_flags->set_0 |
				 it.insn.cpu_flags->set_1 | it.insn.cpu_flags->undefined) &
				INSN_STATUS_FLAGS;
	return flags;
}

struct insn_flags insn_flags(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct insn_facts *facts;
	struct insn_memo *memo = memo_of(decoder, bytes, n, &facts);

	if (!memo)
		return find_flags(decoder, bytes, n);
	if (!(memo->known & KNOWS_FLAGS))
		facts->flags = find_flags(decoder, bytes, n);
	memo->known |= KNOWS_FLAGS;
	return facts->flags;
}

static bool find_distance(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
			  struct insn_distance *distance)
{
	struct full_insn it;

	*distance = (struct insn_distance){ 0 };
	if (!decode_full(decoder, bytes, n, &it))
		return false;
	if (!(it.insn.attributes & ZYDIS_ATTRIB_IS_RELATIVE))
		return true;
	if (it.insn.address_width != 64)
		return false;
	if (it.insn.raw.imm[0].is_relative)
		*distance = (struct insn_distance){ it.insn.raw.imm[0].offset,
						    it.insn.raw.imm[0].size / 8 };
	else
		*distance = (struct insn_distance){ it.insn.raw.disp.offset,
						    it.insn.raw.disp.size / 8 };
	return true;
}

bool insn_distance(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		   struct insn_distance *distance)
{
	struct insn_facts *facts;
	struct insn_memo *memo = memo_of(decoder, bytes, n, &facts);

	if (!memo)
		return find_distance(decoder, bytes, n, distance);
	if (!(memo->known & KNOWS_DISTANCE))
		facts->has_distance = find_distance(decoder, bytes, n, &facts->distance);
	memo->known |= KNOWS_DISTANCE;
	*distance = facts->distance;
	return facts->has_distance;
}

bool insn_reads_rsp(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct full_insn it;

	if (!decode_full(decoder, bytes, n, &it))
		return true;
	for (unsigned int i = 0; i < it.insn.operand_count_visible; i++) {
		const ZydisDecodedOperand *operand = &it.list[i];

		if (is_register(operand, INSN_RSP) || (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
						       operand->mem.base == ZYDIS_REGISTER_RSP))
			return true;
	}
	return false;
}

bool insn_is_table_load(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
			struct insn_table_load *load)
{
	const ZydisDecodedOperandMem *mem;
	struct full_insn it;

	if (!decode_full(decoder, bytes, n, &it) || it.insn.mnemonic != ZYDIS_MNEMONIC_MOVSXD ||
	    it.list[1].type != ZYDIS_OPERAND_TYPE_MEMORY || it.list[1].size != 32 ||
	    !is_wide_register(&it.list[0], &load->to))
		return false;
	mem = &it.list[1].mem;
	if (mem->segment != ZYDIS_REGISTER_DS || mem->scale != 4 || mem->disp.value != 0 ||
	    mem->base < ZYDIS_REGISTER_RAX || mem->base > ZYDIS_REGISTER_R15 ||
	    mem->index < ZYDIS_REGISTER_RAX || mem->index > ZYDIS_REGISTER_R15)
		return false;
	load->base = (unsigned int)(mem->base - ZYDIS_REGISTER_RAX);
	return mem->index != mem->base && load->to != load->base;
}

bool insn_is_add(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		 unsigned int *to, unsigned int *from)
{
	struct full_insn it;

	return decode_full(decoder, bytes, n, &it) && it.insn.mnemonic == ZYDIS_MNEMONIC_ADD &&
	       is_wide_register(&it.list[0], to) && is_wide_register(&it.list[1], from);
}

bool insn_is_copy(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		  unsigned int *to, unsigned int *from, bool *is_conditional)
{
	struct full_insn it;

	if (!decode_full(decoder, bytes, n, &it))
		return false;
	*is_conditional = it.insn.meta.category == ZYDIS_CATEGORY_CMOV;
	return (*is_conditional || it.insn.mnemonic == ZYDIS_MNEMONIC_MOV) &&
	       is_wide_register(&it.list[0], to) && is_wide_register(&it.list[1], from);
}

bool insn_is_constant(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		      unsigned int *to, uint64_t *value)
{
	struct full_insn it;

	if (!decode_full(decoder, bytes, n, &it) || it.insn.mnemonic != ZYDIS_MNEMONIC_MOV ||
	    it.list[0].type != ZYDIS_OPERAND_TYPE_REGISTER || it.list[0].size < 32 ||
	    it.list[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return false;
	*value = it.list[1].imm.value.u;
	for (*to = 0; *to < GENERAL_REGISTERS; ++*to)
		if (is_register(&it.list[0], *to))
			return *value <= INT64_MAX;
	return false;
}

bool insn_is_load(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		  unsigned int reg)
{
	struct full_insn it;
	unsigned int to;

	return decode_full(decoder, bytes, n, &it) && it.insn.mnemonic == ZYDIS_MNEMONIC_MOV &&
	       is_wide_register(&it.list[0], &to) && to == reg &&
	       it.list[1].type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       it.list[1].mem.index == ZYDIS_REGISTER_NONE;
}

static uint8_t general_register(ZydisRegister reg)
{
	return reg >= ZYDIS_REGISTER_RAX && reg <= ZYDIS_REGISTER_R15
		       ? (uint8_t)(reg - ZYDIS_REGISTER_RAX)
		       : INSN_NO_REG;
}

/* Return what the instruction IT does to its operand MEM; set *TO as in struct insn_memory. */
static enum insn_memory_use memory_use(const struct full_insn *it, const ZydisDecodedOperand *mem,
				       uint8_t *to)
{
	const bool is_source =
		mem == &it->list[1] && it->list[0].type == ZYDIS_OPERAND_TYPE_REGISTER;

	*to = is_source ? general_register(it->list[0].reg.value) : INSN_NO_REG;
	if (*to != INSN_NO_REG && it->insn.mnemonic == ZYDIS_MNEMONIC_SUB)
		return INSN_MEMORY_SUB;
	if (*to != INSN_NO_REG && it->insn.mnemonic == ZYDIS_MNEMONIC_MOV)
		return INSN_MEMORY_LOAD;
	*to = INSN_NO_REG;
	return mem->actions & ZYDIS_OPERAND_ACTION_MASK_READ ? INSN_MEMORY_READ : INSN_MEMORY_WRITE;
}

bool insn_memory(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		 struct insn_memory *memory)
{
	const ZydisDecodedOperand *found = NULL;
	struct full_insn it;

	if (!decode_full(decoder, bytes, n, &it))
		return false;
	for (unsigned int i = 0; i < it.insn.operand_count_visible && !found; i++)
		if (it.list[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    it.list[i].mem.type == ZYDIS_MEMOP_TYPE_MEM)
			found = &it.list[i];
	if (!found || found->mem.index != ZYDIS_REGISTER_NONE)
		return false;
	*memory = (struct insn_memory){
		.n_bytes = (uint8_t)(found->size / 8),
		.base = general_register(found->mem.base),
		.is_thread_local = found->mem.segment == ZYDIS_REGISTER_FS,
		.off = found->mem.disp.value,
	};
	memory->use = memory_use(&it, found, &memory->to);
	return memory->base != INSN_NO_REG || found->mem.base == ZYDIS_REGISTER_NONE;
}

/* ---- kinds ---------------------------------------------------------------------------------- */

static struct modrm modrm_of(const ZydisDecodedInstruction *it)
{
	return (struct modrm){
		.mod = it->raw.modrm.mod,
		.reg = it->raw.modrm.reg | (unsigned int)it->raw.rex.R << 3,
		.rm = it->raw.modrm.rm | (unsigned int)it->raw.rex.B << 3,
		.is_wide = it->operand_width == 64,
	};
}

static void branch(struct insn *insn, const ZydisDecodedInstruction *it, enum insn_kind kind)
{
	insn->kind = kind;
	insn->value = end_of(insn) + it->raw.imm[0].value.s;
}

static bool has_memory_without_index(const ZydisDecodedInstruction *it)
{
	return it->raw.modrm.mod != 3 &&
	       (it->raw.modrm.rm != 4 || (it->raw.sib.index == 4 && !it->raw.rex.X));
}

/* Decode opcode ff, which is group 5. */
static void decode_group5(struct insn *insn, const ZydisDecodedInstruction *it)
{
	struct modrm modrm = modrm_of(it);

	switch (it->raw.modrm.reg) {
	case 2:
	case 3:
		insn->kind = INSN_CALL_INDIRECT;
		break;
	case 4:
		insn->kind = INSN_JMP_OTHER;
		if (modrm.mod == 3) {
			insn->kind = INSN_JMP_REG;
			insn->reg = (uint8_t)modrm.rm;
		} else if (has_memory_without_index(it)) {
			insn->kind = INSN_JMP_MEM;
		}
		break;
	case 5:
		insn->kind = INSN_JMP_OTHER;
		break;
	case 6:
		insn->kind = it->operand_width == 64 ? INSN_PUSH : INSN_RSP_LOST;
		break;
	default: /* inc and dec */
		if (modrm.mod == 3 && modrm.rm == INSN_RSP)
			insn->kind = INSN_RSP_LOST;
	}
}

static void decode_lea(struct insn *insn, const ZydisDecodedInstruction *it)
{
	struct modrm modrm = modrm_of(it);

	if (modrm.reg == INSN_RSP) {
		insn->kind = INSN_RSP_LOST;
		if (modrm.is_wide && it->address_width == 64 && it->raw.modrm.rm == 4 &&
		    it->raw.sib.base == 4 && !it->raw.rex.B && has_memory_without_index(it)) {
			insn->kind = INSN_RSP_ADD;
			insn->value = it->raw.disp.value;
		}
	} else if (modrm.is_wide && it->address_width == 64 && modrm.mod == 0 &&
		   it->raw.modrm.rm == 5) {
		insn->kind = INSN_LEA_RIP;
		insn->reg = (uint8_t)modrm.reg;
		insn->value = end_of(insn) + it->raw.disp.value;
	}
}

/* Decode opcodes 81 and 83 with rsp as the destination. */
static void decode_arithmetic(struct insn *insn, const ZydisDecodedInstruction *it)
{
	insn->kind = INSN_RSP_LOST;
	if (it->raw.modrm.reg == 7) {
		insn->kind = INSN_OTHER; /* cmp */
	} else if (it->operand_width == 64 && (it->raw.modrm.reg == 0 || it->raw.modrm.reg == 5)) {
		insn->kind = INSN_RSP_ADD;
		insn->value =
			it->raw.modrm.reg == 0 ? it->raw.imm[0].value.s : -it->raw.imm[0].value.s;
	}
}

/* Decode opcodes 89 and 8b: a move between a register and a register or memory. */
static void decode_move(struct insn *insn, const ZydisDecodedInstruction *it)
{
	struct modrm modrm = modrm_of(it);
	bool is_load = it->opcode == 0x8b;
	bool to_rsp = is_load ? modrm.reg == INSN_RSP : modrm.mod == 3 && modrm.rm == INSN_RSP;
	bool from_rsp = is_load ? modrm.mod == 3 && modrm.rm == INSN_RSP : modrm.reg == INSN_RSP;
	unsigned int other = (modrm.reg == INSN_RSP) ? modrm.rm : modrm.reg;

	if (to_rsp && !modrm.is_wide) {
		insn->kind = INSN_RSP_LOST;
	} else if (to_rsp && modrm.mod != 3) {
		insn->kind = INSN_RSP_LOAD;
	} else if (to_rsp && !from_rsp) {
		insn->kind = INSN_RSP_RESTORE;
		insn->reg = (uint8_t)other;
	} else if (from_rsp && !to_rsp && modrm.mod == 3 && modrm.is_wide) {
		insn->kind = INSN_RSP_SAVE;
		insn->reg = (uint8_t)other;
	}
}

/* Return true if the encoding may name register number 4, which can be rsp, as an operand. */
static bool may_name_rsp(const ZydisDecodedInstruction *it)
{
	if (!(it->attributes & ZYDIS_ATTRIB_HAS_MODRM))
		return it->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT
			       ? it->opcode >= 0x90 && (it->opcode & 7) == INSN_RSP
			       : it->opcode == 0xcc; /* bswap */
	if (it->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return it->raw.modrm.reg == 4 || it->raw.modrm.rm == 4 ||
		       it->opcode_map == ZYDIS_OPCODE_MAP_0F38;
	return (it->raw.modrm.reg == 4 && !it->raw.rex.R) ||
	       (it->raw.modrm.mod == 3 && it->raw.modrm.rm == 4 && !it->raw.rex.B);
}

/* Decode an instruction that no other function decodes. */
static void decode_rest(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
			const ZydisDecodedInstruction *it, struct insn *insn)
{
	if (may_name_rsp(it) && insn_writes(decoder, bytes, n, INSN_RSP))
		insn->kind = INSN_RSP_LOST;
}

/* Decode an opcode after 0f that jumps, traps or uses the stack. Return false for other opcodes. */
static bool decode_0f(struct insn *insn, const ZydisDecodedInstruction *it)
{
	if (it->opcode >= 0x80 && it->opcode <= 0x8f) {
		branch(insn, it, INSN_JCC);
		return true;
	}
	switch (it->opcode) {
	case 0x0b: /* ud2, ud1, ud0 */
	case 0xb9:
	case 0xff:
		insn->kind = INSN_TRAP;
		return true;
	case 0x1f:
		insn->kind = INSN_NOP;
		return true;
	case 0xa0: /* push fs, pop fs, push gs, pop gs */
	case 0xa1:
	case 0xa8:
	case 0xa9:
	case 0x05: /* syscall: execution continues at the next instruction */
		insn->kind = it->opcode == 0x05 ? INSN_OTHER : INSN_RSP_LOST;
		return true;
	default:
		return false;
	}
}

/*
 * Decode an opcode without 0f that jumps, calls, returns or traps. Return false for other opcodes.
 */
static bool decode_flow(struct insn *insn, const ZydisDecodedInstruction *it)
{
	switch (it->opcode) {
	case 0x70 ... 0x7f:
	case 0xe0 ... 0xe3:
		branch(insn, it, INSN_JCC);
		return true;
	case 0xe9:
	case 0xeb:
		branch(insn, it, INSN_JMP);
		return true;
	case 0xe8:
		branch(insn, it, INSN_CALL);
		return true;
	case 0xc2:
	case 0xc3:
		insn->kind = INSN_RET;
		return true;
	case 0xca: /* far returns */
	case 0xcb:
	case 0xcf:
		insn->kind = INSN_JMP_OTHER;
		return true;
	case 0xcc: /* int3, int1, hlt */
	case 0xf1:
	case 0xf4:
		insn->kind = INSN_TRAP;
		return true;
	case 0xff:
		decode_group5(insn, it);
		return true;
	default:
		return false;
	}
}

static bool decode_stack(struct insn *insn, const ZydisDecodedInstruction *it)
{
	struct modrm modrm = modrm_of(it);

	switch (it->opcode) {
	case 0x50 ... 0x57:
		insn->reg = (uint8_t)((it->opcode & 7) | it->raw.rex.B << 3);
		/* fall through */
	case 0x68:
	case 0x6a:
	case 0x9c:
		insn->kind = it->operand_width == 64 ? INSN_PUSH : INSN_RSP_LOST;
		return true;
	case 0x58 ... 0x5f:
		insn->reg = (uint8_t)((it->opcode & 7) | it->raw.rex.B << 3);
		/* fall through */
	case 0x8f:
	case 0x9d:
		insn->kind = it->operand_width == 64 ? INSN_POP : INSN_RSP_LOST;
		if (insn->reg == INSN_RSP ||
		    (it->opcode == 0x8f && modrm.mod == 3 && modrm.rm == INSN_RSP))
			insn->kind = INSN_RSP_LOST;
		return true;
	case 0xc8: /* enter and leave */
	case 0xc9:
		insn->kind = INSN_RSP_LOST;
		return true;
	case 0x81:
	case 0x83:
		if (modrm.mod == 3 && modrm.rm == INSN_RSP)
			decode_arithmetic(insn, it);
		return true;
	case 0x89:
	case 0x8b:
		decode_move(insn, it);
		return true;
	case 0x8d:
		decode_lea(insn, it);
		return true;
	case 0x90:
		insn->kind = it->raw.rex.B ? INSN_OTHER : INSN_NOP;
		return true;
	default:
		return false;
	}
}

/*
 * Return true if the kernel emulates the instruction under a uprobe: its opcode is in the kernel's
 * branch_setup_xol_ops or push_setup_xol_ops, and it has no prefix that some kernel versions
 * refuse. The kernel emulates nops, too, but return false for them: a nop can be the site of a
 * probe that has a semaphore, and the kernel refuses a second uprobe at that place without the same
 * semaphore.
 */
static bool is_emulated(const uint8_t *bytes, size_t n_bytes)
{
	switch (bytes[0]) {
	case 0x50 ... 0x57:
	case 0x70 ... 0x7f:
	case 0xe8:
	case 0xe9:
	case 0xeb:
		return true;
	case 0x0f:
		return bytes[1] >= 0x80 && bytes[1] <= 0x8f;
	case 0x41:
		return n_bytes == 2 && bytes[1] >= 0x50 && bytes[1] <= 0x57;
	default:
		return false;
	}
}

/*
 * Return true if the instruction is a branch with prefix 66. The distance in such a branch has 32
 * bits on some processors, and 16 bits on others.
 */
static bool is_ambiguous(const ZydisDecodedInstruction *it)
{
	if (!it->raw.imm[0].is_relative || it->raw.rex.W)
		return false;
	for (unsigned int i = 0; i < it->raw.prefix_count; i++) {
		if (it->raw.prefixes[i].value == 0x66)
			return true;
	}
	return false;
}

/* ---- recalled instructions ------------------------------------------------------------------ */

/*
 * Decode the instruction at BYTES[0..N) from the memo. Return false if the memo has no result for
 * these bytes.
 */
static bool recall_insn(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
			uint32_t off, struct insn *insn)
{
	struct insn_facts *facts;
	const struct insn_memo *memo = memo_of(decoder, bytes, n, &facts);
	int32_t near;

	if (!memo)
		return false;
	*insn = (struct insn){
		.off = off,
		.n_bytes = memo->n_bytes,
		.kind = memo->kind,
		.reg = memo->reg,
		.is_emulated = memo->is_emulated,
		.value = memo->value,
	};
	if (memo->distance_bytes == 1) {
		insn->value = end_of(insn) + (int8_t)bytes[memo->distance_at];
	} else if (memo->distance_bytes == 4) {
		memcpy(&near, bytes + memo->distance_at, sizeof(near));
		insn->value = end_of(insn) + near;
	}
	return true;
}

/* Note that the opcode alone determines the instruction at BYTES, except its distance. */
static void note_short(struct insn_memos *memos, const uint8_t *bytes,
		       const ZydisDecodedInstruction *it)
{
	if (it->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT)
		memos->is_short[bytes[0]] = true;
	else if (it->opcode_map == ZYDIS_OPCODE_MAP_0F)
		memos->is_short_after_0f[bytes[1]] = true;
}

/* Store INSN in the memo, if the first HEADER_BYTES bytes of the instruction determine it. */
static void remember_insn(const struct insn_decoder *decoder, const uint8_t *bytes,
			  const ZydisDecodedInstruction *it, const struct insn *insn)
{
	struct insn_memo memo = {
		.value = (int32_t)insn->value,
		.n_bytes = insn->n_bytes,
		.kind = insn->kind,
		.reg = insn->reg,
		.is_emulated = insn->is_emulated,
	};

	if (it->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY ||
	    it->raw.modrm.offset >= HEADER_BYTES || it->raw.sib.offset >= HEADER_BYTES ||
	    it->length - it->raw.disp.size / 8 - it->raw.imm[0].size / 8 - it->raw.imm[1].size / 8 >
		    HEADER_BYTES)
		return;
	switch (insn->kind) {
	case INSN_JCC:
	case INSN_JMP:
	case INSN_CALL:
		memo.distance_at = it->raw.imm[0].offset;
		memo.distance_bytes = it->raw.imm[0].size / 8;
		break;
	case INSN_LEA_RIP:
		memo.distance_at = it->raw.disp.offset;
		memo.distance_bytes = it->raw.disp.size / 8;
		break;
	case INSN_RSP_ADD:
		if (insn->n_bytes > HEADER_BYTES)
			return;
		break;
	default:
		break;
	}
	if (memo.distance_bytes == 2)
		return;
	if (!it->raw.prefix_count && (it->length == 1 || it->raw.imm[0].is_relative))
		note_short(decoder->memos, bytes, it);
	memo.header = header_of(decoder->memos, bytes);
	decoder->memos->list[memo_index(memo.header)] = memo;
}

bool insn_decode(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n, uint32_t off,
		 struct insn *insn)
{
	ZydisDecodedInstruction it;
	bool is_known = false;

	if (recall_insn(decoder, bytes, n, off, insn))
		return true;
	if (!decode_quick(decoder, bytes, n, &it) || is_ambiguous(&it))
		return false;
	*insn = (struct insn){
		.off = off, .n_bytes = it.length, .kind = INSN_OTHER, .reg = INSN_NO_REG
	};
	if (it.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY) {
		if (it.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT)
			is_known = decode_flow(insn, &it) || decode_stack(insn, &it);
		else if (it.opcode_map == ZYDIS_OPCODE_MAP_0F)
			is_known = decode_0f(insn, &it);
	}
	if (!is_known)
		decode_rest(decoder, bytes, n, &it, insn);
	insn->is_emulated = is_emulated(bytes, it.length);
	if (n >= HEADER_BYTES)
		remember_insn(decoder, bytes, &it, insn);
	return true;
}

/* ---- the kernel's rules --------------------------------------------------------------------- */

/*
 * Return true if the kernel's table good_insns_64 refuses OPCODE (has a zero for it). The kernel
 * also looks up the opcode after a VEX prefix in this table.
 */
static bool is_refused_opcode(uint8_t opcode)
{
	switch (opcode) {
	case 0x06:
	case 0x07:
	case 0x0e:
	case 0x16:
	case 0x17:
	case 0x1e:
	case 0x1f:
	case 0x27:
	case 0x2f:
	case 0x37:
	case 0x3f:
	case 0x60 ... 0x62:
	case 0x6c ... 0x6f:
	case 0x82:
	case 0x9a:
	case 0xcc ... 0xcf:
	case 0xd4 ... 0xd6:
	case 0xe4 ... 0xe7:
	case 0xea:
	case 0xec ... 0xef:
	case 0xf1:
	case 0xf4:
	case 0xfa:
	case 0xfb:
		return true;
	default:
		return false;
	}
}

/*
 * Return true if the kernel's table good_2byte_insns refuses OPCODE (has a zero for it). Some
 * kernel versions do not check this table.
 */
static bool is_refused_0f(uint8_t opcode)
{
	switch (opcode) {
	case 0x00:
	case 0x01:
	case 0x05 ... 0x09:
	case 0x0b:
	case 0x30:
	case 0x34:
	case 0x35:
	case 0x37:
	case 0x78:
	case 0x79:
	case 0xae:
		return true;
	default:
		return false;
	}
}

/*
 * Return true if the instruction has a prefix that the kernel's is_prefix_bad refuses: es, cs, ss,
 * ds (which is also notrack), lock.
 */
static bool has_refused_prefix(const ZydisDecodedInstruction *it)
{
	for (unsigned int i = 0; i < it->raw.prefix_count; i++) {
		switch (it->raw.prefixes[i].value) {
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0xf0:
			return true;
		default:
			break;
		}
	}
	return false;
}

/* Return true if the instruction is FMA4, which the kernel's decoder does not know. */
static bool is_fma4(const ZydisDecodedInstruction *it)
{
	return it->encoding == ZYDIS_INSTRUCTION_ENCODING_VEX &&
	       it->opcode_map == ZYDIS_OPCODE_MAP_0F3A &&
	       ((it->opcode >= 0x5c && it->opcode <= 0x5f) || (it->opcode & 0xf8) == 0x68 ||
		(it->opcode & 0xf8) == 0x78);
}

static bool is_refused(const ZydisDecodedInstruction *it)
{
	if (has_refused_prefix(it) || is_fma4(it))
		return true;
	switch (it->encoding) {
	case ZYDIS_INSTRUCTION_ENCODING_LEGACY:
		if (it->opcode_map == ZYDIS_OPCODE_MAP_0F)
			return is_refused_0f(it->opcode);
		if (it->opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
			return false;
		/* mov to ss, which the kernel refuses in insn_masking_exception */
		return is_refused_opcode(it->opcode) ||
		       (it->opcode == 0x8e && it->raw.modrm.reg == 2);
	case ZYDIS_INSTRUCTION_ENCODING_VEX:
	case ZYDIS_INSTRUCTION_ENCODING_EVEX:
		return is_refused_opcode(it->opcode);
	default:
		return true;
	}
}

static enum insn_cost find_cost(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	ZydisDecodedInstruction it;

	if (!decode_quick(decoder, bytes, n, &it) || is_ambiguous(&it) || is_refused(&it))
		return INSN_REFUSED;
	return is_emulated(bytes, it.length) ? INSN_EMULATED : INSN_STEPPED;
}

enum insn_cost insn_cost(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct insn_facts *facts;
	struct insn_memo *memo = memo_of(decoder, bytes, n, &facts);

	if (!memo)
		return find_cost(decoder, bytes, n);
	if (!(memo->known & KNOWS_COST))
		facts->cost = (uint8_t)find_cost(decoder, bytes, n);
	memo->known |= KNOWS_COST;
	return facts->cost;
}

bool insn_repeats(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	ZydisDecodedInstruction it;

	if (!decode_quick(decoder, bytes, n, &it) ||
	    it.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY ||
	    it.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT ||
	    !((it.opcode >= 0xa4 && it.opcode <= 0xa7) || (it.opcode >= 0xaa && it.opcode <= 0xaf)))
		return false;
	for (unsigned int i = 0; i < it.raw.prefix_count; i++) {
		if (it.raw.prefixes[i].value == 0xf2 || it.raw.prefixes[i].value == 0xf3)
			return true;
	}
	return false;
}
