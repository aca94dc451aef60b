// SPDX-License-Identifier: MIT
/*
 * Functions as probes: of this program itself. A file that is overwritten in place is another one
 * as soon as the code at a site differs.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/code_probes.h"
#include "unit.h"

int function_that_is_found(int n);

/* Not inlined, and with more than 16 bytes of code. */
__attribute__((noinline)) int function_that_is_found(int n)
{
	char text[16];

	return snprintf(text, sizeof(text), "%d", n) + text[0];
}

static char path[] = "/tmp/test_code_probes.XXXXXX";

static struct ocp_program *open_copy(struct ocp_ctx *ctx)
{
	struct ocp_program *prog;

	assert_int_equal(program_open_fd(ctx, open(path, O_RDONLY | O_CLOEXEC), path, &prog), 0);
	return prog;
}

static int copy_this_program(void **state)
{
	char command[128];

	(void)state;
	close(mkstemp(path));
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s", (int)getpid(), path);
	return function_that_is_found(1) > 0 ? system(command) : -1;
}

static int remove_copy(void **state)
{
	(void)state;
	return unlink(path);
}

ALL_TESTS(copy_this_program, remove_copy);

static struct code_probes *find(struct ocp_ctx *ctx, const struct ocp_program *prog, bool is_timed)
{
	struct code_wish wish = { .text = "c:function_that_is_found", .is_timed = is_timed };
	struct code_probes *code;

	assert_int_equal(code_probes_find(ctx, prog, &wish, 1, &code), 0);
	assert_true(wish.was_found);
	assert_non_null(code);
	return code;
}

/* Write one byte into the file, at the address VA of PROG. */
static void flip(const struct ocp_program *prog, uint64_t va)
{
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	uint64_t off = 0;
	uint8_t byte;

	assert_true(fd >= 0 && elf_file_va_to_off(prog->elf, va, &off));
	assert_int_equal(pread(fd, &byte, 1, (off_t)off), 1);
	byte ^= 0xff;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)off), 1);
	close(fd);
}

TEST(a_timed_function_has_two_sites)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog = open_copy(ctx);
	struct code_probes *code = find(ctx, prog, false);
	struct probe_set set = code_probes_set(code);

	assert_int_equal(set.n_probes, 1);
	assert_int_equal(set.n_sites, 1);
	assert_int_equal(set.sites[0].events, SITE_COUNTS);
	code_probes_free(code);
	code = find(ctx, prog, true);
	set = code_probes_set(code);
	assert_int_equal(set.n_sites, 2);
	assert_int_equal(set.sites[0].events, SITE_COUNTS | SITE_BEGINS);
	assert_false(set.sites[0].is_return);
	assert_int_equal(set.sites[1].events, SITE_ENDS);
	assert_true(set.sites[1].is_return && !site_counts(&set.sites[1]));
	assert_true(set.sites[0].va == set.sites[1].va);
	code_probes_free(code);
	ocp_program_free(prog);
	ocp_ctx_free(ctx);
}

TEST(other_code_is_noticed)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog = open_copy(ctx), *now = open_copy(ctx);
	struct code_probes *code = find(ctx, prog, true);
	const uint64_t va = code_probes_set(code).sites[0].va;

	assert_true(code_probes_are_in(code, prog, now));
	assert_true(code_probes_are_in(NULL, prog, now));
	flip(prog, va + 15);
	assert_false(code_probes_are_in(code, prog, now));
	flip(prog, va + 15);
	assert_true(code_probes_are_in(code, prog, now));
	flip(prog, va);
	assert_false(code_probes_are_in(code, prog, now));
	flip(prog, va);
	/* Before the site, or after what is compared: it may be anything. */
	flip(prog, va + 16);
	flip(prog, va - 1);
	assert_true(code_probes_are_in(code, prog, now));
	code_probes_free(code);
	ocp_program_free(prog);
	ocp_program_free(now);
	ocp_ctx_free(ctx);
}
