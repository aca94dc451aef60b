// SPDX-License-Identifier: MIT
/*
 * What is found out about the files of strangers, in a process of its own, and what is made of it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_rules.h"
#include "program/program.h"
#include "fixture.h"
#include "unit.h"
#include "watch/examiner.h"
#include "watch/verdicts.h"

static struct ocp_ctx *ctx;
static char log_text[4096];
static size_t n_logged;

static void take_log(void *data, enum ocp_log_level level, const char *line)
{
	(void)data;
	if (level <= OCP_LOG_WARN) {
		snprintf(log_text, sizeof(log_text), "%s", line);
		n_logged++;
	}
}

static int set_up(void **state)
{
	(void)state;
	ctx = ocp_ctx_new();
	n_logged = 0;
	*log_text = '\0';
	if (ctx)
		ocp_ctx_set_log(ctx, take_log, NULL, OCP_LOG_DEBUG);
	return ctx ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	ocp_ctx_free(ctx);
	return 0;
}

EACH_TEST(set_up, tear_down);

/* The fixture v1 with N notes of OCaml's, to be closed. */
static int with_notes(size_t n)
{
	struct fixture fixture;
	int fd;

	fixture_load_noted(&fixture, n);
	fd = fixture_fd(&fixture);
	fixture_free(&fixture);
	return fd;
}

static int fixture_file(const char *name)
{
	struct fixture fixture;
	int fd;

	fixture_load(&fixture, name);
	fd = fixture_fd(&fixture);
	fixture_free(&fixture);
	return fd;
}

/* ---- the examiner --------------------------------------------------------------------------- */

/* Their examination takes several times the CPU time of a limit here, also on a quick machine. */
enum { MANY = 600000 };

static const struct exam_limits ample = { .cpu_ms = 60000, .wall_ms = 60000, .memory_mib = 1024 };

/* Until it ends by itself or is ended. */
static struct examiner *examined(struct exam_file *files, size_t n, size_t max_sites,
				 const struct exam_limits *limits)
{
	const struct file_rules rules = { .max_sites = max_sites };
	struct examiner *examiner;

	for (size_t i = 0; i < n; i++)
		files[i].origin = (struct file_origin){ .name = "a: file", .pid = 1 };
	assert_int_equal(examiner_start(ctx, files, n, &rules, limits, &examiner), 0);
	while (!examiner_has_ended(examiner, 60000))
		;
	return examiner;
}

static void assert_result(const struct examiner *examiner, size_t file, enum exam_state state,
			  const char *why)
{
	const struct exam_result result = examiner_result(examiner, file);

	assert_int_equal(result.state, state);
	assert_string_equal(result.why, why);
}

TEST(files_are_told_apart)
{
	struct exam_file files[] = { { .fd = fixture_file("v1") },
				     { .fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC) },
				     { .fd = open("/bin/true", O_RDONLY | O_CLOEXEC) },
				     { .fd = with_notes(101) },
				     { .fd = with_notes(100) } };
	struct examiner *examiner = examined(files, 5, 100, &ample);

	assert_result(examiner, 0, EXAM_WITH_PROBES, "");
	assert_result(examiner, 1, EXAM_WITHOUT_PROBES, "");
	assert_result(examiner, 2, EXAM_WITHOUT_PROBES, "");
	assert_result(examiner, 3, EXAM_EXCEEDS, "101 probe sites, more than 100");
	assert_result(examiner, 4, EXAM_WITH_PROBES, "");
	examiner_free(examiner);
	for (size_t i = 0; i < 5; i++)
		close(files[i].fd);
}

