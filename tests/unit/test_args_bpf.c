// SPDX-License-Identifier: MIT
/*
 * What bpf/args.bpf.h makes of arguments, in the kernel: a uprobe on a nop of this program, reached
 * with every register set by the test, and values as OCaml's, built in the test's own memory.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "args_test.h"
#include "args_test.skel.h"
#include "measure/filter.h"
#include "measure/operand.h"
#include "measure/value.h"
#include "unit.h"

/*
 * test_hit(registers): set all of enum arg_register, the stack pointer too, and pass the nop. With
 * one byte only the kernel emulates it, without touching the stack.
 */
__asm__(".pushsection .text\n"
	"test_hit:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n"
	"	push %r14\n	push %r15\n"
	"	mov %rsp, test_saved_rsp(%rip)\n"
	"	mov 0(%rdi), %r15\n	mov 8(%rdi), %r14\n	mov 16(%rdi), %r13\n"
	"	mov 24(%rdi), %r12\n	mov 32(%rdi), %rbp\n	mov 40(%rdi), %rbx\n"
	"	mov 48(%rdi), %r11\n	mov 56(%rdi), %r10\n	mov 64(%rdi), %r9\n"
	"	mov 72(%rdi), %r8\n	mov 80(%rdi), %rax\n	mov 88(%rdi), %rcx\n"
	"	mov 96(%rdi), %rdx\n	mov 104(%rdi), %rsi\n	mov 120(%rdi), %rsp\n"
	"	mov 112(%rdi), %rdi\n"
	"test_site:\n"
	"	.byte 0x90\n"
	"	mov test_saved_rsp(%rip), %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %rbx\n	pop %rbp\n"
	"	ret\n"
	".popsection\n"
	".pushsection .bss\n	.balign 8\n"
	"test_saved_rsp:	.space 8\n"
	".popsection\n");

void test_hit(const uint64_t *registers);
extern const char test_site[];

enum { ATTACH_TYPE = 48, HEAP_WORDS = 1 << 16 };

static struct {
	struct ocp_ctx *ctx;
	struct args_test_bpf *skel;
	struct ring_buffer *ring;
	int link;
	uint64_t registers[ARG_REGISTERS];
	struct hit_record record;
	unsigned int n_records;
	char *text; /* of the last record */
} t;

/* ---- hits ---------------------------------------------------------------------------------------
 */

static uint64_t file_off(const char *addr)
{
	unsigned long start, end, off;
	uint64_t found = 0;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");

	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &off) == 3 &&
		    (uintptr_t)addr >= start && (uintptr_t)addr < end)
			found = (uintptr_t)addr - start + off;
	fclose(f);
	assert_int_not_equal(found, 0);
	return found;
}

static int take_record(void *data, void *bytes, size_t n)
{
	(void)data;
	assert_true(n >= sizeof(t.record));
	memcpy(&t.record, bytes, sizeof(t.record));
	t.n_records++;
	return 0;
}

static int set_up(void **state)
{
	unsigned long off = file_off(test_site);
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	int err;

	(void)state;
	t.ctx = ocp_ctx_new();
	t.skel = args_test_bpf__open();
	if (!t.ctx || !t.skel)
		return -1;
	err = args_test_bpf__load(t.skel);
	if (err == -EPERM || err == -EACCES) {
		/* Each test skips itself. */
		args_test_bpf__destroy(t.skel);
		t.skel = NULL;
		return 0;
	}
	opts.uprobe_multi.path = "/proc/self/exe";
	opts.uprobe_multi.offsets = &off;
	opts.uprobe_multi.cnt = 1;
	opts.uprobe_multi.pid = (__u32)getpid();
	t.link = err ? err
		     : bpf_link_create(t.skel->progs.args_hit.prog_fd, -1,
				       (enum bpf_attach_type)ATTACH_TYPE, &opts);
	t.ring = ring_buffer__new(t.skel->maps.records.map_fd, take_record, NULL, NULL);
	if (t.link < 0 || !t.ring)
		fprintf(stderr, "load %d, link %d\n", err, t.link);
	return t.link < 0 || !t.ring ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (t.skel) {
		ring_buffer__free(t.ring);
		close(t.link);
		args_test_bpf__destroy(t.skel);
	}
	ocp_ctx_free(t.ctx);
	free(t.text);
	return 0;
}

