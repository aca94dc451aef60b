// SPDX-License-Identifier: MIT
/* On whose account samples are: the program's own functions. */
#include <string.h>

#include "made_profile.h"
#include "profile/own_functions.h"
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
