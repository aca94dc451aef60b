// SPDX-License-Identifier: MIT
/*
 * A function is measured at an instruction that each call executes once. If the calls of an OCaml
 * function are timed, the function is also measured at its exits, except raises. If the calls of a
 * C function are timed, the function is measured at its first instruction, and with a return probe.
 * Return probes are never put on OCaml functions, because a return probe replaces the return
 * address, and the garbage collector finds frames by their return addresses.
 */
#include "program/code_sites.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "code/code_flow.h"
#include "code/ifunc.h"
#include "code/runtime.h"
#include "code/window.h"
#include "code/x86_function.h"

/* An instruction for a uprobe, and what the hits of the uprobe mean. */
struct spot {
	uint64_t va;
	enum code_cost cost;
	int32_t depth; /* rsp at the entry of the function minus rsp at this instruction */
	uint8_t events;
	bool is_return;
	const char *args;
	uint8_t condition;
	uint32_t unless;
	uint64_t entry_va; /* see entry_va of struct site */
	bool is_flat;
};

/* ---- opening -------------------------------------------------------------------------------- */

/*
 * Return why the frames of OCaml functions cannot be told from each other in a program with these
 * FACTS, as the end of a message; NULL if they can.
 */
static const char *find_stack_fault(const uint16_t *facts)
{
	static const struct {
		enum runtime_fact fact;
		uint16_t at;
	} needed[] = {
		{ FACT_CURRENT_STACK, KERNEL_CURRENT_STACK },
		{ FACT_STACK_HANDLER, KERNEL_STACK_HANDLER },
		{ FACT_STACK_ID, KERNEL_STACK_ID },
		{ FACT_HANDLER_PARENT, KERNEL_HANDLER_PARENT },
	};
	const char *fault = NULL;

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (!facts[needed[i].fact])
			fault = "the code of its runtime does not show where the words of a stack "
				"are";
		else if (facts[needed[i].fact] != needed[i].at)
			return "this OCaml keeps current_stack or words of a stack at other places";
	}
	return fault;
}

/*
 * Find out whether the code runs in OCaml 5, where OCaml functions have separate stacks. If the
 * file is a library or plugin without a runtime, decide by its functions.
 */
static void find_stacks(struct code_sites *sites, const struct functions *functions)
{
	const uint16_t *facts;
	struct runtime runtime;

	if (runtime_recognise(sites->ctx, sites->elf, &runtime) != 0) {
		sites->has_ocaml_stacks = functions_have_ocaml_stacks(functions);
		return;
	}
	facts = runtime.facts.at;
	sites->has_ocaml_stacks = runtime.has_domains;
	if (runtime.has_domains)
		sites->no_frames = find_stack_fault(facts);
}

int code_sites_open(struct ocp_ctx *ctx, struct elf_file *elf, const struct functions *functions,
		    struct code_sites *sites)
{
	size_t n, n_known, n_entries = 0;
	const uint64_t *known = functions_entries(functions, &n_known);
	const struct function *all = functions_list(functions, &n);

	*sites = (struct code_sites){ .ctx = ctx,
				      .elf = elf,
				      .entries = calloc(n + n_known + 1, sizeof(uint64_t)) };
	if (!sites->entries)
		return ctx_no_memory(ctx);
	/*
	 * Merge two sorted lists, without duplicates. The list KNOWN also has functions without a
	 * name. The list ALL also has the parts of C functions that have a symbol (NAME.cold).
	 */
	for (size_t i = 0, k = 0; i < n || k < n_known;) {
		const bool is_named = i < n && (k == n_known || all[i].va <= known[k]);
		const uint64_t va = is_named ? all[i++].va : known[k++];

		if (!n_entries || sites->entries[n_entries - 1] != va)
			sites->entries[n_entries++] = va;
	}
	find_stacks(sites, functions);
	sites->has_c_library = functions_find_c(functions, "__libc_start_main") ||
			       functions_find_c(functions, "__tls_get_addr");
	sites->n_entries = n_entries;
	return code_file_open(ctx, elf, sites->entries, n_entries, &sites->file);
}

void code_sites_close(struct code_sites *sites)
{
	code_file_close(sites->file);
	ifuncs_free(sites->ifuncs);
	free(sites->entries);
	sites->ifuncs = NULL;
	sites->file = NULL;
	sites->entries = NULL;
}

/* ---- one site ------------------------------------------------------------------------------- */

/*
 * The registers in which OCaml passes the arguments (loc_parameters in asmcomp/amd64/proc.ml): the
 * processor's number, and the operands of that many arguments.
 */
static const struct {
	uint8_t number;
	const char *operands;
} arg_registers[] = {
	{ 0, "8@%rax" },
	{ 3, "8@%rax 8@%rbx" },
	{ 7, "8@%rax 8@%rbx 8@%rdi" },
	{ 6, "8@%rax 8@%rbx 8@%rdi 8@%rsi" },
	{ 2, "8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx" },
	{ 1, "8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx 8@%rcx" },
	{ 8, "8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8" },
	{ 9, "8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9" },
	{ 12, "8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9 8@%r12" },
	{ 13, "8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9 8@%r12 8@%r13" },
};

