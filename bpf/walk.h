/* SPDX-License-Identifier: MIT */
/*
 * The layout of the maps that walk.bpf.h shares with its user side (src/unwind). The includer
 * provides the __u32 and __u64 types.
 *
 *	map             type           key               value
 *	walk_tables     array of maps  table             array: index -> struct walk_row, by
 *							 address
 *	walk_rules      array          rule              struct walk_rule; rule 0: unknown
 *	walk_cache      array          hash of a frame   a frame and its rule
 *	walk_processes  hash           u32, process id   struct walk_process
 *	walk_files      hash           struct walk_inode struct walk_file
 *	walk_news       hash           struct walk_inode struct walk_news
 *	walk_scratch    array          CPU * WALK_SLOTS + slot  struct walk_scratch
 */
#ifndef WALK_H
#define WALK_H

enum {
	WALK_MAX_DEPTH = 1024, /* frames in user space; see walk.bpf.h */
	WALK_KERNEL_DEPTH = 64,
	/* mappings of code in one process; other mappings are found in the kernel's tree */
	WALK_MAPPINGS = 512,
	WALK_MAX_RULES = 1 << 14,
	WALK_MAX_TABLES = 1 << 12,
	WALK_SLOTS = 4,	     /* simultaneous walks on one CPU: a walk can be preempted by another */
	WALK_ROW_STEPS = 26, /* steps of a binary search: enough for 2^26 rows */
	WALK_MAPPING_STEPS = 10,
	WALK_ROOTS = 32, /* how many blocks of local roots are read for one callback */
	WALK_CACHE = 1 << 14,
	WALK_SEGMENTS = 4, /* executable segments of one file */
	WALK_LATE = 8,	   /* how many mappings one walk remembers from the kernel's tree */
	WALK_MAX_NEWS = 256,
};

/*
 * Flags (linux/bpf.h) of the map that holds the rows of one table. BPF_F_INNER_MAP lets tables
 * differ in size. BPF_F_MMAPABLE lets user space write the rows through mapped memory.
 */
#define WALK_TABLE_FLAGS (1U << 12 | 1U << 10)

/*
 * First the registers that a function saves for its caller, then the stack pointer and the
 * instruction pointer.
 */
enum walk_register {
	WALK_RBX,
	WALK_RBP,
	WALK_R12,
	WALK_R13,
	WALK_R14,
	WALK_R15,
	WALK_SAVED, /* the number of registers above */
	WALK_RSP = WALK_SAVED,
	WALK_RIP,
	WALK_REGISTERS,
};

/* How the stack pointer of the caller is found; see enum cfi_cfa of src/elf/eh_frame.h. */
enum walk_cfa { WALK_CFA_UNKNOWN, WALK_CFA_REGISTER, WALK_CFA_LOAD, WALK_CFA_LOAD_2, WALK_CFA_PLT };

/*
 * Where a frame has saved a register of its caller. For WALK_AT_CFA, WALK_AT_RSP and WALK_AT_RBP,
 * an offset (walk_rule.rip_off or walk_rule.off) is added to the CFA, rsp or rbp.
 */
enum walk_place { WALK_SAME, WALK_AT_CFA, WALK_AT_RSP, WALK_AT_RBP, WALK_NOWHERE };

/* Flags of walk_rule.flags. */
enum {
	WALK_SIGNAL = 1 << 0,	 /* a signal interrupted the caller; the caller made no call */
	WALK_OUTERMOST = 1 << 1, /* the frame has no caller */
	/* the caller is a C function that calls OCaml 5; r14 points to the domain's state */
	WALK_CALLBACK = 1 << 2,
};

struct walk_rule {
	__u8 cfa; /* enum walk_cfa */
	__u8 reg; /* enum walk_register */
	__u8 flags;
	__u8 rip_at; /* enum walk_place */
	__s32 add[3];
	__s32 rip_off;
	__u8 at[WALK_SAVED]; /* enum walk_place */
	__u8 n_moved;	     /* how many elements of `at` are not WALK_SAME */
	/*
	 * For WALK_CALLBACK: the offset of the list of local roots in the state of a domain, in
	 * words. The offset depends on the version of OCaml.
	 */
	__u8 roots_at;
	__s32 off[WALK_SAVED];
};

/*
 * A row of an unwind table. The rule with number `rule` holds from `va` up to the `va` of the next
 * row.
 */
struct walk_row {
	__u32 va; /* link-time address */
	__u32 rule;
};

struct walk_mapping {
	__u64 start, end;
	__u64 bias;  /* address in the process minus link-time address */
	__u32 table; /* the number of the file's table; WALK_NO_TABLE: the file cannot be read */
	__u32 n_rows;
};

enum { WALK_NO_TABLE = 0xffffffff };

/*
 * A file, by the kernel's numbers for it (struct kernel_file). dev and ino are 0 for the vDSO. In
 * walk_news, a struct walk_inode can also stand for a process whose mappings are not in
 * walk_processes: then dev is WALK_PROCESS, and ino is the id of the process.
 */
struct walk_inode {
	__u64 dev, ino;
};

#define WALK_PROCESS (~0ULL)

/* An executable segment: the bytes of the file from `off`, a page boundary, up to `end`. */
struct walk_segment {
	__u64 off, end;
	__u64 delta; /* link-time address of a byte minus its offset in the file */
};

struct walk_file {
	__u32 table; /* WALK_NO_TABLE: the file cannot be read */
	__u32 n_rows;
	struct walk_segment segments[WALK_SEGMENTS]; /* unused elements are empty */
};

