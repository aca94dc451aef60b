// SPDX-License-Identifier: MIT
/*
 * Windows: which instructions of a function a jump may replace, and whether the function still does
 * what it did with the jumps in place. The functions are this file's own code.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "code/code_flow.h"
#include "code/window.h"
#include "code/window_copy.h"
#include "code_asm.h"

ALL_TESTS(code_open_self, code_close_self);

static struct code_windows find(struct code *code, const char *start, size_t n,
				enum window_language language, uint32_t kept)
{
	struct code_function function = code_decode(code, start, n);
	struct code_windows windows;

	assert_int_equal(code_windows_find(code->ctx, code_file_flow(code->file), &function,
					   language, kept, &windows),
			 0);
	code_function_free(&function);
	return windows;
}

#define WINDOWS(name)		 find(*state, name, SIZE(name), WINDOW_OCAML_5, 0)
#define WINDOWS_4(name)		 find(*state, name, SIZE(name), WINDOW_OCAML_4, 0)
#define WINDOWS_KEPT(name, kept) find(*state, name, SIZE(name), WINDOW_OCAML_5, kept)
#define WINDOWS_C(name)		 find(*state, name, SIZE(name), WINDOW_C, 0)

static const char does_not_fit[] = "a jump does not fit into its first instructions";

static void assert_no_window(struct code_windows windows)
{
	assert_string_equal(windows.no_count, does_not_fit);
	code_windows_free(&windows);
}

static void assert_window(const struct code_window *window, long off, long end,
			  enum window_start start)
{
	assert_int_equal(window->off, off);
	assert_int_equal(window->off + window->n_bytes, end);
	assert_int_equal(window->start, start);
}

/* ---- where calls are counted ---------------------------------------------------------------- */

FUNCTION(behind, "push %rbx\n" L(behind_window) "mov %rdi, %rbx\nmov %rsi, %rax\n" L(
			 behind_last) "pop %rbx\nret");
LABEL(behind_window);
LABEL(behind_last);

TEST(a_window_is_behind_the_entry)
{
	struct code_windows it = WINDOWS(behind);

	assert_null(it.no_count);
	assert_window(&it.count, behind_window - behind, behind_last - behind, WINDOW_BEHIND_ENTRY);
	assert_true(it.count.depth_known);
	assert_int_equal(it.count.depth, 8);
	code_windows_free(&it);
}

FUNCTION(changes, "mov %rdi, %rbx\n" L(changes_window) "mov %rsi, %rax\nmov %rax, %rdx\n" L(
			  changes_last) "ret");
LABEL(changes_window);
LABEL(changes_last);
FUNCTION(long_entry, "lea 0x1234(%rdi), %rax\nret");

/*
 * Registers with arguments: the window comes before an instruction that changes them, or not at
 * all.
 */
TEST(a_window_is_where_registers_are_kept)
{
	enum { RAX = 1 << 0, RBX = 1 << 3, RDI = 1 << 7 };
	struct code_windows it = WINDOWS_KEPT(behind, RAX | RBX | RDI);

	assert_null(it.no_count);
	assert_window(&it.count, behind_window - behind, behind_last - behind, WINDOW_BEHIND_ENTRY);
	code_windows_free(&it);
	it = WINDOWS_KEPT(changes, RDI);
	assert_null(it.no_count);
	assert_window(&it.count, changes_window - changes, changes_last - changes,
		      WINDOW_BEHIND_ENTRY);
	code_windows_free(&it);
	it = WINDOWS_KEPT(changes, RDI | RBX);
	assert_string_equal(it.no_count,
			    "a jump does not fit where its arguments are in registers");
	code_windows_free(&it);
	/* Without arguments, the reason is another one. */
	it = WINDOWS_KEPT(long_entry, RAX);
	assert_no_window(it);
}

/* At the entry of OCaml code, others set uprobes. */
TEST(only_c_code_has_a_window_at_the_entry)
{
	struct code_windows it = WINDOWS(long_entry), c = WINDOWS_C(long_entry);

	assert_string_equal(it.no_count, does_not_fit);
	assert_null(c.no_count);
	assert_window(&c.count, 0, 7, WINDOW_LONG_ENTRY);
	code_windows_free(&it);
	code_windows_free(&c);
}

FUNCTION(short_entry,
	 "test %rdi, %rdi\nje 1f\nmov %rsi, %rax\nmov %rax, %rdx\nret\n1: xor %eax, %eax\nret");

/* The je reads flags, so a window cannot begin with it; not every call executes what follows. */
TEST(no_window_is_behind_a_jump)
{
	struct code_windows it = WINDOWS(short_entry), c = WINDOWS_C(short_entry);

	assert_string_equal(it.no_count, does_not_fit);
	assert_null(c.no_count);
	assert_window(&c.count, 0, 5, WINDOW_SHORT_ENTRY);
	code_windows_free(&it);
	code_windows_free(&c);
}