/* Return how many arguments of FUNCTION are in known registers at its first instruction. */
static size_t count_register_args(const struct function *function)
{
	const size_t most = sizeof(arg_registers) / sizeof(arg_registers[0]);
	const size_t n = (size_t)(function->arity < 0 ? -function->arity : function->arity);

	if (function->language != FUNCTION_OCAML || function->arity == ARITY_UNKNOWN)
		return 0;
	return n < most ? n : most;
}

/*
 * Return the operands of FUNCTION's arguments at its first instruction, in the format of a probe's
 * note. Return "" if the arity is unknown.
 */
static const char *arguments_of(const struct function *function)
{
	const size_t n = count_register_args(function);

	return n ? arg_registers[n - 1].operands : "";
}

/* Return the set of registers that have the arguments of FUNCTION at its first instruction. */
static uint32_t registers_of(const struct function *function)
{
	uint32_t set = 0;

	for (size_t i = 0; i < count_register_args(function); i++)
		set |= 1U << arg_registers[i].number;
	return set;
}

/* Set *WHY to the text "cannot be WHAT: REASON". The caller of the public function frees *WHY. */
static int set_refusal(struct code_sites *sites, const char *what, const char *reason, char **why)
{
	return asprintf(why, "cannot be %s: %s", what, reason) < 0 ? ctx_no_memory(sites->ctx) : 0;
}

static int add_code_site(struct code_sites *sites, uint32_t probe, bool is_on_ocaml_stack,
			 const struct spot *spot)
{
	struct site *new = array_add(sites->sites, sites->n);

	if (!new)
		return ctx_no_memory(sites->ctx);
	*new = (struct site){
		.va = spot->va,
		.provider = "",
		.args = spot->args ? spot->args : "",
		.arg_names = "",
		.probe = probe,
		.abi = SITE_ABI_CODE,
		.has_code = true,
		.events = spot->events,
		.is_return = spot->is_return,
		.condition = spot->condition,
		.unless = spot->unless,
		.is_on_ocaml_stack = is_on_ocaml_stack,
		.is_stepped = spot->cost == CODE_STEPPED,
		.frame_depth = spot->depth,
		.entry_va = spot->entry_va,
		.is_flat = spot->is_flat,
	};
	return 0;
}

/* ---- functions ------------------------------------------------------------------------------ */

/*
 * Set *SPOT to the instruction where calls are counted. Only the first instruction is possible if
 * arguments are needed or if the calls are timed with a return probe. Return NULL, or the reason
 * why there is no such instruction.
 */
static const char *find_beginning(const struct function *function,
				  const struct code_function *decoded,
				  const struct code_needs *needs, struct spot *spot)
{
	const bool has_return = needs->time && function->language == FUNCTION_C;
	/*
	 * If the place is also an exit, the kernel would run the BPF program for the exit before
	 * the one that counts. So count at the function's entry instead. Also do so if rsp is not
	 * known at the place.
	 */
	const bool from_entry = (needs->time || needs->stack) && decoded->time_from_entry;

	*spot = (struct spot){
		.va = function->va + decoded->place,
		.cost = decoded->place_cost,
		.depth = decoded->place_depth,
		.events = SITE_COUNTS | (needs->time ? SITE_BEGINS : 0),
		.entry_va = decoded->no_entry ? 0 : function->va,
	};
	if (decoded->no_count)
		return decoded->no_count;
	if (needs->args || has_return || from_entry) {
		if (decoded->no_entry)
			return decoded->no_entry;
		spot->va = function->va;
		spot->cost = decoded->entry_cost;
		spot->depth = 0;
	}
	spot->args = spot->va == function->va ? arguments_of(function) : "";
	return NULL;
}

static int add_exits(struct code_sites *sites, const struct function *function, uint32_t probe,
		     const struct code_function *decoded)
{
	int err = 0;

	for (size_t i = 0; !err && i < decoded->n_exits; i++) {
		const struct code_exit *exit = &decoded->exits[i];
		const struct spot spot = { .va = function->va + exit->off,
					   .cost = exit->cost,
					   .depth = exit->depth,
					   .events = SITE_ENDS };

		if (exit->kind != CODE_RAISE)
			err = add_code_site(sites, probe, sites->has_ocaml_stacks, &spot);
	}
	return err;
}

/*
 * Return the return probe of the C function with entry VA. The depth is -8, because the return
 * address has been popped when the return probe is hit.
 */
static struct spot return_of(uint64_t va, enum code_cost cost)
{
	return (struct spot){
		.va = va, .cost = cost, .depth = -8, .events = SITE_ENDS, .is_return = true
	};
}

static int add_decoded(struct code_sites *sites, const struct function *function, uint32_t probe,
		       const struct code_function *decoded, const struct code_needs *needs,
		       char **why)
{
	const bool is_c = function->language == FUNCTION_C;
	struct spot beginning, end;
	const char *fault = find_beginning(function, decoded, needs, &beginning);
	int err;

	if (fault)
		return set_refusal(sites, "counted", fault, why);
	if (needs->time && !is_c && decoded->no_time)
		return set_refusal(sites, "timed", decoded->no_time, why);
	if (needs->time && !is_c && sites->no_frames)
		return set_refusal(sites, "timed", sites->no_frames, why);
	err = add_code_site(sites, probe, !is_c && sites->has_ocaml_stacks, &beginning);
	if (err)
		return err;
	sites->sites[sites->n - 1].function_va = function->va;
	sites->sites[sites->n - 1].function_bytes = function->bytes;
	if (!needs->time)
		return 0;
	if (!is_c)
		return add_exits(sites, function, probe, decoded);
	end = return_of(function->va, decoded->entry_cost);
	return add_code_site(sites, probe, false, &end);
}