static void need_bpf(void)
{
	if (t.skel)
		return;
	print_message("skipped: no right to load BPF programs\n");
	skip();
}

static const struct args_test_results *results(void)
{
	return (const struct args_test_results *)&t.skel->bss->results;
}

/* A hit with the arguments as ARGS says, and what value_write_args makes of the record. */
static const char *hit_with(const struct site_args *args)
{
	uint64_t hits = results()->n_hits;
	unsigned int records = t.n_records;
	size_t n_text;
	FILE *out;

	t.skel->bss->input.args = *args;
	test_hit(t.registers);
	assert_int_equal(results()->n_hits, hits + 1);
	assert_true(ring_buffer__consume(t.ring) >= 0);
	assert_int_equal(t.n_records, records + 1);
	assert_true(value_record_is_sound(&t.record, sizeof(t.record)));
	free(t.text);
	t.text = NULL;
	out = open_memstream(&t.text, &n_text);
	assert_non_null(out);
	value_write_args(out, &t.record);
	assert_int_equal(fclose(out), 0);
	return t.text;
}

static const char *hit(const char *operands)
{
	struct site_args args;
	int err = operand_parse(t.ctx, operands, &args);

	if (err)
		print_message("%s\n", ocp_error(t.ctx));
	assert_int_equal(err, 0);
	return hit_with(&args);
}

/* A hit with VALUE as the only argument, in %rax. */
static const char *hit_value(uint64_t value)
{
	t.registers[ARG_RAX] = value;
	return hit("8@%rax");
}

static bool matches(const char *operands, const char *filter)
{
	struct filter compiled;
	__u32 used;
	int err = filter_parse(t.ctx, filter, &compiled, &used);

	if (err)
		print_message("%s\n", ocp_error(t.ctx));
	assert_int_equal(err, 0);
	t.skel->bss->input.filter = compiled;
	hit(operands);
	return results()->matches;
}

/* ---- OCaml values -------------------------------------------------------------------------------
 */

enum {
	LAZY = 246,
	CLOSURE,
	OBJECT,
	INFIX,
	FORWARD,
	ABSTRACT,
	STRING,
	DOUBLE,
	DOUBLE_ARRAY,
	CUSTOM
};

static uint64_t heap[HEAP_WORDS];
static size_t heap_top;

static uint64_t of_int(int64_t n)
{
	return (uint64_t)n << 1 | 1;
}

static uint64_t alloc(unsigned int tag, size_t words)
{
	uint64_t *header = &heap[heap_top];

	assert_true(heap_top + words + 1 <= HEAP_WORDS);
	heap_top += words + 1;
	/* The collector's two bits are anything. */
	*header = (uint64_t)words << 10 | (words & 3) << 8 | tag;
	memset(header + 1, 0, words * 8);
	return (uint64_t)(uintptr_t)(header + 1);
}

static uint64_t *words_of(uint64_t value)
{
	return (uint64_t *)(uintptr_t)value;
}

static uint64_t of_fields(unsigned int tag, size_t n, ...)
{
	uint64_t value = alloc(tag, n);
	va_list ap;

	va_start(ap, n);
	for (size_t i = 0; i < n; i++)
		words_of(value)[i] = va_arg(ap, uint64_t);
	va_end(ap);
	return value;
}

static uint64_t of_bytes(const char *bytes, size_t n)
{
	size_t words = n / 8 + 1;
	uint64_t value = alloc(STRING, words);

	memcpy(words_of(value), bytes, n);
	((char *)words_of(value))[words * 8 - 1] = (char)(words * 8 - 1 - n);
	return value;
}

static uint64_t of_string(const char *text)
{
	return of_bytes(text, strlen(text));
}

static uint64_t of_double(double number)
{
	uint64_t value = alloc(DOUBLE, 1);

	memcpy(words_of(value), &number, 8);
	return value;
}

static uint64_t of_custom(const char *identifier, uint64_t payload)
{
	static const void *operations[64][2];
	static size_t n;

	assert_true(n < 64);
	operations[n][0] = identifier;
	return of_fields(CUSTOM, 2, (uint64_t)(uintptr_t)operations[n++], payload);
}

