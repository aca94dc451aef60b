// SPDX-License-Identifier: MIT
/* The exposition and the JSON of a watch that is made up here. */
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/api.h"
#include "serve/label_name.h"
#include "serve/metrics.h"
#include "serve/profile_worker.h"
#include "unit.h"

/* ---- a watch -------------------------------------------------------------------------------- */

struct watch {
	struct watch_target targets[2];
	size_t n_targets, n_columns;
	const uint32_t *columns[WATCH_COLUMNS];
};

WRAP(size_t, watch_target_count, (const struct watch *watch), (watch))
{
	return watch->n_targets;
}

WRAP(const struct watch_target *, watch_target, (const struct watch *watch, size_t target),
     (watch, target))
{
	return &watch->targets[target];
}

WRAP(size_t, watch_column_count, (const struct watch *watch, enum watch_span span), (watch, span))
{
	(void)span;
	return watch->n_columns;
}

WRAP(int64_t, watch_column_time_ns, (const struct watch *watch, enum watch_span span),
     (watch, span))
{
	(void)watch;
	return INT64_C(1700000000500000000) - (span == WATCH_MINUTE ? 0 : 7000000000);
}

/* In the quarter of an hour, the first probe was not hit. */
WRAP(double, watch_probe_rate,
     (const struct watch *watch, enum watch_span span, size_t target, size_t probe, size_t age),
     (watch, span, target, probe, age))
{
	(void)watch;
	(void)target;
	if (span == WATCH_QUARTER_HOUR && probe == 0)
		return age ? NAN : 0;
	return age == 1 ? NAN : (double)(probe + 1) * 10 + (double)age;
}

WRAP(const uint32_t *, watch_pair_column,
     (const struct watch *watch, enum watch_span span, size_t target, size_t pair, size_t age),
     (watch, span, target, pair, age))
{
	(void)span;
	(void)target;
	(void)pair;
	return watch->columns[age];
}

/* An escape of each kind, and what is no UTF-8. */
#define HOSTILE "/a\\b\"c\nd\xff"

static const pid_t pids[] = { 20, 30 };
static uint64_t kernel_buckets[OCP_BUCKETS];
static const struct watch_probe probes[] = {
	{ .name = "done",
	  .hits = 7,
	  .rate = 1.5,
	  .n_sites = 1,
	  .is_counted = true,
	  .is_in_pair = true,
	  .handler = WATCH_HANDLER_ON,
	  .n_enabled = 2 },
	{ .name = "start",
	  .hits = UINT64_MAX,
	  .rate = NAN,
	  .n_sites = 3,
	  .handler = WATCH_HANDLER_UNKNOWN },
};
static const struct watch_pair pairs[] = {
	{ .start = "start",
	  .stop = "done",
	  .rate = 2,
	  .p50_ns = 5,
	  .p99_ns = 6,
	  .sum = { .count = 10,
		   .sum_ns = 12345678901,
		   .min_ns = 1,
		   .max_ns = 3000000,
		   .orphan_starts = 3,
		   .orphan_stops = 4,
		   .open = 5,
		   .map_full = 7,
		   .not_keyed = 8,
		   .mismatched = 9,
		   .buckets = kernel_buckets } },
};
static const struct watch_row rows[] = { { "done", 10, 1 }, { "done", 20, 2 }, { "start", 30, 9 } };

static const struct watch usual = {
	.n_targets = 2,
	.targets = {
		{ .exe = HOSTILE, .since_ns = INT64_C(1600000000250000000), .is_up = true,
		  .engine = WATCH_ENGINE_INSIDE,
		  .pids = pids, .n_pids = 2, .knows_pids = true, .cost_per_hit_ns = 512.5,
		  .cpu_overhead_seconds = 0.000000512, .cpu_overhead = 0.25, .budget = 0.05,
		  .losses = { 2, 3, 4, 5, 6, 8 }, .filter_mismatch = "arg0 of probe 'done' is an int",
		  .probes = probes, .n_probes = 2,
		  .pairs = pairs, .n_pairs = 1, .rows = rows, .n_rows = 3 },
		{ .exe = "/gone", .since_ns = INT64_C(1600000000250000000), .problem = "no \"x\"" },
	},
};