FUNCTION(elsewhere, ".byte 0xe9\n.long entered_again - . - 4\nlea entered_loaded(%rip), %rax\nret");
FUNCTION(leaves, "mov 8(%rdi), %rax\nmov 8(%rsi), %rdx\ntest %rax, %rax\nje elsewhere\nret");

/* Compilers put parts of C functions elsewhere. */
TEST(c_code_may_jump_to_what_is_no_function)
{
	struct code_windows it = WINDOWS(leaves), c = WINDOWS_C(leaves);

	assert_string_equal(it.no_count, "it jumps to code that is not a function");
	assert_null(c.no_count);
	assert_window(&c.count, 0, 8, WINDOW_SHORT_ENTRY);
	code_windows_free(&it);
	code_windows_free(&c);
}

FUNCTION(leaves_and_jumps,
	 "push %rbx\nmov 8(%rdi), %rax\nmov 8(%rsi), %rdx\njne elsewhere\njmp *%rax");

/* What the other jump leads to is not known. */
TEST(c_code_that_leaves_may_not_jump_anywhere)
{
	struct code_windows c = WINDOWS_C(leaves_and_jumps);

	assert_string_equal(c.no_count, "it has a jump that cannot be followed");
	code_windows_free(&c);
}

/* Bytes 1 and 4 are entered. This file does not load their addresses, which would be found, too. */
FUNCTION(entered, "push %rbx\n" L(entered_again) "mov %rdi, %rbx\n" L(
			  entered_loaded) "mov %rsi, %rax\npop %rbx\nret");

static bool is_entered(struct code *code, uint64_t start, uint64_t end)
{
	struct code_function function = DECODE(code, entered);
	const uint64_t va = code_file_flow(code->file)->code.va;
	bool is;

	code_function_free(&function);
	assert_int_equal(
		code_file_find_jump(code->file, va, SIZE(entered), va + start, va + end, &is), 0);
	return is;
}

TEST(jumps_of_other_functions_are_found)
{
	assert_true(is_entered(*state, 1, 2));
	assert_true(is_entered(*state, 4, 5));
	assert_true(is_entered(*state, 0, 9));
	assert_false(is_entered(*state, 2, 4));
	assert_false(is_entered(*state, 5, 9));
}

FUNCTION(live_flags, "cmp %rsi, %rdi\nmov %rdi, %rax\nmov %rsi, %rcx\ncmovg %rcx, %rax\nret");

TEST(no_window_begins_where_flags_are_live)
{
	assert_no_window(WINDOWS(live_flags));
}

/* inc leaves the carry as it is: the jc reads that of the cmp. */
FUNCTION(live_carry, "cmp %rsi, %rdi\ninc %rdi\nnop\nnop\nmov %rdi, %rax\njc 1f\nret\n1: ret");

TEST(a_part_of_the_flags_is_enough_to_be_live)
{
	assert_no_window(WINDOWS(live_carry));
}

/* The jump reads another flag than the carry, but the code that it leads to reads the carry. */
FUNCTION(carry_elsewhere,
	 "cmp %rsi, %rdi\ninc %rdi\njs 1f\nmov %rdi, %rax\nret\n1: sbb %rax, %rax\nret");

TEST(flags_are_live_in_both_ways_of_a_jump)
{
	assert_no_window(WINDOWS(carry_elsewhere));
}

/* A fault of the copied store would be no Stack_overflow in OCaml 4. */
FUNCTION(spills, "sub $24, %rsp\nmov %rax, (%rsp)\n" L(
			 spills_loads) "mov 16(%rbx), %rax\nmov 8(%rbx), %rdi\nadd $24, %rsp\nret");
LABEL(spills_loads);

TEST(no_window_of_ocaml_4_writes_to_the_stack)
{
	struct code_windows four = WINDOWS_4(spills), five = WINDOWS(spills);

	assert_null(four.no_count);
	assert_int_equal(four.count.off, spills_loads - spills);
	assert_null(five.no_count);
	assert_int_equal(five.count.off, 4);
	code_windows_free(&four);
	code_windows_free(&five);
}

/* The code that counts changes r11. */
FUNCTION(uses_r11, "mov %rax, %r11\nmov 16(%rbx), %rax\nmov 8(%rbx), %rdi\nadd %r11, %rax\nret");

TEST(no_window_is_behind_a_change_of_r11)
{
	assert_no_window(WINDOWS(uses_r11));
}

/* The kernel emulates the push: the uprobe of this project is there. */
FUNCTION(at_uprobe, "mov %rax, %rdi\npush %rbx\nmov %rdi, %rcx\n" L(
			    at_uprobe_behind) "mov 8(%rdi), %rdx\nmov %rsi, %rax\npop %rbx\nret");