static int decode_function(struct code_sites *sites, uint64_t va, uint64_t n_bytes,
			   bool needs_exits, struct code_function *decoded, char **why)
{
	struct code_bytes bytes;
	int err = code_file_function(sites->file, va, n_bytes, &bytes);

	if (err == -ENOMEM)
		return ctx_no_memory(sites->ctx);
	if (err)
		return set_refusal(sites, "measured", "the file lacks its code", why);
	return needs_exits ? code_function_decode(sites->ctx, &bytes, sites->file, decoded)
			   : code_function_find_place(sites->ctx, &bytes, sites->file, decoded);
}

static int add_function(struct code_sites *sites, const struct function *function, uint32_t probe,
			const struct code_needs *needs, char **why)
{
	struct code_function decoded = { 0 };
	int err = decode_function(sites, function->va, function->bytes, needs->time, &decoded, why);

	if (!err && !*why)
		err = add_decoded(sites, function, probe, &decoded, needs, why);
	code_function_free(&decoded);
	return err;
}

/* Add the site SPOT, which is WINDOW; set *SITE to it, until the next one is added. */
static int add_window(struct code_sites *sites, uint32_t probe, bool is_on_ocaml_stack,
		      const struct spot *spot, const struct code_window *window, struct site **site)
{
	struct code_bytes bytes;
	uint8_t *copy;
	int err;

	/* The bytes were decoded just now, so they are in the file. */
	if (code_file_bytes(sites->file, true, spot->va, window->n_bytes, &bytes))
		return ctx_no_memory(sites->ctx);
	copy = malloc(window->n_bytes);
	if (!copy)
		return ctx_no_memory(sites->ctx);
	memcpy(copy, bytes.bytes, window->n_bytes);
	err = add_code_site(sites, probe, is_on_ocaml_stack, spot);
	if (err) {
		free(copy);
		return err;
	}
	*site = &sites->sites[sites->n - 1];
	(*site)->window = copy;
	(*site)->n_window = window->n_bytes;
	(*site)->n_before = window->n_before;
	return 0;
}

/* Add WINDOW of FUNCTION, where its arguments are at the places ARGS. */
static int add_window_site(struct code_sites *sites, const struct function *function,
			   uint32_t probe, const struct code_window *window, uint8_t events,
			   const char *args)
{
	const bool is_ocaml = function->language == FUNCTION_OCAML;
	const struct spot spot = { .va = function->va + window->off,
				   .cost = CODE_EMULATED,
				   .depth = window->depth,
				   .events = events,
				   .args = args };
	struct site *site;
	const int err =
		add_window(sites, probe, is_ocaml && sites->has_ocaml_stacks, &spot, window, &site);

	if (!err)
		site->keeps_r11 = site->is_c_entry = function->language == FUNCTION_C;
	return err;
}

/*
 * Return why the calls of FUNCTION, which is not of OCaml, are not counted inside, as the end of a
 * message. Return NULL for a function that can be counted.
 *
 * A thread counts in a restartable sequence that belongs to its FS base (templates_code.c). Signal
 * handlers may do so too, since the kernel restarts a sequence that a signal interrupts. But the C
 * library and the loader have code that runs while a thread has no FS base, no restartable
 * sequences yet, or those of its parent: the beginning of a program and of a thread, and the child
 * of vfork and clone. Debuggers know __restore_rt by its bytes, and the tool returns by it if it is
 * killed. Functions written in assembly, such as memmove, jump into the middle of others.
 */
static const char *why_not_inside(const struct code_sites *sites, const struct function *function)
{
	if (function->language == FUNCTION_GLUE)
		return "it is not compiled C code, and may keep values where others do not";
	if (function->is_chosen)
		return "it is an IFUNC, whose functions may jump into each other";
	/*
	 * In a static program, only the names of the runtime tell its functions from the library's.
	 */
	if (sites->has_c_library && strncmp(function->name, "caml_", strlen("caml_")) != 0)
		return "the C library and the loader also run where a thread cannot count; "
		       "--engine bpf counts it";
	return NULL;
}

/*
 * Set *WHY if other code of the file may jump into WINDOW of FUNCTION, a function of C: a part of
 * the function that the compiler has put elsewhere, for example.
 */
static int check_jumps_into(struct code_sites *sites, const struct function *function,
			    const struct code_window *window, char **why)
{
	const uint64_t va = function->va + window->off;
	bool is;

	if (code_file_find_jump(sites->file, function->va, function->bytes, va + 1,
				va + window->n_bytes, &is))
		return ctx_no_memory(sites->ctx);
	return is ? set_refusal(sites, "counted inside", "a jump of other code may lead into it",
				why)
		  : 0;
}

/* Append WINDOWS, which are those of FUNCTION. */
static int add_window_sites(struct code_sites *sites, const struct function *function,
			    uint32_t probe, const struct code_windows *windows,
			    const struct code_needs *needs)
{
	int err = add_window_site(sites, function, probe, &windows->count,
				  SITE_COUNTS | (needs->time ? SITE_BEGINS : 0),
				  needs->args ? arguments_of(function) : "");

	for (size_t i = 0; !err && needs->time && i < windows->n_exits; i++)
		err = add_window_site(sites, function, probe, &windows->exits[i], SITE_ENDS, "");
	return err;
}

