// SPDX-License-Identifier: MIT
/*
 * What reading a file costs: bytes read and memory depend on its headers and notes, not on its
 * size, and not on what a hostile one claims.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "unit.h"

#define MIB (UINT64_C(1) << 20)

/* Bytes that this process has read so far. */
static uint64_t bytes_read(void)
{
	unsigned long long n = 0;
	FILE *f = fopen("/proc/self/io", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "rchar: %llu", &n), 1);
	fclose(f);
	return n;
}

/* Put the section headers at the end of a file of BYTES bytes, most of them a hole. */
static int enlarged(struct fixture *f, uint64_t bytes)
{
	Elf64_Ehdr *eh = fixture_ehdr(f);
	size_t table_bytes = eh->e_shnum * sizeof(Elf64_Shdr);
	void *table = fixture_shdr(f, 0);
	int fd;

	eh->e_shoff = bytes - table_bytes;
	fd = fixture_fd(f);
	assert_int_equal(pwrite(fd, table, table_bytes, (off_t)eh->e_shoff), table_bytes);
	return fd;
}

TEST(a_large_file_costs_what_a_small_one_costs)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog;
	struct fixture fixture;
	uint64_t cost[2], headers;

	for (int i = 0; i < 2; i++) {
		int fd;

		fixture_load(&fixture, "v1");
		headers = fixture_section(&fixture, ".note.stapsdt")->sh_size +
			  fixture_ehdr(&fixture)->e_shnum * sizeof(Elf64_Shdr);
		fd = enlarged(&fixture, i ? 4096 * MIB : fixture.n + 4096);
		cost[i] = bytes_read();
		assert_int_equal(program_open_fd(ctx, fd, "large", &prog), 0);
		cost[i] = bytes_read() - cost[i];
		assert_int_equal(ocp_program_probe_count(prog), 10);
		ocp_program_free(prog);
		fixture_free(&fixture);
	}
	assert_in_range(cost[1], headers, cost[0] + 100);
	assert_in_range(cost[0], headers, headers + 8192);
	ocp_ctx_free(ctx);
}

#ifndef __SANITIZE_ADDRESS__ /* which maps terabytes */

/* Read FD in a process that may map LIMIT bytes more. Returns what program_open_fd returned. */
static int open_within(int fd, uint64_t limit)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		unsigned long pages = 0;
		FILE *f = fopen("/proc/self/statm", "re");
		struct ocp_ctx *ctx = ocp_ctx_new();
		struct ocp_program *prog;
		struct rlimit rlimit;
		int err;

		if (!f || !ctx || fscanf(f, "%lu", &pages) != 1)
			_exit(255);
		fclose(f);
		rlimit.rlim_cur = rlimit.rlim_max = pages * 4096 + limit;
		setrlimit(RLIMIT_AS, &rlimit);
		err = program_open_fd(ctx, fd, "greedy", &prog);
		_exit(-err);
	}
	close(fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

TEST(many_notes_take_a_small_multiple_of_their_bytes)
{
	struct fixture fixture;
	size_t bytes;

	bytes = fixture_load_noted(&fixture, 100000);
	assert_int_equal(open_within(fixture_fd(&fixture), 6 * bytes), 0);
	/* The limit is a real one. */
	assert_int_equal(open_within(fixture_fd(&fixture), bytes / 2), -ENOMEM);
	fixture_free(&fixture);
}

/* Section headers without end, in a hole. */
TEST(claimed_section_headers_take_little)
{
	static const uint64_t claims[] = { 60000, UINT64_C(1) << 17, UINT64_C(1) << 20,
					   UINT64_C(1) << 24, UINT64_C(1) << 32 };
	struct fixture fixture;

	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		Elf64_Shdr first = { .sh_size = claims[i], .sh_link = 1 };
		uint64_t off = 64 * MIB;
		int fd, err;

		fixture_load(&fixture, "v1");
		fixture_ehdr(&fixture)->e_shoff = off;
		fixture_ehdr(&fixture)->e_shnum = 0;
		fixture_ehdr(&fixture)->e_shstrndx = SHN_XINDEX;
		fd = fixture_fd(&fixture);
		assert_int_equal(pwrite(fd, &first, sizeof(first), (off_t)off), sizeof(first));
		assert_int_equal(ftruncate(fd, (off_t)(off + (UINT64_C(1) << 40))), 0);
		err = open_within(fd, 2 * MIB);
		if (err != 0 && err != -EBADMSG)
			fail_msg("%lu section headers: error %d", claims[i], err);
		fixture_free(&fixture);
	}
}

TEST(claimed_program_headers_take_little)
{
	static const uint32_t claims[] = { 0xffff, 1 << 20, 1 << 24, UINT32_MAX };
	struct fixture fixture;

	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		int fd, err;

		fixture_load(&fixture, "v1");
		fixture_ehdr(&fixture)->e_phnum = PN_XNUM;
		fixture_ehdr(&fixture)->e_phoff = 64 * MIB;
		fixture_shdr(&fixture, 0)->sh_info = claims[i];
		fd = fixture_fd(&fixture);
		assert_int_equal(ftruncate(fd, (off_t)(UINT64_C(1) << 40)), 0);
		err = open_within(fd, 24 * MIB);
		if (err != -EBADMSG)
			fail_msg("%u program headers: error %d", claims[i], err);
		fixture_free(&fixture);
	}
}

TEST(claimed_notes_are_not_believed)
{
	static const uint64_t claims[] = { 512 * MIB, 4096 * MIB, UINT64_C(1) << 40 };
	struct fixture fixture;

	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		int fd;

		fixture_load(&fixture, "v1");
		fixture_section(&fixture, ".note.stapsdt")->sh_size = claims[i];
		fd = fixture_fd(&fixture);
		assert_int_equal(ftruncate(fd, (off_t)(UINT64_C(1) << 41)), 0);
		assert_int_equal(open_within(fd, 8 * MIB), -EBADMSG);
		fixture_free(&fixture);
	}
}

#endif
