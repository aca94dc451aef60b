// SPDX-License-Identifier: MIT
/*
 * Where lines begin: in an assembled file with the line table that ocamlopt would write. A label at
 * each place is the line and a letter: L12a.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "code/line_places.h"
#include "elf/symbols.h"
#include "unit.h"

/* A function of the unit M, and a row: the file and line, and the column. */
#define F(name, text)                                                                              \
	".p2align 4\n.globl camlM__" name "\n.type camlM__" name ", @function\ncamlM__" name       \
	":\n" text
#define R(line, column) ".loc 1 " #line " " #column "\n"
/* The row of a place. */
#define P(label, line, column)                                                                     \
	".globl L" label "\n.type L" label ", @object\nL" label ":\n" R(line, column)

static const char source[] = ".file 1 \"src/m.ml\"\n.file 2 \"lib/other.ml\"\n.text\n"
			     ".globl camlM__code_begin, camlM__code_end\ncamlM__code_begin:\n"
	/* Both lines of one address begin. Line 2 goes on behind line 3. */
	F("plain_1", P("1a", 1, 4) P("2a", 2, 2) "mov %rax, %rbx\n" R(2, 9) "inc %rbx\n" P(
			     "3a", 3, 2) "inc %rax\n" R(2, 5) "add %rbx, %rax\nret\n")
	/* Each branch of an if on its own; what is behind both goes on with line 11. */
	F("branches_2",
	  P("10a", 10, 4) "mov %rax, %rbx\n" P("11a", 11, 2) "cmp $1, %rbx\njne 1f\n" P(
		  "12a", 12,
		  4) "inc %rax\njmp 2f\n1:\n" P("14a", 14,
						4) "dec %rax\n2:\n" R(11, 20) "inc %rax\nret\n")
	/* Line 21 is in the loop, and line 20 goes on behind it, but begins again in each turn. */
	F("loop_3", P("20a", 20, 4) "mov $9, %rax\n1:\n" P("21a", 21, 4) "inc %rbx\n" P(
			    "20b", 20, 9) "dec %rax\njnz 1b\nret\n")
	/* A table of cases, which has the row of its first one. */
	F("table_4",
	  P("30a", 30, 4) "mov %rax, %rcx\n" R(
		  31,
		  4) "sar $1, %rax\nlea 5f(%rip), %rdx\nmovslq (%rdx,%rax,4), %rax\nadd %rax, %rdx\njmp *%rdx\n"
		     ".section .rodata\n.p2align 2\n5: .long 1f - 5b, 2f - 5b\n.text\n1:\n" P(
			     "31a", 31, 9) "inc %rcx\nret\n2:\n" P("32a", 32, 9) "dec %rcx\nret\n")
	/* Code of another function: twice in a row, and behind other code. */
	F("inlines_5",
	  P("40a", 40, 4) "mov %rax, %rcx\n" P("39a", 39, 2) "inc %rax\n" R(39, 8) "neg %rax\n" P(
		  "39b", 39,
		  2) "inc %rax\n" R(39,
				    8) "neg %rax\n" P("41a", 41,
						      2) "inc %rax\n" P("39c", 39,
									2) "inc %rax\n" R(42,
											  2) "inc %rax\n" R(39,
													    8) "neg %rax\nret\n")
	/* An exception comes to the handler from anywhere. */
	F("handler_6",
	  P("50a", 50, 4) "mov %rax, %rcx\n" P("51a", 51, 4) "lea 1f(%rip), %r11\npush %r11\ncall camlM__plain_1\n" R(
		  50, 20) "add $8, %rsp\n" R(52, 2) "ret\n1:\n" P("50b", 50, 20) "inc %rax\nret\n")
	/*
	 * Rows in the middle of an instruction, mov %rbx, %rax, and at one that the kernel refuses.
	 */
	F("wrong_7",
	  P("60a", 60, 4) "inc %rax\n.byte 0x48\n" P("61a", 61, 4) "mov %ebx, %eax\n" P(
		  "62a", 62,
		  4) "lock incl (%rax)\nret\n") "camlM__code_end:\n.globl c_function\n.type c_function, @function\nc_function:\n" R(70,
																    4) "ret\n.loc 2 71 4\nret\n";

struct self {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct functions *functions;
	int fd;
	char folder[64];
};

static int assemble(void **state)
{
	struct self *self = calloc(1, sizeof(*self));
	char command[256], path[80];
	FILE *out;

	assert_non_null(self);
	snprintf(self->folder, sizeof(self->folder), "/tmp/test_line_places.XXXXXX");
	assert_non_null(mkdtemp(self->folder));
	snprintf(path, sizeof(path), "%s/m.s", self->folder);
	out = fopen(path, "w");
	assert_non_null(out);
	assert_true(fputs(source, out) >= 0);
	assert_int_equal(fclose(out), 0);
	snprintf(command, sizeof(command), "cd %s && as m.s -o m.o && ld -shared m.o -o m.so",
		 self->folder);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/m.so", self->folder);
	self->ctx = ocp_ctx_new();
	self->fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_file_open(self->ctx, self->fd, path, &self->elf), 0);
	assert_int_equal(functions_read(self->ctx, self->elf, &self->functions), 0);
	assert_int_equal(functions_ocaml_count(self->functions), 7);
	*state = self;
	return 0;
}

static int remove_all(void **state)
{
	struct self *self = *state;
	char command[128];

	functions_free(self->functions);
	elf_file_close(self->elf);
	ocp_ctx_free(self->ctx);
	close(self->fd);
	snprintf(command, sizeof(command), "rm -r %s", self->folder);
	free(self);
	return system(command);
}