static uint64_t of_list(size_t n)
{
	uint64_t list = of_int(0);

	while (n)
		list = of_fields(0, 2, of_int((int64_t)n--), list);
	return list;
}

static uint64_t nowhere(void)
{
	static void *page;

	if (!page) {
		page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(page, MAP_FAILED);
	}
	return (uint64_t)(uintptr_t)page;
}

/* The header can be read, what follows cannot. */
static uint64_t block_at_the_end_of_memory(unsigned int tag, size_t words)
{
	const size_t page = 4096;
	char *pages =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t header = words << 10 | tag;

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
	memcpy(pages + page - sizeof(header), &header, sizeof(header));
	return (uint64_t)(uintptr_t)(pages + page);
}

/* ---- tests: operands ----------------------------------------------------------------------------
 */

static void assert_reads(const char *operands, uint64_t word)
{
	hit(operands);
	if (!results()->read_ok || results()->word != word)
		print_message("%s: %d, 0x%llx\n", operands, (int)results()->read_ok,
			      results()->word);
	assert_int_equal(results()->read_ok, 1);
	assert_int_equal(results()->word, word);
}

static void registers_are_read(void **state)
{
	static const char *const names[ARG_REGISTERS] = {
		"r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10",
		"r9",  "r8",  "rax", "rcx", "rdx", "rsi", "rdi", "rsp",
	};
	char operand[16];

	(void)state;
	need_bpf();
	for (unsigned int i = 0; i < ARG_REGISTERS; i++)
		t.registers[i] = 0x8070605040302010ULL + i * 0x0101010101010101ULL;
	for (unsigned int i = 0; i < ARG_REGISTERS; i++) {
		snprintf(operand, sizeof(operand), "8@%%%s", names[i]);
		assert_reads(operand, t.registers[i]);
	}
}

static void parts_of_registers_are_extended(void **state)
{
	(void)state;
	need_bpf();
	t.registers[ARG_RDX] = 0xf1e2d3c4b5a69788ULL;
	assert_reads("4@%edx", 0xb5a69788ULL);
	assert_reads("-4@%edx", 0xffffffffb5a69788ULL);
	assert_reads("2@%dx", 0x9788);
	assert_reads("-2@%dx", 0xffffffffffff9788ULL);
	assert_reads("1@%dl", 0x88);
	assert_reads("-1@%dl", 0xffffffffffffff88ULL);
	assert_reads("1@%dh", 0x97);
	assert_reads("-1@%dh", 0xffffffffffffff97ULL);
	assert_reads("-8@%rdx", 0xf1e2d3c4b5a69788ULL);
	assert_reads("4@%rdx", 0xb5a69788ULL);
	t.registers[ARG_RDX] = 0x7f;
	assert_reads("-1@%dl", 0x7f);
}

static void memory_is_read(void **state)
{
	static const uint64_t words[8] = { 0x1111111111111111, 0xf222222222222222,
					   0x3333333333333333, 0x4444444444444444,
					   0x5555555555555555, 0x6666666666666666,
					   0x7777777777777777, 0x8888888888888888 };
	char operand[64];

	(void)state;
	need_bpf();
	t.registers[ARG_RSP] = t.registers[ARG_RBX] = (uint64_t)(uintptr_t)&words[2];
	t.registers[ARG_RCX] = 2;
	t.registers[ARG_R9] = (uint64_t)-8;
	assert_reads("8@(%rsp)", words[2]);
	assert_reads("8@16(%rsp)", words[4]);
	assert_reads("8@-16(%rbx)", words[0]);
	assert_reads("8@0x10(%rsp,%rcx,8)", words[6]);
	assert_reads("8@(%rbx,%r9)", words[1]);
	assert_reads("8@8(%rbx,%r9,2)", words[1]);
	assert_reads("-4@-8(%rbx)", 0x22222222);
	assert_reads("-4@-4(%rbx)", 0xfffffffff2222222ULL);
	assert_reads("2@-2(%rbx)", 0xf222);
	assert_reads("-1@-1(%rbx)", 0xfffffffffffffff2ULL);
	snprintf(operand, sizeof(operand), "8@%#lx(,%%rcx,8)", (unsigned long)&words[1]);
	assert_reads(operand, words[3]);
	snprintf(operand, sizeof(operand), "8@%lu", (unsigned long)&words[5]);
	assert_reads(operand, words[5]);
}