/* A program in two containers, one of them of a pod. */
static const struct watch in_containers = {
	.n_targets = 2,
	.targets = {
		{ .exe = "/app", .pod = "6e9f1c2a", .container = "4f5c", .is_up = true,
		  .knows_pids = true, .cost_per_hit_ns = 0.36, .probes = probes, .n_probes = 1,
		  .pairs = pairs, .n_pairs = 1, .rows = rows, .n_rows = 1 },
		{ .exe = "/app", .container = "6d7e", .knows_pids = true, .probes = probes,
		  .n_probes = 1 },
	},
};

static const struct watch_pair pauses[] = {
	{ .start = "gc:minor",
	  .stop = "",
	  .sum = { .count = 10, .sum_ns = 1500000000, .buckets = kernel_buckets } },
};

/* One that tells all, and one that hides what can be hidden. */
static const struct watch with_collectors = {
	.n_targets = 2,
	.targets = {
		{ .exe = "/open", .since_ns = INT64_C(1600000000250000000), .pairs = pauses,
		  .n_pairs = 1,
		  .gc = { .is_known = true, .n_processes = 2, .has_words = true,
			  .has_compactions = true, .minor_words = 1000, .promoted_words = 30,
			  .major_words = 200, .allocated_words = 1170, .minor_collections = 4,
			  .major_collections = 3, .compactions = 1, .heap_words = 5000,
			  .top_heap_words = UINT64_MAX, .minor_rate = 0.5, .major_rate = NAN,
			  .allocated_rate = 20, .promoted_rate = 1, .pause_share = 0.25 } },
		{ .exe = "/closed",
		  .gc = { .is_known = true, .minor_collections = 4, .major_collections = 3,
			  .minor_rate = NAN, .major_rate = NAN, .allocated_rate = NAN,
			  .promoted_rate = NAN, .pause_share = NAN } },
	},
};

static int set_up(void **state)
{
	(void)state;
	memset(kernel_buckets, 0, sizeof(kernel_buckets));
	for (size_t i = 0; i < OCP_BUCKETS; i++) {
		if (ocp_bucket_start(i) == 896)
			kernel_buckets[i] = 4;
		/* More than the count: read a moment later. */
		if (ocp_bucket_start(i) == 2097152)
			kernel_buckets[i] = 8;
	}
	return 0;
}

ALL_TESTS(set_up, NULL);

/* ---- exposition ----------------------------------------------------------------------------- */

static char *metrics_of(const struct watch *watch, enum exposition exposition, bool label_pid)
{
	struct buckets buckets = { 0 };
	struct strbuf body = { 0 };

	assert_null(buckets_parse(&buckets, "1.024e-6,0.001,1"));
	metrics_write(&body, watch, exposition, &buckets, label_pid, NULL);
	strbuf_add(&body, "", 1);
	assert_false(body.is_short);
	return body.bytes;
}

/* TEXT has LINES one after the other. */
static void assert_has(const char *text, const char *lines)
{
	if (!strstr(text, lines))
		fail_msg("not there:\n%sin:\n%s", lines, text);
}

#define EXE "exe=\"/a\\\\b\\\"c\\nd\xef\xbf\xbd\""