/*
 * Return why the calls of the function with these windows cannot be measured as needed, and set
 * *WHAT to what cannot be done; NULL if they can.
 */
static const char *find_window_fault(const struct code_sites *sites,
				     const struct code_windows *windows,
				     const struct code_needs *needs, const char **what)
{
	*what = "counted inside";
	if (windows->no_count)
		return windows->no_count;
	*what = "timed inside";
	if (needs->time)
		return sites->no_frames ? sites->no_frames : windows->no_time;
	return needs->stack ? windows->no_stack : NULL;
}

/*
 * Find the windows of FUNCTION, which was decoded to DECODED. Set needs->args to false if there are
 * windows only for measuring without arguments, and NEEDS permits that.
 */
static int find_windows(struct code_sites *sites, const struct function *function,
			const struct code_function *decoded, enum window_language language,
			struct code_needs *needs, struct code_windows *windows)
{
	const struct code_flow *flow = code_file_flow(sites->file);
	const uint32_t kept = needs->args ? registers_of(function) : 0;
	int err = code_windows_find(sites->ctx, flow, decoded, language, kept, windows);

	if (err || !windows->no_count || !kept || !needs->may_lack_args)
		return err;
	code_windows_free(windows);
	err = code_windows_find(sites->ctx, flow, decoded, language, 0, windows);
	needs->args = err || windows->no_count;
	return err;
}

/*
 * Append the window of FUNCTION that counts its calls and, if they are timed, those of its exits.
 * *WHY: as for code_sites_add_function().
 */
static int add_windows(struct code_sites *sites, const struct function *function, uint32_t probe,
		       const struct code_needs *needs, char **why)
{
	const bool is_c = function->language != FUNCTION_OCAML;
	const enum window_language language = is_c			? WINDOW_C
					      : sites->has_ocaml_stacks ? WINDOW_OCAML_5
									: WINDOW_OCAML_4;
	const char *fault = is_c ? why_not_inside(sites, function) : NULL, *what;
	struct code_function decoded = { 0 };
	struct code_windows windows = { 0 };
	struct code_needs its = *needs;
	int err;

	if (fault)
		return set_refusal(sites, "counted inside", fault, why);
	err = decode_function(sites, function->va, function->bytes, needs->time, &decoded, why);
	if (!err && !*why)
		err = find_windows(sites, function, &decoded, language, &its, &windows);
	if (!err && !*why) {
		fault = find_window_fault(sites, &windows, needs, &what);
		err = fault ? set_refusal(sites, what, fault, why) : 0;
	}
	if (!err && !*why && is_c)
		err = check_jumps_into(sites, function, &windows.count, why);
	if (!err && !*why)
		err = add_window_sites(sites, function, probe, &windows, &its);
	sites->lacks_args = !err && !*why && needs->args && !its.args;
	code_windows_free(&windows);
	code_function_free(&decoded);
	return err;
}

/* Set LIST[0..*N) to the functions that FUNCTION, an IFUNC, may choose: see code/ifunc.h. */
static int choices_of(struct code_sites *sites, const struct function *function,
		      struct ifunc_choice list[IFUNC_CHOICES], size_t *n)
{
	int err = sites->ifuncs ? 0 : ifuncs_read(sites->ctx, sites->elf, &sites->ifuncs);

	*n = 0;
	return err ? err
		   : ifuncs_choices(sites->ctx, sites->ifuncs, sites->file, function, list, n);
}

/*
 * The text *WHY says why CHOICE cannot be measured. Append to the text the remark that an IFUNC may
 * choose CHOICE.
 */
static int name_choice(struct code_sites *sites, const struct function *choice, char **why)
{
	char *longer;
	const int n = asprintf(&longer, "%s, at 0x%" PRIx64 ", which this IFUNC may choose", *why,
			       choice->va);

	if (n < 0)
		return ctx_no_memory(sites->ctx);
	free(*why);
	*why = longer;
	return 0;
}

/*
 * Add sites for all functions that the IFUNC FUNCTION may choose; a process calls only one of them.
 * Some of these functions jump into the middle of another one. To count no call twice, count only
 * at the first instruction of each function.
 */
static int add_choices(struct code_sites *sites, const struct function *function, uint32_t probe,
		       const struct code_needs *needs, char **why)
{
	const struct code_needs its = { .time = needs->time, .args = true, .stack = needs->stack };
	struct ifunc_choice list[IFUNC_CHOICES];
	struct function choice = *function;
	size_t n;
	int err = choices_of(sites, function, list, &n);

	if (!err && !n)
		return set_refusal(
			sites, needs->time ? "timed" : "counted",
			"it is an IFUNC, and its code does not show which function it chooses",
			why);
	for (size_t i = 0; !err && !*why && i < n; i++) {
		choice.va = list[i].va;
		choice.bytes = list[i].bytes;
		err = add_function(sites, &choice, probe, &its, why);
	}
	return *why ? name_choice(sites, &choice, why) : err;
}

int code_sites_add_function(struct code_sites *sites, const struct function *function,
			    uint32_t probe, const struct code_needs *needs, char **why)
{
	const size_t n = sites->n;
	int err;

	*why = NULL;
	sites->lacks_args = false;
	if (needs->window)
		return add_windows(sites, function, probe, needs, why);
	if (!function->is_chosen || function->language != FUNCTION_C)
		return add_function(sites, function, probe, needs, why);
	err = add_choices(sites, function, probe, needs, why);
	if (*why)
		sites->n = n;
	return err;
}

