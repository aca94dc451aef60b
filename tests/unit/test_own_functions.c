// SPDX-License-Identifier: MIT
/* On whose account samples are: the program's own functions. */
#include <stdlib.h>
#include <string.h>

#include "made_profile.h"
#include "profile/own_functions.h"
#include "unwind/own_frames.h"
#include "unit.h"

static bool is_own(const char *function, enum frame_kind kind)
{
	return is_own_function(&(struct named_frame){ .function = function, .kind = kind });
}

TEST(libraries_are_not_own)
{
	static const char *const libraries[] = {
		"Unix.select",	       "Unix",		"CamlinternalFormat.make_printf",
		"Thread.create.(fun)", "Mutex.lock",	"Lwt.bind",
		"Lwt_main.run",	       "Lwt_unix.f",	"Async_kernel.Scheduler.run",
		"Eio__core.Fiber.f",   "Eio_linux.run", "Miou.run",
	};

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
		assert_false(is_own(libraries[i], FRAME_OCAML));
}

TEST(functions_of_the_program_are_own)
{
	static const char *const own[] = { "Service.find", "Service",	"Unixen.select", "Lwtish.f",
					   "Event.send",   "List.mine", "Threads.run" };

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		assert_true(is_own(own[i], FRAME_OCAML));
}

/* A module of the program may have the name of one of the standard library. */
TEST(standard_library_is_not_own)
{
	const struct named_frame frame = { .function = "List.map",
					   .kind = FRAME_OCAML,
					   .is_stdlib = true };

	assert_false(is_own_function(&frame));
}

TEST(other_code_is_not_own)
{
	assert_false(is_own("caml_alloc_shr", FRAME_C));
	assert_false(is_own("do_syscall_64", FRAME_KERNEL));
	assert_false(is_own("[libc.so.6+0x1]", FRAME_UNKNOWN));
	assert_false(is_own("[truncated: ...]", FRAME_TRUNCATED));
	assert_false(is_own("worker (7)", FRAME_THREAD));
}

/* Frames 0 to 4: main, A.f, B.g, Unix.read, read. */
static const char stacks[] =
	"{\"profile\":{\"title\":\"\",\"kind\":\"cpu\",\"hz\":99,\"start_ns\":0,\"duration_ns\":7,"
	"\"truncated\":0,\"lost\":0},"
	"\"frames\":[[\"main\",\"c\",null,0,false],[\"A.f\",\"ocaml\",\"a.ml\",1,false],"
	"[\"B.g\",\"ocaml\",\"b.ml\",1,false],[\"Unix.read\",\"ocaml\",\"unix.ml\",1,false],"
	"[\"read\",\"c\",null,0,false],[\"A.f\",\"ocaml\",\"a.ml\",9,false]],"
	"\"stacks\":[[1,10,0,1,2,3,4],[2,20,0,1,3],[4,40,0,5],[8,5,0,4],[16,7,0,3,4]]}";

TEST(innermost_own_function_counts)
{
	struct made_profile made = made_profile_of(stacks);
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct own_functions own;

	assert_int_equal(own_functions_find(ctx, &made.profile, &own), 0);
	assert_int_equal(own.n, 2);
	/* A.f is in two stacks, at two lines. */
	assert_string_equal(own.list[0].frame->function, "A.f");
	assert_int_equal(own.list[0].samples, 6);
	assert_int_equal(own.list[0].value, 60);
	assert_string_equal(own.list[1].frame->function, "B.g");
	assert_int_equal(own.list[1].samples, 1);
	assert_int_equal(own.list[1].value, 10);
	assert_int_equal(own.other_samples, 24);
	assert_int_equal(own.other_value, 12);
	own_functions_free(&own);
	made_profile_free(&made);
	ocp_ctx_free(ctx);
}

/* Frames 0 to 6: main, A.f, B.g, Lwt.bind, Unix.read, caml_alloc_shr, A.f at another line. */
static const char allocating[] =
	"{\"profile\":{\"title\":\"\",\"kind\":\"cpu\",\"hz\":99,\"start_ns\":0,\"duration_ns\":7,"
	"\"truncated\":0,\"lost\":0},"
	"\"frames\":[[\"main\",\"c\",null,0,false],[\"A.f\",\"ocaml\",\"a.ml\",1,false],"
	"[\"B.g\",\"ocaml\",\"b.ml\",1,false],[\"Lwt.bind\",\"ocaml\",\"lwt.ml\",1,false],"
	"[\"Unix.read\",\"ocaml\",\"unix.ml\",1,false],[\"caml_alloc_shr\",\"c\",null,0,false],"
	"[\"A.f\",\"ocaml\",\"a.ml\",9,false]],"
	"\"stacks\":[[1,10,0,1,2,3,5],[2,20,0,1,4],[4,40,0,6],[8,5,0,4],[1,2,0,6,3,4],[1,3,0,5]]}";

