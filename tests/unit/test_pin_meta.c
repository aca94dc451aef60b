// SPDX-License-Identifier: MIT
/* The text beside the maps of a kept meter: it is read as it was written, and nothing else is. */
#include <errno.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "measure/pin_meta.h"
#include "unit.h"

#define TEXT_OF(number) AS_TEXT(number)
#define AS_TEXT(number) #number
#define FORMAT		"ocaml-probes-kept 2 " TEXT_OF(MEASURE_VERSION) "\n"
#define HEAD		FORMAT "start 1200\nsplit 1\ncost 812.500000 523.250000\n"
#define PROCESSES	HEAD "pid 77\npid 78\n"
#define COLUMNS		"probe 1 =a\nprobe 0 =b%20c%ff\n"
#define FILES		"file =/bin/x\n"

static const char whole[] = PROCESSES "pair 0 =a =b%20c%ff\n" COLUMNS "past 1 9\nuses 0 3 2\n" FILES
				      "site 0 0 4a0 1f 12 3 =camlA__f_1 =a.ml\nnobody =\n"
				      "site 1 0 ffffffffffffffff 0 0 0 = =\n";

/* The meter that TEXT says, or NULL; in a buffer of its size, so that sanitizers see what is read
 * behind it. */
static struct ocp_meter *read_text(struct ocp_ctx *ctx, const char *text)
{
	struct ocp_meter *meter = ocp_meter_new(ctx);
	char *copy = strdup(text);
	int err;

	assert_non_null(meter);
	assert_int_equal(site_table_keep(&meter->table, copy), 0);
	err = pin_meta_parse(meter, "folder", copy);
	if (!err)
		return meter;
	if (err == -EPROTO)
		assert_non_null(strstr(ocp_error(ctx), "folder: pinned by another version"));
	else
		assert_string_equal(ocp_error(ctx), "folder/meta: damaged");
	assert_true(err == -EBADMSG || (err == -EPROTO && strncmp(text, FORMAT, strlen(FORMAT))));
	ocp_meter_free(meter);
	return NULL;
}

TEST(what_is_written_is_read)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = read_text(ctx, whole);
	char *text;

	assert_non_null(meter);
	assert_int_equal(meter->n_pids, 2);
	assert_int_equal(meter->pids[1], 78);
	assert_string_equal(meter->request.pairs[0].stop.text, "b c\xff");
	assert_int_equal(meter->table.n_sites, 3);
	assert_int_equal(meter->table.sites[0].symbol_off, 0x1f);
	assert_string_equal(meter->table.sites[0].source, "a.ml");
	assert_int_equal(meter->table.sites[1].file, NO_FILE);
	assert_null(meter->table.sites[2].symbol);
	assert_int_equal(meter->table.probes[1].past_hits, 9);
	text = pin_meta_text(meter, &meter->pinned_costs);
	assert_string_equal(text, whole);
	free(text);
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
}

/* As much as a program of many probes has: more than there is room for at first. */
TEST(a_long_text_is_written_as_it_was_read)
{
	enum { N_PROBES = 20000, ROOM = N_PROBES * 80 };
	struct ocp_ctx *ctx = ocp_ctx_new();
	char *expected = malloc(ROOM), *to = expected, *text;
	struct ocp_meter *meter;

	assert_non_null(expected);
	to = stpcpy(to, HEAD "pid 77\n");
	for (int i = 0; i < N_PROBES; i++)
		to += sprintf(to, "probe %d =probe%%20%d\n", i % 2, i);
	to = stpcpy(to, "file =/bin/x\n");
	for (int i = 0; i < N_PROBES; i++)
		to += sprintf(to,
			      i % 3 ? "site %d 0 %x 0 0 0 = =\n" : "site %d 0 %x 1 2 3 =f%%ff =\n",
			      i, 4096 + i);
	assert_true(to < expected + ROOM);
	meter = read_text(ctx, expected);
	assert_non_null(meter);
	text = pin_meta_text(meter, &meter->pinned_costs);
	assert_string_equal(text, expected);
	free(text);
	free(expected);
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
}