/* limit for the number of IFUNCs that are examined; libc has about 60 */
enum { MAX_EXAMINED = 256 };

static bool have_one_in_common(const struct ifunc_choice *a, size_t n_a,
			       const struct ifunc_choice *b, size_t n_b)
{
	for (size_t i = 0; i < n_a; i++)
		for (size_t j = 0; j < n_b; j++)
			if (a[i].va == b[j].va)
				return true;
	return false;
}

int code_sites_sharing(struct code_sites *sites, const struct functions *all,
		       const struct function *function, const struct function **after)
{
	struct ifunc_choice own[IFUNC_CHOICES], its[IFUNC_CHOICES];
	size_t n, n_own, n_its, n_examined = 0;
	const struct function *list = functions_list(all, &n);
	int err = choices_of(sites, function, own, &n_own);

	for (size_t i = *after ? (size_t)(*after - list) + 1 : 0; !err && i < n; i++) {
		const struct function *other = &list[i];

		/* Names that begin with __ are internal to the library. */
		if (!other->is_chosen || other->is_hidden || other->va == function->va ||
		    strncmp(other->name, "__", 2) == 0 || (i && other->va == list[i - 1].va))
			continue;
		if (n_examined++ == MAX_EXAMINED)
			break;
		err = choices_of(sites, other, its, &n_its);
		if (!err && have_one_in_common(own, n_own, its, n_its)) {
			*after = other;
			return 0;
		}
	}
	*after = NULL;
	return err;
}

/*
 * Return true if the bytes at offset I of CODE could be a jump, and set *TO to where it would lead.
 */
static bool may_be_jump(const struct code_bytes *code, size_t i, uint64_t *to)
{
	enum { JMP = 0xe9, SHORT_JMP = 0xeb };
	int32_t distance;

	if (code->bytes[i] == SHORT_JMP && i + 2 <= code->n) {
		*to = code->va + i + 2 + (uint64_t)(int64_t)(int8_t)code->bytes[i + 1];
		return true;
	}
	if (code->bytes[i] != JMP || i + 1 + sizeof(distance) > code->n)
		return false;
	memcpy(&distance, code->bytes + i + 1, sizeof(distance));
	*to = code->va + i + 1 + sizeof(distance) + (uint64_t)(int64_t)distance;
	return true;
}

bool code_sites_next_jump(struct code_sites *sites, const struct function *function, size_t *at,
			  uint64_t *to)
{
	struct code_bytes code;

	if (code_file_function(sites->file, function->va, function->bytes, &code) != 0)
		return false;
	for (; *at < code.n; ++*at)
		if (may_be_jump(&code, *at, to) && *to - code.va >= code.n) {
			++*at;
			return true;
		}
	return false;
}

int code_sites_only_jump(struct code_sites *sites, const struct function *function, uint64_t *va)
{
	struct code_function decoded = { 0 };
	char *why = NULL;
	int err = decode_function(sites, function->va, function->bytes, true, &decoded, &why);

	*va = err ? 0 : decoded.only_jumps_to;
	code_function_free(&decoded);
	free(why);
	return err;
}

/* ---- phases of the collector ---------------------------------------------------------------- */

/*
 * Return the cost of a uprobe on the first instruction of the function at VA. The kernel emulates a
 * push; assume that the kernel single-steps any other first instruction.
 */
static enum code_cost cost_at(struct code_sites *sites, uint64_t va)
{
	enum { PUSH_RAX = 0x50, PUSH_RDI = 0x57, REX_B = 0x41 };
	struct code_bytes bytes;

	if (code_file_bytes(sites->file, true, va, 2, &bytes))
		return CODE_STEPPED;
	if (bytes.bytes[0] == REX_B)
		bytes.bytes++;
	return bytes.bytes[0] >= PUSH_RAX && bytes.bytes[0] <= PUSH_RDI ? CODE_EMULATED
									: CODE_STEPPED;
}

/*
 * Set *BYTES to the code from VA to the next function. Return false if this code, or where it ends,
 * is unknown.
 */
static bool bytes_from(struct code_sites *sites, uint64_t va, struct code_bytes *bytes)
{
	size_t next = 0;

	while (next < sites->n_entries && sites->entries[next] <= va)
		next++;
	return next < sites->n_entries &&
	       code_file_bytes(sites->file, true, va, sites->entries[next] - va, bytes) == 0;
}

/*
 * Return where to count the calls of the function at VA: at an instruction that each call executes
 * and that the kernel can emulate or, if there is none, at the first instruction.
 */
static struct spot place_of_calls(struct code_sites *sites, uint64_t va)
{
	struct code_function decoded = { 0 };
	struct spot spot = { .va = va, .cost = cost_at(sites, va), .entry_va = va };
	struct code_bytes bytes;

	if (spot.cost == CODE_EMULATED || !bytes_from(sites, va, &bytes))
		return spot;
	if (code_function_find_place(sites->ctx, &bytes, sites->file, &decoded) == 0 &&
	    !decoded.no_count && decoded.place_cost == CODE_EMULATED) {
		spot.va = va + decoded.place;
		spot.cost = CODE_EMULATED;
	}
	code_function_free(&decoded);
	return spot;
}