LABEL(at_uprobe_behind);

TEST(a_window_is_not_where_the_uprobe_is)
{
	struct code_windows it = WINDOWS(at_uprobe);

	assert_null(it.no_count);
	assert_int_equal(it.count.off, 4);
	code_windows_free(&it);
}

FUNCTION(loops, "sub $8, %rsp\n1: dec %rdi\njnz 1b\nadd $8, %rsp\nret");

TEST(nothing_may_lead_into_a_window)
{
	struct code_windows it = WINDOWS(loops);

	assert_string_equal(it.no_count, does_not_fit);
	assert_string_equal(it.no_time, it.no_count);
	code_windows_free(&it);
}

FUNCTION(
	has_handler,
	"sub $8, %rsp\n1: mov %rdi, %rax\nlea 1b(%rip), %rcx\nmov %rcx, (%rsp)\nadd $8, %rsp\nret");

TEST(an_address_that_is_loaded_counts_as_a_target)
{
	struct code_windows it = WINDOWS(has_handler);

	assert_string_equal(it.no_count, does_not_fit);
	code_windows_free(&it);
}

FUNCTION(entry_loop, "mov %rdi, %rax\ndec %rdi\njnz entry_loop\nret");

TEST(a_jump_to_the_entry_counts_iterations)
{
	struct code_windows it = WINDOWS(entry_loop);

	assert_string_equal(it.no_count, "a jump in it leads to its first instruction");
	code_windows_free(&it);
}

FUNCTION(probed,
	 "nop\n.byte 0x3d, 0, 0, 0, 0\n" L(probed_window) "mov %rdi, %rax\nmov %rax, %rdx\nret");
LABEL(probed_window);

TEST(the_site_of_a_probe_is_left_alone)
{
	struct code_windows it = WINDOWS(probed);

	assert_null(it.no_count);
	assert_window(&it.count, probed_window - probed, 12, WINDOW_BEHIND_ENTRY);
	code_windows_free(&it);
}

FUNCTION(calls_last,
	 "sub $8, %rsp\n" L(calls_last_call) "call other\n" L(calls_last_back) "add $8, %rsp\nret");
LABEL(calls_last_call);
LABEL(calls_last_back);

TEST(a_call_is_the_end_of_a_window)
{
	struct code_windows it = WINDOWS(calls_last);

	assert_null(it.no_count);
	assert_window(&it.count, calls_last_call - calls_last, calls_last_back - calls_last,
		      WINDOW_BEHIND_ENTRY);
	assert_null(it.no_time);
	assert_int_equal(it.n_exits, 1);
	assert_window(&it.exits[0], calls_last_back - calls_last, (long)SIZE(calls_last),
		      WINDOW_BEHIND_ENTRY);
	assert_int_equal(it.exits[0].n_before, 4);
	assert_int_equal(it.exits[0].depth, 0);
	code_windows_free(&it);
}

/* ---- runs ----------------------------------------------------------------------------------- */

/* Return why the run of OFF in the function has no window, or NULL and the window. */
static const char *find_in_run(struct code *code, const char *start, size_t n,
			       enum window_language language, long off, struct code_window *out)
{
	struct code_function function = code_decode(code, start, n);
	struct code_runs runs;
	const char *why;

	code_runs_init(&runs, code_file_flow(code->file), &function, language);
	why = code_runs_window(&runs, (uint32_t)off, out);
	code_function_free(&function);
	return why;
}

#define RUN(name, at, out) find_in_run(*state, name, SIZE(name), WINDOW_OCAML_5, (at) - (name), out)
#define RUN_4(name, at, out)                                                                       \
	find_in_run(*state, name, SIZE(name), WINDOW_OCAML_4, (at) - (name), out)

static const char no_room[] = "a jump does not fit into the instructions that are executed with it";

/* Three runs: up to the jump, behind it, and from its target on. */
FUNCTION(
	three_runs,
	"push %rbx\nmov %rdi, %rbx\nmov 8(%rax), %rcx\ncmp $1, %rdi\n" L(three_jump) "je 1f\n" L(
		three_second) "mov 16(%rbx), %rax\n" L(three_later) "mov %rax, %rdx\n" L(three_third) "1: mov $3, %eax\npop %rbx\nret");
LABEL(three_jump);
LABEL(three_second);
LABEL(three_later);
LABEL(three_third);

