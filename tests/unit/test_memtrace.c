// SPDX-License-Identifier: MIT
/*
 * Made-up events that are written as a memtrace file, against what tests/e2e/memtrace_reader.py
 * reads there. MEMTRACE_SEEDS=N makes N small traces.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "memprof/memtrace_writer.h"
#include "unit.h"

enum {
	MAX_POOL = 40000,
	PLACES = 3, /* of a frame, at most */
	MAX_ALIVE = 500,
	START_US = 1700000000,
	EPOCH_US = START_US - 50,
};

/* A program whose events are made up. */
struct subject {
	uint64_t random;
	uint32_t pool; /* different frames */
	uint32_t max_codes, n_codes;
	bool *has_code;			   /* [0]: what stands for no frame */
	uint64_t stack[MEMPROF_MAX_DEPTH]; /* the innermost frame first: numbers from 1 */
	uint32_t depth;
	uint64_t ns, us; /* of the latest event: the clock, and the time in the file */
	uint64_t next;	 /* block */
	uint64_t alive[MAX_ALIVE];
	bool is_major[MAX_ALIVE];
	uint32_t n_alive;
	uint64_t n_left_out;
};

struct test {
	struct ocp_ctx *ctx;
	char trace[64], expected[64];
	int fd;
	FILE *expect;
	struct memtrace_writer *writer;
	struct subject s;
	char names[PLACES][64], files[PLACES][64];
	struct named_frame frames[PLACES];
	const struct named_frame *list[PLACES];
	char **texts; /* that the writer may look at */
	size_t n_texts;
};