/*
 * The calls of the function at VA are pauses. Find two instructions of this function between which
 * to time its calls: see code_pause_find(). Return false if there are no such instructions, or if
 * the phase depends on an argument or on the return value, which can only be read at the entry or
 * at the return.
 */
static bool find_pause(struct code_sites *sites, const struct gc_phase_place *place, uint64_t va,
		       struct spot *begin, struct spot *end)
{
	const struct gc_phase *phase = place->phase;
	const uint64_t through = phase->counted_in_timed ? place->counted_va : 0;
	struct code_pause pause;
	struct code_bytes bytes;

	if (phase->argument || phase->only_if_true || !bytes_from(sites, va, &bytes) ||
	    code_pause_find(sites->ctx, &bytes, sites->file, through, &pause))
		return false;
	*begin = (struct spot){ .va = va + pause.begin,
				.cost = CODE_EMULATED,
				.depth = pause.begin_depth,
				.events = SITE_BEGINS,
				.is_flat = true };
	*end = (struct spot){ .va = va + pause.end,
			      .cost = CODE_EMULATED,
			      .depth = pause.end_depth,
			      .events = SITE_ENDS,
			      .is_flat = true };
	/*
	 * A hit of BEGIN is a pause: calls that find nothing to do execute neither BEGIN nor END.
	 */
	if (!phase->counted_symbol || phase->counted_in_timed)
		begin->events |= SITE_COUNTS;
	return true;
}

static int add_two(struct code_sites *sites, uint32_t probe, const struct spot *begin,
		   const struct spot *end)
{
	const int err = add_code_site(sites, probe, false, begin);

	return err ? err : add_code_site(sites, probe, false, end);
}

/* Add sites at the entry and the return of one function whose calls are pauses. */
static int add_pause(struct code_sites *sites, const struct gc_phase *phase, uint64_t va,
		     uint32_t probe, bool needs_time)
{
	const enum code_cost cost = cost_at(sites, va);
	const bool counts = !phase->counted_symbol;
	struct spot entry = { .va = va, .cost = cost }, end = return_of(va, cost);
	int err = 0;

	if (phase->argument) {
		entry.condition = (uint8_t)(SITE_ARGUMENT_1 + phase->argument - 1);
		entry.unless = phase->not_argument;
	}
	if (phase->only_if_true)
		end.condition = SITE_IF_TRUE;
	entry.events = (uint8_t)((needs_time ? SITE_BEGINS : 0) |
				 (counts && !phase->only_if_true ? SITE_COUNTS : 0));
	end.events = (uint8_t)((needs_time ? SITE_ENDS : 0) |
			       (counts && phase->only_if_true ? SITE_COUNTS : 0));
	if (needs_time && phase->counted_in_timed) {
		entry.events |= SITE_IF_CONFIRMED;
		end.events |= SITE_IF_CONFIRMED;
	}
	if (entry.events)
		err = add_code_site(sites, probe, false, &entry);
	return err || !end.events ? err : add_code_site(sites, probe, false, &end);
}

/*
 * Set *DEPTH to the depth of the stack before the instruction of CALL: rsp at the entry of the
 * function minus rsp. Return false if it is unknown.
 */
static bool depth_at(struct code_sites *sites, const struct gc_event_call *call, int32_t *depth)
{
	struct code_flow *flow = code_file_flow(sites->file);
	struct code_bytes bytes;
	uint32_t number;

	*depth = 0;
	if (code_file_bytes(sites->file, true, call->function_va, call->function_bytes, &bytes) ||
	    code_flow_read(flow, &bytes, sites->file) ||
	    !code_flow_find(flow, (int64_t)(call->va - call->function_va), &number) ||
	    flow->depths[number].kind != DEPTH_KNOWN)
		return false;
	*depth = flow->depths[number].value;
	return true;
}

/*
 * Return true if the function at FUNCTION_VA has calls that begin pauses of PLACE if and only if it
 * has calls that end them.
 */
static bool stays_in_function(const struct gc_phase_place *place, uint64_t function_va)
{
	bool has[2] = { false, false };

	for (size_t i = 0; i < place->n_calls; i++)
		if (place->calls[i].function_va == function_va)
			has[place->calls[i].is_end] = true;
	return has[0] == has[1];
}

/*
 * Set DEPTHS to the depths of the stack at the calls of PLACE. Return false if a pause would have
 * one frame at its begin and another at its end.
 */
static bool find_depths(struct code_sites *sites, const struct gc_phase_place *place,
			int32_t depths[MAX_GC_PHASE_CALLS])
{
	bool are_known = true, has_jump = false;

	for (size_t i = 0; i < place->n_calls; i++) {
		if (!stays_in_function(place, place->calls[i].function_va))
			return false;
		are_known &= depth_at(sites, &place->calls[i], &depths[i]);
		has_jump |= place->calls[i].is_jump;
	}
	/* The stack has the same depth at all calls of a C function. */
	if (!are_known)
		memset(depths, 0, place->n_calls * sizeof(*depths));
	return are_known || !has_jump;
}

/*
 * Add sites at the instructions that call caml_ev_begin or caml_ev_end. The kernel can emulate
 * calls and jumps. Pauses are matched by their frames if the phase is part of several pairs.
 */
