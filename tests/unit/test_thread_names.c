// SPDX-License-Identifier: MIT
/* Names of threads, and profiles that are split by thread. See also profile_threads.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread_name.h"
#include "profile/folded_writer.h"
#include "profile/profile.h"
#include "profile/profile_fold.h"
#include "unit.h"

static const char *copied(const char from[THREAD_NAME_BYTES])
{
	static char to[THREAD_NAME_BYTES];

	memset(to, 'x', sizeof(to));
	thread_name_copy(to, from);
	return to;
}

TEST(copies_are_whole_names_in_utf_8)
{
	const char full[THREAD_NAME_BYTES] = "0123456789abcdeZ";

	assert_string_equal(copied("worker-3\0\0\0\0\0\0\0"), "worker-3");
	assert_string_equal(copied("\0garbage\0\0\0\0\0\0\0"), "");
	/* No zero byte ends it; the kernel cuts names at 15 bytes, in a character perhaps. */
	assert_string_equal(copied(full), "0123456789abcde");
	assert_string_equal(copied("0123456789abcd\xc3"), "0123456789abcd?");
	assert_string_equal(copied("0123456789abc\xc3\xa9"), "0123456789abc\xc3\xa9");
	assert_string_equal(copied("a\x80\xff\xe2\x82z\0\0\0\0\0\0\0\0\0"), "a????z");
	/* These are UTF-8. What shows the name makes them harmless. */
	assert_string_equal(copied("a\033\n;\0\0\0\0\0\0\0\0\0\0\0"), "a\033\n;");
}

TEST(texts_are_safe_for_a_terminal)
{
	char text[THREAD_TEXT_BYTES];

	assert_string_equal(thread_line_text(text, 12, 34, "worker-3"), "12/34 worker-3");
	assert_string_equal(thread_line_text(text, 12, 34, "\033[2J\n\xc2\x9b"), "12/34 ?[2J??");
	assert_string_equal(thread_frame_text(text, 34, "worker-3"), "worker-3 (34)");
	assert_string_equal(thread_frame_text(text, 34, ""), "(34)");
	assert_string_equal(thread_frame_text(text, 34, "\033[2J\n\xc2\x9b"), "?[2J?? (34)");
	/* The longest. */
	assert_string_equal(thread_line_text(text, 2147483647, 2147483647, "0123456789abcde"),
			    "2147483647/2147483647 0123456789abcde");
}

/* ---- profiles ------------------------------------------------------------------------------- */

/* Two addresses at which the kernel has no code. */
static const uint64_t nowhere[] = { 1, 2 };
static const struct stored_stack shallow = { .n_kernel = 1, .kernel = nowhere };
static const struct stored_stack deep = { .n_kernel = 2, .kernel = nowhere };

/* Make PROFILE from the N samples of LIST. */
static void make_threads(struct ocp_ctx *ctx, struct profile_sample *list, size_t n, bool by_thread,
			 struct frame_names *names, struct profile *profile)
{
	const struct profiler_spec spec = { .kind = PROFILE_CPU,
					    .hz = 100,
					    .by_thread = by_thread };
	const struct profile_reading reading = { .samples = list, .n = n };

	assert_int_equal(profile_make(ctx, &reading, names, &spec, profile), 0);
}

static struct profile_sample samples[] = {
	{ .stack = &shallow, .tgid = 9, .tid = 10, .n = 1, .value = 1, .comm = "twin" },
	{ .stack = &shallow, .tgid = 9, .tid = 11, .n = 2, .value = 20, .comm = "twin" },
	{ .stack = &deep, .tgid = 9, .tid = 10, .n = 4, .value = 4, .comm = "twin" },
	/* A thread with another name, and the same thread with its first name again. */
	{ .stack = &shallow, .tgid = 9, .tid = 10, .n = 8, .value = 8, .comm = "renamed;" },
	{ .stack = &shallow, .tgid = 9, .tid = 10, .n = 16, .value = 16, .comm = "twin" },
	/* Names that look the same. */
	{ .stack = &shallow, .tgid = 7, .tid = 12, .n = 32, .value = 3, .comm = "\1" },
	{ .stack = &shallow, .tgid = 7, .tid = 12, .n = 64, .value = 2, .comm = "\2" },
};