TEST(text_format)
{
	char *text = metrics_of(&usual, EXPOSITION_TEXT, false);

	assert_has(text, "# TYPE ocaml_probes_up gauge\nocaml_probes_up{" EXE "} 1\n"
			 "ocaml_probes_up{exe=\"/gone\"} 0\n");
	/* Not known for the second. */
	assert_has(text, "# TYPE ocaml_probes_engine gauge\n"
			 "ocaml_probes_engine{" EXE ",engine=\"inside\"} 1\n# HELP");
	assert_has(text, "ocaml_probes_processes{" EXE "} 2\n# HELP");
	assert_has(text, "# HELP ocaml_probes_hits_total ");
	assert_has(text,
		   "# TYPE ocaml_probes_hits_total counter\n"
		   "ocaml_probes_hits_total{probe=\"done\"," EXE "} 7\n"
		   "ocaml_probes_hits_total{probe=\"start\"," EXE "} 18446744073709551615\n#");
	assert_has(text, "ocaml_probes_enabled{probe=\"done\"," EXE "} 2\n# HELP");
	assert_has(text, "ocaml_probes_counted{probe=\"done\"," EXE "} 1\n"
			 "ocaml_probes_counted{probe=\"start\"," EXE "} 0\n# HELP");
#define PAIR	 "start=\"start\",stop=\"done\"," EXE
#define DURATION "ocaml_probes_pair_duration_seconds"
	assert_has(text, "# TYPE " DURATION " histogram\n" DURATION "_bucket{" PAIR
			 ",le=\"1.024e-06\"} 4\n" DURATION "_bucket{" PAIR
			 ",le=\"0.001\"} 4\n" DURATION "_bucket{" PAIR ",le=\"1.0\"} 10\n" DURATION
			 "_bucket{" PAIR ",le=\"+Inf\"} 10\n" DURATION "_sum{" PAIR
			 "} 12.345678901\n" DURATION "_count{" PAIR "} 10\n# HELP");
	assert_has(text, "ocaml_probes_pair_orphans_total{" PAIR ",side=\"start\"} 3\n"
			 "ocaml_probes_pair_orphans_total{" PAIR ",side=\"stop\"} 4\n");
	assert_has(text, "ocaml_probes_pair_mismatched_total{" PAIR "} 9\n");
	assert_has(text, "ocaml_probes_pair_open{" PAIR "} 5\n");
	assert_has(text, "ocaml_probes_lost_total{" EXE ",reason=\"pair_map_full\"} 2\n"
			 "ocaml_probes_lost_total{" EXE ",reason=\"pair_not_keyed\"} 3\n"
			 "ocaml_probes_lost_total{" EXE ",reason=\"rows_full\"} 4\n"
			 "ocaml_probes_lost_total{" EXE ",reason=\"children_full\"} 5\n"
			 "ocaml_probes_lost_total{" EXE ",reason=\"filter_mismatches\"} 6\n"
			 "ocaml_probes_lost_total{exe=\"/gone\",reason=\"pair_map_full\"} 0\n");
	assert_has(text, "ocaml_probes_cpu_overhead_seconds_total{" EXE "} 0.000000512\n");
	assert_has(text, "ocaml_probes_cost_per_hit_seconds{" EXE "} 0.000000512500\n");
	assert_null(strstr(text, "_created"));
	assert_null(strstr(text, "# UNIT"));
	assert_null(strstr(text, "# EOF"));
	free(text);
}

TEST(openmetrics)
{
	char *text = metrics_of(&usual, EXPOSITION_OPENMETRICS, false);

	assert_has(text, "# TYPE ocaml_probes_hits counter\n"
			 "ocaml_probes_hits_total{probe=\"done\"," EXE "} 7\n"
			 "ocaml_probes_hits_created{probe=\"done\"," EXE "} 1600000000.250\n");
	assert_has(text, "# UNIT " DURATION " seconds\n");
	assert_has(text,
		   DURATION "_count{" PAIR "} 10\n" DURATION "_created{" PAIR "} 1600000000.250\n");
	assert_has(text, "# TYPE ocaml_probes_cpu_overhead_seconds counter\n"
			 "# UNIT ocaml_probes_cpu_overhead_seconds seconds\n");
	assert_string_equal(text + strlen(text) - 6, "# EOF\n");
	free(text);
}