struct words_row {
	const char *function, *via;
	uint64_t self, total;
};

/* The words of `allocating` by SITES are these N rows. */
static void check_words(enum profile_sites sites, const struct words_row *expected, size_t n)
{
	struct made_profile made = made_profile_of(allocating);
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct profile_function *rows;
	size_t n_rows;

	made.profile.kind = PROFILE_WORDS;
	assert_int_equal(profile_functions(ctx, &made.profile, NULL, sites, &rows, &n_rows), 0);
	assert_int_equal(n_rows, n);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(rows[i].function, expected[i].function);
		assert_string_equal(rows[i].via ? rows[i].via->function : "", expected[i].via);
		assert_int_equal(rows[i].self, expected[i].self);
		assert_int_equal(rows[i].total, expected[i].total);
	}
	free(rows);
	made_profile_free(&made);
	ocp_ctx_free(ctx);
}

/* A row for each function that allocates on behalf of an own one. Rows of callers are by depth. */
TEST(words_belong_to_own_functions)
{
	static const struct words_row rows[] = {
		{ "A.f", "", 40, 72 },		 { "A.f", "Unix.read", 22, 72 },
		{ "B.g", "Lwt.bind", 10, 10 },	 { "Unix.read", "", 5, 27 },
		{ "caml_alloc_shr", "", 3, 13 }, { "main", "", 0, 80 },
		{ "Lwt.bind", "", 0, 12 },
	};

	check_words(SITES_OWN, rows, sizeof(rows) / sizeof(rows[0]));
}

TEST(words_belong_to_leaves)
{
	static const struct words_row rows[] = {
		{ "A.f", "", 40, 72 },	    { "Unix.read", "", 27, 27 },
		{ "Lwt.bind", "", 10, 12 }, { "caml_alloc_shr", "", 3, 13 },
		{ "main", "", 0, 80 },	    { "B.g", "", 0, 10 },
	};

	check_words(SITES_LEAF, rows, sizeof(rows) / sizeof(rows[0]));
}

/* Frames 0 to 3: z, y, x, Q.f: each calls the next one. */
static const char chain[] =
	"{\"profile\":{\"title\":\"\",\"kind\":\"cpu\",\"hz\":99,\"start_ns\":0,\"duration_ns\":7,"
	"\"truncated\":0,\"lost\":0},"
	"\"frames\":[[\"z\",\"c\",null,0,false],[\"y\",\"c\",null,0,false],[\"x\",\"c\",null,0,false],"
	"[\"Q.f\",\"ocaml\",\"q.ml\",1,false]],"
	"\"stacks\":[[1,10,0,1,2,3]]}";

TEST(equal_totals_are_sorted_by_depth)
{
	static const char *const names[] = { "Q.f", "z", "y", "x" };
	struct made_profile made = made_profile_of(chain);
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct profile_function *rows;
	size_t n;

	assert_int_equal(profile_functions(ctx, &made.profile, NULL, SITES_LEAF, &rows, &n), 0);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(rows[i].function, names[i]);
	free(rows);
	made_profile_free(&made);
	ocp_ctx_free(ctx);
}

TEST(entries_say_nothing_about_the_program)
{
	static const struct named_frame entries[] = {
		{ .function = "_start", .kind = FRAME_C },
		{ .function = "caml_start_program", .kind = FRAME_C },
		{ .function = "entry_SYSCALL_64_after_hwframe", .kind = FRAME_KERNEL },
		{ .function = "asm_exc_page_fault", .kind = FRAME_KERNEL },
		{ .function = "[libc.so.6+0x271d0]", .kind = FRAME_UNKNOWN },
	};
	static const struct named_frame others[] = {
		{ .function = "main", .kind = FRAME_OCAML },
		{ .function = "entry_point", .kind = FRAME_C },
		{ .function = "mainly", .kind = FRAME_C },
		{ .function = "__x64_sys_read", .kind = FRAME_KERNEL },
		{ .function = "main", .kind = FRAME_KERNEL },
		{ .function = "[truncated: ...]", .kind = FRAME_TRUNCATED },
	};

	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
		assert_true(is_entry_function(&entries[i], 2));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(is_entry_function(&others[i], 0));
	assert_false(is_entry_function(&entries[4], 3));
}
