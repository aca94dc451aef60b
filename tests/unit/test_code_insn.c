// SPDX-License-Identifier: MIT
/*
 * Instructions one by one: what they do to rip and rsp, and what the kernel makes of a uprobe
 * there.
 */
#include <string.h>

#include "code/code_insn.h"
#include "unit.h"

enum { ROOM = 32, NOP = 0x90 };

struct sample {
	const char *text;
	size_t n;
	const char *bytes;
	enum insn_kind kind;
	unsigned int reg;
	int64_t value; /* at offset 0 */
};

// clang-format off
static const struct sample samples[] = {
	{ "nop", 1, "\x90", INSN_NOP, INSN_NO_REG, 0 },
	{ "nopl 8(%rax,%rax,1)", 5, "\x0f\x1f\x44\x00\x08", INSN_NOP, INSN_NO_REG, 0 },
	{ "xchg %rax,%r8", 2, "\x49\x90", INSN_OTHER, INSN_NO_REG, 0 },
	{ "endbr64", 4, "\xf3\x0f\x1e\xfa", INSN_OTHER, INSN_NO_REG, 0 },
	{ "push %rbx", 1, "\x53", INSN_PUSH, 3, 0 },
	{ "push %r12", 2, "\x41\x54", INSN_PUSH, 12, 0 },
	{ "push $5", 2, "\x6a\x05", INSN_PUSH, INSN_NO_REG, 0 },
	{ "push $0x12345", 5, "\x68\x45\x23\x01\x00", INSN_PUSH, INSN_NO_REG, 0 },
	{ "pushq 16(%r14)", 4, "\x41\xff\x76\x10", INSN_PUSH, INSN_NO_REG, 0 },
	{ "pushfq", 1, "\x9c", INSN_PUSH, INSN_NO_REG, 0 },
	{ "pushw %ax", 2, "\x66\x50", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "pop %r11", 2, "\x41\x5b", INSN_POP, 11, 0 },
	{ "pop %rsp", 1, "\x5c", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "pop %r12", 2, "\x41\x5c", INSN_POP, 12, 0 },
	{ "popq 16(%r14)", 4, "\x41\x8f\x46\x10", INSN_POP, INSN_NO_REG, 0 },
	{ "pop %rsp", 2, "\x8f\xc4", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "pop %r12", 3, "\x41\x8f\xc4", INSN_POP, INSN_NO_REG, 0 },
	{ "popw %ax", 2, "\x66\x58", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "popfq", 1, "\x9d", INSN_POP, INSN_NO_REG, 0 },
	{ "push %fs", 2, "\x0f\xa0", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "pop %gs", 2, "\x0f\xa9", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "enter $16,$0", 4, "\xc8\x10\x00\x00", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "leave", 1, "\xc9", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "sub $8,%rsp", 4, "\x48\x83\xec\x08", INSN_RSP_ADD, INSN_NO_REG, -8 },
	{ "sub $0x1234,%rsp", 7, "\x48\x81\xec\x34\x12\x00\x00", INSN_RSP_ADD, INSN_NO_REG, -0x1234 },
	{ "add $0x10,%rsp", 4, "\x48\x83\xc4\x10", INSN_RSP_ADD, INSN_NO_REG, 0x10 },
	{ "add $0x10,%r12", 4, "\x49\x83\xc4\x10", INSN_OTHER, INSN_NO_REG, 0 },
	{ "sub $8,%esp", 3, "\x83\xec\x08", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "and $-16,%rsp", 4, "\x48\x83\xe4\xf0", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "cmp $8,%rsp", 4, "\x48\x83\xfc\x08", INSN_OTHER, INSN_NO_REG, 0 },
	{ "cmp %rsp,%rax", 3, "\x48\x39\xe0", INSN_OTHER, INSN_NO_REG, 0 },
	{ "test %rsp,%rsp", 3, "\x48\x85\xe4", INSN_OTHER, INSN_NO_REG, 0 },
	{ "subq $8,(%rsp)", 5, "\x48\x83\x2c\x24\x08", INSN_OTHER, INSN_NO_REG, 0 },
	{ "sub %rax,%rsp", 3, "\x48\x29\xc4", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "sub %rsp,%rax", 3, "\x48\x29\xe0", INSN_OTHER, INSN_NO_REG, 0 },
	{ "lea -8(%rsp),%rsp", 5, "\x48\x8d\x64\x24\xf8", INSN_RSP_ADD, INSN_NO_REG, -8 },
	{ "lea 0x1000(%rsp),%rsp", 8, "\x48\x8d\xa4\x24\x00\x10\x00\x00", INSN_RSP_ADD, INSN_NO_REG, 0x1000 },
	{ "lea 8(%rsp,%rax,2),%rsp", 5, "\x48\x8d\x64\x44\x08", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "lea 8(%rax),%rsp", 4, "\x48\x8d\x60\x08", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "lea 8(%r12),%rsp", 5, "\x49\x8d\x64\x24\x08", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "lea 8(%rsp),%esp", 4, "\x8d\x64\x24\x08", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "lea 8(%rsp),%rax", 5, "\x48\x8d\x44\x24\x08", INSN_OTHER, INSN_NO_REG, 0 },
	{ "lea 100(%rip),%rdi", 7, "\x48\x8d\x3d\x64\x00\x00\x00", INSN_LEA_RIP, 7, 107 },
	{ "lea -100(%rip),%r11", 7, "\x4c\x8d\x1d\x9c\xff\xff\xff", INSN_LEA_RIP, 11, -93 },
	{ "lea 100(%rip),%edi", 6, "\x8d\x3d\x64\x00\x00\x00", INSN_OTHER, INSN_NO_REG, 0 },
	{ "mov 100(%rip),%rdi", 7, "\x48\x8b\x3d\x64\x00\x00\x00", INSN_OTHER, INSN_NO_REG, 0 },
	{ "mov %rsp,%rbx", 3, "\x48\x89\xe3", INSN_RSP_SAVE, 3, 0 },
	{ "mov %rsp,%rbx", 3, "\x48\x8b\xdc", INSN_RSP_SAVE, 3, 0 },
	{ "mov %rsp,%r13", 3, "\x49\x89\xe5", INSN_RSP_SAVE, 13, 0 },
	{ "mov %esp,%ebx", 2, "\x89\xe3", INSN_OTHER, INSN_NO_REG, 0 },
	{ "mov %rsp,16(%r14)", 4, "\x49\x89\x66\x10", INSN_OTHER, INSN_NO_REG, 0 },
	{ "mov %rbx,%rsp", 3, "\x48\x89\xdc", INSN_RSP_RESTORE, 3, 0 },
	{ "mov %rbx,%rsp", 3, "\x48\x8b\xe3", INSN_RSP_RESTORE, 3, 0 },
	{ "mov %ebx,%esp", 2, "\x89\xdc", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "mov %rsp,%rsp", 3, "\x48\x89\xe4", INSN_OTHER, INSN_NO_REG, 0 },
	{ "mov 16(%r14),%rsp", 4, "\x49\x8b\x66\x10", INSN_RSP_LOAD, INSN_NO_REG, 0 },
	{ "mov 16(%rsp),%r12", 5, "\x4c\x8b\x64\x24\x10", INSN_OTHER, INSN_NO_REG, 0 },
	{ "mov %r12,%rax", 3, "\x4c\x89\xe0", INSN_OTHER, INSN_NO_REG, 0 },
	{ "mov $5,%rsp", 7, "\x48\xc7\xc4\x05\x00\x00\x00", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "mov $5,%esp", 5, "\xbc\x05\x00\x00\x00", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "mov $5,%r12", 7, "\x49\xc7\xc4\x05\x00\x00\x00", INSN_OTHER, INSN_NO_REG, 0 },
	{ "mov $5,%ah", 2, "\xb4\x05", INSN_OTHER, INSN_NO_REG, 0 },
	{ "movabs $0x123456789abc,%rsp", 10, "\x48\xbc\xbc\x9a\x78\x56\x34\x12\x00\x00", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "xchg %rax,%rsp", 2, "\x48\x94", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "xchg %rax,%r12", 2, "\x49\x94", INSN_OTHER, INSN_NO_REG, 0 },
	{ "xchg %rsp,%rbx", 3, "\x48\x87\xe3", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "bswap %rsp", 3, "\x48\x0f\xcc", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "bswap %r12", 3, "\x49\x0f\xcc", INSN_OTHER, INSN_NO_REG, 0 },
	{ "inc %rsp", 3, "\x48\xff\xc4", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "dec %rax", 3, "\x48\xff\xc8", INSN_OTHER, INSN_NO_REG, 0 },
	{ "shl $4,%rax", 4, "\x48\xc1\xe0\x04", INSN_OTHER, INSN_NO_REG, 0 },
	{ "not %rsp", 3, "\x48\xf7\xd4", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "imul %rsp,%rax", 4, "\x48\x0f\xaf\xc4", INSN_OTHER, INSN_NO_REG, 0 },
	{ "imul %rax,%rsp", 4, "\x48\x0f\xaf\xe0", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "cmove %rax,%rsp", 4, "\x48\x0f\x44\xe0", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "movq %xmm4,%rax", 5, "\x66\x48\x0f\x7e\xe0", INSN_OTHER, INSN_NO_REG, 0 },
	{ "addsd %xmm4,%xmm4", 4, "\xf2\x0f\x58\xe4", INSN_OTHER, INSN_NO_REG, 0 },
	{ "movq %xmm0,%rsp", 5, "\x66\x48\x0f\x7e\xc4", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "cvtsi2sd %rsp,%xmm1", 5, "\xf2\x48\x0f\x2a\xcc", INSN_OTHER, INSN_NO_REG, 0 },
	{ "cvttsd2si %xmm1,%rsp", 5, "\xf2\x48\x0f\x2c\xe1", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "popcnt %rax,%rsp", 5, "\xf3\x48\x0f\xb8\xe0", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "vaddsd %xmm4,%xmm4,%xmm4", 4, "\xc5\xdb\x58\xe4", INSN_OTHER, INSN_NO_REG, 0 },
	{ "vmovq %xmm1,%rsp", 5, "\xc4\xe1\xf9\x7e\xcc", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "andn %rax,%rbx,%rsp", 5, "\xc4\xe2\xe0\xf2\xe0", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "blsr %rax,%rsp", 5, "\xc4\xe2\xd8\xf3\xc8", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "blsr %rax,%rbx", 5, "\xc4\xe2\xe0\xf3\xc8", INSN_OTHER, INSN_NO_REG, 0 },
	{ "rdrand %rsp", 4, "\x48\x0f\xc7\xf4", INSN_RSP_LOST, INSN_NO_REG, 0 },
	{ "je .+2+0x40", 2, "\x74\x40", INSN_JCC, INSN_NO_REG, 0x42 },
	{ "je 0x106", 6, "\x0f\x84\x00\x01\x00\x00", INSN_JCC, INSN_NO_REG, 0x106 },
	{ "jrcxz .+2-0x40", 2, "\xe3\xc0", INSN_JCC, INSN_NO_REG, -0x3e },
	{ "loop .", 2, "\xe2\xfe", INSN_JCC, INSN_NO_REG, 0 },
	{ "jmp 0x0", 2, "\xeb\xfe", INSN_JMP, INSN_NO_REG, 0 },
	{ "jmp 0x0", 5, "\xe9\xfb\xff\xff\xff", INSN_JMP, INSN_NO_REG, 0 },
	{ "call 0xffffffff80000005", 5, "\xe8\x00\x00\x00\x80", INSN_CALL, INSN_NO_REG, -0x7ffffffb },
	{ "data16 rex.W call 0x17", 7, "\x66\x48\xe8\x10\x00\x00\x00", INSN_CALL, INSN_NO_REG, 0x17 },
	{ "call *%rax", 2, "\xff\xd0", INSN_CALL_INDIRECT, INSN_NO_REG, 0 },
	{ "call *8(%rax)", 3, "\xff\x50\x08", INSN_CALL_INDIRECT, INSN_NO_REG, 0 },
	{ "lcall *8(%rax)", 3, "\xff\x58\x08", INSN_CALL_INDIRECT, INSN_NO_REG, 0 },
	{ "jmp *%rdi", 2, "\xff\xe7", INSN_JMP_REG, 7, 0 },
	{ "jmp *%r11", 3, "\x41\xff\xe3", INSN_JMP_REG, 11, 0 },
	{ "notrack jmp *%rax", 3, "\x3e\xff\xe0", INSN_JMP_REG, 0, 0 },
	{ "jmp *8(%rax)", 3, "\xff\x60\x08", INSN_JMP_MEM, INSN_NO_REG, 0 },
	{ "jmp *(%rsp)", 3, "\xff\x24\x24", INSN_JMP_MEM, INSN_NO_REG, 0 },
	{ "jmp *100(%rip)", 6, "\xff\x25\x64\x00\x00\x00", INSN_JMP_MEM, INSN_NO_REG, 0 },
	{ "jmp *8(%r12)", 5, "\x41\xff\x64\x24\x08", INSN_JMP_MEM, INSN_NO_REG, 0 },
	{ "jmp *(%rax,%rbx,8)", 3, "\xff\x24\xd8", INSN_JMP_OTHER, INSN_NO_REG, 0 },
	{ "jmp *(%rax,%r12,8)", 4, "\x42\xff\x24\xe0", INSN_JMP_OTHER, INSN_NO_REG, 0 },
	{ "ljmp *8(%rax)", 3, "\xff\x68\x08", INSN_JMP_OTHER, INSN_NO_REG, 0 },
	{ "ret", 1, "\xc3", INSN_RET, INSN_NO_REG, 0 },
	{ "rep ret", 2, "\xf3\xc3", INSN_RET, INSN_NO_REG, 0 },
	{ "ret $16", 3, "\xc2\x10\x00", INSN_RET, INSN_NO_REG, 0 },
	{ "lret", 1, "\xcb", INSN_JMP_OTHER, INSN_NO_REG, 0 },
	{ "lret $8", 3, "\xca\x08\x00", INSN_JMP_OTHER, INSN_NO_REG, 0 },
	{ "iretq", 2, "\x48\xcf", INSN_JMP_OTHER, INSN_NO_REG, 0 },
	{ "int3", 1, "\xcc", INSN_TRAP, INSN_NO_REG, 0 },
	{ "int1", 1, "\xf1", INSN_TRAP, INSN_NO_REG, 0 },
	{ "hlt", 1, "\xf4", INSN_TRAP, INSN_NO_REG, 0 },
	{ "ud2", 2, "\x0f\x0b", INSN_TRAP, INSN_NO_REG, 0 },
	{ "ud1 %eax,%eax", 3, "\x0f\xb9\xc0", INSN_TRAP, INSN_NO_REG, 0 },
	{ "ud0 %eax,%eax", 3, "\x0f\xff\xc0", INSN_TRAP, INSN_NO_REG, 0 },
	{ "syscall", 2, "\x0f\x05", INSN_OTHER, INSN_NO_REG, 0 },
	{ "movabs 0x1122334455667788,%rax", 10, "\x48\xa1\x88\x77\x66\x55\x44\x33\x22\x11", INSN_OTHER, INSN_NO_REG, 0 },
};
// clang-format on