TEST(collectors)
{
	char *text = metrics_of(&with_collectors, EXPOSITION_TEXT, false);

	assert_has(text, "# TYPE ocaml_gc_processes gauge\nocaml_gc_processes{exe=\"/open\"} 2\n"
			 "ocaml_gc_processes{exe=\"/closed\"} 0\n");
	assert_has(text, "ocaml_gc_heap_words{exe=\"/open\"} 5000\n# HELP");
	assert_has(text, "ocaml_gc_top_heap_words{exe=\"/open\"} 18446744073709551615\n# HELP");
	assert_has(text, "# TYPE ocaml_gc_allocated_words_total counter\n"
			 "ocaml_gc_allocated_words_total{exe=\"/open\"} 1170\n# HELP");
	assert_has(text, "ocaml_gc_minor_words_total{exe=\"/open\"} 1000\n# HELP");
	assert_has(text, "ocaml_gc_promoted_words_total{exe=\"/open\"} 30\n# HELP");
	assert_has(text, "ocaml_gc_major_words_total{exe=\"/open\"} 200\n# HELP");
	assert_has(text, "ocaml_gc_minor_collections_total{exe=\"/open\"} 4\n"
			 "ocaml_gc_minor_collections_total{exe=\"/closed\"} 4\n# HELP");
	assert_has(text, "ocaml_gc_major_collections_total{exe=\"/closed\"} 3\n# HELP");
	assert_has(text, "ocaml_gc_compactions_total{exe=\"/open\"} 1\n# HELP");
	assert_has(
		text,
		"# TYPE ocaml_gc_pause_seconds histogram\n"
		"ocaml_gc_pause_seconds_bucket{phase=\"minor\",exe=\"/open\",le=\"1.024e-06\"} 4\n");
	assert_has(text, "ocaml_gc_pause_seconds_sum{phase=\"minor\",exe=\"/open\"} 1.500000000\n"
			 "ocaml_gc_pause_seconds_count{phase=\"minor\",exe=\"/open\"} 10\n");
	assert_has(
		text,
		"ocaml_probes_pair_duration_seconds_count{start=\"gc:minor\",exe=\"/open\"} 10\n");
	free(text);
	/* These counters did not begin with the target's. */
	text = metrics_of(&with_collectors, EXPOSITION_OPENMETRICS, false);
	assert_has(text, "# TYPE ocaml_gc_minor_words counter\n"
			 "ocaml_gc_minor_words_total{exe=\"/open\"} 1000\n# HELP");
	assert_has(
		text,
		"ocaml_gc_pause_seconds_created{phase=\"minor\",exe=\"/open\"} 1600000000.250\n");
	free(text);
	/* Without a runtime that is known there is nothing. */
	text = metrics_of(&usual, EXPOSITION_TEXT, false);
	assert_null(strstr(text, "\nocaml_gc"));
	free(text);
}

TEST(collectors_are_in_the_status)
{
	struct strbuf body = { 0 };

	api_write_status(&body, &with_collectors, false, false, false, false);
	strbuf_add(&body, "", 1);
	assert_has(body.bytes,
		   ",\"gc\":{\"processes\":2,\"minor_collections\":4,\"major_collections\":3,"
		   "\"compactions\":1,\"heap_words\":5000,\"top_heap_words\":18446744073709551615,"
		   "\"allocated_words\":1170,\"minor_words\":1000,\"promoted_words\":30,"
		   "\"major_words\":200,\"minor_rate\":0.500,\"major_rate\":null,"
		   "\"allocated_rate\":20.000,\"promoted_rate\":1.000,\"pause_share\":0.250000}}");
	assert_has(body.bytes,
		   ",\"gc\":{\"processes\":0,\"minor_collections\":4,\"major_collections\":3,"
		   "\"minor_rate\":null,\"major_rate\":null,\"allocated_rate\":null,"
		   "\"promoted_rate\":null,\"pause_share\":null}}");
	free(body.bytes);
	body = (struct strbuf){ 0 };
	api_write_status(&body, &usual, false, false, false, false);
	strbuf_add(&body, "", 1);
	assert_null(strstr(body.bytes, "\"gc\""));
	free(body.bytes);
}

/* Of processes that have hit the probe, also of ended ones, and of those that run. */
TEST(hits_by_process)
{
	char *text = metrics_of(&usual, EXPOSITION_TEXT, true);

	assert_has(text, "counter\n"
			 "ocaml_probes_hits_total{probe=\"done\"," EXE ",pid=\"10\"} 1\n"
			 "ocaml_probes_hits_total{probe=\"done\"," EXE ",pid=\"20\"} 2\n"
			 "ocaml_probes_hits_total{probe=\"done\"," EXE ",pid=\"30\"} 0\n"
			 "ocaml_probes_hits_total{probe=\"start\"," EXE ",pid=\"20\"} 0\n"
			 "ocaml_probes_hits_total{probe=\"start\"," EXE ",pid=\"30\"} 9\n# HELP");
	free(text);
}

#define IN_POD "exe=\"/app\",pod_uid=\"6e9f1c2a\",container_id=\"4f5c\""
#define NO_POD "exe=\"/app\",container_id=\"6d7e\""

