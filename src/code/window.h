/* SPDX-License-Identifier: MIT */
/*
 * The windows of a function: whole instructions that a jump of five bytes can replace, so that
 * calls and lines are counted without a trap. A window that is a direct call is replaced by another
 * call (window_copy.h).
 *
 * A window has at least five bytes. Nothing enters it but at its first instruction: no jump, no
 * jump table, no exception handler and no return address leads behind the first byte. The status
 * flags are dead at its first instruction, so the code that counts may change them. All this
 * follows from the decoded function; a function that is not fully understood has no window.
 *
 * A uprobe executes the instruction of the file elsewhere, and the thread continues behind this
 * instruction. If somebody sets a uprobe on an instruction that a jump has replaced, the thread
 * continues inside the jump, or the removal of the uprobe writes the instruction's first byte over
 * that of the jump: the process dies. Uprobes are on the entries of functions, as a rule, and those
 * of this project on the function's place (x86_function.h). So the window of a function is behind
 * both. Other windows are known by their `start`; they are not safe.
 *
 * The phases of the collector are counted and timed in C code. Where C code calls a function, it
 * has no value in the status flags and below rsp: see code_window_of_call(). Elsewhere, the decoded
 * function must not use memory below rsp at all: see code_windows_find_pause(). Code that counts
 * there keeps r11, since the compiler may know that a called function does not change r11.
 *
 * Code that counts or times in a window may change r11 and the status flags only. No caller passes
 * a value in r11, no instruction between the entry and the window writes r11, and no instruction of
 * an exit's window reads r11. Code that times may use the
 * WINDOW_STACK_BYTES below rsp, if the stack does not end there with a page that is not mapped.
 */
#ifndef CODE_WINDOW_H
#define CODE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "code/code_flow.h"
#include "code/x86_function.h"

enum {
	WINDOW_JUMP_BYTES = 5, /* e9 and a distance of 32 bits */
	/*
	 * The first bytes of a window, which are on one page of 4096 bytes: so the jump is written
	 * at once.
	 */
	WINDOW_FIRST_BYTES = 6,
	WINDOW_STACK_BYTES = 104,
	/* the longest window: four instructions of one byte, and one of 15 */
	WINDOW_MAX_BYTES = WINDOW_JUMP_BYTES - 1 + 15,
};

enum window_start {
	WINDOW_BEHIND_ENTRY,
	WINDOW_LONG_ENTRY,  /* the entry: its first instruction has at least five bytes */
	WINDOW_SHORT_ENTRY, /* the entry: a uprobe there would be dangerous */
};

struct code_window {
	uint32_t off; /* the offset of the first instruction from the entry */
	uint8_t n_bytes;
	uint8_t start; /* enum window_start; of an exit: WINDOW_BEHIND_ENTRY, or the entry's */
	/*
	 * The size of the instructions that are executed before code times: of an exit's window,
	 * all but the exit. Otherwise 0.
	 */
	uint8_t n_before;
	int32_t depth; /* rsp at the entry minus rsp where code times; valid if depth_known */
	bool depth_known;
};

/*
 * Whose code it is. C code may use the 128 bytes below rsp (the red zone), except at its entry.
 * OCaml 4 turns a fault on the stack into the exception Stack_overflow, if OCaml code has caused
 * it: so a window there has no instruction that writes to the stack, since its copy is not OCaml
 * code. OCaml 5 checks the stack by instructions.
 */
enum window_language { WINDOW_OCAML_4, WINDOW_OCAML_5, WINDOW_C };

struct code_windows {
	struct code_window
		count; /* each call executes it exactly once; valid if no_count is NULL */
	/*
	 * the windows that end with the exits of the function other than raises, in their order, if
	 * no_time is NULL
	 */
	struct code_window *exits;
	size_t n_exits;
	/*
	 * Why calls cannot be counted; cannot begin or end pairs or be grouped, for which code uses
	 * the stack; or cannot be timed: the end of a message, or NULL.
	 */
	const char *no_count, *no_stack, *no_time;
};

/*
 * Find the windows of the function that code_function_decode() has just decoded to FUNCTION. FLOW
 * is the code_file_flow() of its file. KEPT is a set of general registers (bit R: register R):
 * where calls are counted, they have the values that they had at the entry. Returns 0 or -ENOMEM;
 * the caller frees *OUT.
 */
int code_windows_find(struct ocp_ctx *ctx, const struct code_flow *flow,
		      const struct code_function *function, enum window_language language,
		      uint32_t kept, struct code_windows *out);
void code_windows_free(struct code_windows *windows);

/*
 * Instruction I of FLOW, which is C code, calls another function or jumps to it. Set *OUT to a
 * window that is executed if and only if I is, right before it or as I: a move of a constant to
 * %edi before it, or I. Prefer the move, since uprobes of this project are on I. Return false if
 * there is no such window.
 */
bool code_window_of_call(const struct code_flow *flow, size_t i, struct code_window *out);

/*
 * The windows of the runs of one OCaml function. A run is a sequence of instructions that is
 * entered at its first one only and executed as a whole: it ends before the target of a jump, and
 * behind a call, a jump and the site of a probe. One window counts the executions of all its
 * instructions.
 */
struct code_runs {
	const struct code_flow *flow;
	enum window_language language;
	struct code_window entry; /* the window of the function, if has_entry */
	bool has_entry;
	/* a run of the function reads a value of r11 from before it; valid if knows_r11 */
	bool knows_r11, reads_r11;
};

/*
 * Initialise RUNS for the function that code_function_find_place() has just decoded to FUNCTION.
 * FLOW and LANGUAGE: as for code_windows_find(). RUNS is valid until the next function is decoded.
 */
void code_runs_init(struct code_runs *runs, const struct code_flow *flow,
		    const struct code_function *function, enum window_language language);
/*
 * Set *OUT to the window of the run that contains the instruction at OFF, an offset from the entry.
 * The windows of different runs do not overlap; that of the first run is the function's. Return
 * NULL, or why there is no window: the end of a message.
 */
const char *code_runs_window(struct code_runs *runs, uint32_t off, struct code_window *out);

/* Where a pause begins and ends. */
struct code_pause_windows {
	struct code_window begin, end;
	bool has_end; /* false if no window can be the end */
};

/*
 * FLOW is C code. Find windows for the begin and the end of its calls, as code_pause_find() finds
 * instructions (THROUGH_VA: see there). They are behind the entry, and do not contain the
 * instructions at the offsets KEEP_OFF[0..2), where uprobes of this project are. Returns -ENODATA
 * if there is no window for the begin, or -ENOMEM.
 */
int code_windows_find_pause(struct ocp_ctx *ctx, const struct code_flow *flow, uint64_t through_va,
			    const uint32_t keep_off[2], struct code_pause_windows *out);

#endif