static void constants_are_read(void **state)
{
	(void)state;
	need_bpf();
	assert_reads("8@$3", 3);
	assert_reads("-4@$-5", (uint64_t)-5);
	assert_reads("4@$-5", 0xfffffffbU);
	assert_string_equal(hit("8@$3 8@$-1 -4@$-5 1@$200"), " 1 -1 -5 200");
}

static void what_cannot_be_read_is_said(void **state)
{
	struct site_args none = { .n = 2 };

	(void)state;
	need_bpf();
	t.registers[ARG_RAX] = nowhere();
	assert_string_equal(hit("8@(%rax) 8f@%xmm3 8@global(%rip) 8@%rax"),
			    " <unreadable> <unsupported> <unsupported> <unreadable>");
	assert_int_equal(results()->read_ok, 0);
	assert_int_equal(results()->int_ok, 0);
	assert_int_equal(results()->key_ok, 0);
	assert_string_equal(hit(""), "");
	assert_int_equal(results()->read_ok, 0);
	assert_string_equal(hit_with(&none), " <unreadable> <unreadable>");
}

static void sixteen_arguments_are_recorded(void **state)
{
	(void)state;
	need_bpf();
	assert_string_equal(hit("8@$1 8@$3 8@$5 8@$7 8@$9 8@$11 8@$13 8@$15 8@$17 8@$19 8@$21 "
				"8@$23 8@$25 8@$27 8@$29 8@$31 8@$33 8@$35"),
			    " 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ... and 2 more");
}

/* ---- tests: values ------------------------------------------------------------------------------
 */

static void assert_int(uint64_t value, int64_t number, const char *text)
{
	assert_string_equal(hit_value(value), text);
	assert_int_equal(results()->int_ok, 1);
	assert_int_equal(results()->number, number);
}

static void assert_no_int(uint64_t value, const char *text)
{
	assert_string_equal(hit_value(value), text);
	assert_int_equal(results()->int_ok, 0);
}

static void integers_are_decoded(void **state)
{
	(void)state;
	need_bpf();
	assert_int(of_int(42), 42, " 42");
	assert_int(of_int(-1), -1, " -1");
	assert_int(of_int('A'), 65, " 65 'A'");
	assert_int(of_int(INT64_MAX / 2), INT64_MAX / 2, " 4611686018427387903");
	assert_int(of_int(INT64_MIN / 2), INT64_MIN / 2, " -4611686018427387904");
	assert_int(of_custom("_j", 7), 7, " 7L");
	assert_int(of_custom("_j", (uint64_t)INT64_MIN), INT64_MIN, " -9223372036854775808L");
	assert_int(of_custom("_n", (uint64_t)-7), -7, " -7n");
	assert_int(of_custom("_i", 7), 7, " 7l");
	/* The upper half of an int32's word is not its own. */
	assert_int(of_custom("_i", 0x12345678ffffffffULL), -1, " -1l");
}

static void strings_are_decoded(void **state)
{
	char text[300], expected[320];

	(void)state;
	need_bpf();
	assert_no_int(of_string(""), " \"\"");
	assert_no_int(of_string("seven77"), " \"seven77\"");
	assert_no_int(of_string("eight888"), " \"eight888\"");
	assert_no_int(of_bytes("a\0b\"\\\n\x01\xff", 8), " \"a\\000b\\\"\\\\\\n\\001\\255\"");
	memset(text, 'x', sizeof(text));
	snprintf(expected, sizeof(expected), " \"%.*s\"", RECORD_STRING, text);
	assert_string_equal(hit_value(of_bytes(text, RECORD_STRING)), expected);
	snprintf(expected, sizeof(expected), " \"%.*s\"... (300 bytes)", RECORD_STRING, text);
	assert_string_equal(hit_value(of_bytes(text, 300)), expected);
}