static int new_decoder(void **state)
{
	static struct insn_decoder decoder;

	assert_true(insn_decoder_init(&decoder));
	*state = &decoder;
	return 0;
}

static int free_decoder(void **state)
{
	insn_decoder_free(*state);
	return 0;
}

ALL_TESTS(new_decoder, free_decoder);

static bool is_relative(const struct sample *sample)
{
	return sample->kind == INSN_LEA_RIP || sample->kind == INSN_JCC ||
	       sample->kind == INSN_JMP || sample->kind == INSN_CALL;
}

/* Decode SAMPLE at offset OFF, N bytes of it and what follows. */
static void check(struct insn_decoder *decoder, const struct sample *sample, size_t n, uint32_t off)
{
	uint8_t bytes[ROOM];
	struct insn insn;

	memset(bytes, NOP, sizeof(bytes));
	memcpy(bytes, sample->bytes, sample->n);
	if (!insn_decode(decoder, bytes, n, off, &insn))
		fail_msg("%s: not decoded", sample->text);
	if (insn.kind != sample->kind || insn.n_bytes != sample->n ||
	    (insn.reg != sample->reg && insn.kind != INSN_RSP_LOST) || insn.off != off ||
	    insn.value != sample->value + (is_relative(sample) ? off : 0))
		fail_msg("%s: kind %d, %d bytes, register %d, value %lld", sample->text, insn.kind,
			 insn.n_bytes, insn.reg, (long long)insn.value);
	if (n < ROOM && insn_decode(decoder, bytes, n - 1, off, &insn))
		fail_msg("%s: decoded without its last byte", sample->text);
}

