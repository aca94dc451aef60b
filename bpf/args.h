/* SPDX-License-Identifier: MIT */
/*
 * Structs for the arguments of probes, shared by the BPF programs (args.bpf.h) and their user side
 * (src/measure/args: operand.c writes specs, filter.c writes filters, value.c reads records). The
 * includer provides the types __u8 ... __s64: vmlinux.h in BPF programs, linux/types.h elsewhere.
 */
#ifndef ARGS_H
#define ARGS_H

/* ---- where the arguments of a site are ------------------------------------------------------ */

/*
 * The array `args` of struct site_args has two parts. The first ARGS_MAX elements are the arguments
 * of the site by position. The other ARGS_NAMED elements are the arguments that the request
 * (filter, key, histogram, groups) names: copies of elements of the first part. An argument's name
 * has the same index in the arrays of all sites.
 */
enum {
	ARGS_MAX = 16,
	ARGS_NAMED = 16,
	ARGS_ALL = ARGS_MAX + ARGS_NAMED,
	ARG_MAX_THEN = 3,
};

/* The registers of x86-64, in the order of struct pt_regs. */
enum arg_register {
	ARG_R15,
	ARG_R14,
	ARG_R13,
	ARG_R12,
	ARG_RBP,
	ARG_RBX,
	ARG_R11,
	ARG_R10,
	ARG_R9,
	ARG_R8,
	ARG_RAX,
	ARG_RCX,
	ARG_RDX,
	ARG_RSI,
	ARG_RDI,
	ARG_RSP,
	ARG_RIP, /* the address of the site */
	ARG_REGISTERS,
	ARG_NO_REGISTER = 0xff,
};

enum arg_kind {
	ARG_NONE, /* the site has no such argument */
	ARG_REGISTER,
	ARG_MEMORY,
	ARG_CONSTANT,
	ARG_UNSUPPORTED, /* the argument is in a place that cannot be read: %xmm0, a symbol */
};

enum arg_type {
	ARG_C_INT,
	ARG_VALUE, /* an OCaml value: 8 unsigned bytes */
	ARG_FLOAT, /* an unboxed double */
};

struct arg_spec {
	__u8 kind;
	__u8 base;	  /* enum arg_register; optional for memory */
	__u8 index;	  /* enum arg_register; for memory */
	__u8 index_shift; /* the index is shifted left by this */
	__u8 size;	  /* 1, 2, 4 or 8 bytes */
	__u8 is_signed;
	__u8 type;	     /* enum arg_type */
	__u8 register_shift; /* for a register: 8 for %ah, 0 otherwise */
	__s64 number;	     /* the constant, or the displacement of memory */
	/*
	 * For memory: first, n_then words are read. Word i plus then[i] is the next address. The
	 * argument is at the last address.
	 */
	__s32 then[ARG_MAX_THEN];
	__u8 n_then;
	__u8 reserved[3];
};

_Static_assert(sizeof(struct arg_spec) == 32, "shared by two compilers");

struct site_args {
	/* the number of arguments by position; the kind of unused elements is ARG_NONE */
	__u32 n;
	__u32 n_left_out; /* arguments of the site beyond ARGS_MAX */
	struct arg_spec args[ARGS_ALL];
};

_Static_assert(sizeof(struct site_args) == 1032, "shared by two compilers");

/* ---- filters -------------------------------------------------------------------------------- */

enum {
	FILTER_OPS_MAX = 32,
	FILTER_STRINGS_MAX = 16, /* 32 operations in postfix have 16 comparisons at most */
	FILTER_STRING_BYTES = 64,
};

/*
 * A filter in postfix form. If an argument and the literal with which it is compared have different
 * types, we call this a comparison without an answer. The comparison then counts as false, even
 * with !=. If such a comparison could change the result of the filter, the hit is counted as a
 * mismatch.
 */