/* However long the others are, each of the most arguments gets some bytes. */
static void every_string_gets_some_bytes(void **state)
{
	char text[200], operands[ARGS_MAX * 32] = "";

	(void)state;
	need_bpf();
	memset(text, 'y', sizeof(text));
	for (int i = 0; i < ARGS_MAX; i++)
		snprintf(operands + strlen(operands), 32, "8@$%" PRIu64 " ",
			 of_bytes(text, sizeof(text)));
	hit(operands);
	assert_int_equal(t.record.n_args, ARGS_MAX);
	for (unsigned int i = 0; i < ARGS_MAX; i++) {
		struct value value = value_of_arg(&t.record, i);

		assert_int_equal(value.kind, VALUE_STRING);
		assert_int_equal(value.size, 200);
		assert_true(value.is_cut);
		assert_int_equal(value.n_bytes, i < 5 ? RECORD_STRING : RECORD_SHORT_STRING);
		assert_memory_equal(value.bytes, text, value.n_bytes);
	}
}

static void floats_are_decoded(void **state)
{
	uint64_t doubles = alloc(DOUBLE_ARRAY, 10);

	(void)state;
	need_bpf();
	assert_no_int(of_double(3.14), " 3.14");
	assert_no_int(of_double(-2), " -2.");
	assert_no_int(of_double(0.1 + 0.2), " 0.30000000000000004");
	for (int i = 0; i < 10; i++)
		memcpy(words_of(doubles) + i, &(double){ i + 0.5 }, 8);
	assert_no_int(doubles, " [|0.5; 1.5; 2.5; 3.5; 4.5; 5.5; 6.5; 7.5; ... of 10|]");
	words_of(doubles)[-1] = 2 << 10 | DOUBLE_ARRAY;
	assert_no_int(doubles, " [|0.5; 1.5|]");
}

static void blocks_are_decoded(void **state)
{
	uint64_t inner;

	(void)state;
	need_bpf();
	assert_no_int(of_fields(0, 2, of_int(1), of_string("x")), " (1, \"x\")");
	assert_no_int(of_fields(3, 2, of_int(1), of_int('B')), " tag3(1, 66)");
	assert_no_int(of_fields(0, 1, of_int(5)), " (5)");
	assert_no_int(alloc(0, 0), " [||]");
	assert_no_int(of_fields(0, 9, of_int(1), of_int(2), of_int(3), of_int(4), of_int(5),
				of_int(6), of_int(7), of_int(8), of_int(9)),
		      " (1, 2, 3, 4, 5, 6, 7, 8, ... of 9)");
	inner = of_fields(1, 1, of_int(4));
	inner = of_fields(1, 2, of_int(3), inner);
	inner = of_fields(1, 2, of_int(2), inner);
	inner = of_fields(1, 2, of_int(1), inner);
	assert_no_int(inner, " tag1(1, tag1(2, tag1(3, tag1(... of 1))))");
	assert_no_int(of_fields(0, 2, of_int(1), nowhere()), " (1, <unreadable>)");
	assert_no_int(of_fields(0, 2, of_double(1.5), of_custom("_j", 3)), " (1.5, 3L)");
	/* Above its 46 bits of size a header may hold anything. */
	inner = of_fields(0, 2, of_int(1), of_int(2));
	words_of(inner)[-1] |= 0xffULL << 56;
	assert_no_int(inner, " (1, 2)");
}

static void lists_are_followed(void **state)
{
	uint64_t ints = of_list(3), list;

	(void)state;
	need_bpf();
	assert_no_int(ints, " [1; 2; 3]");
	list = of_fields(0, 2, of_string("b"), of_int(0));
	list = of_fields(0, 2, of_string("a"), list);
	assert_no_int(list, " [\"a\"; \"b\"]");
	list = of_fields(0, 2, ints, of_fields(0, 2, ints, of_int(0)));
	assert_no_int(list, " [[1; 2; 3]; [1; 2; 3]]");
	assert_no_int(of_fields(0, 2, of_int(1), of_fields(0, 2, of_int(2), of_int(3))),
		      " (1, (2, 3))");
	/* 64 nodes: the first cell and two for each that follows, the last time one. */
	assert_no_int(of_list(100), " [1; 2; 3; 4; 5; 6; 7; 8; 9; 10; 11; 12; 13; 14; 15; 16; 17; "
				    "18; 19; 20; 21; 22; 23; 24; 25; 26; 27; 28; 29; 30; 31; 32; "
				    "...]");
	assert_no_int(of_list(31), " [1; 2; 3; 4; 5; 6; 7; 8; 9; 10; 11; 12; 13; 14; 15; 16; 17; "
				   "18; 19; 20; 21; 22; 23; 24; 25; 26; 27; 28; 29; 30; 31]");
}