ALL_TESTS(assemble, remove_all);

static struct line_places read_places(const struct self *self, const char *file,
				      enum line_match match)
{
	struct line_places places;

	assert_int_equal(line_places_read(self->ctx, self->elf, self->fd, self->functions, file,
					  match, NULL, true, &places),
			 0);
	return places;
}

/* LINE begins at the labels, "a", "b" and so on, and nowhere else. */
static void assert_line(const struct self *self, const struct line_places *places, int line,
			const char *letters)
{
	const struct line_place *list;
	size_t n;

	list = line_places_find(places, line, &n);
	assert_int_equal(n, strlen(letters));
	for (size_t i = 0; i < n; i++) {
		char label[16];
		uint64_t va = 0;

		snprintf(label, sizeof(label), "L%d%c", line, letters[i]);
		assert_int_equal(dynsym_find(self->elf, label, &va), 1);
		assert_int_equal(list[i].va, va);
	}
}

TEST(lines_begin_where_the_row_before_is_of_another)
{
	struct line_places places = read_places(*state, "m.ml", LINE_FILE);

	assert_line(*state, &places, 1, "a");
	assert_line(*state, &places, 2, "a");
	assert_line(*state, &places, 3, "a");
	assert_line(*state, &places, 4, "");
	line_places_free(&places);
}

TEST(branches_have_places_of_their_own)
{
	struct line_places places = read_places(*state, "m.ml", LINE_FILE);

	assert_line(*state, &places, 10, "a");
	assert_line(*state, &places, 11, "a");
	assert_line(*state, &places, 12, "a");
	assert_line(*state, &places, 14, "a");
	line_places_free(&places);
}

TEST(loops_begin_their_lines_in_each_turn)
{
	struct line_places places = read_places(*state, "m.ml", LINE_FILE);

	assert_line(*state, &places, 20, "ab");
	assert_line(*state, &places, 21, "a");
	line_places_free(&places);
}

TEST(the_table_of_a_match_is_no_place)
{
	struct line_places places = read_places(*state, "m.ml", LINE_FILE);

	assert_line(*state, &places, 30, "a");
	assert_line(*state, &places, 31, "a");
	assert_line(*state, &places, 32, "a");
	line_places_free(&places);
}

TEST(inlined_code_begins_with_its_column)
{
	struct line_places places = read_places(*state, "m.ml", LINE_FILE);

	assert_line(*state, &places, 39, "abc");
	assert_line(*state, &places, 40, "a");
	line_places_free(&places);
}

TEST(a_handler_begins_its_line)
{
	struct line_places places = read_places(*state, "m.ml", LINE_FILE);

	assert_line(*state, &places, 50, "ab");
	assert_line(*state, &places, 51, "a");
	line_places_free(&places);
}

TEST(wrong_places_have_faults)
{
	struct line_places places = read_places(*state, "m.ml", LINE_FILE);
	const struct line_place *list;
	size_t n;

	assert_null(line_places_find(&places, 60, &n)->fault);
	list = line_places_find(&places, 61, &n);
	assert_string_equal(list->fault, "its place is inside of an instruction");
	list = line_places_find(&places, 62, &n);
	assert_string_equal(list->fault, "the kernel cannot probe its first instruction");
	/* C has lines, too, but they are not looked at. */
	assert_null(line_places_find(&places, 70, &n));
	line_places_free(&places);
}

TEST(the_nearest_lines)
{
	struct line_places places = read_places(*state, "m.ml", LINE_FILE);
	int before, after;

	line_places_around(&places, 5, &before, &after);
	assert_int_equal(before, 3);
	assert_int_equal(after, 10);
	line_places_around(&places, 2, &before, &after);
	assert_int_equal(before, 1);
	assert_int_equal(after, 3);
	line_places_around(&places, 1, &before, &after);
	assert_int_equal(before, 0);
	line_places_around(&places, 99, &before, &after);
	assert_int_equal(before, 62);
	assert_int_equal(after, 0);
	line_places_free(&places);
}

/* FILE names the source if its components are the last ones of the path; as a path, if any are. */
TEST(names_are_compared_by_components)
{
	static const struct {
		const char *file;
		bool is_file, is_path;
	} cases[] = {
		{ "m.ml", true, true },	      { "src/m.ml", true, true },
		{ "./src/m.ml", true, true }, { "rc/m.ml", false, true },
		{ "lib/m.ml", false, true },  { "/elsewhere/src/m.ml", false, true },
		{ "am.ml", false, false },    { ".ml", false, false },
		{ "", false, false },	      { "M.ml", false, false },
		{ "other.ml", false, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct line_places places = read_places(*state, cases[i].file, LINE_FILE);

		assert_int_equal(places.n != 0, cases[i].is_file);
		assert_true(places.has_rows);
		line_places_free(&places);
		places = read_places(*state, cases[i].file, LINE_PATH);
		assert_int_equal(places.n != 0, cases[i].is_path);
		line_places_free(&places);
	}
}

TEST(a_similar_name_is_offered)
{
	const struct self *self = *state;
	struct line_places places = read_places(self, "mm.ml", LINE_FILE);

	assert_null(places.file);
	assert_string_equal(places.nearest, "m.ml");
	line_places_free(&places);
	places = read_places(self, "m.ml", LINE_FILE);
	assert_string_equal(places.file + strlen(self->folder), "/src/m.ml");
	assert_null(places.other);
	line_places_free(&places);
}
