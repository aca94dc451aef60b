/* SPDX-License-Identifier: MIT */
/*
 * The layout of the maps that walk.bpf.h shares with its user side (src/unwind). The includer
 * provides the __u32 and __u64 types.
 *
 *	map             type           key               value
 *	walk_tables     array of maps  table             array: number -> struct walk_row, by address
 *	walk_rules      array          rule              struct walk_rule; 0: nothing is known
 *	walk_processes  hash           u32, process id   struct walk_process
 *	walk_scratch    array          CPU * WALK_SLOTS + slot  struct walk_scratch
 */
#ifndef WALK_H
#define WALK_H

enum {
	WALK_DEPTH = 127, /* frames of a stack in user space */
	WALK_KERNEL_DEPTH = 64,
	WALK_MAPPINGS = 256, /* of code, in one process */
	WALK_MAX_RULES = 1 << 14,
	WALK_MAX_TABLES = 1 << 12,
	WALK_SLOTS = 4,	     /* walks at one time on one CPU: a walk can be preempted */
	WALK_ROW_STEPS = 26, /* of a search: 2^26 rows */
	WALK_MAPPING_STEPS = 9,
};

/* Registers that a frame keeps for its caller, then the stack pointer and the instruction pointer. */
enum walk_register {
	WALK_RBX,
	WALK_RBP,
	WALK_R12,
	WALK_R13,
	WALK_R14,
	WALK_R15,
	WALK_SAVED, /* the number of those above */
	WALK_RSP = WALK_SAVED,
	WALK_RIP,
	WALK_REGISTERS,
};

/* How the stack pointer of the caller is found; see enum cfi_cfa of src/elf/eh_frame.h. */
enum walk_cfa { WALK_CFA_UNKNOWN, WALK_CFA_REGISTER, WALK_CFA_LOAD, WALK_CFA_LOAD_2, WALK_CFA_PLT };

/* Where a register of the caller is; `off` is added. */
enum walk_place { WALK_SAME, WALK_AT_CFA, WALK_AT_RSP, WALK_AT_RBP, WALK_NOWHERE };

/* struct walk_rule, flags */
enum {
	WALK_SIGNAL = 1 << 0,	 /* the caller was interrupted, and called nothing */
	WALK_OUTERMOST = 1 << 1, /* the frame has no caller */
};

struct walk_rule {
	__u8 cfa; /* enum walk_cfa */
	__u8 reg; /* enum walk_register */
	__u8 flags;
	__u8 rip_at; /* enum walk_place */
	__s32 add[3];
	__s32 rip_off;
	__u8 at[WALK_SAVED]; /* enum walk_place */
	__u8 n_moved;	     /* registers that are not WALK_SAME */
	__u8 reserved;
	__s32 off[WALK_SAVED];
};

/* The rule holds from the address on, up to the next row. */
struct walk_row {
	__u32 va; /* link-time address */
	__u32 rule;
};

struct walk_mapping {
	__u64 start, end;
	__u64 bias;  /* address minus link-time address */
	__u32 table; /* WALK_NO_TABLE: the file has none */
	__u32 n_rows;
};

enum { WALK_NO_TABLE = 0xffffffff };

struct walk_process {
	__u32 n;
	__u32 n_unmapped; /* addresses that are in none of the mappings: read them again */
	struct walk_mapping mappings[WALK_MAPPINGS]; /* by address */
};

/* Why a stack ends. All but WALK_COMPLETE mean that callers are missing. */
enum walk_end {
	WALK_COMPLETE,
	WALK_TOO_DEEP,	  /* more than WALK_DEPTH frames */
	WALK_NO_PROCESS,  /* the process is not in walk_processes */
	WALK_NO_MAPPING,  /* no file is mapped at the address */
	WALK_NO_RULE,	  /* the file does not tell how to go on from the address */
	WALK_UNREADABLE,  /* the stack cannot be read: paged out, or damaged */
	WALK_NO_REGISTER, /* the rule needs a register that was not kept */
	WALK_NO_PROGRESS, /* the caller's frame would not be above this one */
	WALK_BUSY,	  /* no slot was free */
	WALK_ENDS,
};

/*
 * The address of a frame. It is that of the instruction that runs, if WALK_EXACT is set, which is
 * so in the first frame and in frames that a signal interrupted. Else it is a return address: the
 * call is the instruction before it.
 */
#define WALK_EXACT (1ULL << 63)

struct walk_stack {
	__u64 hash; /* of all frames */
	__u32 end;  /* enum walk_end */
	__u32 n;    /* frames in user space */
	__u32 n_kernel;
	__u32 reserved;
	__u64 frames[WALK_DEPTH + 1];
	__u64 kernel[WALK_KERNEL_DEPTH]; /* return addresses, the innermost first */
};

enum { WALK_BLOCK = 8 }; /* words that are read at once: those below the canonical frame address */

struct walk_scratch {
	__u32 is_taken;
	__u32 is_caller; /* the address is a return address */
	__u32 lost;	 /* a bit for each register that is unknown */
	__u32 reserved;
	__u64 regs[WALK_REGISTERS];
	__u64 block[WALK_BLOCK];
	struct walk_stack stack;
};

_Static_assert(sizeof(struct walk_rule) == 52, "shared by two compilers");
_Static_assert(sizeof(struct walk_mapping) == 32, "shared by two compilers");

#endif
