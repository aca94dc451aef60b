// SPDX-License-Identifier: MIT
/*
 * What is written of a made-up profile, in pprof's format and as a page. See also
 * profile_formats.sh.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "made_profile.h"
#include "pprof.pb-c.h"
#include "profile/formats/html_writer.h"
#include "profile/formats/pprof_writer.h"
#include "unit.h"

#define MAX_BYTES (1 << 20)

/* Two frames are equal but for their places in memory; one is a symbol of C++. */
static const char small[] =
	"{\"profile\":{\"title\":\"a <b> & c\",\"kind\":\"wait\",\"start_ns\":5000000,"
	"\"duration_ns\":7,\"truncated\":4,\"lost\":0},"
	"\"frames\":[[\"main\",\"c\",\"main.c\",3,false],[\"Result.<$>\",\"ocaml\",\"r.ml\",12,true],"
	"[\"f\",\"ocaml\",\"f.ml\",1,false],[\"_ZN3fooEv\",\"c\",null,0,false],"
	"[\"f\",\"ocaml\",\"f.ml\",1,false],[\"</script>\\u2028&\",\"unknown\",null,0,false]],"
	"\"stacks\":[[9,18446744073,0,2,1],[1,5,0,4,1,3],[1,1,5]]}";

typedef int writer(struct ocp_ctx *ctx, const struct profile *profile,
		   const struct flame_form *form, FILE *to);

static int write_pprof(struct ocp_ctx *ctx, const struct profile *profile,
		       const struct flame_form *form, FILE *to)
{
	(void)form;
	return pprof_write(ctx, profile, to);
}

/* What WRITE writes of the profile; ends with a NUL. */
static char *written(writer *write, size_t *bytes)
{
	struct made_profile made = made_profile_of(small);
	struct ocp_ctx *ctx = ocp_ctx_new();
	char *text = NULL;
	FILE *to = open_memstream(&text, bytes);

	assert_non_null(to);
	assert_int_equal(write(ctx, &made.profile, &(struct flame_form){ made.title, false }, to),
			 0);
	fclose(to);
	made_profile_free(&made);
	ocp_ctx_free(ctx);
	return text;
}

