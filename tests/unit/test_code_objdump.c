// SPDX-License-Identifier: MIT
/*
 * The decoder against objdump: a part of ocamlopt.opt, code of OCaml and of C. Both see the same
 * instructions, and the places and exits are what objdump calls pushes, calls, jumps and returns.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "code/code_flow.h"
#include "code/window.h"
#include "code/x86_function.h"
#include "unit.h"

enum { LINES_MAX = 400000, NAME_BYTES = 16 };

/* A line of objdump: an instruction, or the first one of a function. */
struct line {
	uint64_t va;
	char mnemonic[NAME_BYTES];
	bool is_start, is_ocaml, is_direct; /* direct: its operand is an address */
	/* where a direct jump or call, or a lea relative to rip, leads; else 0 */
	uint64_t target;
};

struct listing {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct code_file *file;
	int fd;
	struct line *lines;
	uint64_t *starts;
	size_t n_lines, n_starts;
};

/* The end of a unit's code has a name, too. */
static bool is_ocaml_name(const char *name)
{
	return strncmp(name, "caml", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z' &&
	       !strstr(name, "code_end");
}

/* `ADDRESS <NAME>:` and `  ADDRESS:\tMNEMONIC OPERANDS`. */
static void read_line(struct listing *listing, char *text, struct line *next)
{
	char *end, *operand;
	uint64_t va = strtoull(text, &end, 16);
	struct line *line = &listing->lines[listing->n_lines];

	if (end == text)
		return;
	if (end[0] == ' ' && end[1] == '<') {
		next->is_start = true;
		next->is_ocaml = is_ocaml_name(end + 2);
	} else if (end[0] == ':' && end[1] == '\t' && end[2] != '.') {
		assert_true(listing->n_lines < LINES_MAX);
		*line = *next;
		line->va = va;
		sscanf(end + 2, "%15s", line->mnemonic);
		operand = end + 2 + strcspn(end + 2, " ");
		operand += strspn(operand, " ");
		line->is_direct = strspn(operand, "0123456789abcdef") > 0;
		if (line->is_direct)
			line->target = strtoull(operand, NULL, 16);
		else if (strcmp(line->mnemonic, "lea") == 0 && strstr(operand, "(%rip)"))
			line->target = strtoull(strstr(operand, "# ") + 2, NULL, 16);
		listing->n_lines++;
		next->is_start = false;
	}
}

/* All functions of the file: nm sorts them by address. */
static void read_starts(struct listing *listing, const char *path)
{
	char command[8192], kind;
	uint64_t va;
	FILE *in;

	snprintf(command, sizeof(command), "nm -D -n --defined-only '%s'", path);
	in = popen(command, "r"); // NOLINT(bugprone-command-processor)
	assert_non_null(in);
	while (fscanf(in, "%" SCNx64 " %c %*s", &va, &kind) == 2) {
		if (kind == 'T' && listing->n_starts < LINES_MAX)
			listing->starts[listing->n_starts++] = va;
	}
	pclose(in);
}

static int read_objdump(void **state)
{
	static struct listing listing;
	char path[4096], command[8192];
	char *text = NULL;
	struct line next = { 0 };
	size_t room = 0;
	FILE *in = popen("readlink -f \"$(command -v ocamlopt.opt)\"", "r");

	assert_non_null(in);
	assert_int_equal(fscanf(in, "%4095s", path), 1);
	pclose(in);
	listing.ctx = ocp_ctx_new();
	listing.fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(listing.fd >= 0);
	assert_int_equal(elf_file_open(listing.ctx, listing.fd, path, &listing.elf), 0);
	listing.lines = calloc(LINES_MAX, sizeof(*listing.lines));
	listing.starts = calloc(LINES_MAX, sizeof(*listing.starts));
	assert_true(listing.lines && listing.starts);
	snprintf(command, sizeof(command),
		 "objdump -d --no-show-raw-insn -j .text '%s' | head -n %d", path, LINES_MAX);
	in = popen(command, "r"); // NOLINT(bugprone-command-processor)
	assert_non_null(in);
	while (getline(&text, &room, in) > 0)
		read_line(&listing, text, &next);
	pclose(in);
	free(text);
	read_starts(&listing, path);
	assert_true(listing.n_lines > LINES_MAX / 2);
	assert_int_equal(code_file_open(listing.ctx, listing.elf, listing.starts, listing.n_starts,
					&listing.file),
			 0);
	*state = &listing;
	return 0;
}

static int free_listing(void **state)
{
	struct listing *listing = *state;

	code_file_close(listing->file);
	elf_file_close(listing->elf);
	close(listing->fd);
	free(listing->lines);
	free(listing->starts);
	ocp_ctx_free(listing->ctx);
	return 0;
}

ALL_TESTS(read_objdump, free_listing);

/* The number of lines of the function that starts at LINES[FIRST]; 0: it is the last one. */
static size_t lines_of(const struct listing *listing, size_t first)
{
	for (size_t i = first + 1; i < listing->n_lines; i++) {
		if (listing->lines[i].is_start)
			return i - first;
	}
	return 0;
}

static void decode(const struct listing *listing, size_t first, size_t n,
		   struct code_function *function)
{
	const struct line *lines = &listing->lines[first];
	struct code_bytes bytes;

	assert_int_equal(code_file_bytes(listing->file, true, lines[0].va,
					 lines[n].va - lines[0].va, &bytes),
			 0);
	assert_int_equal(code_function_decode(listing->ctx, &bytes, listing->file, function), 0);
}

TEST(the_instructions_are_the_same)
{
	const struct listing *listing = *state;
	const struct code_flow *flow = code_file_flow(listing->file);
	struct code_function function;
	size_t n_functions = 0;

	for (size_t i = 0, n; (n = lines_of(listing, i)) > 0; i += n) {
		decode(listing, i, n, &function);
		assert_int_equal(flow->n_insns, n);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(flow->insns[k].off,
					 listing->lines[i + k].va - listing->lines[i].va);
		n_functions++;
		code_function_free(&function);
	}
	assert_true(n_functions > 5000);
}

static const struct line *line_at(const struct line *lines, size_t n, uint32_t off)
{
	for (size_t i = 0; i < n; i++) {
		if (lines[i].va == lines[0].va + off)
			return &lines[i];
	}
	fail_msg("no instruction at %#lx", (unsigned long)lines[0].va + off);
	return NULL;
}

static bool is_emulated(const struct line *line)
{
	return strcmp(line->mnemonic, "push") == 0 ||
	       (line->is_direct &&
		(strcmp(line->mnemonic, "call") == 0 || line->mnemonic[0] == 'j'));
}

static void check_exits(const struct line *lines, size_t n, const struct code_function *function)
{
	size_t n_returns = 0, n_found = 0;

	for (size_t i = 0; i < n; i++)
		n_returns += strcmp(lines[i].mnemonic, "ret") == 0;
	for (size_t i = 0; i < function->n_exits; i++) {
		const struct line *line = line_at(lines, n, function->exits[i].off);
		bool is_return = strcmp(line->mnemonic, "ret") == 0;

		assert_true(is_return || strcmp(line->mnemonic, "jmp") == 0);
		assert_int_equal(is_return, function->exits[i].kind == CODE_RET);
		n_found += is_return;
	}
	/* Code that nothing leads to has no exits: one function of OCaml 4.13 and 5.3 has some. */
	if (n_returns != n_found)
		assert_int_equal(n_returns, n_found + 1);
}

/* Of OCaml's functions, 85 % and more are cheap to count, and nearly all can be timed. */
TEST(places_and_exits_are_what_objdump_says)
{
	const struct listing *listing = *state;
	struct code_function function;
	size_t n_functions = 0, n_emulated = 0, n_timed = 0, n_counted = 0;

	for (size_t i = 0, n; (n = lines_of(listing, i)) > 0; i += n) {
		const struct line *lines = &listing->lines[i];

		if (!lines[0].is_ocaml)
			continue;
		decode(listing, i, n, &function);
		n_functions++;
		n_counted += !function.no_count;
		n_timed += !function.no_time;
		if (!function.no_count && function.place_cost == CODE_EMULATED) {
			n_emulated++;
			assert_true(is_emulated(line_at(lines, n, function.place)));
		}
		if (!function.no_time)
			check_exits(lines, n, &function);
		code_function_free(&function);
	}
	assert_true(n_emulated * 100 >= n_functions * 85);
	assert_true(n_counted * 100 >= n_functions * 99);
	assert_true(n_timed * 100 >= n_functions * 97);
}

/* ---- windows -------------------------------------------------------------------------------- */

static bool reads_flags(const char *mnemonic)
{
	return (mnemonic[0] == 'j' && strcmp(mnemonic, "jmp") != 0) ||
	       strncmp(mnemonic, "set", 3) == 0 || strncmp(mnemonic, "cmov", 4) == 0 ||
	       strncmp(mnemonic, "adc", 3) == 0 || strncmp(mnemonic, "sbb", 3) == 0;
}

static bool writes_flags(const char *mnemonic)
{
	static const char *const writers[] = { "cmp", "test", "add", "sub", "and",
					       "or",  "xor",  "neg", "imul" };

	for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
		if (strncmp(mnemonic, writers[i], strlen(writers[i])) == 0)
			return true;
	return false;
}

/* The instruction after which flags have no meaning, or which writes them. */
static bool ends_flags(const char *mnemonic)
{
	return writes_flags(mnemonic) || strcmp(mnemonic, "ret") == 0 ||
	       strcmp(mnemonic, "call") == 0 || strcmp(mnemonic, "jmp") == 0;
}

static bool jumps_away(const struct line *line)
{
	return strcmp(line->mnemonic, "ret") == 0 || strcmp(line->mnemonic, "jmp") == 0;
}

/* The end of the code in [LINE, END): behind a jump or return, nops may follow. */
static const struct line *before_padding(const struct line *line, const struct line *end)
{
	const struct line *it = line;

	while (it < end && !jumps_away(it))
		it++;
	for (const struct line *nop = it + 1; nop < end; nop++)
		assert_true(strncmp(nop->mnemonic, "nop", 3) == 0 ||
			    strcmp(nop->mnemonic, "xchg") == 0 ||
			    strncmp(nop->mnemonic, "cs", 2) == 0 ||
			    strcmp(nop->mnemonic, "data16") == 0);
	return it < end ? it + 1 : end;
}

/* Is WINDOW, of the function LINES[0..N), one by objdump's words? */
static void check_window(const struct line *lines, size_t n, const struct code_window *window)
{
	const uint64_t first_va = lines[0].va + window->off, end_va = first_va + window->n_bytes;
	const struct line *line = line_at(lines, n, window->off), *end = line;

	assert_true(window->n_bytes >= WINDOW_JUMP_BYTES);
	while (end < lines + n && end->va < end_va)
		end++;
	assert_true(end->va == end_va);
	end = before_padding(line, end);
	for (const struct line *it = line; it < end - 1; it++) {
		assert_string_not_equal(it->mnemonic, "call");
		assert_string_not_equal(it->mnemonic, "jmp");
		assert_string_not_equal(it->mnemonic, "ret");
	}
	for (size_t i = 0; i < n; i++)
		assert_false(lines[i].target > first_va && lines[i].target < end_va);
	for (const struct line *it = line; window->off && it < lines + n; it++) {
		assert_false(reads_flags(it->mnemonic));
		if (ends_flags(it->mnemonic))
			break;
	}
}

/* An exit's window ends with the exit. */
static void check_windows(const struct line *lines, size_t n, const struct code_function *function,
			  const struct code_windows *windows)
{
	check_window(lines, n, &windows->count);
	if (windows->no_time)
		return;
	assert_int_equal(windows->n_exits, function->n_exits);
	for (size_t i = 0; i < windows->n_exits; i++) {
		const struct code_window *window = &windows->exits[i];

		check_window(lines, n, window);
		assert_true(function->exits[i].off >= window->off &&
			    function->exits[i].off < window->off + window->n_bytes);
		assert_true(line_at(lines, n, function->exits[i].off)[1].va <=
			    lines[0].va + window->off + window->n_bytes);
	}
}

/*
 * Of OCaml's functions, 90 % have a window that no uprobe on their entry endangers; 86 % can be
 * timed.
 */
TEST(windows_are_what_objdump_says)
{
	const struct listing *listing = *state;
	const struct code_flow *flow = code_file_flow(listing->file);
	size_t n_functions = 0, n_counted = 0, n_timed = 0;
	struct code_function function;
	struct code_windows windows;

	for (size_t i = 0, n; (n = lines_of(listing, i)) > 0; i += n) {
		const struct line *lines = &listing->lines[i];
		enum window_language language = lines[0].is_ocaml ? WINDOW_OCAML_4 : WINDOW_C;

		decode(listing, i, n, &function);
		assert_int_equal(
			code_windows_find(listing->ctx, flow, &function, language, 0, &windows), 0);
		if (!windows.no_count)
			check_windows(lines, n, &function, &windows);
		if (language != WINDOW_C) {
			n_functions++;
			n_timed += !windows.no_time;
			n_counted += !windows.no_count;
			assert_true(windows.no_count || windows.count.start == WINDOW_BEHIND_ENTRY);
		} else if (!windows.no_count) {
			assert_int_equal(windows.count.off, 0);
		}
		code_windows_free(&windows);
		code_function_free(&function);
	}
	print_message("%zu functions: %zu can be counted, %zu timed\n", n_functions, n_counted,
		      n_timed);
	assert_true(n_counted * 100 >= n_functions * 90);
	assert_true(n_timed * 100 >= n_functions * 86);
}