/* When, at what cost, and where probes were found is no part of what was asked for. */
TEST(what_is_asked_for_is_compared)
{
	static const char more[] = FORMAT "start 9\nsplit 1\ncost 1.0 2.0\npid 77\npid 78\n"
					  "pair 0 =a =b%20c%ff\nprobe 1 =0\n" COLUMNS
					  "probe 1 =c\nfile =/bin/y\nsite 0 0 1 1 1 1 = =\n";
	static const char *const others[] = {
		FORMAT
		"start 1200\nsplit 0\ncost 1.0 2.0\npid 77\npid 78\npair 0 =a =b%20c%ff\n" COLUMNS,
		HEAD "pid 77\npair 0 =a =b%20c%ff\n" COLUMNS,
		HEAD "pid 77\npid 79\npair 0 =a =b%20c%ff\n" COLUMNS,
		PROCESSES COLUMNS,
		PROCESSES "pair 0 =a =b%20c%ff\nprobe 1 =a\n",
		PROCESSES "pair 0 =a =b%20c%ff\nprobe 0 =a\nprobe 0 =b%20c%ff\n",
		PROCESSES "pair 0 =a =b%20c%ff\nprobe 1 =a\nprobe 0 =b%20c%ffd\n",
		"ocaml-probes-kept 3 1\n",
		"",
	};

	assert_true(pin_meta_is_part(whole, whole));
	assert_true(pin_meta_is_part(whole, more));
	assert_false(pin_meta_is_part(more, whole));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(pin_meta_is_part(whole, others[i]));
}

TEST(a_part_is_damaged)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	char part[sizeof(whole)];

	for (size_t n = 0; n < sizeof(whole) - 1; n++) {
		struct ocp_meter *meter;

		memcpy(part, whole, n);
		part[n] = '\0';
		meter = read_text(ctx, part);
		/* A whole number of lines, which say what has to be said, is a text. */
		assert_true(!meter || (n > 0 && part[n - 1] == '\n' && strstr(part, "probe")));
		ocp_meter_free(meter);
	}
	ocp_ctx_free(ctx);
}