/* The second time, the memo answers. */
TEST(kinds_of_instructions)
{
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
			check(*state, &samples[i], ROOM, 0);
			check(*state, &samples[i], ROOM, 1000);
			check(*state, &samples[i], samples[i].n, 1000);
		}
	}
}

/* Two of the same beginning differ in what follows. */
TEST(the_memo_keeps_no_values)
{
	static const struct sample near[] = {
		{ "call 100", 5, "\xe8\x11\x22\x33\x00", INSN_CALL, INSN_NO_REG, 0x332216 },
		{ "call 200", 5, "\xe8\x11\x22\x33\x01", INSN_CALL, INSN_NO_REG, 0x1332216 },
		{ "call 0", 5, "\xe8\x00\x00\x00\x00", INSN_CALL, INSN_NO_REG, 5 },
		{ "jne 10", 2, "\x75\x10", INSN_JCC, INSN_NO_REG, 0x12 },
		{ "jne -2", 2, "\x75\xfe", INSN_JCC, INSN_NO_REG, 0 },
		{ "jne 300", 6, "\x0f\x85\x00\x03\x00\x00", INSN_JCC, INSN_NO_REG, 0x306 },
		{ "jne 0", 6, "\x0f\x85\x00\x00\x00\x00", INSN_JCC, INSN_NO_REG, 6 },
		{ "sub", 7, "\x48\x81\xec\x00\x10\x00\x00", INSN_RSP_ADD, INSN_NO_REG, -0x1000 },
		{ "sub", 7, "\x48\x81\xec\x00\x20\x00\x00", INSN_RSP_ADD, INSN_NO_REG, -0x2000 },
		{ "lea", 7, "\x48\x8d\x05\x01\x01\x00\x00", INSN_LEA_RIP, 0, 0x108 },
		{ "lea", 7, "\x48\x8d\x05\x01\x02\x00\x00", INSN_LEA_RIP, 0, 0x208 },
		/* A SIB byte that is the fifth byte decides whether a distance follows. */
		{ "bt", 5, "\x41\x0f\xa3\x04\x24", INSN_OTHER, INSN_NO_REG, 0 },
		{ "bt", 9, "\x41\x0f\xa3\x04\x25\x00\x00\x00\x00", INSN_OTHER, INSN_NO_REG, 0 },
	};

	for (size_t i = 0; i < sizeof(near) / sizeof(*near); i++)
		check(*state, &near[i], ROOM, 0);
}