static void a_cycle_ends(void **state)
{
	uint64_t cell = of_fields(0, 2, of_int(1), of_int(0)), knot;

	(void)state;
	need_bpf();
	words_of(cell)[1] = cell;
	hit_value(cell);
	assert_int_equal(value_of_arg(&t.record, 0).kind, VALUE_LIST);
	assert_int_equal(t.record.n_nodes, RECORD_NODES);
	knot = of_fields(1, 2, of_int(1), of_int(0));
	words_of(knot)[1] = knot;
	assert_no_int(knot, " tag1(1, tag1(1, tag1(1, tag1(... of 2))))");
}

static void room_is_shared(void **state)
{
	char operands[64];
	uint64_t pair = of_fields(0, 2, of_string("x"), of_int(2));

	(void)state;
	need_bpf();
	snprintf(operands, sizeof(operands), "8@$%" PRIu64 " 8@$%" PRIu64, of_list(1000), pair);
	hit(operands);
	assert_non_null(strstr(t.text, "; ...] (\"x\", 2)"));
}

static void other_blocks_are_named(void **state)
{
	(void)state;
	need_bpf();
	assert_no_int(of_fields(CLOSURE, 2, of_int(1), of_int(1)), " <closure>");
	assert_no_int(of_fields(INFIX, 1, of_int(1)), " <closure>");
	assert_no_int(of_fields(LAZY, 1, of_int(1)), " <lazy>");
	assert_no_int(of_fields(FORWARD, 1, of_string("x")), " lazy \"x\"");
	assert_no_int(of_fields(OBJECT, 2, of_int(1), of_int(1)), " <object>");
	assert_no_int(of_fields(ABSTRACT, 1, of_int(1)), " <abstract>");
	assert_no_int(of_custom("_bigarr02\0and then some other bytes, 32", 0),
		      " <custom _bigarr02>");
	assert_no_int(of_custom("_jx\0and then some other bytes ......", 0), " <custom _jx>");
	assert_no_int(of_custom((const char *)(uintptr_t)nowhere(), 0), " <unreadable>");
	assert_no_int(0, " <unreadable>");
	assert_no_int(of_fields(0, 2, of_int(1), of_int(2)) + 2, " <unreadable>");
	assert_no_int(nowhere() + 8, " <unreadable>");
	/* Strings whose padding is no padding; of no words. */
	assert_no_int(of_fields(STRING, 1, 0x0800000000000000ULL), " <unreadable>");
	assert_no_int(alloc(STRING, 0), " <unreadable>");
	assert_no_int(block_at_the_end_of_memory(0, 1), " <unreadable>");
	assert_no_int(block_at_the_end_of_memory(STRING, 1), " <unreadable>");
	assert_no_int(block_at_the_end_of_memory(DOUBLE, 1), " <unreadable>");
	assert_no_int(block_at_the_end_of_memory(CUSTOM, 2), " <unreadable>");
	assert_no_int(block_at_the_end_of_memory(0, 0), " [||]");
}

/* A string in a file, mapped but never touched: its page comes when it is read here. */
static void pages_are_fetched(void **state)
{
	const size_t page = 4096;
	char *pages;
	FILE *f = tmpfile();

	(void)state;
	need_bpf();
	assert_non_null(f);
	heap_top = 0;
	of_string("from a file");
	assert_int_equal(fwrite(heap, 8, page / 8, f), page / 8);
	assert_int_equal(fflush(f), 0);
	pages = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(f), 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_string_equal(hit_value((uint64_t)(uintptr_t)(pages + 8)), " \"from a file\"");
	assert_int_equal(munmap(pages, page), 0);
	fclose(f);
}