/* Where BPF programs have first met an unknown file or process: the address, and the process id. */
struct walk_news {
	__u64 address;
	__u32 tgid;
	__u32 reserved;
};

struct walk_process {
	__u32 n;
	/*
	 * how many addresses of stacks were outside of `mappings`; if nonzero, user space reads the
	 * mappings of the process again
	 */
	__u32 n_unmapped;
	struct walk_mapping mappings[WALK_MAPPINGS]; /* sorted by address */
};

/* Why a stack ends. All but WALK_COMPLETE mean that callers are missing. */
enum walk_end {
	WALK_COMPLETE,
	WALK_TOO_DEEP,	  /* the stack has more frames than requested */
	WALK_NO_MAPPING,  /* no code of a file is mapped at the address */
	WALK_NEW_FILE,	  /* the file is not in walk_files; the walk has added it to walk_news */
	WALK_NO_RULE,	  /* the file has no rule for the address */
	WALK_UNREADABLE,  /* the stack cannot be read: paged out, or damaged */
	WALK_NO_REGISTER, /* the rule needs a register whose value is unknown */
	WALK_NO_PROGRESS, /* the caller's frame would not be above the current frame */
	WALK_BUSY,	  /* no slot was free */
	/*
	 * the process has more than WALK_MAPPINGS mappings, and the kernel's tree of mappings
	 * cannot be searched
	 */
	WALK_FULL,
	WALK_ENDS,
};

/*
 * A frame. If WALK_IN_FILE is set, bits 32 to 47 are the number of a file, and the lower half is a
 * link-time address in that file. In this form, a place in a file is the same frame in all
 * processes, and can be named after the process has ended. If WALK_IN_FILE is not set, the file is
 * unknown, and the other bits are an address in the process.
 *
 * If WALK_EXACT is set, the address is that of the instruction that runs next. This is so in the
 * first frame and in frames that a signal interrupted. Otherwise the address is a return address:
 * the call is the instruction before this address.
 */
#define WALK_EXACT   (1ULL << 63)
#define WALK_IN_FILE (1ULL << 62)

/*
 * A word of walk_cache: the low WALK_CACHED_BITS bits are a frame without WALK_EXACT and
 * WALK_IN_FILE, the bits above are the number of its rule.
 */
#define WALK_CACHED_BITS  48
#define WALK_CACHED_PLACE ((1ULL << WALK_CACHED_BITS) - 1)

static inline __u64 walk_frame_in_file(__u32 table, __u32 va)
{
	return WALK_IN_FILE | (__u64)table << 32 | va;
}

static inline __u32 walk_frame_table(__u64 frame)
{
	return (__u32)(frame >> 32) & 0xffff;
}

enum { WALK_STORED = 32 }; /* the maximum number of frames in a block */

/*
 * A stack is stored as a chain of blocks. A block has up to WALK_STORED frames, the innermost
 * first; the callers of its last frame are in the next block of the chain. All blocks of a stack
 * except the innermost are full, so that stacks with the same outer frames can share the outer
 * blocks.
 */
struct walk_block {
	__u64 callers; /* the key of the next block; 0: this is the outermost block */
	__u32 n;
	__u32 info; /* enum walk_end; WALK_IN_KERNEL: the frames are addresses in the kernel */
	__u64 frames[WALK_STORED];
};

#define WALK_IN_KERNEL (1U << 31)

/* A stack that has just been walked. */
struct walk_walked {
	__u64 hash; /* once the stack is stored: the key of its innermost block */
	__u32 end;  /* enum walk_end */
	__u32 n;    /* frames in user space */
	__u32 n_kernel;
	__u32 reserved;
	__u64 frames[WALK_MAX_DEPTH +
		     WALK_KERNEL_DEPTH]; /* the kernel's frames begin at WALK_MAX_DEPTH */
	struct walk_block block;	 /* working memory: the block that is being stored */
};

enum { WALK_WINDOW = 64 }; /* how many words of the stack are read at once */

struct walk_scratch {
	__u32 is_taken;
	__u32 is_caller; /* regs[WALK_RIP] is a return address */
	/* bit i is set if the value of register i (enum walk_register) is unknown */
	__u32 lost;
	__u32 calls_back; /* the frame is of a C function that calls OCaml */
	__u64 roots;	  /* the next block of local roots to read; 0: begin with the first */
	__u64 parent;	  /* the parent stack that load_parent() has found; 0: none */
	__u64 regs[WALK_REGISTERS];
	__u64 window_at; /* the address of the words in `window`; 0: none were read */
	__u64 window[WALK_WINDOW];
	struct walk_mapping mapping; /* the mapping of the newest frame */
	struct walk_mapping late[WALK_LATE];
	__u32 n_late;
	__u32 tgid;
	/* the address of the kernel's trampoline for return probes; 0: no trampoline */
	__u64 trampoline;
	__u64 node[32]; /* working memory: a node of the kernel's tree of mappings */
	/*
	 * If function_bytes is not 0, the walk ends when it finds that the function of the first
	 * frame has an older call, and sets is_nested. function_before: how many bytes before the
	 * first frame's address the function begins.
	 */
	__u32 function_before, function_bytes;
	__u64 function_at; /* the frame of the function's first instruction */
	__u32 is_nested;
	struct walk_walked stack;
};

_Static_assert(sizeof(struct walk_rule) == 52, "shared by two compilers");
_Static_assert(sizeof(struct walk_mapping) == 32, "shared by two compilers");

#endif