/* Where branches have the distance to their target. */
TEST(distances_of_branches)
{
	static const struct {
		size_t n;
		const char *bytes;
		uint8_t at, n_bytes;
	} branches[] = {
		{ 2, "\xeb\xfe", 1, 1 },
		{ 2, "\x75\x10", 1, 1 },
		{ 5, "\xe9\x00\x00\x00\x00", 1, 4 },
		{ 5, "\xe8\x00\x00\x00\x00", 1, 4 },
		{ 6, "\x0f\x84\x00\x00\x00\x00", 2, 4 },
		{ 1, "\xc3", 0, 0 },
		{ 3, "\x48\x89\xc3", 0, 0 },
		{ 7, "\x48\x8d\x05\x01\x01\x00\x00", 3, 4 },
	};

	for (size_t i = 0; i < sizeof(branches) / sizeof(*branches); i++) {
		struct insn_distance distance;
		uint8_t bytes[ROOM];

		memset(bytes, NOP, sizeof(bytes));
		memcpy(bytes, branches[i].bytes, branches[i].n);
		assert_true(insn_distance(*state, bytes, ROOM, &distance));
		assert_int_equal(distance.at, branches[i].at);
		assert_int_equal(distance.n_bytes, branches[i].n_bytes);
		assert_true(insn_distance(*state, bytes, branches[i].n, &distance));
		if (branches[i].n > 1)
			assert_false(insn_distance(*state, bytes, branches[i].n - 1, &distance));
	}
}