/* Every sample of a program in a container says in which. */
TEST(containers_have_labels)
{
	char *text = metrics_of(&in_containers, EXPOSITION_TEXT, false);

	assert_has(text, "ocaml_probes_up{" IN_POD "} 1\nocaml_probes_up{" NO_POD "} 0\n");
	assert_has(text, "ocaml_probes_hits_total{probe=\"done\"," IN_POD "} 7\n"
			 "ocaml_probes_hits_total{probe=\"done\"," NO_POD "} 7\n");
	assert_has(text, "ocaml_probes_lost_total{" IN_POD ",reason=\"pair_map_full\"} 0\n");
	assert_has(text, "ocaml_probes_cost_per_hit_seconds{" IN_POD "} 0.000000000360\n");
	assert_has(text, "{start=\"start\",stop=\"done\"," IN_POD ",side=\"start\"} 3\n");
	for (const char *at = text; (at = strstr(at, "exe=\"/app\"")); at++)
		assert_true(strncmp(at, IN_POD, strlen(IN_POD)) == 0 ||
			    strncmp(at, NO_POD, strlen(NO_POD)) == 0);
	free(text);
	text = metrics_of(&in_containers, EXPOSITION_TEXT, true);
	assert_has(text, "ocaml_probes_hits_total{probe=\"done\"," IN_POD ",pid=\"10\"} 1\n");
	free(text);
}

/* ---- a label -------------------------------------------------------------------------------- */

static const char *const routes[] = { "other", HOSTILE, "" };
static const struct watch_label route = { "route", 2, routes, 3 };
static const struct watch_value_hits route_hits[] = { { 0, 5, 0 }, { 1, 2, 1 } };
static struct watch_value_times route_times[] = { { 0, 0, 0, NULL }, { 2, 10, 3000000000, NULL } };

static const struct watch_probe labelled_probes[] = {
	{ .name = "done", .hits = 7, .values = route_hits, .n_values = 2 },
	{ .name = "mixed",
	  .hits = 9,
	  .values = route_hits,
	  .n_values = 2,
	  .has_unsplit = true,
	  .unsplit_hits = 2 },
	{ .name = "other", .hits = 3, .has_unsplit = true, .unsplit_hits = 3 },
};
static const struct watch_pair labelled_pairs[] = {
	{ .start = "start",
	  .stop = "done",
	  .values = route_times,
	  .n_values = 2,
	  .sum = { .count = 10, .sum_ns = 3000000000, .buckets = kernel_buckets } },
};
static const struct watch labelled = {
	.n_targets = 1,
	.targets = { { .exe = "/x",
		       .since_ns = INT64_C(1600000000250000000),
		       .label = &route,
		       .losses.unreadable_values = 4,
		       .probes = labelled_probes,
		       .n_probes = 3,
		       .pairs = labelled_pairs,
		       .n_pairs = 1 } },
};

TEST(labels)
{
	char *text;

	route_times[0].buckets = route_times[1].buckets = kernel_buckets;
	text = metrics_of(&labelled, EXPOSITION_TEXT, false);
#define HITS "ocaml_probes_hits_total{probe="
	assert_has(text, HITS "\"done\",exe=\"/x\",route=\"other\"} 5\n" HITS
			      "\"done\",exe=\"/x\",route=\"/a\\\\b\\\"c\\nd\xef\xbf\xbd\"} 2\n" HITS
			      "\"mixed\",exe=\"/x\"} 2\n" HITS
			      "\"mixed\",exe=\"/x\",route=\"other\"} 5\n");
	assert_has(text, HITS "\"other\",exe=\"/x\"} 3\n# HELP");
	/* No bucket exceeds the count, which is 0 for one row. */
#define LABELLED "start=\"start\",stop=\"done\",exe=\"/x\",route="
	assert_has(text, DURATION "_bucket{" LABELLED "\"other\",le=\"1.024e-06\"} 0\n");
	assert_has(text,
		   DURATION "_bucket{" LABELLED "\"\",le=\"1.0\"} 10\n" DURATION "_bucket{" LABELLED
			    "\"\",le=\"+Inf\"} 10\n" DURATION "_sum{" LABELLED
			    "\"\"} 3.000000000\n" DURATION "_count{" LABELLED "\"\"} 10\n# HELP");
	assert_null(strstr(text, DURATION "_count{start=\"start\",stop=\"done\",exe=\"/x\"}"));
	assert_has(text, "ocaml_probes_label_values{exe=\"/x\"} 2\n# HELP");
	assert_has(text, "ocaml_probes_label_limit{exe=\"/x\"} 2\n# HELP");
	assert_has(text, "ocaml_probes_lost_total{exe=\"/x\",reason=\"unreadable_values\"} 4\n");
	free(text);
}