TEST(each_run_has_a_window)
{
	struct code_window window, of_entry;

	assert_null(RUN(three_runs, three_runs, &of_entry));
	assert_true(of_entry.off > 0 && of_entry.off < three_jump - three_runs);
	assert_null(RUN(three_runs, three_jump, &window));
	assert_int_equal(window.off, of_entry.off);
	assert_null(RUN(three_runs, three_second, &window));
	assert_window(&window, three_second - three_runs, three_third - three_runs,
		      WINDOW_BEHIND_ENTRY);
	/* All places of a run have the same window, also one that is before them. */
	assert_null(RUN(three_runs, three_later, &window));
	assert_int_equal(window.off, three_second - three_runs);
	assert_null(RUN(three_runs, three_third, &window));
	assert_window(&window, three_third - three_runs, three_third + 5 - three_runs,
		      WINDOW_BEHIND_ENTRY);
	assert_string_equal(RUN(three_runs, three_second + 1, &window),
			    "its place is inside of an instruction");
}

/* The second run has four bytes: a jump would replace a target, too. */
FUNCTION(short_run, "sub $8, %rsp\ncmp $1, %rdi\nmov 8(%rax), %rcx\nje 1f\n" L(
			    short_second) "mov 16(%rbx), %rax\n1: mov $3, %eax\nadd $8, %rsp\nret");
LABEL(short_second);

TEST(a_run_may_be_too_short)
{
	struct code_window window;

	assert_string_equal(RUN(short_run, short_second, &window), no_room);
}

/* Behind the call is a run of four bytes, which is not continued in the one behind it. */
FUNCTION(run_of_four,
	 "sub $8, %rsp\ncall other\n" L(
		 four_bytes) "test %al, %al\nje 1f\nmov 16(%rbx), %rax\n1: add $8, %rsp\nret");
LABEL(four_bytes);

TEST(a_window_ends_with_its_run)
{
	struct code_window window;

	assert_string_equal(RUN(run_of_four, four_bytes, &window), no_room);
}

/* The window of the function goes on behind the jump. */
FUNCTION(entry_goes_on,
	 "sub $8, %rsp\ntest %al, %al\nje 1f\n" L(goes_second) "mov 16(%rbx), %rax\n" L(
		 goes_behind) "mov %rax, %rdx\nmov 8(%rax), %rcx\n"
			      "1: add $8, %rsp\nret");
LABEL(goes_second);
LABEL(goes_behind);

TEST(windows_do_not_overlap_that_of_the_function)
{
	struct code_window window;

	assert_null(RUN(entry_goes_on, entry_goes_on, &window));
	assert_window(&window, 4, goes_behind - entry_goes_on, WINDOW_BEHIND_ENTRY);
	assert_null(RUN(entry_goes_on, goes_second, &window));
	assert_int_equal(window.off, goes_behind - entry_goes_on);
}

/* r11 has a value in the second run, which the third one reads. */
FUNCTION(
	r11_lives,
	"sub $8, %rsp\nmov 8(%rax), %r11\ncmp $1, %rdi\nje 1f\n" L(r11_second) "mov 16(%rbx), %rax\nmov %rax, %rdx\n1: add %r11, %rax\n" L(
		r11_behind) "mov 24(%rbx), %rcx\nmov %rcx, %rdx\nadd $8, %rsp\nret");
LABEL(r11_second);
LABEL(r11_behind);

TEST(no_window_where_r11_is_live)
{
	struct code_window window;

	assert_string_equal(RUN(r11_lives, r11_second, &window), no_room);
	/* In the third run, r11 is dead behind the addition, up to the return. */
	assert_null(RUN(r11_lives, r11_behind, &window));
	assert_int_equal(window.off, r11_behind - r11_lives);
}

/* The address of a handler in r11 comes from the same run: OCaml raises in this way. */
FUNCTION(raises_later,
	 "sub $8, %rsp\ncmp $1, %rdi\nje 1f\n" L(
		 raises_second) "mov 16(%rbx), %rax\nmov %rax, %rdx\nadd $8, %rsp\nret\n"
				"1: mov 16(%r14), %rsp\npop 16(%r14)\npop %r11\njmp *%r11");
LABEL(raises_second);

TEST(a_raise_reads_no_r11_of_others)
{
	struct code_window window;

	assert_null(RUN(raises_later, raises_second, &window));
	assert_int_equal(window.off, raises_second - raises_later);
}

/* The handler of a probe may raise an exception: another run is behind the site. */
FUNCTION(probe_between,
	 "sub $8, %rsp\nmov %rdi, %rax\nmov %rax, %rdx\nnop\n.byte 0x3d, 2, 0, 0, 0\n" L(
		 probe_behind) "mov 16(%rbx), %rax\nmov %rax, %rcx\nadd $8, %rsp\nret");
LABEL(probe_behind);

TEST(a_probe_ends_a_run)
{
	struct code_window before, after;

	assert_null(RUN(probe_between, probe_between, &before));
	assert_true(before.off + before.n_bytes + 6 <= probe_behind - probe_between);
	assert_null(RUN(probe_between, probe_behind, &after));
	assert_int_equal(after.off, probe_behind - probe_between);
}

/*
 * A call writes its return address: with OCaml 4, the stack may end there. So the call stays a
 * call, and is not copied behind another instruction.
 */