/* The second of three takes more than LIMITS; without them it is read. */
static void assert_ends_it(const struct exam_limits *limits, const char *why, bool ends)
{
	struct exam_file files[] = { { .fd = fixture_file("v1") },
				     { .fd = with_notes(MANY) },
				     { .fd = fixture_file("v1") } };
	struct examiner *examiner = examined(files, 3, 0, limits);

	assert_result(examiner, 0, EXAM_WITH_PROBES, "");
	assert_result(examiner, 1, EXAM_EXCEEDS, why);
	assert_result(examiner, 2, ends ? EXAM_NOT_BEGUN : EXAM_WITH_PROBES, "");
	examiner_free(examiner);
	examiner = examined(files, 3, 0, &ample);
	for (size_t i = 0; i < 3; i++) {
		assert_result(examiner, i, EXAM_WITH_PROBES, "");
		close(files[i].fd);
	}
	examiner_free(examiner);
}

/* The address sanitizer has taken terabytes of addresses before main(). */
#ifndef __SANITIZE_ADDRESS__
TEST(memory_is_limited)
{
	struct exam_limits limits = ample;

	limits.memory_mib = 16;
	assert_ends_it(&limits, "reading it takes more than 16 MiB of memory", false);
}
#endif

TEST(processor_time_is_limited)
{
	struct exam_limits limits = ample;

	limits.cpu_ms = 60;
	assert_ends_it(&limits, "reading it takes more than 60 ms of CPU time", true);
}

TEST(time_is_limited)
{
	struct exam_limits limits = ample;
	struct exam_file files[] = { { .fd = with_notes(MANY) }, { .fd = fixture_file("v1") } };
	struct examiner *examiner;

	limits.wall_ms = 1;
	examiner = examined(files, 2, 0, &limits);
	assert_result(examiner, 0, EXAM_EXCEEDS, "reading it takes more than 1 ms");
	assert_result(examiner, 1, EXAM_NOT_BEGUN, "");
	examiner_free(examiner);
	close(files[0].fd);
	close(files[1].fd);
}

TEST(one_that_is_not_needed_ends)
{
	const struct file_rules rules = { 0 };
	struct exam_file file = { .fd = with_notes(MANY), .origin = { .name = "x" } };
	struct examiner *examiner;

	assert_int_equal(examiner_start(ctx, &file, 1, &rules, &ample, &examiner), 0);
	examiner_free(examiner);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	close(file.fd);
}

/* ---- verdicts ------------------------------------------------------------------------------- */

static const struct file_origin program = { .name = "/x/program", .pid = 5 };
static const struct file_origin library = { .name = "/x/library", .pid = 6, .is_library = true };

/* Open FD, which stays open. */
static int opened(int fd, const struct file_origin *origin)
{
	struct ocp_program *prog;
	int err = program_open_from(ctx, dup(fd), origin, &prog);

	if (!err)
		ocp_program_free(prog);
	return err;
}

static void settle(struct verdicts *verdicts)
{
	assert_true(verdicts_settle(verdicts, 60000));
	assert_false(verdicts_settle(verdicts, 60000));
}

TEST(new_files_wait_for_their_examination)
{
	struct verdicts *verdicts = verdicts_new(ctx);
	const int good = fixture_file("v1"), other = open("/bin/true", O_RDONLY | O_CLOEXEC),
		  folder = open("/", O_RDONLY | O_CLOEXEC);

	assert_non_null(verdicts);
	verdicts_set_all(verdicts, true);
	assert_false(verdicts_settle(verdicts, 0));
	assert_int_equal(opened(good, &program), -EAGAIN);
	assert_int_equal(opened(good, &program), -EAGAIN);
	assert_int_equal(file_rules_admit(ctx, other, &library), -EAGAIN);
	settle(verdicts);
	assert_int_equal(opened(good, &program), 0);
	assert_int_equal(file_rules_admit(ctx, good, &program), FILE_WITH_PROBES);
	assert_int_equal(file_rules_admit(ctx, other, &program), FILE_WITHOUT_PROBES);
	assert_int_equal(file_rules_admit(ctx, folder, &program), FILE_WITHOUT_PROBES);
	/* In another state it is another file. */
	assert_int_equal(fchmod(good, 0700), 0);
	assert_int_equal(opened(good, &program), -EAGAIN);
	settle(verdicts);
	assert_int_equal(opened(good, &program), 0);
	verdicts_free(verdicts);
	assert_int_equal(opened(good, &program), 0);
	assert_int_equal(n_logged, 0);
	close(good);
	close(other);
	close(folder);
}