enum filter_op_kind {
	FILTER_NUMBER, /* push the result of comparing an argument with `number` */
	FILTER_STRING, /* push the result of comparing an argument with strings[string] */
	FILTER_AND,    /* replace the two newest results by their conjunction */
	FILTER_OR,
	FILTER_NOT,
};

enum filter_comparison {
	FILTER_EQ,
	FILTER_NE,
	FILTER_LT,
	FILTER_LE,
	FILTER_GT,
	FILTER_GE,
	/* the argument starts with the string; strings have only EQ, NE and STARTS */
	FILTER_STARTS,
};

/*
 * A number is compared with ints and with floats. BPF has no floating point, so filter.c prepares
 * two integer comparisons that are equivalent to the comparison in the text of the filter. Ints are
 * compared with `number` by `int_comparison`: x < 1.5 becomes x <= 1. Floats are compared with
 * `ordered` by `comparison`, after filter_order() has been applied to both sides.
 */
struct filter_op {
	__u8 kind;
	__u8 arg;
	__u8 comparison; /* for strings and floats */
	__u8 int_comparison;
	__u8 string;
	__u8 reserved[3];
	__s64 number;
	__s64 ordered;
};

#define FILTER_INFINITY_BITS 0x7ff0000000000000ULL

/*
 * Map the BITS of a double to an integer, so that the integers have the order of the doubles. -0.0
 * and 0.0 give the same integer. BITS must not be a nan, which has no order.
 */
static inline __attribute__((always_inline)) __s64 filter_order(__u64 bits)
{
	const __u64 size = bits & ~(1ULL << 63);

	return size == bits ? (__s64)size : -(__s64)size;
}

static inline __attribute__((always_inline)) int filter_is_nan(__u64 bits)
{
	return (bits & ~(1ULL << 63)) > FILTER_INFINITY_BITS;
}

/* Return 1 if COMPARISON, one of FILTER_EQ to FILTER_GE, is true of A and B. */
static inline __attribute__((always_inline)) int filter_compare(__s64 a, __u8 comparison, __s64 b)
{
	switch (comparison) {
	case FILTER_EQ:
		return a == b;
	case FILTER_NE:
		return a != b;
	case FILTER_LT:
		return a < b;
	case FILTER_LE:
		return a <= b;
	case FILTER_GT:
		return a > b;
	case FILTER_GE:
		return a >= b;
	}
	return 0;
}

/* The type of an argument, as filters, groups and histograms distinguish types. */
enum filter_type {
	FILTER_TYPE_UNREADABLE,
	FILTER_TYPE_INT, /* also boxed integers and C integers */
	FILTER_TYPE_FLOAT,
	FILTER_TYPE_STRING,
	FILTER_TYPE_OTHER,   /* a record, a variant, a list, ... */
	FILTER_TYPE_NOT_INT, /* the engine inside tells only ints from other values */
	FILTER_TYPES,
};

/*
 * Encode a comparison without an answer (see enum filter_op_kind) as a nonzero number: the
 * argument, its type (enum filter_type), and whether it was compared with a string.
 */
static inline __attribute__((always_inline)) __u32 filter_mismatch(__u32 arg, __u32 type,
								   __u32 with_string)
{
	return 1U << 24 | with_string << 16 | type << 8 | arg;
}

static inline __attribute__((always_inline)) __u32 filter_mismatch_arg(__u32 mismatch)
{
	return mismatch & 0xff;
}

static inline __attribute__((always_inline)) __u32 filter_mismatch_type(__u32 mismatch)
{
	return mismatch >> 8 & 0xff;
}

static inline __attribute__((always_inline)) __u32 filter_mismatch_with_string(__u32 mismatch)
{
	return mismatch >> 16 & 1;
}

struct filter_string {
	__u64 n_bytes;
	char bytes[FILTER_STRING_BYTES]; /* zeros after n_bytes */
};