FUNCTION(only_a_call, "sub $8, %rsp\ncmp $1, %rdi\nje 1f\n" L(
			      only_call) "call other\n1: mov $3, %eax\nadd $8, %rsp\nret");
LABEL(only_call);

TEST(a_call_can_be_the_window_of_a_run)
{
	struct code_window window;

	assert_null(RUN(only_a_call, only_call, &window));
	assert_int_equal(window.off, only_call - only_a_call);
	assert_null(RUN_4(only_a_call, only_call, &window));
	assert_int_equal(window.off, only_call - only_a_call);
	/* Where the hit is timed, the call has pushed 8 bytes. */
	assert_true(window.depth_known);
	assert_int_equal(window.depth, 16);
}

FUNCTION(call_behind,
	 "sub $8, %rsp\ncmp $1, %rdi\nje 1f\n" L(call_behind_load) "mov 8(%rax), %rdi\n" L(
		 call_behind_call) "call *16(%rdi)\n1: mov $3, %eax\nadd $8, %rsp\nret");
LABEL(call_behind_load);
LABEL(call_behind_call);

TEST(no_call_of_ocaml_4_is_copied)
{
	struct code_window window;

	assert_null(RUN(call_behind, call_behind_call, &window));
	assert_int_equal(window.off, call_behind_load - call_behind);
	assert_string_equal(RUN_4(call_behind, call_behind_call, &window), no_room);
}

TEST(only_the_entry_of_c_code)
{
	struct code_windows it = find(*state, behind, SIZE(behind), WINDOW_C, 0);

	assert_null(it.no_count);
	assert_window(&it.count, 0, 7, WINDOW_SHORT_ENTRY);
	assert_non_null(it.no_time);
	code_windows_free(&it);
}

/* ---- C code that reports phases -------------------------------------------------------------- */

/* Find the window of the call or jump at LABEL of the function NAME. */
static bool find_of_call(struct code *code, const char *name, size_t n, const char *label,
			 struct code_window *out)
{
	struct code_function function = code_decode(code, name, n);
	const struct code_flow *flow = code_file_flow(code->file);
	uint32_t number = 0;

	code_function_free(&function);
	assert_true(code_flow_find(flow, label - name, &number));
	return code_window_of_call(flow, number, out);
}

#define OF_CALL(name, label, out) find_of_call(*state, name, SIZE(name), label, out)

FUNCTION(reports,
	 "push %rbx\nmov $33, %edi\n" L(reports_near) "call other\nmov $33, %edi\npop %rbx\n" L(
		 reports_far) "jmp other");
LABEL(reports_near);
LABEL(reports_far);
FUNCTION(reports_twice,
	 "test %rsi, %rsi\nje 1f\nmov $33, %edi\n1:\n" L(reports_both) "call other\nret");
LABEL(reports_both);

/* The constant before the call, or the call, if something is between them or leads there. */
TEST(where_a_phase_is_reported)
{
	struct code_window window;

	assert_true(OF_CALL(reports, reports_near, &window));
	assert_window(&window, 1, reports_near - reports, WINDOW_BEHIND_ENTRY);
	assert_true(OF_CALL(reports, reports_far, &window));
	assert_window(&window, reports_far - reports, (long)SIZE(reports), WINDOW_BEHIND_ENTRY);
	assert_true(OF_CALL(reports_twice, reports_both, &window));
	assert_window(&window, reports_both - reports_twice, reports_both - reports_twice + 5,
		      WINDOW_BEHIND_ENTRY);
}

/* Return what code_windows_find_pause() returns for the function NAME. */
static int find_pause(struct code *code, const char *name, size_t n, uint32_t keep_off,
		      struct code_pause_windows *out)
{
	const uint32_t off[2] = { keep_off, keep_off };
	struct code_function function = code_decode(code, name, n);

	code_function_free(&function);
	return code_windows_find_pause(code->ctx, code_file_flow(code->file), 0, off, out);
}

#define PAUSE(name, keep_off, out) find_pause(*state, name, SIZE(name), keep_off, out)

FUNCTION(pauses,
	 "push %rbx\n" L(pauses_begin) "mov 16(%rdi), %rbx\nmov 24(%rdi), %rax\n" L(
		 pauses_next) "mov $7, %ecx\ncall other\n" L(pauses_finish) "mov 8(%rbx), %rax\n"
									    "pop %rbx\nret");
LABEL(pauses_begin);
LABEL(pauses_next);
LABEL(pauses_finish);