static Perftools__Profiles__Profile *read_pprof(void)
{
	static unsigned char plain[MAX_BYTES];
	size_t bytes;
	char *text = written(write_pprof, &bytes);
	z_stream stream = { .next_in = (Bytef *)text,
			    .avail_in = (uInt)bytes,
			    .next_out = plain,
			    .avail_out = sizeof(plain) };
	Perftools__Profiles__Profile *read;

	/* gzip's header is asked for, and one member that ends where the file does. */
	assert_int_equal(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	read = perftools__profiles__profile__unpack(NULL, stream.total_out, plain);
	inflateEnd(&stream);
	free(text);
	assert_non_null(read);
	return read;
}

/* ---- pprof ---------------------------------------------------------------------------------- */

TEST(inlined_functions_are_lines_of_a_location)
{
	Perftools__Profiles__Profile *read = read_pprof();
	const Perftools__Profiles__Sample *first = read->sample[0], *second = read->sample[1];
	const Perftools__Profiles__Location *place;

	assert_int_equal(read->n_sample, 3);
	assert_int_equal(first->n_location_id, 2);
	assert_int_equal(second->n_location_id, 3);
	/* The innermost is the first, and equal frames are one location. */
	assert_int_equal(second->location_id[1], first->location_id[0]);
	assert_int_equal(second->location_id[2], first->location_id[1]);
	place = read->location[first->location_id[0] - 1];
	assert_int_equal(place->id, first->location_id[0]);
	assert_int_equal(place->n_line, 2);
	assert_int_equal(place->line[0]->line, 12);
	assert_int_equal(place->line[1]->line, 1);
	assert_int_equal(read->n_location, 4);
	assert_int_equal(read->n_function, 5);
	perftools__profiles__profile__free_unpacked(read, NULL);
}

TEST(symbols_are_those_of_c)
{
	Perftools__Profiles__Profile *read = read_pprof();

	for (size_t i = 0; i < read->n_function; i++) {
		const char *name = read->string_table[read->function[i]->name];
		const char *symbol = read->string_table[read->function[i]->system_name];
		const bool is_c = strcmp(name, "main") == 0 || strcmp(name, "_ZN3fooEv") == 0;

		assert_string_equal(symbol, is_c ? name : "");
	}
	perftools__profiles__profile__free_unpacked(read, NULL);
}

TEST(values_are_those_of_the_stacks)
{
	Perftools__Profiles__Profile *read = read_pprof();

	assert_int_equal(read->sample[0]->n_value, 2);
	assert_int_equal(read->sample[0]->value[0], 9);
	assert_int_equal(read->sample[0]->value[1], 18446744073);
	assert_int_equal(read->time_nanos, 5000000);
	assert_int_equal(read->duration_nanos, 7);
	assert_int_equal(read->period, 1);
	assert_string_equal(read->string_table[read->default_sample_type], "delay");
	assert_int_equal(read->n_comment, 1);
	assert_string_equal(read->string_table[read->comment[0]], "truncated: 4 samples");
	perftools__profiles__profile__free_unpacked(read, NULL);
}

/* ---- no memory ------------------------------------------------------------------------------ */

/* So many allocations succeed, and the next fails; negative: all succeed. */
static int left = -1;

static bool is_refused(void)
{
	return left >= 0 && left-- == 0;
}

WRAP(void *, malloc, (size_t bytes), (bytes))
{
	return is_refused() ? NULL : __real_malloc(bytes);
}

WRAP(void *, reallocarray, (void *old, size_t n, size_t bytes), (old, n, bytes))
{
	return is_refused() ? NULL : __real_reallocarray(old, n, bytes);
}

WRAP(char *, strdup, (const char *text), (text))
{
	return is_refused() ? NULL : __real_strdup(text);
}

TEST(each_allocation_may_fail)
{
	struct made_profile made = made_profile_of(small);
	struct ocp_ctx *ctx = ocp_ctx_new();
	FILE *to = fopen("/dev/null", "w");
	int n = 0, err;

	assert_non_null(to);
	do {
		left = n++;
		err = pprof_write(ctx, &made.profile, to);
		if (left < 0) {
			assert_int_equal(err, -ENOMEM);
			assert_string_equal(ocp_error(ctx), "out of memory");
		}
	} while (left < 0);
	left = -1;
	assert_int_equal(err, 0);
	assert_true(n > 50);
	fclose(to);
	made_profile_free(&made);
	ocp_ctx_free(ctx);
}

/* ---- the page ------------------------------------------------------------------------------- */

TEST(the_page_holds_the_profile)
{
	static const char *const parts[] = {
		"{\"profile\":{\"title\":\"a \\u003cb\\u003e \\u0026 c\",\"kind\":\"wait\",\"hz\":0,"
		"\"start_ms\":5,\"duration_ns\":7,\"large_ns\":0,\"processes\":0,\"samples\":11,\"value\":18446744079,"
		"\"truncated\":4,\"lost\":0},\n",
		"\"frames\":[[\"main\",\"c\",\"main.c\",3,false],\n",
		"[\"Result.\\u003c$\\u003e\",\"ocaml\",\"r.ml\",12,true],\n",
		"[\"\\u003c/script\\u003e\\u2028\\u0026\",\"unknown\",null,0,false]],\n",
		"\"stacks\":[[9,18446744073,0,1,2],\n[1,5,0,3,2,4],\n[1,1,5]],\n",
		"\"functions\":[[2,18446744073,18446744078],\n[4,5,5],\n[5,1,1],\n[0,0,18446744078],\n",
		",0,18446744078]]}\n</script>\n",
	};
	size_t bytes;
	char *page = written(html_write, &bytes), *at = page;

	assert_int_equal(strlen(page), bytes);
	assert_memory_equal(page, "<!doctype html>\n", 16);
	assert_string_equal(page + bytes - 8, "</html>\n");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		at = strstr(at, parts[i]);
		if (!at)
			fail_msg("the page does not hold: %s", parts[i]);
	}
	free(page);
}

/* Nothing is left to be put in, and nothing is loaded from elsewhere. */
TEST(the_page_is_complete)
{
	static const char *const absent[] = { "\n@policy", "\n@style", "\n@script",
					      "\n@module", "\n@text",  "\n@data",
					      " src=",	   "@import",  "url(" };
	size_t bytes;
	char *page = written(html_write, &bytes);

	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		if (strstr(page, absent[i]))
			fail_msg("the page has: %.60s", strstr(page, absent[i]));
	assert_non_null(strstr(page, "Content-Security-Policy\" content=\"default-src 'none';"));
	/* The licences of what is in it. */
	assert_non_null(strstr(page, "Apache License"));
	assert_non_null(strstr(page, "Mike Bostock"));
	assert_non_null(strstr(page, "Robert Penner"));
	free(page);
}