struct filter {
	__u32 n_ops; /* 0: everything matches */
	__u32 n_strings;
	struct filter_op ops[FILTER_OPS_MAX];
	struct filter_string strings[FILTER_STRINGS_MAX];
};

_Static_assert(sizeof(struct filter) == 8 + 32 * 24 + 16 * 72, "shared by two compilers");

/* ---- records of hits ------------------------------------------------------------------------ */

/*
 * The arguments of a hit are recorded as a tree of nodes. One array contains all nodes in
 * breadth-first order: first the arguments, then the fields of the first block, the fields of the
 * second block, and so on, so that children are behind their parents. While the tree is being read,
 * the nodes at the end of the array that are still NODE_PENDING are the queue of the breadth-first
 * search. With this order, if the array becomes full, all arguments are cut at about the same
 * depth.
 */
enum {
	RECORD_NODES = 64,
	/* recorded fields of a block; list cells are only limited by the number of nodes */
	RECORD_FIELDS = 8,
	RECORD_DEPTH = 3, /* blocks within blocks */
	RECORD_TEXT = 1504,
	RECORD_STRING = 192,	  /* maximum for one string */
	RECORD_SHORT_STRING = 32, /* maximum after RECORD_TEXT_FULL bytes are used */
	RECORD_TEXT_FULL = 896,	  /* so that each of ARGS_MAX strings gets some bytes */
};

enum node_kind {
	/* a word that has not been interpreted yet; complete records have no such node */
	NODE_PENDING,
	NODE_INT,     /* value: the OCaml int */
	NODE_C_INT,   /* value: the integer of a C probe */
	NODE_BLOCK,   /* at, n: index and number of the nodes of the fields; size: words */
	NODE_STRING,  /* at, n: place and length in `text`; size: the string's full length */
	NODE_DOUBLE,  /* value: the bits of the double */
	NODE_DOUBLES, /* at, n: the nodes of the elements; size: the full number of elements */
	NODE_INT64,
	NODE_INT32,
	NODE_NATIVEINT,
	NODE_CUSTOM, /* at, n: place and length of the block's identifier in `text` */
	NODE_CLOSURE,
	NODE_LAZY,
	NODE_FORWARD, /* a forced lazy value; at, n: the node of the block's only field */
	NODE_OBJECT,
	NODE_ABSTRACT,
	NODE_UNREADABLE,  /* value: the word, if the word itself could be read */
	NODE_UNSUPPORTED, /* the place of the argument cannot be read */
	NODE_KINDS,
};

struct value_node {
	__u64 value;
	__u64 size;
	__u16 at;
	__u16 n;
	__u8 kind;
	__u8 tag;
	__u8 depth;
	__u8 reserved;
};

_Static_assert(sizeof(struct value_node) == 24, "shared by two compilers");

/* The kind of a record in the ring buffer. */
enum record_kind {
	RECORD_HIT,
	RECORD_SLOW,	   /* the record is a struct slow_record (measure_slower.h) */
	RECORD_SLOW_SHORT, /* the record is a struct slow_short (measure_slower.h) */
};

struct hit_record {
	__u64 ts_ns;
	__u32 pid, tid;
	__u32 site;
	__u16 n_args; /* how many nodes are arguments; these nodes are the first ones */
	__u16 n_nodes;
	__u16 n_text;
	__u16 n_left_out; /* arguments of the site that are not in the record */
	__u32 kind;	  /* enum record_kind */
	char comm[16];	  /* the name of the thread at the hit */
	struct value_node nodes[RECORD_NODES];
	char text[RECORD_TEXT];
};

_Static_assert(sizeof(struct hit_record) == 3088, "shared by two compilers");

/* The members of struct hit_record before `nodes`, in words of 8 bytes. */
enum { HIT_HEAD_WORDS = 6 };

_Static_assert(__builtin_offsetof(struct hit_record, nodes) == HIT_HEAD_WORDS * 8,
	       "nodes follow the head");

#endif