static int add_calls(struct code_sites *sites, const struct gc_phase_place *place, uint32_t probe,
		     bool needs_time, char **why)
{
	int32_t depths[MAX_GC_PHASE_CALLS] = { 0 };
	int err = 0;

	if (needs_time && !find_depths(sites, place, depths))
		return set_refusal(sites, "timed", "it ends with another frame than it begins",
				   why);
	for (size_t i = 0; !err && i < place->n_calls; i++) {
		const struct gc_event_call *call = &place->calls[i];
		struct spot spot = { .va = call->va,
				     .cost = CODE_EMULATED,
				     .depth = depths[i],
				     .events = SITE_ENDS,
				     .is_flat = true };

		if (!call->is_end)
			spot.events = SITE_COUNTS | (needs_time ? SITE_BEGINS : 0);
		if (!call->is_end || needs_time)
			err = add_code_site(sites, probe, false, &spot);
	}
	return err;
}

/*
 * Set *WINDOW to the window of CALL, with its offset from the function that contains CALL. Return
 * false if CALL has no window.
 */
static bool find_call_window(struct code_sites *sites, const struct gc_event_call *call,
			     struct code_window *window)
{
	struct code_flow *flow = code_file_flow(sites->file);
	struct code_bytes bytes;
	uint32_t number;

	return code_file_bytes(sites->file, true, call->function_va, call->function_bytes,
			       &bytes) == 0 &&
	       code_flow_read(flow, &bytes, sites->file) == 0 &&
	       code_flow_find(flow, (int64_t)(call->va - call->function_va), &number) &&
	       code_window_of_call(flow, number, window);
}

/* As add_calls(), but each site is a window at the call. */
static int add_call_windows(struct code_sites *sites, const struct gc_phase_place *place,
			    uint32_t probe, bool needs_time, char **why)
{
	int err = 0;

	for (size_t i = 0; !err && i < place->n_calls; i++) {
		const struct gc_event_call *call = &place->calls[i];
		const uint8_t begins = SITE_COUNTS | (needs_time ? SITE_BEGINS : 0);
		struct code_window window;
		struct spot spot = { .events = call->is_end ? SITE_ENDS : begins,
				     .cost = CODE_EMULATED,
				     .is_flat = true };
		struct site *site;

		if (call->is_end && !needs_time)
			continue;
		if (!find_call_window(sites, call, &window))
			return set_refusal(sites, needs_time ? "timed inside" : "counted inside",
					   "a jump does not fit where its code reports it", why);
		spot.va = call->function_va + window.off;
		err = add_window(sites, probe, false, &spot, &window, &site);
		if (!err)
			site->keeps_r11 = true;
	}
	return err;
}

/*
 * Find windows for the begin and the end of the calls of the function at VA. If THROUGH_VA is not
 * 0, calls that do not call the function at THROUGH_VA do not execute these windows. Return
 * -ENODATA if there is no window for the begin.
 */
static int find_pause_windows(struct code_sites *sites, uint64_t va, uint64_t through_va,
			      struct code_pause_windows *out)
{
	struct code_flow *flow = code_file_flow(sites->file);
	uint32_t keep_off[2] = { UINT32_MAX, UINT32_MAX };
	struct code_pause pause;
	struct code_bytes bytes;

	if (!bytes_from(sites, va, &bytes) || bytes.n > CODE_PAUSE_BYTES)
		return -ENODATA;
	if (code_pause_find(sites->ctx, &bytes, sites->file, through_va, &pause) == 0) {
		keep_off[0] = pause.begin;
		keep_off[1] = pause.end;
	}
	if (!bytes_from(sites, va, &bytes) || code_flow_read(flow, &bytes, sites->file))
		return ctx_no_memory(sites->ctx);
	return code_windows_find_pause(sites->ctx, flow, through_va, keep_off, out);
}

/* Add WINDOW of the C function at VA, unless other code may jump into it. */
static int add_pause_window(struct code_sites *sites, uint32_t probe, uint64_t va,
			    const struct code_window *window, uint8_t events, char **why)
{
	const struct spot spot = { .va = va + window->off,
				   .cost = CODE_EMULATED,
				   .depth = window->depth,
				   .events = events,
				   .is_flat = true };
	struct code_bytes bytes;
	struct function function = { .va = va };
	struct site *site;
	int err;

	if (bytes_from(sites, va, &bytes))
		function.bytes = bytes.n;
	err = check_jumps_into(sites, &function, window, why);
	if (err || *why)
		return err;
	err = add_window(sites, probe, false, &spot, window, &site);
	if (!err)
		site->keeps_r11 = true;
	return err;
}

/* Add windows at the begin and the end of the pauses that are calls of PLACE's timed function. */
static int add_timed_windows(struct code_sites *sites, const struct gc_phase_place *place,
			     uint32_t probe, char **why)
{
	const struct gc_phase *phase = place->phase;
	const uint64_t va = place->timed_vas[0];
	const bool counts = !phase->counted_symbol || phase->counted_in_timed;
	struct code_pause_windows pause;
	int err = find_pause_windows(sites, va, phase->counted_in_timed ? place->counted_va : 0,
				     &pause);

	if (err == -ENODATA || (!err && !pause.has_end))
		return set_refusal(sites, "timed inside",
				   "a jump does not fit where each of its pauses begins and ends",
				   why);
	if (!err)
		err = add_pause_window(sites, probe, va, &pause.begin,
				       SITE_BEGINS | (counts ? SITE_COUNTS : 0), why);
	if (!err && !*why)
		err = add_pause_window(sites, probe, va, &pause.end, SITE_ENDS, why);
	return err;
}

