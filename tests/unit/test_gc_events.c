// SPDX-License-Identifier: MIT
/*
 * The calls that report phases of the collector, in code that is made for the test.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "code/gc_events.h"
#include "code/gc_phases.h"
#include "made_elf.h"
#include "unit.h"

enum {
	EV_BEGIN = 0x10,
	EV_END = 0x20,
	/* Functions of FUNCTION_BYTES bytes, by their numbers. */
	FIRST_FUNCTION = 0x100,
	FUNCTION_BYTES = 0x80,
};

/* The code of function number I is written at `at`. */
struct made_code {
	struct made_elf made;
	size_t at;
};

static void put_bytes(struct made_code *code, const char *bytes, size_t n)
{
	memcpy(code->made.code + code->at, bytes, n);
	code->at += n;
}
#define PUT(code, bytes) put_bytes(code, bytes, sizeof(bytes) - 1)

static void begin_function(struct made_code *code, size_t number)
{
	code->at = FIRST_FUNCTION + number * FUNCTION_BYTES;
}

static void put_argument(struct made_code *code, uint32_t event)
{
	char bytes[5] = { '\xbf' };

	memcpy(bytes + 1, &event, sizeof(event));
	put_bytes(code, bytes, sizeof(bytes));
}

/* A call or jump with the bytes OPCODE to one of the two functions. Return where it is. */
static uint64_t put_branch(struct made_code *code, const char *opcode, size_t target)
{
	const uint64_t va = MADE_CODE_VA + code->at;

	put_bytes(code, opcode, strlen(opcode));
	made_distance(&code->made, code->at, MADE_CODE_VA + target);
	code->at += 4;
	return va;
}

static uint64_t put_report(struct made_code *code, uint32_t event, size_t target)
{
	put_argument(code, event);
	return put_branch(code, "\xe8", target);
}

/* A file with the two functions, and functions NAMES[0..N) that are empty. */
static struct made_code made_functions(const char *const *names, size_t n)
{
	struct made_code code = { 0 };

	memset(code.made.code, 0x90, sizeof(code.made.code));
	made_symbol(&code.made, "caml_ev_begin", MADE_CODE_VA + EV_BEGIN, 8, false);
	made_symbol(&code.made, "caml_ev_end", MADE_CODE_VA + EV_END, 8, false);
	for (size_t i = 0; i < n; i++)
		made_symbol(&code.made, names[i],
			    MADE_CODE_VA + FIRST_FUNCTION + i * FUNCTION_BYTES, FUNCTION_BYTES,
			    true);
	return code;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static const char *const two_functions[] = { "first", "second" };

static struct gc_event_calls find_calls(const struct made_code *code)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const int fd = made_fd(&code->made);
	struct gc_event_calls calls;
	struct elf_file *elf;

	assert_int_equal(elf_file_open(ctx, fd, "made", &elf), 0);
	assert_int_equal(gc_event_calls_find(ctx, elf, MADE_CODE_VA + EV_BEGIN,
					     MADE_CODE_VA + EV_END, &calls),
			 0);
	elf_file_close(elf);
	close(fd);
	ocp_ctx_free(ctx);
	return calls;
}

/* The only call of CODE has this EVENT. */
static void expect_event(const struct made_code *code, uint32_t event)
{
	const struct gc_event_calls calls = find_calls(code);

	assert_int_equal(calls.n, 1);
	assert_int_equal(calls.list[0].event, event);
	free(calls.list);
}