/* Each label that the metrics have is taken. */
TEST(labels_that_are_taken)
{
	const struct watch *const all[] = { &usual, &in_containers, &with_collectors };
	size_t n = 0;

	for (size_t i = 0; i < 6; i++) {
		char *text = metrics_of(all[i / 2], EXPOSITION_OPENMETRICS, i % 2), *at = text;

		while ((at = strstr(at, "=\""))) {
			char *name = at++;

			while (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z'))
				name--;
			at[-1] = '\0';
			if (name[-1] == '{' || name[-1] == ',') {
				if (!label_name_check(name))
					fail_msg("label %s is not taken", name);
				n++;
			}
		}
		free(text);
	}
	assert_true(n > 100);
	assert_null(label_name_check("route"));
	assert_null(label_name_check("_route2"));
	assert_null(label_name_check("arg0"));
	assert_non_null(label_name_check("kind"));
	assert_non_null(label_name_check("__route"));
	assert_non_null(label_name_check("caf\xc3\xa9"));
	assert_non_null(label_name_check("a'"));
	assert_non_null(label_name_check(""));
}

TEST(nothing_is_watched)
{
	static const struct watch empty;
	char *text = metrics_of(&empty, EXPOSITION_TEXT, false);

	assert_has(text, "ocaml_probes_build_info{version=\"" OCP_VERSION "\"} 1\n");
	free(text);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void write_history(struct strbuf *out, const struct watch *watch)
{
	api_write_history(out, watch, WATCH_MINUTE, false);
}

static void write_quarter_hour(struct strbuf *out, const struct watch *watch)
{
	api_write_history(out, watch, WATCH_QUARTER_HOUR, false);
}

static void write_pair_history(struct strbuf *out, const struct watch *watch)
{
	api_write_history(out, watch, WATCH_MINUTE, true);
}

static struct json_object *json_of(const struct watch *watch,
				   void (*write)(struct strbuf *, const struct watch *))
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *object;
	struct strbuf body = { 0 };

	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	write(&body, watch);
	object = json_tokener_parse_ex(tokener, body.bytes, (int)body.n);
	assert_int_equal(json_tokener_get_error(tokener), json_tokener_success);
	json_tokener_free(tokener);
	strbuf_free(&body);
	return object;
}

static void write_status(struct strbuf *body, const struct watch *watch)
{
	api_write_status(body, watch, true, false, false, false);
}

/* PATH in ROOT, a JSON pointer, is VALUE. */
static void assert_json(struct json_object *root, const char *path, const char *value)
{
	struct json_object *found;

	if (json_pointer_get(root, path, &found) != 0)
		fail_msg("no %s in %s", path, json_object_to_json_string(root));
	assert_string_equal(json_object_to_json_string_ext(found, JSON_C_TO_STRING_PLAIN), value);
}

TEST(containers_are_in_the_status)
{
	struct json_object *root = json_of(&in_containers, write_status);

	assert_json(root, "/targets/0/pod_uid", "\"6e9f1c2a\"");
	assert_json(root, "/targets/0/container_id", "\"4f5c\"");
	assert_json(root, "/targets/1/pod_uid", "null");
	assert_json(root, "/targets/1/container_id", "\"6d7e\"");
	json_object_put(root);
	root = json_of(&usual, write_status);
	assert_json(root, "/targets/0/pod_uid", "null");
	assert_json(root, "/targets/0/container_id", "null");
	json_object_put(root);
}

TEST(status)
{
	struct json_object *root = json_of(&usual, write_status);

	assert_json(root, "/version", "2");
	assert_json(root, "/control", "true");
	assert_json(root, "/targets/0/exe", "\"\\/a\\\\b\\\"c\\nd\xef\xbf\xbd\"");
	assert_json(root, "/targets/0/processes", "[20,30]");
	assert_json(root, "/targets/0/engine", "\"inside\"");
	assert_json(root, "/targets/1/engine", "null");
	assert_json(root, "/targets/0/problem", "null");
	assert_json(root, "/targets/0/cost",
		    "{\"cost_per_hit_ns\":512.5,\"cpu_overhead\":0.250000,\"seconds\":0.000001,"
		    "\"budget\":0.050000}");
	assert_json(root, "/targets/0/losses/children_full", "5");
	assert_json(root, "/targets/0/losses/filter_mismatches", "6");
	assert_json(root, "/targets/0/filter_mismatch", "\"arg0 of probe 'done' is an int\"");
	assert_json(root, "/targets/1/filter_mismatch", "null");
	assert_json(root, "/targets/0/probes/0",
		    "{\"probe\":\"done\",\"hits\":7,\"rate\":1.500,\"sites\":1,\"counted\":true,"
		    "\"in_pair\":true,\"handler\":\"on\",\"enabled\":2}");
	assert_json(root, "/targets/0/probes/1",
		    "{\"probe\":\"start\",\"hits\":18446744073709551615,\"rate\":null,\"sites\":3,"
		    "\"counted\":false,\"in_pair\":false,\"handler\":\"unknown\",\"enabled\":0}");
	assert_json(
		root, "/targets/0/pairs/0",
		"{\"start\":\"start\",\"stop\":\"done\",\"count\":10,\"sum_ns\":12345678901,"
		"\"min_ns\":1,\"max_ns\":3000000,\"open\":5,\"orphan_starts\":3,"
		"\"orphan_stops\":4,\"map_full\":7,\"not_keyed\":8,\"mismatched\":9,"
		"\"rate\":2.000,\"p50_ns\":5,\"p99_ns\":6,"
		"\"note\":\"start,done: 90% of its times are wrong: they begin with one request "
		"and end with another one of the same thread (leave out --key none and "
		"--depth)\"}");
	assert_json(root, "/targets/0/rows/2", "{\"probe\":\"start\",\"pid\":30,\"hits\":9}");
	assert_json(root, "/targets/1/processes", "null");
	assert_json(root, "/targets/1/problem", "\"no \\\"x\\\"\"");
	assert_json(root, "/targets/1/probes", "[]");
	json_object_put(root);
}

TEST(history)
{
	uint32_t column[OCP_BUCKETS] = { 0 };
	struct watch watch = usual;
	struct json_object *root;

	/* Oldest first: nothing known, then this. */
	watch.n_columns = 2;
	watch.columns[0] = column;
	for (size_t i = 0; i < OCP_BUCKETS; i++) {
		if (ocp_bucket_start(i) == 1152)
			column[i] = 1;
		if (ocp_bucket_start(i) == 1280)
			column[i] = 2;
		if (ocp_bucket_start(i) == 1408)
			column[i] = 3;
	}
	root = json_of(&watch, write_history);
	assert_json(root, "/time", "1700000000.500");
	assert_json(root, "/interval", "1");
	assert_json(root, "/targets/0/probes/1", "{\"probe\":\"start\",\"rates\":[null,20.000]}");
	assert_json(root, "/targets/0/pairs/0/bounds_ns", "[1024,1280,1536]");
	assert_json(root, "/targets/0/pairs/0/columns", "[null,[1,5]]");
	assert_json(root, "/targets/1/pairs", "[]");
	json_object_put(root);
	root = json_of(&watch, write_pair_history);
	assert_json(root, "/targets/0/pairs/0/columns", "[null,[1,5]]");
	assert_int_equal(json_pointer_get(root, "/targets/0/probes", NULL), -1);
	json_object_put(root);
	root = json_of(&watch, write_quarter_hour);
	assert_json(root, "/time", "1699999993.500");
	assert_json(root, "/interval", "15");
	assert_json(root, "/targets/0/probes", "[{\"probe\":\"start\",\"rates\":[null,20.000]}]");
	assert_json(root, "/targets/0/pairs/0/columns", "[null,[1,5]]");
	json_object_put(root);

	memset(column, 0, sizeof(column));
	column[OCP_BUCKETS - 1] = 1;
	column[0] = 1;
	root = json_of(&watch, write_history);
	assert_json(root, "/targets/0/pairs/0/bounds_ns/0", "0");
	assert_json(root, "/targets/0/pairs/0/bounds_ns/248", "18446744073709551615");
	assert_json(root, "/targets/0/pairs/0/columns/1/247", "1");
	json_object_put(root);

	watch.n_columns = 0;
	root = json_of(&watch, write_history);
	assert_json(root, "/targets/0/probes/0/rates", "[]");
	assert_json(root, "/targets/0/pairs/0/columns", "[]");
	json_object_put(root);
}

/* ---- many ----------------------------------------------------------------------------------- */

enum { MANY = 10000 };

static double best_ms(struct watch *watch, size_t n, enum exposition exposition, size_t *bytes)
{
	struct buckets buckets;
	double best = INFINITY;

	watch->targets[0].n_probes = n;
	buckets_set_default(&buckets);
	for (size_t i = 0; i < 15; i++) {
		const int64_t start_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		struct strbuf body = { 0 };

		metrics_write(&body, watch, exposition, &buckets, false, NULL);
		best = fmin(best, (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_ns) / 1e6);
		*bytes = body.n;
		strbuf_free(&body);
	}
	return best;
}

/*
 * Ten times as many probes take about ten times as long, 100 times if it is quadratic. How long 10
 * 000 take is a matter of `make bench`.
 */
TEST(ten_thousand_probes)
{
	struct watch_probe *many = calloc(MANY, sizeof(*many));
	char(*names)[32] = calloc(MANY, sizeof(*names));
	struct watch watch = { .n_targets = 1 };
	size_t bytes;
	double few_ms, ms;

	for (size_t i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "module_function_%05zu", i);
		many[i] = (struct watch_probe){ .name = names[i], .hits = i * 1234567 };
	}
	watch.targets[0] = (struct watch_target){ .exe = "/usr/lib/company/bin/the_service",
						  .knows_pids = true,
						  .probes = many };
	few_ms = best_ms(&watch, MANY / 10, EXPOSITION_TEXT, &bytes);
	ms = best_ms(&watch, MANY, EXPOSITION_TEXT, &bytes);
	print_message("# text: %.2f ms, %zu bytes\n", ms, bytes);
	assert_true(ms < 30 * few_ms);
	few_ms = best_ms(&watch, MANY / 10, EXPOSITION_OPENMETRICS, &bytes);
	ms = best_ms(&watch, MANY, EXPOSITION_OPENMETRICS, &bytes);
	print_message("# OpenMetrics: %.2f ms, %zu bytes\n", ms, bytes);
	assert_true(ms < 30 * few_ms);
	free(many);
	free(names);
}