/* What DECODER says of the instruction at BYTES. */
struct facts {
	uint32_t written, flags_read, flags_written, cost, at, n_bytes, has_distance, writes_stack;
};

static struct facts facts_of(const struct insn_decoder *decoder, const uint8_t *bytes)
{
	struct insn_distance distance;
	const bool has_distance = insn_distance(decoder, bytes, ROOM, &distance);
	const struct insn_flags flags = insn_flags(decoder, bytes, ROOM);

	return (struct facts){
		.written = insn_written(decoder, bytes, ROOM),
		.flags_read = flags.read,
		.flags_written = flags.written,
		.cost = insn_cost(decoder, bytes, ROOM),
		.at = distance.at,
		.n_bytes = distance.n_bytes,
		.has_distance = has_distance,
		.writes_stack = insn_writes_stack(decoder, bytes, ROOM),
	};
}

/* All that the memo remembers of an instruction is what is found out without it. */
TEST(the_memo_keeps_facts)
{
	struct insn_decoder fresh;
	struct insn insn;

	assert_true(insn_decoder_init(&fresh));
	for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
		struct facts facts, remembered;
		uint8_t bytes[ROOM];

		memset(bytes, NOP, sizeof(bytes));
		memcpy(bytes, samples[i].bytes, samples[i].n);
		facts = facts_of(&fresh, bytes);
		assert_true(insn_decode(*state, bytes, ROOM, 0, &insn));
		for (int round = 0; round < 2; round++) {
			remembered = facts_of(*state, bytes);
			if (memcmp(&facts, &remembered, sizeof(facts)) != 0)
				fail_msg("%s: the memo differs", samples[i].text);
		}
	}
	insn_decoder_free(&fresh);
}