enum { N_SAMPLES = sizeof(samples) / sizeof(*samples) };

static void check_thread(const struct profile_thread *thread, pid_t pid, pid_t tid,
			 const char *name, uint64_t n, uint64_t value)
{
	assert_int_equal(thread->pid, pid);
	assert_int_equal(thread->tid, tid);
	assert_string_equal(thread->name, name);
	assert_int_equal(thread->samples, n);
	assert_int_equal(thread->value, value);
}

static char *folded(const struct profile *profile)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	folded_write(profile, to);
	fclose(to);
	return text;
}

TEST(threads_are_kept_apart_by_id_and_name)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct frame_names *names;
	struct profile profile;
	char *text;

	assert_int_equal(frame_names_open(ctx, NULL, &names), 0);
	make_threads(ctx, samples, N_SAMPLES, true, names, &profile);
	assert_int_equal(profile.n_threads, 5);
	check_thread(profile.threads[0], 9, 10, "twin", 21, 21);
	check_thread(profile.threads[1], 9, 11, "twin", 2, 20);
	check_thread(profile.threads[2], 9, 10, "renamed;", 8, 8);
	check_thread(profile.threads[3], 7, 12, "\1", 32, 3);
	check_thread(profile.threads[4], 7, 12, "\2", 64, 2);
	/* The largest value first; the two samples of one stack of one thread are one. */
	text = folded(&profile);
	assert_string_equal(text, "twin (11);[kernel]_[k] 2\n"
				  "twin (10);[kernel]_[k] 17\n"
				  "renamed: (10);[kernel]_[k] 8\n"
				  "twin (10);[kernel]_[k];[kernel]_[k] 4\n"
				  "? (12);[kernel]_[k] 32\n"
				  "? (12);[kernel]_[k] 64\n");
	free(text);
	profile_free(&profile);
	frame_names_close(names);
	ocp_ctx_free(ctx);
}

/* A thread is neither a function nor a frame of a recursion. */
TEST(functions_are_those_of_the_thread)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct profile_function *functions;
	struct frame_names *names;
	struct profile profile;
	char *text;
	size_t n;

	assert_int_equal(frame_names_open(ctx, NULL, &names), 0);
	make_threads(ctx, samples, N_SAMPLES, true, names, &profile);
	assert_int_equal(profile_functions(ctx, &profile, NULL, SITES_LEAF, &functions, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(functions->self, 54);
	free(functions);
	assert_int_equal(
		profile_functions(ctx, &profile, profile.threads[0], SITES_LEAF, &functions, &n),
		0);
	assert_int_equal(n, 1);
	assert_string_equal(functions->function, "[kernel]");
	assert_int_equal(functions->self, 21);
	assert_int_equal(functions->total, 21);
	free(functions);
	profile_fold_repeats(&profile);
	text = folded(&profile);
	assert_non_null(strstr(text, "twin (10);[kernel]_[k] 21\n"));
	free(text);
	profile_free(&profile);
	frame_names_close(names);
	ocp_ctx_free(ctx);
}

TEST(profiles_that_are_not_split_have_no_threads)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct frame_names *names;
	struct profile profile;
	char *text;

	assert_int_equal(frame_names_open(ctx, NULL, &names), 0);
	make_threads(ctx, samples, N_SAMPLES, false, names, &profile);
	assert_int_equal(profile.n_threads, 0);
	text = folded(&profile);
	assert_string_equal(text, "[kernel]_[k] 123\n[kernel]_[k];[kernel]_[k] 4\n");
	free(text);
	profile_free(&profile);
	frame_names_close(names);
	ocp_ctx_free(ctx);
}