/*
 * Add a window in the function whose calls are the events of the phase: at the entry if there is no
 * other.
 */
static int add_counted_window(struct code_sites *sites, const struct gc_phase_place *place,
			      uint32_t probe, char **why)
{
	const struct gc_phase *phase = place->phase;
	const bool has_own = place->counted_va;
	const uint64_t va = has_own ? place->counted_va : place->timed_vas[0];
	static const struct code_needs needs = { .window = true };
	struct code_pause_windows calls;
	struct code_bytes bytes;
	const int err = find_pause_windows(sites, va, 0, &calls);

	if (err == -ENODATA && bytes_from(sites, va, &bytes)) {
		const struct function function = {
			.va = va,
			.bytes = bytes.n,
			.name = has_own ? phase->counted_symbol : phase->timed_symbols[0],
			.language = FUNCTION_C,
		};

		return add_windows(sites, &function, probe, &needs, why);
	}
	if (err == -ENODATA)
		return set_refusal(sites, "counted inside", "its code is not known", why);
	return err ? err : add_pause_window(sites, probe, va, &calls.begin, SITE_COUNTS, why);
}

/* As code_sites_add_phase(), but each site is a window. */
static int add_phase_windows(struct code_sites *sites, const struct gc_phase_place *place,
			     uint32_t probe, bool needs_time, char **why)
{
	const struct gc_phase *phase = place->phase;
	int err = 0;

	if (place->n_calls)
		return add_call_windows(sites, place, probe, needs_time, why);
	if (phase->argument || phase->only_if_true)
		return set_refusal(
			sites, "counted inside",
			"only BPF reads the argument or result of its function, by which "
			"a call is a pause",
			why);
	if (needs_time)
		err = add_timed_windows(sites, place, probe, why);
	if (!err && !*why && (!needs_time || (phase->counted_symbol && !phase->counted_in_timed)))
		err = add_counted_window(sites, place, probe, why);
	return err;
}

/* Add a site at the function whose calls are the events of a phase. */
static int add_counted(struct code_sites *sites, const struct gc_phase_place *place, uint32_t probe,
		       bool needs_time)
{
	struct spot spot = place_of_calls(sites, place->counted_va);

	spot.events = (uint8_t)(SITE_COUNTS |
				(needs_time && place->phase->counted_in_timed ? SITE_CONFIRMS : 0));
	return add_code_site(sites, probe, false, &spot);
}

int code_sites_add_phase(struct code_sites *sites, const struct gc_phase_place *place,
			 uint32_t probe, const struct code_needs *needs, char **why)
{
	bool is_counted = !place->counted_va;
	struct spot begin, end;
	int err = 0;

	*why = NULL;
	if (needs->time && !gc_phase_is_timed(place))
		return set_refusal(sites, "timed", "it has no duration", why);
	if (needs->window)
		return add_phase_windows(sites, place, probe, needs->time, why);
	if (place->n_calls)
		return add_calls(sites, place, probe, needs->time, why);
	for (size_t i = 0; !err && i < 2; i++) {
		const uint64_t va = place->timed_vas[i];

		if (va && needs->time && !needs->bounds &&
		    find_pause(sites, place, va, &begin, &end)) {
			is_counted |= begin.events & SITE_COUNTS;
			err = add_two(sites, probe, &begin, &end);
		} else if (va) {
			err = add_pause(sites, place->phase, va, probe, needs->time);
		}
	}
	return err || is_counted ? err : add_counted(sites, place, probe, needs->time);
}

/* ---- notes ---------------------------------------------------------------------------------- */

int code_sites_add_note(struct code_sites *sites, uint64_t va, uint64_t semaphore_va,
			uint32_t probe, const struct code_needs *needs, char **why)
{
	const struct spot spot = { .va = va, .cost = CODE_EMULATED, .events = SITE_COUNTS };
	struct code_bytes bytes;
	int err;

	*why = NULL;
	if (needs->time)
		return set_refusal(sites, "timed", "it has no duration; a pair START,STOP has one",
				   why);
	if (code_file_bytes(sites->file, true, va, 1, &bytes) || bytes.bytes[0] != SITE_NOP)
		return set_refusal(sites, "counted", "the instruction at its note is not a nop",
				   why);
	err = add_code_site(sites, probe, false, &spot);
	if (!err)
		sites->sites[sites->n - 1].tracer_semaphore_va = semaphore_va;
	return err;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int add_line_window(struct code_sites *sites, const struct line_place *place, uint32_t probe)
{
	const struct spot spot = { .va = place->window_va,
				   .cost = CODE_EMULATED,
				   .events = SITE_COUNTS };
	const struct code_window window = { .n_bytes = place->n_window };
	struct site *site;
	const int err = add_window(sites, probe, false, &spot, &window, &site);

	if (!err)
		site->is_shared = true;
	return err;
}

int code_sites_add_line(struct code_sites *sites, const struct line_place *place, uint32_t probe,
			const struct code_needs *needs, char **why)
{
	const struct spot spot = { .va = place->va, .cost = place->cost, .events = SITE_COUNTS };

	*why = NULL;
	if (place->fault)
		return set_refusal(sites, "counted", place->fault, why);
	return needs->window ? add_line_window(sites, place, probe)
			     : add_code_site(sites, probe, false, &spot);
}