struct cost {
	const char *text;
	size_t n;
	const char *bytes;
	enum insn_cost cost;
};

/* As uprobes on Linux 6.18 showed: those of refused ones never fired. */
static const struct cost costs[] = {
	{ "push %rax", 1, "\x50", INSN_EMULATED },
	{ "push %r12", 2, "\x41\x54", INSN_EMULATED },
	{ "je", 2, "\x74\x10", INSN_EMULATED },
	{ "je", 6, "\x0f\x84\x10\x00\x00\x00", INSN_EMULATED },
	{ "jmp", 2, "\xeb\x10", INSN_EMULATED },
	{ "jmp", 5, "\xe9\x10\x00\x00\x00", INSN_EMULATED },
	{ "call", 5, "\xe8\x10\x00\x00\x00", INSN_EMULATED },
	{ "rex.W push %rax", 2, "\x48\x50", INSN_STEPPED },
	{ "push $1", 2, "\x6a\x01", INSN_STEPPED },
	{ "jrcxz", 2, "\xe3\x10", INSN_STEPPED },
	{ "endbr64", 4, "\xf3\x0f\x1e\xfa", INSN_STEPPED },
	{ "ret", 1, "\xc3", INSN_STEPPED },
	{ "call *%rax", 2, "\xff\xd0", INSN_STEPPED },
	{ "sub $8,%rsp", 4, "\x48\x83\xec\x08", INSN_STEPPED },
	{ "vzeroupper", 3, "\xc5\xf8\x77", INSN_STEPPED },
	{ "pshufb %xmm1,%xmm0", 5, "\x66\x0f\x38\x00\xc1", INSN_STEPPED },
	{ "mov %eax,%es", 2, "\x8e\xc0", INSN_STEPPED },
	{ "cs nop", 2, "\x2e\x90", INSN_REFUSED },
	{ "notrack jmp *%rax", 3, "\x3e\xff\xe0", INSN_REFUSED },
	{ "lock incl (%rdi)", 3, "\xf0\xff\x07", INSN_REFUSED },
	{ "cs je", 3, "\x2e\x74\x10", INSN_REFUSED },
	{ "data16 jmp", 6, "\x66\xe9\x10\x00\x00\x00", INSN_REFUSED },
	{ "vmovdqu (%rdi),%ymm0", 4, "\xc5\xfe\x6f\x07", INSN_REFUSED },
	{ "ud2", 2, "\x0f\x0b", INSN_REFUSED },
	{ "syscall", 2, "\x0f\x05", INSN_REFUSED },
	{ "int3", 1, "\xcc", INSN_REFUSED },
	{ "hlt", 1, "\xf4", INSN_REFUSED },
	{ "in", 1, "\xec", INSN_REFUSED },
	{ "mov %eax,%ss", 2, "\x8e\xd0", INSN_REFUSED },
	{ "no instruction", 1, "\x06", INSN_REFUSED },
	{ "vfmaddsd %xmm2,%xmm1,%xmm0,%xmm0 (FMA4)", 6, "\xc4\xe3\xf9\x6b\xc1\x20", INSN_REFUSED },
	{ "vfmadd132sd %xmm1,%xmm2,%xmm0", 5, "\xc4\xe2\xe9\x99\xc1", INSN_STEPPED },
};