static uint64_t any(struct subject *s, uint64_t below)
{
	s->random = s->random * 6364136223846793005 + 1442695040888963407;
	return (s->random >> 33 ^ s->random << 17) % below;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static const struct named_frame none = { .function = "[no OCaml code]" };

static const char *keep(struct test *t, const char *form, uint64_t number)
{
	char *text = NULL, **kept = array_add(t->texts, t->n_texts);

	assert_non_null(kept);
	assert_true(asprintf(&text, form, number) > 0);
	*kept = text;
	return text;
}

/* The places of frame NUMBER. Many files have functions of the same names. */
static uint32_t places_of(const struct test *t, uint64_t number, uint32_t *lines)
{
	const uint32_t n = 1 + (uint32_t)(number % 7 == 0) + (uint32_t)(number % 21 == 0);

	(void)t;
	for (uint32_t i = 0; i < n; i++)
		lines[i] = (uint32_t)(number * 11 + i) % 1048576;
	return n;
}

static int locate(void *data, const uint64_t *frame, const struct named_frame *const **frames,
		  size_t *n)
{
	struct test *t = data;
	uint32_t lines[PLACES];

	*frames = t->list;
	*n = 1;
	t->list[0] = &none;
	if (!frame)
		return 0;
	*n = places_of(t, *frame, lines);
	for (size_t i = 0; i < *n; i++) {
		t->frames[i] =
			(struct named_frame){ .function = keep(t, "Unit.f%" PRIu64, *frame % 900),
					      .file = keep(t, "dir/unit%" PRIu64 ".ml",
							   lines[i] % 45),
					      .line = lines[i],
					      .start_char = lines[i] % 256,
					      .end_char = lines[i] % 1024 };
		t->list[i] = &t->frames[i];
	}
	return 0;
}

static void expect_place(struct test *t, const char *function)
{
	fprintf(t->expect, "[[\"%s\", \"<unknown>\", 0, 0, 0]]", function);
}

/* NUMBER 0: none. */
static void expect_frame(struct test *t, uint64_t number)
{
	struct subject *s = &t->s;
	uint32_t lines[PLACES], n;

	if (!s->has_code[number] && s->n_codes + 1 < s->max_codes) {
		s->has_code[number] = true;
		s->n_codes++;
	}
	if (!s->has_code[number] || !number) {
		expect_place(t, s->has_code[number] ? none.function : "[too many frames]");
		return;
	}
	n = places_of(t, number, lines);
	for (uint32_t i = 0; i < n; i++)
		fprintf(t->expect,
			"%s[\"Unit.f%" PRIu64 "\", \"dir/unit%" PRIu32 ".ml\", %" PRIu32
			", %" PRIu32 ", %" PRIu32 "]%s",
			i ? ", " : "[", number % 900, lines[i] % 45, lines[i], lines[i] % 256,
			lines[i] % 1024, i + 1 < n ? "" : "]");
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The callers of the last stack, some frames more, and perhaps a function that calls itself. */
static void call(struct subject *s)
{
	const uint32_t kept = (uint32_t)any(s, s->depth + 1), room = MEMPROF_MAX_DEPTH - kept;
	uint32_t more = (uint32_t)any(s, any(s, 10) ? 10 : 300), same = 0;
	const uint64_t self = 1 + any(s, s->pool);

	if (any(s, 20) == 0)
		same = (uint32_t)any(s, 900);
	more = more < room ? more : room;
	same = same < room - more ? same : room - more;
	memmove(s->stack + more + same, s->stack + s->depth - kept, kept * sizeof(*s->stack));
	for (uint32_t i = 0; i < more + same; i++)
		s->stack[i] = i < more ? 1 + any(s, s->pool) : self;
	s->depth = kept + more + same;
}

/* The clock of the next event, which goes back at times. */
static uint64_t pass_time(struct subject *s)
{
	static const uint64_t most[] = { 1, 1000, 1000000, 1000000, 40000000000, 3600000000000 };
	const uint64_t kind = any(s, 40);

	/* Earlier than the event before: it gets the time of that. */
	if (any(s, 30) == 0)
		return s->ns - any(s, s->ns + 1);
	s->ns += any(s, most[kind < 6 ? kind : kind % 3]);
	if (EPOCH_US + s->ns / 1000 > s->us)
		s->us = EPOCH_US + s->ns / 1000;
	return s->ns;
}

static void expect_allocation(struct test *t, const struct memprof_event *event)
{
	const char *source = event->source == MEMPROF_CUSTOM || event->source == MEMPROF_MAP_FILE
				     ? "external"
			     : event->kind == MEMPROF_ALLOC_MAJOR ? "major"
								  : "minor";

	fprintf(t->expect,
		"{\"kind\": \"alloc\", \"time\": %" PRIu64 ", \"block\": %" PRIu64
		", \"length\": %" PRIu64 ", \"samples\": %" PRIu64
		", \"source\": \"%s\", \"stack\": [",
		t->s.us, t->s.next, event->size, event->n_samples, source);
	for (uint32_t i = event->depth; i-- > 0;) {
		expect_frame(t, event->stack[i]);
		fputs(i ? ", " : "", t->expect);
	}
	if (!event->depth)
		expect_frame(t, 0);
	fputs("]}\n", t->expect);
}

static void allocate(struct test *t, struct memprof_event *event)
{
	static const uint64_t sizes[] = { 3, 18, 300, 70000, UINT64_C(1) << 32, UINT64_C(1) << 47 };
	struct subject *s = &t->s;

	call(s);
	event->kind = any(s, 4) ? MEMPROF_ALLOC_MINOR : MEMPROF_ALLOC_MAJOR;
	event->source = (uint8_t)any(s, MEMPROF_SOURCES + 1);
	event->size = any(s, sizes[any(s, 6)]);
	event->n_samples = 1 + (any(s, 2) ? 0 : any(s, event->size + 1));
	event->stack = s->stack;
	event->depth = any(s, 50) ? s->depth : 0;
	if (any(s, 200) == 0)
		s->next += UINT64_C(1) << 33;
	if (s->n_alive < MAX_ALIVE) {
		s->alive[s->n_alive] = s->next;
		s->is_major[s->n_alive++] = event->kind == MEMPROF_ALLOC_MAJOR;
	}
	expect_allocation(t, event);
	assert_int_equal(memtrace_writer_put(t->writer, event, s->next++, UINT64_MAX), 0);
}

static void change(struct test *t, struct memprof_event *event)
{
	struct subject *s = &t->s;
	const uint64_t at = any(s, s->n_alive), block = s->alive[at];
	const bool is_promotion = !s->is_major[at] && any(s, 2);

	event->kind = is_promotion ? MEMPROF_PROMOTE : MEMPROF_DEALLOC_MAJOR;
	fprintf(t->expect, "{\"kind\": \"%s\", \"time\": %" PRIu64 ", \"block\": %" PRIu64 "}\n",
		is_promotion ? "promote" : "collect", s->us, block);
	s->is_major[at] = true;
	if (!is_promotion) {
		s->alive[at] = s->alive[--s->n_alive];
		s->is_major[at] = s->is_major[s->n_alive];
	}
	assert_int_equal(memtrace_writer_put(t->writer, event, block, UINT64_MAX), 0);
}

static void make_event(struct test *t)
{
	struct subject *s = &t->s;
	struct memprof_event event = { .time_ns = s->ns };

	if (any(s, 40) == 0) {
		event.kind = (enum memprof_kind)(1 + any(s, 5));
		assert_int_equal(memtrace_writer_put(t->writer, &event, UINT64_MAX, UINT64_MAX), 0);
		s->n_left_out++;
		return;
	}
	event.time_ns = pass_time(s);
	if (s->n_alive && any(s, 2))
		change(t, &event);
	else
		allocate(t, &event);
	if (any(s, 100) == 0)
		assert_int_equal(memtrace_writer_flush(t->writer), 0);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int set_up(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->ctx = ocp_ctx_new();
	snprintf(t->trace, sizeof(t->trace), "/tmp/test_memtrace.%d", (int)getpid());
	snprintf(t->expected, sizeof(t->expected), "/tmp/test_memtrace.%d.expected", (int)getpid());
	t->s.has_code = calloc(MAX_POOL + 1, sizeof(*t->s.has_code));
	assert_non_null(t->s.has_code);
	*state = t;
	return 0;
}

static void forget_texts(struct test *t)
{
	for (size_t i = 0; i < t->n_texts; i++)
		free(t->texts[i]);
	free(t->texts);
	t->texts = NULL;
	t->n_texts = 0;
}

static int tear_down(void **state)
{
	struct test *t = *state;

	unlink(t->trace);
	unlink(t->expected);
	forget_texts(t);
	free(t->s.has_code);
	ocp_ctx_free(t->ctx);
	free(t);
	return 0;
}

EACH_TEST(set_up, tear_down);

static void open_trace(struct test *t, uint32_t max_codes, memtrace_locate *with)
{
	const struct memtrace_info info = { .rate = 0.25,
					    .pid = 4242,
					    .executable = "/bin/subject",
					    .host = "host",
					    .parameters = "b=1",
					    .context = "a test",
					    .start_us = START_US,
					    .epoch_us = EPOCH_US,
					    .max_codes = max_codes };

	t->fd = open(t->trace, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	t->expect = fopen(t->expected, "we");
	assert_true(t->fd >= 0 && t->expect);
	fprintf(t->expect, "{\"rate\": 0.25, \"word_bits\": 64, \"executable\": \"/bin/subject\", "
			   "\"host\": \"host\", \"parameters\": \"b=1\", \"pid\": 4242, "
			   "\"context\": \"a test\", \"start\": 1700000000}\n");
	assert_int_equal(memtrace_writer_open(t->ctx, t->fd, t->trace, &info, with, t, &t->writer),
			 0);
}

/* The reader finds what is expected. */
static void check_trace(struct test *t)
{
	char command[256];

	assert_int_equal(memtrace_writer_flush(t->writer), 0);
	assert_int_equal(memtrace_writer_left_out(t->writer), t->s.n_left_out);
	memtrace_writer_close(t->writer);
	close(t->fd);
	assert_int_equal(fclose(t->expect), 0);
	snprintf(command, sizeof(command), "python3 tests/e2e/memtrace_reader.py %s | cmp - %s",
		 t->trace, t->expected);
	assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own path */
}

static void make_trace(struct test *t, uint64_t seed, uint32_t pool, uint32_t max_codes,
		       int n_events)
{
	bool *has_code = t->s.has_code;

	memset(has_code, 0, (MAX_POOL + 1) * sizeof(*has_code));
	t->s = (struct subject){ .random = seed,
				 .pool = pool,
				 .max_codes = max_codes ? max_codes : UINT32_MAX,
				 .has_code = has_code,
				 .us = START_US };
	open_trace(t, max_codes, locate);
	for (int i = 0; i < n_events; i++)
		make_event(t);
	check_trace(t);
	forget_texts(t);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(traces_are_read)
{
	const char *seeds = getenv("MEMTRACE_SEEDS");
	const uint64_t n = seeds ? strtoull(seeds, NULL, 10) : 6;

	for (uint64_t seed = 1; seed <= n; seed++)
		make_trace(*state, seed, seed % 3 ? 60 : 2000, 0, 600);
}

/* More frames than the cache has. */
TEST(frames_come_back)
{
	make_trace(*state, 99, MAX_POOL, 0, 3000);
}

TEST(frames_are_bounded)
{
	make_trace(*state, 7, 500, 100, 400);
}

/* ---- names and numbers that the format does not have ----------------------------------------- */

enum { LONG = 50000, INLINED = 64 };

static struct named_frame odd[INLINED];
static const struct named_frame *odd_list[INLINED];
static size_t n_odd;

static int locate_odd(void *data, const uint64_t *frame, const struct named_frame *const **frames,
		      size_t *n)
{
	(void)data;
	(void)frame;
	*frames = odd_list;
	*n = n_odd;
	return 0;
}

static char *long_text(char letter, size_t n)
{
	char *text = malloc(n + 1);

	assert_non_null(text);
	memset(text, letter, n);
	text[n] = '\0';
	return text;
}

/* An allocation whose only frame is that of odd_list. LONGEST: of a name, with "...". */
static void check_odd(struct test *t, size_t longest)
{
	const uint64_t frame = 1;
	const struct memprof_event event = { .kind = MEMPROF_ALLOC_MINOR,
					     .n_samples = 1,
					     .size = 16,
					     .time_ns = 50000,
					     .stack = &frame,
					     .depth = 1 };

	open_trace(t, 0, locate_odd);
	assert_int_equal(memtrace_writer_put(t->writer, &event, 0, UINT64_MAX), 0);
	fputs("{\"kind\": \"alloc\", \"time\": 1700000000, \"block\": 0, \"length\": 16, "
	      "\"samples\": 1, \"source\": \"minor\", \"stack\": [[",
	      t->expect);
	for (size_t i = 0; i < n_odd; i++) {
		const int kept = (int)longest - 3;
		const bool is_long = strlen(odd[i].function) > longest;

		fprintf(t->expect, "%s[\"%.*s%s\", \"%.*s%s\", 1048575, 255, 1023]", i ? ", " : "",
			is_long ? kept : LONG, odd[i].function, is_long ? "..." : "",
			is_long ? kept : LONG, odd[i].file, is_long ? "..." : "");
	}
	fputs("]]}\n", t->expect);
	check_trace(t);
}

TEST(long_names_are_cut)
{
	struct test *t = *state;

	for (n_odd = 1; n_odd <= INLINED; n_odd += INLINED - 1) {
		const size_t longest = n_odd == 1 ? 16340 : 251;

		for (int is_long = 0; is_long < 2; is_long++) {
			for (size_t i = 0; i < n_odd; i++) {
				char *function =
					long_text('a', is_long ? LONG : longest - n_odd + 1 + i);
				char *file = long_text('b', is_long ? LONG : longest - i);

				odd[i] = (struct named_frame){ .function = function,
							       .file = file,
							       .line = UINT32_MAX,
							       .start_char = 256,
							       .end_char = 1024 };
				odd_list[i] = &odd[i];
			}
			check_odd(t, longest);
			for (size_t i = 0; i < n_odd; i++) {
				free((char *)odd[i].function);
				free((char *)odd[i].file);
			}
		}
	}
}

/* Times that a program cannot have: behind the tool's clock, or before the start. */
TEST(times_are_bounded)
{
	static const uint64_t times[] = { 0, UINT64_MAX, 60000, 90000 };
	static const uint64_t expected[] = { START_US, START_US + 30, START_US + 30,
					     START_US + 40 };
	struct test *t = *state;

	t->s.max_codes = UINT32_MAX;
	open_trace(t, 0, locate);
	for (uint64_t i = 0; i < 4; i++) {
		const struct memprof_event event = {
			.kind = MEMPROF_ALLOC_MINOR, .n_samples = 1, .size = 16, .time_ns = times[i]
		};

		t->s.us = expected[i];
		t->s.next = i;
		expect_allocation(t, &event);
		assert_int_equal(memtrace_writer_put(t->writer, &event, i, 70000 + 10000 * i * i),
				 0);
	}
	check_trace(t);
}

TEST(a_full_disk_is_told)
{
	struct test *t = *state;
	const struct memtrace_info info = {
		.rate = 1, .pid = 1, .executable = "", .host = "", .parameters = "", .context = ""
	};

	t->fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(t->fd >= 0);
	assert_int_equal(
		memtrace_writer_open(t->ctx, t->fd, "/dev/full", &info, locate, t, &t->writer),
		-ENOSPC);
	assert_null(t->writer);
	assert_string_equal(ocp_error(t->ctx), "/dev/full: No space left on device");
	close(t->fd);
}