static void c_integers_are_no_values(void **state)
{
	(void)state;
	need_bpf();
	t.registers[ARG_RAX] = of_string("text");
	t.registers[ARG_RBX] = 0xffffffff00000007ULL;
	hit("-8@%rax");
	assert_int_equal(results()->int_ok, 1);
	assert_int_equal(results()->number, t.registers[ARG_RAX]);
	assert_string_equal(hit("4@%ebx -4@%ebx 8@%rax -1@$65"), " 7 7 \"text\" 65");
	assert_int_equal(value_of_arg(&t.record, 0).kind, VALUE_C_INT);
}

/* ---- tests: keys --------------------------------------------------------------------------------
 */

static uint64_t key_of(uint64_t value)
{
	hit_value(value);
	assert_int_equal(results()->key_ok, 1);
	return results()->key;
}

static void keys_tell_values_apart(void **state)
{
	char text[100];
	uint64_t keys[] = {
		key_of(of_int(0)),
		key_of(of_int(1)),
		key_of(of_int(-1)),
		key_of(of_string("")),
		key_of(of_bytes("\0", 1)),
		key_of(of_string("a")),
		key_of(of_bytes("a\0", 2)),
		key_of(of_string("b")),
		key_of(of_string("a string of more than one word")),
		key_of(of_string("a string of more than one Word")),
	};

	uint64_t long_key;

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(keys[i], keys[j]);
	assert_int_equal(key_of(of_string("a")), keys[5]);
	assert_int_equal(key_of(of_custom("_j", 1)), keys[1]);
	memset(text, 'z', sizeof(text));
	assert_int_not_equal(key_of(of_bytes(text, 99)), key_of(of_bytes(text, 100)));
	long_key = key_of(of_bytes(text, 100));
	text[64] = 'y';
	assert_int_equal(key_of(of_bytes(text, 100)), long_key);
	text[63] = 'y';
	assert_int_not_equal(key_of(of_bytes(text, 100)), long_key);
	hit_value(of_double(1));
	assert_int_equal(results()->key_ok, 0);
	hit_value(nowhere());
	assert_int_equal(results()->key_ok, 0);
}

static void keys_need_bpf(void **state)
{
	need_bpf();
	keys_tell_values_apart(state);
}

/* ---- tests: filters -----------------------------------------------------------------------------
 */

static void filters_compare_integers(void **state)
{
	static const struct {
		const char *filter;
		bool expected[3]; /* of 99, 100, 101 */
	} cases[] = {
		{ "arg0 == 100", { false, true, false } }, { "arg0 = 100", { false, true, false } },
		{ "arg0 != 100", { true, false, true } },  { "arg0 < 100", { true, false, false } },
		{ "arg0 <= 100", { true, true, false } },  { "arg0 > 100", { false, false, true } },
		{ "arg0 >= 100", { false, true, true } },  { "arg0 > -1", { true, true, true } },
		{ "arg0 < 0x65", { true, true, false } },  { "arg1 == 0", { false, false, false } },
		{ "arg1 != 0", { false, false, false } },
	};

	(void)state;
	need_bpf();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int j = 0; j < 3; j++) {
			t.registers[ARG_RAX] = of_int(99 + j);
			assert_int_equal(matches("8@%rax", cases[i].filter), cases[i].expected[j]);
			t.registers[ARG_RAX] = of_custom("_j", (uint64_t)(99 + j));
			assert_int_equal(matches("8@%rax", cases[i].filter), cases[i].expected[j]);
		}
	t.registers[ARG_RAX] = of_string("100");
	assert_false(matches("8@%rax", "arg0 == 100"));
	assert_false(matches("8@%rax", "arg0 != 100"));
	assert_true(matches("8@%rax", "!(arg0 == 100)"));
	assert_false(matches("8@$1 8f@%xmm0", "arg1 != 0"));
}