/* Behind the entry, off the uprobes, and behind the last call. */
TEST(where_a_pause_begins_and_ends)
{
	struct code_pause_windows pause;

	assert_int_equal(PAUSE(pauses, UINT32_MAX, &pause), 0);
	assert_window(&pause.begin, pauses_begin - pauses, pauses_next - pauses,
		      WINDOW_BEHIND_ENTRY);
	assert_true(pause.has_end);
	assert_int_equal(pause.end.off, pauses_finish - pauses);
	assert_int_equal(PAUSE(pauses, (uint32_t)(pauses_begin - pauses) + 4, &pause), 0);
	assert_window(&pause.begin, pauses_next - pauses, pauses_next - pauses + 5,
		      WINDOW_BEHIND_ENTRY);
}

FUNCTION(ends_twice, "push %rbx\nmov 16(%rdi), %rbx\nmov 24(%rdi), %rax\ntest %rax, %rax\nje 1f\n"
		     "call other\npop %rbx\nret\n1: pop %rbx\njmp other");

/* Functions are called after all that each call executes: what would be the end comes too early. */
TEST(a_pause_without_an_end)
{
	struct code_pause_windows pause;

	assert_int_equal(PAUSE(ends_twice, UINT32_MAX, &pause), 0);
	assert_false(pause.has_end);
}

#define USES(text) "mov 16(%rdi), %rdx\n" text "\nmov 24(%rdi), %rax\nmov 32(%rdi), %rcx\nret"
FUNCTION(uses_above, USES("mov %rdx, 8(%rsp)"));
FUNCTION(uses_below, USES("mov %rdx, -8(%rsp)"));
FUNCTION(uses_index, USES("mov %rdx, -8(%rsp,%rax)"));
FUNCTION(uses_copy, USES("mov %rsp, %rdx"));
FUNCTION(uses_address, USES("lea -16(%rsp), %rdx"));

TEST(no_pause_where_memory_below_rsp_may_be_in_use)
{
	struct code_pause_windows pause;

	assert_int_equal(PAUSE(uses_above, UINT32_MAX, &pause), 0);
	assert_int_equal(PAUSE(uses_below, UINT32_MAX, &pause), -ENODATA);
	assert_int_equal(PAUSE(uses_index, UINT32_MAX, &pause), -ENODATA);
	assert_int_equal(PAUSE(uses_copy, UINT32_MAX, &pause), -ENODATA);
	assert_int_equal(PAUSE(uses_address, UINT32_MAX, &pause), -ENODATA);
}

/* ---- exits ---------------------------------------------------------------------------------- */

/* The jump leads to the pop: a window that began before it would miss calls. */
FUNCTION(two_ends,
	 "push %rbx\nmov %rdi, %rbx\nmov %rsi, %rax\ntest %rax, %rax\nje 1f\nadd %rbx, %rax\n"
	 "1: pop %rbx\nret");

TEST(an_exit_without_room)
{
	struct code_windows it = WINDOWS(two_ends);

	assert_null(it.no_count);
	assert_string_equal(it.no_time, "a jump does not fit where it ends");
	code_windows_free(&it);
}

#define ENDS_WITH(reg)                                                                             \
	"mov %rdi, %rax\nmov %rax, %rdx\nmov %rdi, %" reg "\nlea (%rdi,%" reg "), %rax\nret"

FUNCTION(ends_with_r10, ENDS_WITH("r10"));
FUNCTION(ends_with_r11, ENDS_WITH("r11"));

#define TAIL_CALLS(reg)                                                                            \
	"mov %rdi, %rax\nmov %rax, %rdx\nmov %rdx, %rcx\nmov (%rbx), %" reg "\njmp *%" reg

FUNCTION(tail_calls_r10, TAIL_CALLS("r10"));
FUNCTION(tail_calls_r11, TAIL_CALLS("r11"));

static void check_reads_r11(struct code_windows fits, struct code_windows reads, int n_before)
{
	assert_null(fits.no_time);
	assert_int_equal(fits.exits[0].n_before, n_before);
	assert_null(reads.no_count);
	assert_non_null(reads.no_time);
	assert_string_equal(reads.no_time, "a jump does not fit where it ends");
	code_windows_free(&fits);
	code_windows_free(&reads);
}

/* Code that counts and times changes r11 before the window of an exit, and before the exit. */
TEST(an_exit_that_reads_r11)
{
	check_reads_r11(WINDOWS(ends_with_r10), WINDOWS(ends_with_r11), 4);
	check_reads_r11(WINDOWS(tail_calls_r10), WINDOWS(tail_calls_r11), 3);
}

/* ---- copies --------------------------------------------------------------------------------- */

static bool copies(const char *bytes, size_t n, uint64_t from, uint64_t to,
		   struct window_copy *copy)
{
	struct insn_decoder decoder;
	bool made;

	assert_true(insn_decoder_init(&decoder));
	made = window_copy_make(&decoder, (const uint8_t *)bytes, n, from, to, true, copy);
	insn_decoder_free(&decoder);
	return made;
}

static const uint64_t here = UINT64_C(0x400000), there = UINT64_C(0x500000);