TEST(costs_of_uprobes)
{
	const struct insn_decoder *decoder = *state;

	for (size_t i = 0; i < sizeof(costs) / sizeof(*costs); i++) {
		enum insn_cost cost =
			insn_cost(decoder, (const uint8_t *)costs[i].bytes, costs[i].n);

		if (cost != costs[i].cost)
			fail_msg("%s: %d", costs[i].text, cost);
	}
}

TEST(strings_repeat)
{
	const struct insn_decoder *decoder = *state;

	assert_true(insn_repeats(decoder, (const uint8_t *)"\xf3\xa4", 2));
	assert_true(insn_repeats(decoder, (const uint8_t *)"\xf3\x48\xab", 3));
	assert_true(insn_repeats(decoder, (const uint8_t *)"\xf2\xae", 2));
	assert_false(insn_repeats(decoder, (const uint8_t *)"\xa4", 1));
	assert_false(insn_repeats(decoder, (const uint8_t *)"\xf3\xc3", 2));
	assert_false(insn_repeats(decoder, (const uint8_t *)"\x06", 1));
	/* popcnt, whose prefix belongs to the opcode */
	assert_false(insn_repeats(decoder, (const uint8_t *)"\xf3\x0f\xb8\xc0", 4));
}

/* What an IFUNC does with the addresses that it chooses among. */
TEST(copies_and_constants)
{
	const struct insn_decoder *decoder = *state;
	unsigned int to = 99, from = 99;
	bool is_conditional;
	uint64_t value = 0;
#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

	assert_true(insn_is_copy(decoder, BYTES("\x48\x89\xd0"), &to, &from, &is_conditional));
	assert_true(to == 0 && from == 2 && !is_conditional); /* mov %rdx,%rax */
	assert_true(insn_is_copy(decoder, BYTES("\x49\x0f\x45\xc1"), &to, &from, &is_conditional));
	assert_true(to == 0 && from == 9 && is_conditional); /* cmovne %r9,%rax */
	/* mov %edx,%eax; mov (%rdx),%rax; add %rdx,%rax */
	assert_false(insn_is_copy(decoder, BYTES("\x89\xd0"), &to, &from, &is_conditional));
	assert_false(insn_is_copy(decoder, BYTES("\x48\x8b\x02"), &to, &from, &is_conditional));
	assert_false(insn_is_copy(decoder, BYTES("\x48\x01\xd0"), &to, &from, &is_conditional));
	assert_true(insn_is_constant(decoder, BYTES("\xb8\x10\x2d\x4a\x00"), &to, &value));
	assert_true(to == 0 && value == 0x4a2d10); /* mov $0x4a2d10,%eax */
	assert_true(insn_is_constant(decoder, BYTES("\x49\xc7\xc0\x10\x2d\x4a\x00"), &to, &value));
	assert_true(to == 8 && value == 0x4a2d10); /* mov $0x4a2d10,%r8 */
	/* mov $16,%al; mov %edx,%eax */
	assert_false(insn_is_constant(decoder, BYTES("\xb0\x10"), &to, &value));
	assert_false(insn_is_constant(decoder, BYTES("\x89\xd0"), &to, &value));
#undef BYTES
}