/* What Gc.Memprof has; a message that is cut short is not read beyond its end. */
TEST(heaps_are_in_the_metrics)
{
	static const struct heap_figures figures = { 1, 2, 30, 4 };
	struct profile_counts counts = { .heaps = "" };
	struct buckets buckets = { 0 };
	struct strbuf news = { 0 }, body = { 0 };

	strbuf_add(&news, (const char *)&figures, sizeof(figures));
	strbuf_add(&news, "/a\"b", 5);
	strbuf_add(&news, (const char *)&figures, sizeof(figures));
	strbuf_add(&news, "/c", 2);
	counts.heaps = news.bytes;
	counts.n_heaps = news.n;
	buckets_set_default(&buckets);
	metrics_write(&body, &usual, EXPOSITION_OPENMETRICS, &buckets, false, &counts);
	strbuf_add(&body, "", 1);
	assert_has(body.bytes, "# TYPE ocaml_probes_memprof_live_words gauge\n"
			       "ocaml_probes_memprof_live_words{exe=\"/a\\\"b\"} 2\n"
			       "# HELP ocaml_probes_memprof_allocated_words "
			       "Words allocated since the profile began (estimate).\n"
			       "# TYPE ocaml_probes_memprof_allocated_words counter\n"
			       "ocaml_probes_memprof_allocated_words_total{exe=\"/a\\\"b\"} 30\n");
	assert_has(body.bytes, "ocaml_probes_memprof_lost_events_total{exe=\"/a\\\"b\"} 4\n");
	assert_null(strstr(body.bytes, "exe=\"/c"));
	assert_non_null(strstr(body.bytes, "ocaml_profiles_served_total{kind=\"heap\"} 0\n"));
	strbuf_free(&body);
	strbuf_free(&news);
}
