/* SPDX-License-Identifier: MIT */
/*
 * Reads the arguments of the probe that was hit.
 *
 * OCaml values. A word with its lowest bit set is an integer, shifted left by one. Any other word
 * is the address of a block. The word before the block is its header: 8 bits of tag, two bits of
 * the collector, and the size in words (46 bits are enough for any address space; compilers store
 * other things in the 8 bits above). Tags below 246 are constructors, tuples, records and arrays. A
 * string fills its words; the last byte is the number of padding bytes before it. Boxed int32,
 * int64 and nativeint are custom blocks: the first word points to a struct whose first field is the
 * address of an identifier, the second word is the number. Source: caml/mlvalues.h and
 * caml/custom.h of 4.14 and 5.3.
 *
 * Registers are loaded by one explicit instruction each. The verifier demands constant offsets into
 * the registers, but the compiler would turn a switch with one load per register into one load at a
 * computed offset. The helper bpf_probe_read_kernel() could copy all registers, but is not
 * available if the kernel is locked down for confidentiality.
 *
 * Memory is first read without page faults. If this fails, it is read again with page faults, as if
 * the traced program had read it: a constant string, for example, is often in a page of the file
 * that was never touched. BPF programs that include this file must therefore be sleepable (SEC
 * "uprobe.multi.s"). Being sleepable has no measurable cost, neither per hit nor when detaching.
 *
 * Unless its comment says otherwise, a function returns 1 if it succeeds, else 0. The larger
 * functions are __noinline or __within_stacks (few_functions.bpf.h): if all of them were inlined,
 * the stack would be too small, and the verifier would have more paths to follow.
 */
#ifndef ARGS_BPF_H
#define ARGS_BPF_H

#include "args.h"
#include "few_functions.bpf.h"

enum ocaml_tag {
	TAG_LAZY = 246,
	TAG_CLOSURE,
	TAG_OBJECT,
	TAG_INFIX,
	TAG_FORWARD,
	TAG_ABSTRACT,
	TAG_STRING,
	TAG_DOUBLE,
	TAG_DOUBLE_ARRAY,
	TAG_CUSTOM,
};

enum {
	OCAML_WORD = 8,
	HEADER_SIZE_SHIFT = 10,
	HEADER_SIZE_BITS = 46,
	KEY_STRING_BYTES = 64,
};

struct ocaml_block {
	__u64 words;
	__u64 tag;
};

/* Copy N bytes of the program's memory at ADDR. Returns 0 if all of them could be read. */
static __always_inline long args_copy(void *to, __u32 n, __u64 addr)
{
	long err = bpf_probe_read_user(to, n, (const void *)addr);

	if (err)
		err = bpf_copy_from_user(to, n, (const void *)addr);
	return err;
}

/* ---- arguments of a site -------------------------------------------------------------------- */

/*
 * Make the compiler keep the value of NUMBER. Otherwise the compiler could compute NUMBER again in
 * another way, and the verifier would no longer know its bounds.
 */
#define args_keep(number) asm volatile("" : "+r"(number))