static void filters_compare_strings(void **state)
{
	char text[80];

	(void)state;
	need_bpf();
	t.registers[ARG_RAX] = of_string("/api/users");
	assert_true(matches("8@%rax", "arg0 == \"/api/users\""));
	assert_false(matches("8@%rax", "arg0 == \"/api/user\""));
	assert_false(matches("8@%rax", "arg0 == \"/api/userz\""));
	assert_false(matches("8@%rax", "arg0 == \"/api/users2\""));
	assert_false(matches("8@%rax", "arg0 == \"\""));
	assert_false(matches("8@%rax", "arg0 != \"/api/users\""));
	assert_true(matches("8@%rax", "arg0 != \"/api/user\""));
	assert_true(matches("8@%rax", "arg0 ^= \"/api/\""));
	assert_true(matches("8@%rax", "arg0 ^= \"\""));
	assert_true(matches("8@%rax", "arg0 ^= \"/api/users\""));
	assert_false(matches("8@%rax", "arg0 ^= \"/api/users2\""));
	assert_false(matches("8@%rax", "arg0 ^= \"/bpi/\""));
	t.registers[ARG_RAX] = of_bytes("a\0", 2);
	assert_false(matches("8@%rax", "arg0 == \"a\""));
	assert_true(matches("8@%rax", "arg0 == \"a\\000\""));
	t.registers[ARG_RAX] = of_int(5);
	assert_false(matches("8@%rax", "arg0 != \"a\""));
	memset(text, 'q', sizeof(text));
	t.registers[ARG_RAX] = of_bytes(text, 80);
	memcpy(text, "arg0 ^= \"", 9);
	text[9 + 64] = '"';
	text[9 + 65] = '\0';
	assert_true(matches("8@%rax", text));
	text[9 + 63] = 'p';
	assert_false(matches("8@%rax", text));
}

/* Every combination of three truths. */
static void filters_combine(void **state)
{
	(void)state;
	need_bpf();
	for (int bits = 0; bits < 8; bits++) {
		bool a = bits & 1, b = bits & 2, c = bits & 4;

		t.registers[ARG_RAX] = of_int(a);
		t.registers[ARG_RBX] = of_int(b);
		t.registers[ARG_RCX] = of_int(c);
#define TRUE_OF(n) "arg" #n " == 1"
		assert_int_equal(matches("8@%rax 8@%rbx 8@%rcx",
					 TRUE_OF(0) " && " TRUE_OF(1) " || " TRUE_OF(2)),
				 (a && b) || c);
		assert_int_equal(matches("8@%rax 8@%rbx 8@%rcx",
					 TRUE_OF(0) " || " TRUE_OF(1) " && " TRUE_OF(2)),
				 a || (b && c));
		assert_int_equal(matches("8@%rax 8@%rbx 8@%rcx",
					 "!(" TRUE_OF(0) " || " TRUE_OF(1) ") && !" TRUE_OF(2)),
				 !(a || b) && !c);
		assert_int_equal(matches("8@%rax 8@%rbx 8@%rcx",
					 TRUE_OF(0) " && (" TRUE_OF(1) " || !!" TRUE_OF(2) ")"),
				 a && (b || c));
	}
	t.skel->bss->input.filter = (struct filter){ 0 };
	hit("8@%rax");
	assert_int_equal(results()->matches, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_are_read),
		cmocka_unit_test(parts_of_registers_are_extended),
		cmocka_unit_test(memory_is_read),
		cmocka_unit_test(constants_are_read),
		cmocka_unit_test(what_cannot_be_read_is_said),
		cmocka_unit_test(sixteen_arguments_are_recorded),
		cmocka_unit_test(integers_are_decoded),
		cmocka_unit_test(strings_are_decoded),
		cmocka_unit_test(every_string_gets_some_bytes),
		cmocka_unit_test(floats_are_decoded),
		cmocka_unit_test(blocks_are_decoded),
		cmocka_unit_test(lists_are_followed),
		cmocka_unit_test(a_cycle_ends),
		cmocka_unit_test(room_is_shared),
		cmocka_unit_test(other_blocks_are_named),
		cmocka_unit_test(pages_are_fetched),
		cmocka_unit_test(c_integers_are_no_values),
		cmocka_unit_test(keys_need_bpf),
		cmocka_unit_test(filters_compare_integers),
		cmocka_unit_test(filters_compare_strings),
		cmocka_unit_test(filters_combine),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