TEST(calls_in_all_functions)
{
	struct made_code code = made_functions(two_functions, 2);
	uint64_t vas[4];
	struct gc_event_calls calls;

	begin_function(&code, 0);
	vas[0] = put_report(&code, 11, EV_BEGIN);
	vas[1] = put_report(&code, 11, EV_END);
	begin_function(&code, 1);
	put_argument(&code, 11);
	PUT(&code, "\x53"			    /* push %rbx */
		   "\x48\x83\xec\x10"		    /* sub $0x10,%rsp */
		   "\x64\x48\x8b\x1c\x25\x28\0\0\0" /* mov %fs:0x28,%rbx */
		   "\x75\x02\x90\x90");		    /* jne over two nops */
	/* A call through a table of addresses, which the linker has made direct. */
	vas[2] = put_branch(&code, "\x67\xe8", EV_BEGIN);
	put_argument(&code, 11);
	PUT(&code, "\x5b"); /* pop %rbx */
	vas[3] = put_branch(&code, "\xe9", EV_END);
	calls = find_calls(&code);
	assert_int_equal(calls.n, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(calls.list[i].va, vas[i]);
		assert_int_equal(calls.list[i].is_end, i % 2);
		assert_int_equal(calls.list[i].is_jump, i == 3);
		assert_int_equal(calls.list[i].function_va,
				 MADE_CODE_VA + FIRST_FUNCTION + i / 2 * FUNCTION_BYTES);
	}
	assert_int_equal(calls.list[0].event, 11);
	assert_int_equal(calls.list[1].event, 11);
	/* The jump over the nops leads between the argument and the call. */
	assert_int_equal(calls.list[2].event, GC_EVENT_UNKNOWN);
	assert_int_equal(calls.list[3].event, 11);
	free(calls.list);
}

TEST(arguments)
{
	static const struct {
		const char *between;
		size_t n;
		uint32_t event;
	} cases[] = {
		{ "", 0, 48 },
		{ "\x53\x48\x83\xec\x10", 5, 48 },   /* push %rbx; sub $0x10,%rsp */
		{ "\x31\xff", 2, 0 },		     /* xor %edi,%edi */
		{ "\x89\xf7", 2, GC_EVENT_UNKNOWN }, /* mov %esi,%edi */
		{ "\x5f", 1, GC_EVENT_UNKNOWN },     /* pop %rdi */
		{ "\xff\xd0", 2, GC_EVENT_UNKNOWN }, /* call *%rax */
		{ "\xeb\x00", 2, GC_EVENT_UNKNOWN }, /* jmp to the next instruction */
		{ "\xc3", 1, GC_EVENT_UNKNOWN },     /* ret */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made_code code = made_functions(two_functions, 2);

		begin_function(&code, 0);
		put_argument(&code, 48);
		put_bytes(&code, cases[i].between, cases[i].n);
		put_branch(&code, "\xe8", EV_BEGIN);
		expect_event(&code, cases[i].event);
	}
}