#define ARGS_LOAD(reg, off)                                                                        \
	asm volatile("%0 = *(u64 *)(%1 + " #off ")" : "=r"(values[reg]) : "r"(regs))

/*
 * Return the value of register REG (enum arg_register). The function copies all registers to an
 * array and indexes the array, so that the verifier follows one path instead of 16.
 */
static __within_stacks __u64 args_register(struct pt_regs *regs, __u32 reg)
{
	__u64 values[ARG_RIP], site;

	asm volatile("%0 = *(u64 *)(%1 + 128)" : "=r"(site) : "r"(regs));
	if (reg == ARG_RIP)
		return site;
	ARGS_LOAD(ARG_R15, 0);
	ARGS_LOAD(ARG_R14, 8);
	ARGS_LOAD(ARG_R13, 16);
	ARGS_LOAD(ARG_R12, 24);
	ARGS_LOAD(ARG_RBP, 32);
	ARGS_LOAD(ARG_RBX, 40);
	ARGS_LOAD(ARG_R11, 48);
	ARGS_LOAD(ARG_R10, 56);
	ARGS_LOAD(ARG_R9, 64);
	ARGS_LOAD(ARG_R8, 72);
	ARGS_LOAD(ARG_RAX, 80);
	ARGS_LOAD(ARG_RCX, 88);
	ARGS_LOAD(ARG_RDX, 96);
	ARGS_LOAD(ARG_RSI, 104);
	ARGS_LOAD(ARG_RDI, 112);
	ARGS_LOAD(ARG_RSP, 152);
	return values[reg & (ARG_RIP - 1)];
}

static __always_inline __u64 args_extend(__u64 value, const struct arg_spec *spec)
{
	__u32 unused_bits = 64 - 8 * (__u32)(spec->size & 15);

	unused_bits &= 63;
	value <<= unused_bits;
	return spec->is_signed ? (__u64)((__s64)value >> unused_bits) : value >> unused_bits;
}

static __always_inline int args_read_word(__u64 addr, __u64 *word)
{
	return args_copy(word, sizeof(*word), addr) == 0;
}

static __within_stacks int args_read_memory(__u64 addr, const struct arg_spec *spec, __u64 *value)
{
	__u64 bytes = spec->size;

	args_keep(bytes);
	if (bytes == 0 || bytes > sizeof(*value))
		return 0;
	*value = 0;
	return args_copy(value, bytes, addr) == 0;
}

/*
 * Read the argument that SPEC describes into *VALUE; an integer is extended to 64 bits. Returns 0
 * if the argument cannot be read.
 */
static __noinline int arg_read(struct pt_regs *regs, const struct arg_spec *spec, __u64 *value)
{
	__u64 word;

	*value = 0;
	switch (spec->kind) {
	case ARG_CONSTANT:
		*value = (__u64)spec->number;
		return 1;
	case ARG_REGISTER:
		word = args_register(regs, spec->base) >> (spec->register_shift & 8);
		break;
	case ARG_MEMORY:
		word = (__u64)spec->number;
		if (spec->base != ARG_NO_REGISTER)
			word += args_register(regs, spec->base);
		if (spec->index != ARG_NO_REGISTER)
			word += args_register(regs, spec->index) << (spec->index_shift & 3);
#pragma unroll
		for (int i = 0; i < ARG_MAX_THEN; i++) {
			if (i >= spec->n_then)
				break;
			if (!args_read_word(word, &word))
				return 0;
			word += (__u64)spec->then[i];
		}
		if (!args_read_memory(word, spec, &word))
			return 0;
		break;
	default:
		return 0;
	}
	*value = args_extend(word, spec);
	return 1;
}

/* ---- OCaml values ---------------------------------------------------------------------------- */

static __within_stacks int ocaml_read_block(__u64 value, struct ocaml_block *block)
{
	__u64 header;

	if (value == 0 || value % OCAML_WORD || !args_read_word(value - OCAML_WORD, &header))
		return 0;
	block->tag = header & 0xff;
	block->words =
		header << (64 - HEADER_SIZE_BITS - HEADER_SIZE_SHIFT) >> (64 - HEADER_SIZE_BITS);
	return 1;
}

/*
 * Return the length in bytes of the OCaml string at VALUE, whose block has WORDS words, or -1 if it
 * cannot be read or is not valid.
 */
static __within_stacks __s64 ocaml_string_length(__u64 value, __u64 words)
{
	__u64 bytes = words * OCAML_WORD;
	__u8 padding;

	if (bytes == 0 || args_copy(&padding, sizeof(padding), value + bytes - 1) ||
	    padding >= OCAML_WORD)
		return -1;
	return (__s64)(bytes - 1 - padding);
}

/*
 * Read the custom block at VALUE. If it is a boxed integer, set *NUMBER and return its kind:
 * NODE_INT64, NODE_INT32 or NODE_NATIVEINT. For any other custom block, set *IDENTIFIER to the
 * address of its identifier and return NODE_CUSTOM. Return NODE_UNREADABLE if the block cannot be
 * read.
 */
static __noinline int ocaml_read_custom(__u64 value, __u64 *identifier, __u64 *number)
{
	char name[3] = {};
	__u64 ops;

	if (!args_read_word(value, &ops) || !args_read_word(ops, identifier) ||
	    args_copy(name, sizeof(name), *identifier))
		return NODE_UNREADABLE;
	if (name[0] != '_' || name[1] == '\0' || name[2] != '\0')
		return NODE_CUSTOM;
	if (name[1] != 'j' && name[1] != 'i' && name[1] != 'n')
		return NODE_CUSTOM;
	if (!args_read_word(value + OCAML_WORD, number))
		return NODE_UNREADABLE;
	if (name[1] == 'j')
		return NODE_INT64;
	if (name[1] == 'n')
		return NODE_NATIVEINT;
	*number = (__u64)((__s64)(*number << 32) >> 32);
	return NODE_INT32;
}

static __noinline int ocaml_number(__u64 value, __s64 *number)
{
	struct ocaml_block block;
	__u64 identifier, payload = 0;
	int kind;

	if (value & 1) {
		*number = (__s64)value >> 1;
		return FILTER_TYPE_INT;
	}
	if (!ocaml_read_block(value, &block))
		return FILTER_TYPE_OTHER;
	if (block.tag == TAG_DOUBLE) {
		kind = args_read_word(value, &payload);
		*number = (__s64)payload;
		return kind ? FILTER_TYPE_FLOAT : FILTER_TYPE_OTHER;
	}
	if (block.tag != TAG_CUSTOM)
		return FILTER_TYPE_OTHER;
	kind = ocaml_read_custom(value, &identifier, &payload);
	*number = (__s64)payload;
	return kind == NODE_INT64 || kind == NODE_INT32 || kind == NODE_NATIVEINT
		       ? FILTER_TYPE_INT
		       : FILTER_TYPE_OTHER;
}

/*
 * Read the argument that SPEC describes. For an OCaml int, a boxed integer or a C integer, set
 * *NUMBER to the integer and return FILTER_TYPE_INT. For a float, set *NUMBER to the bits of the
 * float and return FILTER_TYPE_FLOAT. Return FILTER_TYPE_OTHER for everything else.
 */
static __within_stacks int arg_number(struct pt_regs *regs, const struct arg_spec *spec,
				      __s64 *number)
{
	__u64 value;

	*number = 0;
	if (!arg_read(regs, spec, &value))
		return FILTER_TYPE_OTHER;
	if (spec->type == ARG_VALUE)
		return ocaml_number(value, number);
	*number = (__s64)value;
	return spec->type == ARG_FLOAT ? FILTER_TYPE_FLOAT : FILTER_TYPE_INT;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Mix the bits of X. The function is a bijection: different numbers have different results. */
static __always_inline __u64 args_mix(__u64 x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static __within_stacks int ocaml_string_key(__u64 value, __u64 *key)
{
	__u64 words[KEY_STRING_BYTES / 8] = {};
	struct ocaml_block block;
	__u64 n, hash;
	__s64 length;

	if (!ocaml_read_block(value, &block) || block.tag != TAG_STRING)
		return 0;
	length = ocaml_string_length(value, block.words);
	if (length < 0)
		return 0;
	n = (__u64)length;
	if (n > sizeof(words))
		n = sizeof(words);
	args_keep(n);
	if (n > sizeof(words) || args_copy(words, n, value))
		return 0;
	hash = args_mix((__u64)length + 0x9e3779b97f4a7c15ULL);
#pragma unroll
	for (int i = 0; i < KEY_STRING_BYTES / 8; i++)
		hash = args_mix(hash ^ words[i]) + 0x9e3779b97f4a7c15ULL;
	*key = hash;
	return 1;
}

/*
 * Set *KEY to the key of the argument that SPEC describes. Different integers have different keys.
 * The key of a string is a hash of the string's length and its first KEY_STRING_BYTES bytes.
 * Returns 0 if the argument cannot be a key.
 */
static __always_inline int arg_key(struct pt_regs *regs, const struct arg_spec *spec, __u64 *key)
{
	__s64 number;
	__u64 value;

	*key = 0;
	if (arg_number(regs, spec, &number) == FILTER_TYPE_INT) {
		*key = args_mix((__u64)number);
		return 1;
	}
	return spec->type == ARG_VALUE && arg_read(regs, spec, &value) &&
	       ocaml_string_key(value, key);
}

/* ---- records -------------------------------------------------------------------------------- */

struct args_recording {
	struct pt_regs *regs;
	const struct site_args *args;
	struct hit_record *record;
};

/*
 * Append up to LENGTH bytes from ADDR to the text of RECORD, and set NODE to the place of these
 * bytes. Returns 0 if the bytes cannot be read.
 */
static __noinline int record_text(struct hit_record *record, struct value_node *node, __u64 addr,
				  __u64 length)
{
	__u64 off = record->n_text, n = length;

	if (off > RECORD_TEXT_FULL && n > RECORD_SHORT_STRING)
		n = RECORD_SHORT_STRING;
	if (n > RECORD_STRING)
		n = RECORD_STRING;
	args_keep(n);
	args_keep(off);
	node->at = (__u16)off;
	node->n = 0;
	if (off > RECORD_TEXT_FULL) {
		if (n > RECORD_SHORT_STRING || off > RECORD_TEXT - RECORD_SHORT_STRING)
			return 1;
		if (args_copy(record->text + off, n, addr))
			return 0;
	} else {
		if (n > RECORD_STRING || args_copy(record->text + off, n, addr))
			return 0;
	}
	node->n = (__u16)n;
	record->n_text = (__u16)(off + n);
	return 1;
}

/*
 * Append children of NODE to RECORD: nodes of KIND for the N words at ADDR, or for the first of
 * these words if there is not enough room. Returns 0 if the words cannot be read.
 */
static __noinline int record_children(struct hit_record *record, struct value_node *node,
				      __u64 addr, __u64 n, __u8 kind)
{
	__u64 words[RECORD_FIELDS] = {}, first = record->n_nodes;
	int is_cell = kind == NODE_PENDING && node->tag == 0 && node->size == 2;

	node->at = (__u16)first;
	node->n = 0;
	if (n > RECORD_FIELDS)
		n = RECORD_FIELDS;
	if (n > RECORD_NODES - first)
		n = RECORD_NODES - first;
	args_keep(n);
	if (n > RECORD_FIELDS || args_copy(words, n * OCAML_WORD, addr))
		return 0;
#pragma unroll
	for (__u64 i = 0; i < RECORD_FIELDS; i++) {
		struct value_node *child = &record->nodes[(first + i) & (RECORD_NODES - 1)];

		if (i >= n)
			break;
		*child = (struct value_node){ .value = words[i], .kind = kind };
		/*
		 * The second word of a list cell may be the rest of the list. Give it the depth of
		 * the cell, so that RECORD_DEPTH does not limit the length of lists.
		 */
		child->depth = node->depth + !(is_cell && i == 1);
	}
	node->n = (__u16)n;
	record->n_nodes = (__u16)(first + n);
	return 1;
}

static __always_inline int record_string(struct hit_record *record, struct value_node *node)
{
	__s64 length = ocaml_string_length(node->value, node->size);

	if (length < 0)
		return NODE_UNREADABLE;
	node->size = (__u64)length;
	return record_text(record, node, node->value, (__u64)length) ? NODE_STRING
								     : NODE_UNREADABLE;
}

static __always_inline int record_custom(struct hit_record *record, struct value_node *node)
{
	__u64 identifier = 0;
	int kind = ocaml_read_custom(node->value, &identifier, &node->value);

	if (kind == NODE_CUSTOM)
		record_text(record, node, identifier, RECORD_SHORT_STRING);
	return kind;
}

static __always_inline int record_fields(struct hit_record *record, struct value_node *node,
					 int kind)
{
	if (node->depth >= RECORD_DEPTH)
		return kind;
	return record_children(record, node, node->value, node->size, NODE_PENDING)
		       ? kind
		       : NODE_UNREADABLE;
}

/* Return the kind of NODE, a block, by its tag, and record the block's contents. */
static __always_inline int record_block(struct hit_record *record, struct value_node *node)
{
	switch (node->tag) {
	case TAG_STRING:
		return record_string(record, node);
	case TAG_DOUBLE:
		return args_read_word(node->value, &node->value) ? NODE_DOUBLE : NODE_UNREADABLE;
	case TAG_DOUBLE_ARRAY:
		return record_children(record, node, node->value, node->size, NODE_DOUBLE)
			       ? NODE_DOUBLES
			       : NODE_UNREADABLE;
	case TAG_CUSTOM:
		return record_custom(record, node);
	case TAG_CLOSURE:
	case TAG_INFIX:
		return NODE_CLOSURE;
	case TAG_LAZY:
		return NODE_LAZY;
	case TAG_FORWARD:
		return record_fields(record, node, NODE_FORWARD);
	case TAG_OBJECT:
		return NODE_OBJECT;
	case TAG_ABSTRACT:
		return NODE_ABSTRACT;
	default:
		return record_fields(record, node, NODE_BLOCK);
	}
}

/* The body of a loop: interpret node I if it is NODE_PENDING. */
static long record_node(__u32 i, void *context)
{
	struct hit_record *record = ((struct args_recording *)context)->record;
	struct value_node *node = &record->nodes[i & (RECORD_NODES - 1)];
	struct ocaml_block block;

	if (i >= record->n_nodes)
		return 1;
	if (node->kind != NODE_PENDING)
		return 0;
	if (node->value & 1) {
		node->value = (__u64)((__s64)node->value >> 1);
		node->kind = NODE_INT;
		return 0;
	}
	if (!ocaml_read_block(node->value, &block)) {
		node->kind = NODE_UNREADABLE;
		return 0;
	}
	node->tag = (__u8)block.tag;
	node->size = block.words;
	node->kind = (__u8)record_block(record, node);
	return 0;
}

/* The body of a loop: read argument I into node I. */
static long record_argument(__u32 i, void *context)
{
	struct args_recording *r = context;
	const struct arg_spec *spec = &r->args->args[i & (ARGS_MAX - 1)];
	struct value_node *node = &r->record->nodes[i & (ARGS_MAX - 1)];
	int kind = NODE_UNREADABLE;
	__u64 value;

	if (arg_read(r->regs, spec, &value))
		kind = spec->type == ARG_VALUE	 ? NODE_PENDING
		       : spec->type == ARG_FLOAT ? NODE_DOUBLE
						 : NODE_C_INT;
	else if (spec->kind == ARG_UNSUPPORTED)
		kind = NODE_UNSUPPORTED;
	*node = (struct value_node){ .value = value, .kind = (__u8)kind };
	return 0;
}

/* Fill in the arguments of RECORD. The caller sets the time, the ids and the site. */
static __within_stacks int record_values(struct pt_regs *regs, const struct site_args *args,
					 struct hit_record *record)
{
	struct args_recording r = { .regs = regs, .args = args, .record = record };
	__u32 n = args->n;

	if (n > ARGS_MAX)
		n = ARGS_MAX;
	record->n_args = (__u16)n;
	record->n_nodes = (__u16)n;
	record->n_text = 0;
	record->n_left_out = (__u16)args->n_left_out;
	record->kind = RECORD_HIT;
	bpf_loop(n, record_argument, &r, 0);
	bpf_loop(RECORD_NODES, record_node, &r, 0);
	return 0;
}

#endif