TEST(what_cannot_be_copied)
{
	struct window_copy copy;

	/* mov 8(%rip),%rax: 2 GiB and more away */
	assert_true(copies("\x48\x8b\x05\x08\0\0\0", 7, here, here + INT32_MAX - 64, &copy));
	assert_false(copies("\x48\x8b\x05\x08\0\0\0", 7, here, here + (UINT64_C(3) << 30), &copy));
	/* jrcxz: it has no near form; loop */
	assert_false(copies("\xe3\x10\x48\x89\xc8", 5, here, there, &copy));
	assert_false(copies("\x48\x89\xc8\xe2\x10", 5, here, there, &copy));
	/* call *8(%rsp): the push would move rsp */
	assert_false(copies("\xff\x54\x24\x08\x90", 4, here, there, &copy));
	/* mov 8(%eip),%rax */
	assert_false(copies("\x67\x48\x8b\x05\x08\0\0\0", 8, here, there, &copy));
	/* ud2; bytes that are no instruction; a call, a return and a jump before the end */
	assert_false(copies("\x0f\x0b\x90\x90\x90", 5, here, there, &copy));
	assert_false(copies("\x90\x90\x90\x90\x06", 5, here, there, &copy));
	assert_false(copies("\xff\xd0\x90\x90\x90", 5, here, there, &copy));
	assert_false(copies("\x90\xc3\x48\x89\xc8", 5, here, there, &copy));
	assert_false(copies("\xeb\x01\x90\x90\xc3", 5, here, there, &copy));
	/* six instructions are no window */
	assert_false(copies("\x90\x90\x90\x90\x90\x90", 6, here, there, &copy));
}

TEST(padding_is_not_copied)
{
	struct window_copy copy;

	/* nop; ret; nopl 0(%rax) */
	assert_true(copies("\x90\xc3\x0f\x1f\x40\0", 6, here, there, &copy));
	assert_int_equal(copy.n_bytes, 2);
	assert_memory_equal(copy.bytes, "\x90\xc3", 2);
}

TEST(offsets_of_the_instructions)
{
	struct window_copy copy;

	/* test %rax,%rax; je .+2; nop: the je becomes 6 bytes */
	assert_true(copies("\x48\x85\xc0\x74\x02\x90", 6, here, there, &copy));
	assert_int_equal(copy.n_insns, 3);
	assert_int_equal(copy.insns[1].from, 3);
	assert_int_equal(copy.insns[1].to, 3);
	assert_int_equal(copy.insns[2].from, 5);
	assert_int_equal(copy.insns[2].to, 9);
	assert_int_equal(copy.n_bytes, 10 + WINDOW_JUMP_BYTES);
}

/* ---- running code ---------------------------------------------------------------------------- */

/* Each function takes two numbers and returns one. */
typedef uint64_t live_fn(uint64_t a, uint64_t b);

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): the code below reads it
uint64_t window_number = 1000;
extern const char window_back_of[];

asm(".text\nwindow_back_of:\n\tmov (%rsp), %rax\n\tret\n"
    ".data\nwindow_target:\n\t.quad other\n.text\n");

FUNCTION(
	live_rip,
	"push %rbx\nmov window_number(%rip), %rax\nadd %rdi, %rax\nadd %rsi, %rax\npop %rbx\nadd $0, %rax\nret");
FUNCTION(
	live_store,
	"push %rbx\nmovq $0x55, window_number(%rip)\npop %rbx\nmov window_number(%rip), %rax\nret");
FUNCTION(
	live_branch,
	"mov %rdi, %rax\nlea 0(%rax), %rcx\ncmp %rsi, %rcx\njl 1f\nadd $7, %rax\nadd $0, %rcx\nret\n"
	"1: sub $0x1234, %rax\nadd $0, %rcx\nret");
FUNCTION(live_call, "sub $8, %rsp\ncall window_back_of\nadd $8, %rsp\nret");
FUNCTION(
	live_indirect,
	"lea window_back_of(%rip), %rcx\nsub $8, %rsp\nnop\nnop\nnop\ncall *%rcx\nadd $8, %rsp\nret");
FUNCTION(live_pushed, "nop\nsub $8, %rsp\npush %r12\ncall *%rdx\npop %r12\nadd $8, %rsp\nret");
FUNCTION(live_tail, "mov %rdi, %rax\nadd %rsi, %rax\nadd $3, %rax\njmp other");
FUNCTION(live_pointer, "mov %rdi, %rax\nmov %rsi, %rcx\nadd %rcx, %rax\njmp *window_target(%rip)");

/* Call FUNCTION with window_back_of in rdx, for those that call it there. */
static uint64_t run(const char *function, uint64_t a, uint64_t b)
{
	uint64_t result, back = (uint64_t)(uintptr_t)window_back_of;

	asm volatile("call *%[function]"
		     : "=a"(result), "+D"(a), "+S"(b), "+d"(back)
		     : [function] "r"(function)
		     : "rcx", "r8", "r9", "r10", "r11", "memory", "cc");
	return result;
}