TEST(a_jump_to_a_call)
{
	/* jmp from behind the call to the call, to the argument, and behind the argument's start */
	static const struct {
		char distance;
		uint32_t event;
	} cases[] = { { -7, GC_EVENT_UNKNOWN }, { -12, 11 }, { -2, 11 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made_code code = made_functions(two_functions, 2);
		const char jump[] = { '\xeb', cases[i].distance };

		begin_function(&code, 0);
		put_report(&code, 11, EV_BEGIN);
		put_bytes(&code, jump, sizeof(jump));
		expect_event(&code, cases[i].event);
	}
}

TEST(a_conditional_jump_to_the_function)
{
	struct made_code code = made_functions(two_functions, 2);

	begin_function(&code, 0);
	put_argument(&code, 11);
	put_branch(&code, "\x0f\x84", EV_END);
	expect_event(&code, GC_EVENT_UNKNOWN);
}

TEST(calls_in_code_that_is_not_known)
{
	struct made_code code = made_functions(two_functions, 2);

	/* No function, an instruction that is not valid, and a huge function. */
	begin_function(&code, 2);
	put_report(&code, 11, EV_BEGIN);
	expect_event(&code, GC_EVENT_UNKNOWN);
	code = made_functions(two_functions, 2);
	begin_function(&code, 1);
	put_report(&code, 11, EV_BEGIN);
	PUT(&code, "\x06");
	expect_event(&code, GC_EVENT_UNKNOWN);
	code = made_functions(two_functions, 2);
	begin_function(&code, 1);
	put_report(&code, 11, EV_BEGIN);
	made_symbol_change(&code.made, "second", MADE_CODE_VA + 0x180, UINT64_MAX - 0x2000);
	expect_event(&code, GC_EVENT_UNKNOWN);
	/* Bytes within an instruction are no call. */
	code = made_functions(two_functions, 2);
	begin_function(&code, 0);
	PUT(&code, "\x48\xb8"); /* mov $...,%rax */
	put_branch(&code, "\xe8", EV_BEGIN);
	PUT(&code, "\0\0\0");
	assert_int_equal(find_calls(&code).n, 0);
}

/* ---- phases --------------------------------------------------------------------------------- */

/* The numbers of 5.3 and later, and of 5.1. */
static const struct numbers {
	uint32_t minor, explicit_slice, slice, handler, leader, compact, empty_minor;
} numbers_53 = { 11, 16, 27, 34, 35, 44, 48 }, numbers_51 = { 10, 13, 24, 31, 32, 40, 44 };

enum { MINOR, EXPLICIT_SLICE, SLICE, HANDLER, LEADER, COMPACT, EMPTY_MINOR, N_REPORTERS };
static const char *const reporters[N_REPORTERS] = {
	"minor",
	"caml_gc_major_slice",
	"slice",
	"handler",
	"caml_try_run_on_all_domains_with_spin_work",
	"caml_compact_heap",
	"caml_empty_minor_heaps_once",
};

static struct made_code made_runtime(const struct numbers *numbers)
{
	struct made_code code = made_functions(reporters, N_REPORTERS);
	const uint32_t events[] = { numbers->minor,	 numbers->explicit_slice, numbers->slice,
				    numbers->handler,	 numbers->leader,	  numbers->compact,
				    numbers->empty_minor };

	for (size_t i = 0; i < N_REPORTERS; i++) {
		begin_function(&code, i);
		put_report(&code, events[i], EV_BEGIN);
		put_report(&code, events[i], EV_END);
	}
	made_symbol(&code.made, "caml_cycle_heap_from_stw_single", MADE_CODE_VA + 0x40, 8, false);
	return code;
}

static void check_phase(const struct made_code *code, int minor, const char *name,
			const char *expected)
{
	struct gc_phase_place places[N_GC_PHASES];
	const struct runtime runtime = { .major = 5, .minor = minor, .version = "5.x" };
	struct ocp_ctx *ctx = ocp_ctx_new();
	const int fd = made_fd(&code->made);
	struct elf_file *elf;
	size_t i = 0;
	int err;

	assert_int_equal(elf_file_open(ctx, fd, "made", &elf), 0);
	assert_int_equal(gc_phases_find(ctx, elf, &runtime, places), 0);
	while (strcmp(places[i].name, name) != 0)
		i++;
	err = gc_phase_check(ctx, elf, &runtime, &places[i]);
	if (expected) {
		assert_string_equal(ocp_error(ctx), expected);
		assert_int_equal(err, strstr(expected, " has no gc:") ? -ENOENT : -ENODATA);
	} else if (err) {
		fail_msg("%s", ocp_error(ctx));
	} else {
		assert_int_equal(gc_phase_is_timed(&places[i]),
				 strcmp(name, "gc:major_cycle") != 0);
	}
	elf_file_close(elf);
	close(fd);
	ocp_ctx_free(ctx);
}

TEST(phases_of_each_version)
{
	for (int minor = 1; minor < 8; minor++) {
		const struct made_code code = made_runtime(minor < 3 ? &numbers_51 : &numbers_53);

		check_phase(&code, minor, "gc:minor", NULL);
		check_phase(&code, minor, "gc:major_slice", NULL);
		check_phase(&code, minor, "gc:stw", NULL);
		check_phase(&code, minor, "gc:compact",
			    minor < 2 ? "made: OCaml 5.x has no gc:compact" : NULL);
		check_phase(&code, minor, "gc:stw_wait",
			    minor < 4 ? "made: OCaml 5.x has no gc:stw_wait" : NULL);
		check_phase(&code, minor, "gc:major_cycle",
			    minor > 5 ? "made: gc:major_cycle cannot be measured: it is not known "
					"in OCaml 5.x"
				      : NULL);
	}
}

#define NOT_MEASURED "made: gc:minor cannot be measured: "

TEST(numbers_that_are_not_proved)
{
	struct numbers numbers = numbers_53;
	struct made_code code;

	/* An event was inserted. */
	numbers.leader++;
	code = made_runtime(&numbers);
	check_phase(&code, 6, "gc:minor", NOT_MEASURED "the numbers of its events are not known");
	/* A derived compiler: its numbers are not those of its version. */
	code = made_runtime(&numbers_53);
	check_phase(&code, 2, "gc:minor", NULL);
	/* Numbers behind those that prove the others. */
	numbers = numbers_53;
	numbers.empty_minor++;
	code = made_runtime(&numbers);
	check_phase(&code, 5, "gc:minor", NULL);
	check_phase(&code, 5, "gc:stw_wait",
		    "made: gc:stw_wait cannot be measured: its code does not report where the "
		    "phase begins and ends");
	begin_function(&code, MINOR);
	code.at += 0x40;
	put_report(&code, 48, EV_BEGIN);
	put_report(&code, 48, EV_END);
	check_phase(&code, 5, "gc:stw_wait",
		    "made: gc:stw_wait cannot be measured: the number of its event is not known");
}

TEST(calls_that_are_missing)
{
	struct made_code code = made_runtime(&numbers_53);

	/* The end of the minor collection becomes that of another phase. */
	begin_function(&code, MINOR);
	put_report(&code, 11, EV_BEGIN);
	put_report(&code, 12, EV_END);
	check_phase(&code, 5, "gc:minor",
		    NOT_MEASURED "its code does not report where the phase begins and ends");
	check_phase(&code, 5, "gc:major_slice", NULL);
	/* It could be any phase. */
	code.at = FIRST_FUNCTION + 10;
	PUT(&code, "\xeb\x00");
	put_branch(&code, "\xe8", EV_END);
	check_phase(&code, 5, "gc:major_slice",
		    "made: gc:major_slice cannot be measured: its code has a call of "
		    "caml_ev_begin or caml_ev_end whose argument is not known");
	code = made_runtime(&numbers_53);
	made_symbol_change(&code.made, "caml_ev_end", 0, 0);
	check_phase(&code, 5, "gc:minor", NOT_MEASURED "the file has no symbol caml_ev_end");
}

TEST(too_many_calls)
{
	struct made_code code = made_runtime(&numbers_53);

	for (size_t i = 0; i < MAX_GC_PHASE_CALLS / 2; i++) {
		begin_function(&code, i < 4 ? MINOR : SLICE);
		code.at += 0x14 + (i % 4) * 0x14;
		put_report(&code, 11, EV_BEGIN);
		put_report(&code, 11, EV_END);
	}
	check_phase(&code, 5, "gc:minor",
		    NOT_MEASURED "its code reports the phase at too many places");
	code = made_runtime(&numbers_53);
	begin_function(&code, SLICE);
	code.at += 0x14;
	put_report(&code, 11, EV_BEGIN);
	put_report(&code, 11, EV_END);
	check_phase(&code, 5, "gc:minor", NULL);
}

/* Without the calls, the functions of 5.3 serve. */
TEST(functions_instead_of_events)
{
	struct made_code code = made_runtime(&numbers_53);

	made_symbol_change(&code.made, "caml_ev_begin", 0, 0);
	check_phase(&code, 3, "gc:compact", NULL);
	check_phase(&code, 5, "gc:compact",
		    "made: gc:compact cannot be measured: the file has no symbol caml_ev_begin");
}