TEST(a_file_that_exceeds_is_reported_once)
{
	struct verdicts *verdicts = verdicts_new(ctx);
	const int big = with_notes(VERDICTS_MAX_SITES + 1), most = with_notes(VERDICTS_MAX_SITES);

	assert_non_null(verdicts);
	verdicts_set_all(verdicts, true);
	assert_int_equal(opened(big, &program), -EAGAIN);
	assert_int_equal(opened(most, &program), -EAGAIN);
	settle(verdicts);
	for (int i = 0; i < 3; i++)
		assert_int_equal(opened(big, i % 2 ? &library : &program), -EFBIG);
	assert_int_equal(opened(most, &program), 0);
	assert_int_equal(n_logged, 1);
	assert_string_equal(log_text,
			    "pid 5: skipped: /x/program: 20001 probe sites, more than 20000; use "
			    "--exe FILE to measure it");
	/* Who names it gets it; as a library of such a program it is limited. */
	verdicts_set_all(verdicts, false);
	assert_int_equal(opened(big, &program), 0);
	assert_int_equal(opened(big, &library), -EFBIG);
	assert_int_equal(n_logged, 1);
	verdicts_free(verdicts);
	close(big);
	close(most);
}

/* Libraries of a program that was named are not examined, but limited. */
TEST(libraries_of_what_is_named)
{
	struct verdicts *verdicts = verdicts_new(ctx);
	const int big = with_notes(VERDICTS_MAX_SITES + 1), good = fixture_file("v1");

	assert_non_null(verdicts);
	assert_int_equal(opened(good, &library), 0);
	assert_int_equal(opened(big, &program), 0);
	assert_int_equal(opened(big, &library), -EFBIG);
	assert_int_equal(opened(big, &library), -EFBIG);
	assert_int_equal(n_logged, 1);
	assert_string_equal(log_text, "pid 6: skipped: /x/library: 20001 probe sites, more than "
				      "20000");
	assert_false(verdicts_settle(verdicts, 0));
	verdicts_free(verdicts);
	close(big);
	close(good);
}

/*
 * One that was examined and then changed behind our back (its times do not tell) is limited, too.
 */
TEST(limits_hold_after_the_examination)
{
	struct verdicts *verdicts = verdicts_new(ctx);
	const int big = with_notes(VERDICTS_MAX_SITES + 1);
	char path[32];
	uint8_t *bytes;
	int named;

	assert_non_null(verdicts);
	/* It is no program as long as its first byte is another one, which is mapped. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", big);
	named = open(path, O_RDWR | O_CLOEXEC);
	assert_true(named >= 0);
	bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, named, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	bytes[0] ^= 1;
	verdicts_set_all(verdicts, true);
	assert_int_equal(opened(big, &program), -EAGAIN);
	settle(verdicts);
	bytes[0] ^= 1;
	assert_int_equal(opened(big, &program), -EFBIG);
	assert_int_equal(opened(big, &program), -EFBIG);
	assert_int_equal(n_logged, 1);
	munmap(bytes, 4096);
	close(named);
	close(big);
	verdicts_free(verdicts);
}

/* More than are examined at once, and the descriptors that it takes. */
TEST(many_files)
{
	enum { N = 600 };
	struct verdicts *verdicts = verdicts_new(ctx);
	int fds[N], n_with = 0;

	assert_non_null(verdicts);
	verdicts_set_all(verdicts, true);
	for (int i = 0; i < N; i++)
		fds[i] = i % 3 ? memfd_create("x", MFD_CLOEXEC) : fixture_file("v1");
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++)
			opened(fds[i], &program);
		verdicts_settle(verdicts, 60000);
	}
	for (int i = 0; i < N; i++)
		n_with += file_rules_admit(ctx, fds[i], &program) == FILE_WITH_PROBES;
	assert_int_equal(n_with, N / 3);
	for (int i = 0; i < N; i++)
		close(fds[i]);
	verdicts_free(verdicts);
}