struct trampolines {
	uint8_t *page; /* counters, then code */
	size_t used;
	uint64_t *counters;
	size_t n;
};

enum { PAGE = 4096, PAGES = 4, COUNTERS_MAX = 64 };

static struct trampolines map_near(const char *code)
{
	uintptr_t at = ((uintptr_t)code & ~(uintptr_t)(PAGE - 1)) - (64 << 20);
	struct trampolines it = { .used = COUNTERS_MAX * sizeof(uint64_t) };
	void *map = MAP_FAILED;

	for (int i = 0; i < 1000 && map == MAP_FAILED; i++, at -= 1 << 20)
		map = mmap((void *)at, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	it.page = map;
	it.counters = map;
	return it;
}

static void put(struct trampolines *it, const void *bytes, size_t n)
{
	assert_true(it->used + n <= PAGES * PAGE);
	memcpy(it->page + it->used, bytes, n);
	it->used += n;
}

static int32_t distance_to(const uint8_t *from, const uint8_t *to)
{
	return (int32_t)(to - from);
}

/* Replace WINDOW of FUNCTION by a jump, or a call, to code that counts and executes the copy. */
static void install(struct trampolines *it, const char *function, const struct code_window *window)
{
	uint8_t *site = (uint8_t *)(uintptr_t)function + window->off, *entry = it->page + it->used;
	uint8_t count[] = { 0xf0, 0x48, 0xff, 0x05, 0, 0, 0, 0 };
	uint8_t jump[WINDOW_JUMP_BYTES] = { window_is_call(*site) ? 0xe8 : 0xe9 };
	int32_t distance = distance_to(entry + sizeof(count), (uint8_t *)&it->counters[it->n]);
	struct window_copy copy;

	assert_true(it->n < COUNTERS_MAX);
	it->n++;
	memcpy(count + 4, &distance, sizeof(distance));
	put(it, count, sizeof(count));
	assert_true(copies((const char *)site, window->n_bytes, (uint64_t)(uintptr_t)site,
			   (uint64_t)(uintptr_t)(it->page + it->used), &copy));
	put(it, copy.bytes, copy.n_bytes);
	distance = distance_to(site + sizeof(jump), entry);
	memcpy(jump + 1, &distance, sizeof(distance));
	/* What is left of the window is never executed. */
	memset(site, 0xcc, window->n_bytes);
	memcpy(site, jump, sizeof(jump));
}

static void make_writable(const char *function, size_t n)
{
	const uintptr_t first = (uintptr_t)function & ~(uintptr_t)(PAGE - 1);

	assert_int_equal(mprotect((void *)first, (uintptr_t)function + n - first,
				  PROT_READ | PROT_WRITE | PROT_EXEC),
			 0);
}

/* Run FUNCTION without and with jumps in all its windows: the results and the counts must agree. */
static void check_live(struct code *code, const char *function, size_t n)
{
	static const uint64_t pairs[][2] = { { 1, 2 }, { 5, 3 }, { 0, 0 }, { 1u << 31, 4 } };
	enum { N_PAIRS = sizeof(pairs) / sizeof(pairs[0]) };
	struct code_windows windows = find(code, function, n, WINDOW_OCAML_5, 0);
	struct trampolines trampolines = map_near(function);
	uint64_t before[N_PAIRS], n_exits = 0;

	assert_null(windows.no_count);
	assert_null(windows.no_time);
	for (size_t i = 0; i < N_PAIRS; i++)
		before[i] = run(function, pairs[i][0], pairs[i][1]);
	make_writable(function, n);
	install(&trampolines, function, &windows.count);
	for (size_t i = 0; i < windows.n_exits; i++)
		install(&trampolines, function, &windows.exits[i]);
	for (size_t i = 0; i < N_PAIRS; i++)
		assert_int_equal(run(function, pairs[i][0], pairs[i][1]), before[i]);
	assert_int_equal(trampolines.counters[0], N_PAIRS);
	for (size_t i = 1; i < trampolines.n; i++)
		n_exits += trampolines.counters[i];
	assert_int_equal(n_exits, N_PAIRS);
	munmap(trampolines.page, PAGES * PAGE);
	code_windows_free(&windows);
}

#define LIVE(name)                                                                                 \
	TEST(name##_still_works)                                                                   \
	{                                                                                          \
		check_live(*state, name, SIZE(name));                                              \
	}

LIVE(live_rip)
LIVE(live_store)
LIVE(live_branch)
/* Of these three the result is the return address that the called function found. */
LIVE(live_call)
LIVE(live_indirect)
LIVE(live_pushed)
LIVE(live_tail)
LIVE(live_pointer)