TEST(nothing_else_is_read)
{
	static const char *const texts[] = {
		FORMAT "start 1200\nsplit 1\ncost 1.0 1.0\npid 77\nprobe 1 =a",
		PROCESSES,			       /* no probe */
		HEAD COLUMNS,			       /* of nobody */
		PROCESSES "program =/bin/x\n" COLUMNS, /* of both */
		PROCESSES "probe 1 =a\nprobe 0 =a\n",  /* twice */
		PROCESSES "start 1\n" COLUMNS,
		PROCESSES "split 1\n" COLUMNS,
		PROCESSES "cost 1.0 1.0\n" COLUMNS,
		PROCESSES "key 1\n" COLUMNS,
		PROCESSES COLUMNS "pair 2 =a =b\n",
		PROCESSES COLUMNS "pair -1 =a =b\n",
		PROCESSES COLUMNS "pair =a =b\n",
		HEAD "program =a\nprogram =b\n" COLUMNS,
		FORMAT "split 1\ncost 1.0 1.0\npid 77\n" COLUMNS,
		FORMAT "start 1\ncost 1.0 1.0\npid 77\n" COLUMNS,
		FORMAT "start 1\nsplit 1\npid 77\n" COLUMNS,
		FORMAT "start -1\nsplit 1\ncost 1.0 1.0\npid 77\n" COLUMNS,
		FORMAT "start 9223372036854775808\nsplit 1\ncost 1.0 1.0\npid 77\n" COLUMNS,
		FORMAT "start 1\nsplit 4\ncost 1.0 1.0\npid 77\n" COLUMNS,
		FORMAT "start 1\nsplit 1\ncost inf 1.0\npid 77\n" COLUMNS,
		FORMAT "start 1\nsplit 1\ncost 1e999 1.0\npid 77\n" COLUMNS,
		FORMAT "start 1\nsplit 1\ncost 1.0 -1.0\npid 77\n" COLUMNS,
		FORMAT "start 1\nsplit 1\ncost 1.0\npid 77\n" COLUMNS,
		FORMAT "start 1\nsplit 1\ncost 1.0 1.0 x\npid 77\n" COLUMNS,
		FORMAT "start 1\nsplit 1\ncost 1.0 1.0 1.0 1.0\npid 77\n" COLUMNS,
		PROCESSES "pid 0\n" COLUMNS,
		PROCESSES "pid -1\n" COLUMNS,
		PROCESSES "pid 2147483648\n" COLUMNS,
		PROCESSES "pid 7x\n" COLUMNS,
		PROCESSES "pid 7 7\n" COLUMNS,
		PROCESSES "pid\n" COLUMNS,
		PROCESSES "\n" COLUMNS,
		PROCESSES "probe 2 =a\n",
		PROCESSES "probe 1 a\n",
		PROCESSES "probe 1\n",
		PROCESSES COLUMNS "pair 0 =a\n",
		PROCESSES COLUMNS "pair 0 =a =b =c\n",
		PROCESSES COLUMNS "past 2 1\n",
		PROCESSES COLUMNS "past 0 18446744073709551616\n",
		PROCESSES COLUMNS "uses 2 1 1\n",
		PROCESSES COLUMNS "uses 0 1 2\n", /* more than all */
		PROCESSES COLUMNS "uses 0 1\n",
		PROCESSES COLUMNS "file\n",
		PROCESSES COLUMNS "file =/bin/x%\n",
		PROCESSES COLUMNS "file =/bin/x%a\n",
		PROCESSES COLUMNS "file =/bin/x%a", /* the end of a word is the end of the text */
		PROCESSES COLUMNS "file =/bin/x%zz\n",
		PROCESSES COLUMNS "file =/bin/x%00y\n",	      /* the end of a string */
		PROCESSES COLUMNS "site 0 0 0 0 0 0 =a =b\n", /* no file yet */
		PROCESSES FILES "site 0 0 0 0 0 0 =a =b\n" COLUMNS,
		PROCESSES COLUMNS FILES "site 2 0 0 0 0 0 =a =b\n",
		PROCESSES COLUMNS FILES "site 0 1 0 0 0 0 =a =b\n",
		PROCESSES COLUMNS FILES "site 4294967296 0 0 0 0 0 =a =b\n",
		PROCESSES COLUMNS FILES "site 0 0 10000000000000000 0 0 0 =a =b\n",
		PROCESSES COLUMNS FILES "site 0 0 0 0 2147483648 0 =a =b\n",
		PROCESSES COLUMNS FILES "site 0 0 0 0 0 0 =a\n",
		PROCESSES COLUMNS FILES "site 0 0 0 0 0 =a =b\n",
		PROCESSES COLUMNS FILES "site 0 0 0 0 0 2147483648 =a =b\n",
		PROCESSES COLUMNS FILES "site 0 0 0 0 0 0 =a =b\nnobody =x\n",
		PROCESSES COLUMNS "something =else\n",
	};
	struct ocp_ctx *ctx = ocp_ctx_new();

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (read_text(ctx, texts[i]))
			fail_msg("it was read: %s", texts[i]);
	ocp_ctx_free(ctx);
}

/* A process has written it: what controls a terminal is replaced, and the rest is the same. */
TEST(an_untrusted_text_is_plain)
{
	static const char hostile[] =
		FORMAT "start 1\nsplit 1\ncost 1.5 2.5 3.5\npid 77\n"
		       "pair 0 =a%1b[J =b%c2%9bx\nprobe 1 =a%1b[J\nfile =/bin/%0ax\n"
		       "site 0 0 4a0 1f 12 3 =caml%e2%80%aeA =a%7f.ml\n";
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = ocp_meter_new(ctx);
	char *copy = strdup(hostile);

	assert_int_equal(site_table_keep(&meter->table, copy), 0);
	assert_int_equal(pin_meta_parse_untrusted(meter, copy), 0);
	assert_string_equal(meter->request.pairs[0].start.text, "a?[J");
	assert_string_equal(meter->request.pairs[0].stop.text, "b?x");
	assert_string_equal(meter->table.probes[0].name, "a?[J");
	assert_string_equal(meter->table.files[0].name, "/bin/?x");
	assert_string_equal(meter->table.sites[0].symbol, "caml?A");
	assert_string_equal(meter->table.sites[0].source, "a?.ml");
	assert_true(meter->pinned_costs.cost_per_paired_hit_ns == 3.5);
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
}
