// SPDX-License-Identifier: MIT
/* Configuration files: what is taken from them, and what is said of bad ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/config.h"
#include "unit.h"

static struct ocp_ctx *ctx;
static char file[] = "/tmp/serve_config.XXXXXX";

static int set_up(void **state)
{
	int fd;

	(void)state;
	ctx = ocp_ctx_new();
	fd = mkstemp(file);
	if (fd >= 0)
		close(fd);
	return ctx && fd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(file);
	ocp_ctx_free(ctx);
	return 0;
}

ALL_TESTS(set_up, tear_down);

static int read_bytes(const char *bytes, size_t n, struct config **config)
{
	FILE *out = fopen(file, "w");

	assert_non_null(out);
	assert_int_equal(fwrite(bytes, 1, n, out), n);
	assert_int_equal(fclose(out), 0);
	return config_read(ctx, file, -1, config);
}

static int read_text(const char *text, struct config **config)
{
	return read_bytes(text, strlen(text), config);
}

TEST(all_keys)
{
	static const char text[] =
		"// what is watched\n"
		"{\n"
		"  \"listen\": \"127.0.0.1:9000\", /* not the\n usual port */\n"
		"  \"buckets\": [0.001, 0.01, 1],\n"
		"  \"label_pid\": true,\n"
		"  \"hosts\": [\"probes.example\", \"b:8080\"],\n"
		"  \"textfile\": \"/run/x.prom\",\n"
		"  \"profile\": true, \"memprof\": 0.5, \"token_file\": \"/etc/token\",\n"
		"  \"targets\": [\n"
		"    {\"exe\": \"/usr/bin/app\", \"count\": [\"a\", \"b\"], \"depth\": 1,\n"
		"     \"time\": [[\"a\", \"b\"], [\"c\", \"d\"]], \"filter\": \"arg0 > 1\"},\n"
		"    {\"pid\": 42, \"count\": \"request_.*\", \"time\": [[\"x\", \"y\"]],\n"
		"     \"key\": \"arg0\", \"budget\": 2.5, \"engine\": \"auto\"},\n"
		"    {\"exe\": \"/usr/bin/all\", \"engine\": \"inside\"}\n"
		"  ]\n"
		"} // the end";
	const struct measure_request *request;
	struct config *config;

	assert_int_equal(read_text(text, &config), 0);
	assert_string_equal(config->settings.listen, "127.0.0.1:9000");
	assert_int_equal(config->settings.n_hosts, 2);
	assert_string_equal(config->settings.hosts[0], "probes.example");
	assert_string_equal(config->settings.hosts[1], "b:8080");
	assert_string_equal(config->settings.textfile, "/run/x.prom");
	assert_true(config->settings.profile);
	assert_true(config->settings.memprof);
	assert_true(config->settings.memprof_rate == 0.5);
	assert_string_equal(config->settings.token_file, "/etc/token");
	assert_true(config->settings.label_pid);
	assert_int_equal(config->settings.buckets.n, 3);
	assert_true(config->settings.buckets.bounds_ns[1] == 10000000);
	assert_int_equal(config->n_targets, 3);
	assert_string_equal(config->targets[0].exe, "/usr/bin/app");
	request = config->targets[0].request;
	assert_int_equal(request->counted.n, 2);
	assert_int_equal(request->counted.list[1].kind, ITEM_PROBE);
	assert_string_equal(request->counted.list[1].text, "b");
	assert_int_equal(request->n_pairs, 2);
	assert_string_equal(request->pairs[1].start.text, "c");
	assert_string_equal(request->pairs[1].stop.text, "d");
	assert_int_equal(request->depth, 1);
	assert_string_equal(request->filter, "arg0 > 1");
	assert_null(config->targets[1].exe);
	assert_int_equal(config->targets[1].pid, 42);
	request = config->targets[1].request;
	assert_int_equal(request->counted.list[0].kind, ITEM_PROBE_REGEXP);
	assert_string_equal(request->counted.list[0].text, "request_.*");
	assert_string_equal(request->key, "arg0");
	assert_true(request->budget == 0.025);
	assert_int_equal(config->targets[0].engine, ENGINE_DEFAULT);
	assert_int_equal(config->targets[1].engine, ENGINE_AUTO);
	assert_int_equal(config->targets[2].engine, ENGINE_INSIDE);
	/* All probes. */
	request = config->targets[2].request;
	assert_int_equal(request->counted.n, 1);
	assert_int_equal(request->counted.list[0].kind, ITEM_ALL_PROBES);
	config_free(config);
}

TEST(labels)
{
	static const char text[] =
		"{\"targets\": [\n"
		"  {\"exe\": \"a\", \"by\": \"arg1\"},\n"
		"  {\"exe\": \"b\", \"by_limit\": 4096, \"by\": \"route'\"},\n"
		"  {\"exe\": \"c\", \"by\": \"pid\", \"by_label\": \"job_pid\"},\n"
		"  {\"exe\": \"d\"}]}";
	struct config *config;

	assert_int_equal(read_text(text, &config), 0);
	assert_string_equal(config->targets[0].request->by, "arg1");
	assert_string_equal(config->targets[0].label.name, "arg1");
	assert_int_equal(config->targets[0].label.limit, 100);
	assert_string_equal(config->targets[1].request->by, "route'");
	assert_string_equal(config->targets[1].label.name, "route_");
	assert_int_equal(config->targets[1].label.limit, 4096);
	assert_string_equal(config->targets[2].request->by, "pid");
	assert_string_equal(config->targets[2].label.name, "job_pid");
	assert_null(config->targets[3].request->by);
	assert_null(config->targets[3].label.name);
	assert_int_equal(config->targets[3].label.limit, 0);
	config_free(config);
}

/* Lists have names, whatever characters these have; a string is what --count= takes. */
TEST(names_with_commas_are_names)
{
	static const char text[] =
		"{\"targets\": [\n"
		"  {\"exe\": \"x\", \"count\": [\"a,b\", \"c.*\"],\n"
		"   \"time\": [[\"a,b\", \"c\"], [\"a\", \"b,c\"], [\"a\", \"d\"]]},\n"
		"  {\"exe\": \"y\", \"count\": \"a,b\"}]}";
	const struct measure_request *request;
	struct config *config;

	assert_int_equal(read_text(text, &config), 0);
	request = config->targets[0].request;
	assert_int_equal(request->counted.n, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(request->counted.list[i].kind, ITEM_PROBE);
	assert_string_equal(request->counted.list[0].text, "a,b");
	assert_string_equal(request->counted.list[1].text, "c.*");
	assert_int_equal(request->n_pairs, 3);
	assert_string_equal(request->pairs[0].start.text, "a,b");
	assert_string_equal(request->pairs[0].stop.text, "c");
	assert_string_equal(request->pairs[1].start.text, "a");
	assert_string_equal(request->pairs[1].stop.text, "b,c");
	request = config->targets[1].request;
	assert_int_equal(request->counted.n, 2);
	assert_string_equal(request->counted.list[1].text, "b");
	config_free(config);
}

/* A prefix tells functions from probes, in lists too; a function is timed without a stop. */
TEST(functions_have_a_prefix)
{
	static const char text[] =
		"{\"targets\": [\n"
		"  {\"exe\": \"x\", \"count\": [\"fn:A.f\", \"fn:A.*\", \"c:f\", \"f\"],\n"
		"   \"time\": [\"fn:A.f\", [\"a\", \"b\"], \"c:libc.so.6:malloc\"]},\n"
		"  {\"exe\": \"y\", \"count\": \"fn:A.f,b\"}]}";
	static const enum item_kind kinds[] = { ITEM_FUNCTION, ITEM_FUNCTION_REGEXP,
						ITEM_C_FUNCTION, ITEM_PROBE };
	const struct measure_request *request;
	struct config *config;

	assert_int_equal(read_text(text, &config), 0);
	request = config->targets[0].request;
	assert_int_equal(request->counted.n, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(request->counted.list[i].kind, kinds[i]);
	assert_true(measure_request_has_code(request));
	assert_int_equal(request->n_pairs, 3);
	assert_string_equal(request->pairs[0].start.text, "fn:A.f");
	assert_null(request->pairs[0].stop.text);
	assert_string_equal(request->pairs[1].stop.text, "b");
	assert_string_equal(request->pairs[2].start.text, "c:libc.so.6:malloc");
	assert_null(request->pairs[2].stop.text);
	request = config->targets[1].request;
	assert_int_equal(request->counted.n, 2);
	assert_int_equal(request->counted.list[0].kind, ITEM_FUNCTION);
	assert_int_equal(request->counted.list[1].kind, ITEM_PROBE);
	config_free(config);
}

TEST(names_have_a_limit)
{
	char text[2048];
	struct config *config;

	snprintf(text, sizeof(text), "{'targets': [{'exe': 'x', 'count': ['%01024d']}]}", 1);
	assert_int_equal(read_text(text, &config), 0);
	config_free(config);
	snprintf(text, sizeof(text), "{'targets': [{'exe': 'x', 'count': ['%01025d']}]}", 1);
	assert_int_equal(read_text(text, &config), -EINVAL);
	assert_non_null(strstr(ocp_error(ctx), "targets[0].count[0]: '000"));
	assert_non_null(strstr(ocp_error(ctx), "is too long for the name of a probe"));
}

TEST(empty_objects)
{
	struct config *config;

	assert_int_equal(read_text("{}", &config), 0);
	assert_null(config->settings.listen);
	assert_int_equal(config->settings.buckets.n, 0);
	assert_int_equal(config->n_targets, 0);
	config_free(config);
}

#define TARGET(members) "{\n\"targets\": [\n{" members "}\n]}"

/* What is said has no file name here; a line of 0 stands for none. */
static const struct {
	const char *text, *said;
} bad[] = {
	{ "", ":1: invalid JSON: " },
	{ "{", ":1: invalid JSON: " },
	{ "{\n\"listen\": nonsense\n}", ":2: invalid JSON: " },
	{ "{}\n\n{}", ":3: text after the end of the object" },
	{ "{} x", ":1: text after the end of the object" },
	{ "[]", ":1: not a JSON object" },
	{ "1", ":1: not a JSON object" },
	{ "null", ":1: not a JSON object" },
	{ "{\n\"lisen\": \"x\"}", ":2: lisen: no such key" },
	{ "{\"\": 1}", ":1: : no such key" },
	{ "{\n\"listen\": 1}", ":2: listen: not a string" },
	{ "{\"listen\": null}", ":1: listen: not a string" },
	{ "{\"listen\": \"\"}", ":1: listen: is empty" },
	{ "{\"listen\": \"a\\u0000b\"}", ":1: listen: contains a zero byte" },
	{ "{\"listen\": \"a\",\n\n\"listen\": \"a\"}", ":3: listen: given twice, first in line 1" },
	{ "{\"hosts\": \"x\"}", ":1: hosts: not a list of names" },
	{ "{\"hosts\": []}", ":1: hosts: not a list of names" },
	{ "{\"hosts\": [\"x\",\n 7]}", ":2: hosts[1]: not a string" },
	{ "{\"hosts\": [\"http://x\"]}", ":1: hosts[0]: 'http://x': not NAME or" },
	{ "{\"textfile\": 'a', 'textfile': 'b'}", ":1: textfile: given twice" },
	{ "{\"l\\u0069sten\": \"a\", \"listen\": \"b\"}", "backslash in a key" },
	{ "{\"label_pid\": 1}", ":1: label_pid: not true or false" },
	{ "{\"label_pid\": \"true\"}", ":1: label_pid: not true or false" },
	{ "{\"buckets\": 1}", ":1: buckets: not a list of seconds" },
	{ "{\"buckets\": []}", ":1: buckets: not a list of seconds" },
	{ "{\"buckets\": [1,\n2,\n\"3\"]}", ":3: buckets[2]: not a number" },
	{ "{\"buckets\": [1,\n1]}", ":2: buckets[1]: bounds must ascend" },
	{ "{\"buckets\": [NaN]}", ":1: buckets[0]: bounds must be from" },
	{ "{\"targets\": {}}", ":1: targets: not a list of objects" },
	{ "{\"targets\": []}", ":1: targets: not a list of objects" },
	{ "{\"targets\": [\n\"x\"]}", ":2: targets[0]: not an object" },
	{ TARGET(""), ":3: targets[0]: either 'exe' or 'pid'" },
	{ TARGET("\"exe\": \"x\", \"pid\": 1"), ":3: targets[0]: either 'exe' or 'pid'" },
	{ TARGET("\"exe\": 5"), ":3: targets[0].exe: not a string" },
	{ TARGET("\"exe\": \"x\", \"exe\": \"y\""), ":3: targets[0].exe: given twice" },
	{ TARGET("\"pid\": 0"), ":3: targets[0].pid: not a number from 1 to 2147483647" },
	{ TARGET("\"pid\": 4294967297"), ":3: targets[0].pid: not a number from" },
	{ TARGET("\"pid\": 99999999999999999999999"), ":3: targets[0].pid: not a number from" },
	{ TARGET("\"pid\": 1.5"), ":3: targets[0].pid: not a whole number" },
	{ TARGET("\"exe\": \"x\", \"counts\": []"), ":3: targets[0].counts: no such key" },
	{ TARGET("\"exe\": \"x\", \"count\": []"), ":3: targets[0].count: is empty" },
	{ TARGET("\"exe\": \"x\", \"count\": 1"), ":3: targets[0].count: not a list" },
	{ TARGET("\"exe\": \"x\", \"count\": [\"b,c\",\n\"b,c\"]"),
	  ":4: targets[0].count[1]: 'b,c' is given twice" },
	{ TARGET("\"exe\": \"x\", \"count\": [\"a\", \"a\"]"), ":3: targets[0].count[1]: 'a' is" },
	{ TARGET("\"exe\": \"x\", \"time\": [\"a\", \"b\"]"), ":3: targets[0].time[0]: not two" },
	{ TARGET("\"exe\": \"x\", \"time\": \"a,b\""), ":3: targets[0].time: not a list of pairs" },
	{ TARGET("\"exe\": \"x\", \"time\": [[\"a\", \"b\", \"c\"]]"), "time[0]: not two names" },
	{ TARGET("\"exe\": \"x\", \"time\": [[\"a\", 1]]"),
	  ":3: targets[0].time[0][1]: not a str" },
	{ TARGET("\"exe\": \"x\", \"time\": [[\"a\", \"a\"]]"),
	  "time[0]: start and stop are the same" },
	{ TARGET("\"exe\": \"x\", \"time\": [[\"a\", \"b\"], [\"a\", \"b\"]]"),
	  ":3: targets[0].time[1]: 'a,b' is given twice" },
	{ TARGET("\"exe\": \"x\", \"time\": [[\"fn:A.f\"]]"), "time[0]: not two names" },
	{ TARGET("\"exe\": \"x\", \"time\": [\"fn:A.f\", \"fn:A.f\"]"),
	  ":3: targets[0].time[1]: 'fn:A.f' is given twice" },
	{ TARGET("\"exe\": \"x\", \"time\": [\"fn:A.*\"]"),
	  ":3: targets[0].time[0]: 'fn:A.*' is not one function" },
	{ TARGET("\"exe\": \"x\", \"time\": [\"fn:A.f\\u0000\"]"), "contains a zero byte" },
	{ TARGET("\"exe\": \"x\", \"depth\": 2"), ":3: targets[0]: 'depth' requires 'time'" },
	{ TARGET("\"exe\": \"x\", \"depth\": 33"), ":3: targets[0].depth: not a number from 1" },
	{ TARGET("\"exe\": \"x\", \"key\": \"arg0\""), ":3: targets[0]: 'key' requires 'time'" },
	{ TARGET("\"exe\": \"x\", \"time\": [[\"a\", \"b\"]], \"depth\": 2, \"key\": \"arg0\""),
	  ":3: targets[0]: 'depth' and 'key' are mutually exclusive" },
	{ TARGET("\"exe\": \"x\", \"budget\": 0"), ":3: targets[0].budget: must be above 0" },
	{ TARGET("\"exe\": \"x\", \"budget\": \"5%\""), ":3: targets[0].budget: not a number" },
	{ TARGET("\"exe\": \"x\", \"engine\": \"in\""),
	  ":3: targets[0].engine: 'in': not bpf, inside or auto" },
	{ TARGET("\"exe\": \"x\", \"engine\": 1"), ":3: targets[0].engine: not a string" },
	{ TARGET("\"exe\": \"x\", \"engine\": \"inside\", \"budget\": 1"),
	  ":3: targets[0]: the engine 'inside' excludes budget" },
	{ TARGET("\"exe\": \"x\", \"count\": [\"fn:A.f\", \"c:f\"], \"engine\": \"inside\""),
	  ":3: targets[0]: the engine 'inside' excludes c:" },
	{ TARGET("\"exe\": \"x\", \"count\": [\"fn:A.f\", \"note:a:b\"], \"engine\": \"inside\""),
	  ":3: targets[0]: the engine 'inside' excludes note:, times of c: and pairs of lines or phases" },
	{ TARGET("\"exe\": \"x\"}, {\"exe\": \"y\"},\n{\"exe\": \"x\""),
	  ":4: targets[2]: the same program as targets[0]" },
	{ TARGET("\"pid\": 7}, {\"pid\": 7"), ":3: targets[1]: the same program as targets[0]" },
	/* A key in a comment or a string does not count. */
	{ "{ // \"listen\": 1\n \"textfile\": \"\\\"listen\\\": {\", /* \n */\n \"listen\": 1}",
	  ":4: listen: not a string" },
};

TEST(what_is_wrong_is_said_in_one_line)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct config *config;
		const char *said;

		if (read_text(bad[i].text, &config) != -EINVAL)
			fail_msg("taken: %s", bad[i].text);
		said = ocp_error(ctx);
		assert_memory_equal(said, file, strlen(file));
		if (!strstr(said, bad[i].said) || strchr(said, '\n'))
			fail_msg("of %s was said: %s", bad[i].text, said);
	}
}

TEST(close_keys_are_hinted_at)
{
	struct config *config;

	assert_int_equal(read_text("{\"label-pid\": true}", &config), -EINVAL);
	assert_string_equal(ocp_hint(ctx), "did you mean 'label_pid'?");
}

TEST(files_that_cannot_be_read)
{
	const size_t n = (1 << 20) + 1;
	struct config *config;
	char *big = malloc(n);

	assert_int_equal(config_read(ctx, "/nonexistent/file", -1, &config), -ENOENT);
	assert_int_equal(config_read(ctx, "/", -1, &config), -EINVAL);
	assert_non_null(strstr(ocp_error(ctx), "/: Is a directory"));
	memset(big, ' ', n);
	assert_int_equal(read_bytes(big, n, &config), -EFBIG);
	free(big);
}

/* Nobody writes to it, and nobody is waited for. */
TEST(what_may_block_is_no_file)
{
	struct config *config;

	unlink(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	alarm(10);
	assert_int_equal(config_read(ctx, file, -1, &config), -EINVAL);
	assert_non_null(strstr(ocp_error(ctx), ": not a regular file"));
	assert_int_equal(config_read(ctx, file, STDIN_FILENO, &config), -EINVAL);
	assert_int_equal(config_read(ctx, "/dev/zero", -1, &config), -EINVAL);
	alarm(0);
	unlink(file);
}

/* What a shell's <(COMMAND) is: read once, to its end, and given up when we are woken. */
TEST(a_pipe_is_read_once)
{
	static const char text[] = "{\"listen\": \"a\"}";
	struct config *config;
	int pipe_fds[2], wake_fds[2];
	char name[32];

	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(pipe(wake_fds), 0);
	snprintf(name, sizeof(name), "/dev/fd/%d", pipe_fds[0]);
	alarm(10);
	assert_int_equal(write(pipe_fds[1], text, strlen(text)), strlen(text));
	assert_int_equal(config_read(ctx, name, -1, &config), -EINVAL);
	assert_non_null(strstr(ocp_error(ctx), ": a pipe cannot be read again"));
	assert_int_equal(write(wake_fds[1], "", 1), 1);
	assert_int_equal(config_read(ctx, name, wake_fds[0], &config), -ECANCELED);
	assert_int_equal(write(pipe_fds[1], text, strlen(text)), strlen(text));
	close(pipe_fds[1]);
	assert_int_equal(config_read(ctx, name, wake_fds[0], &config), 0);
	alarm(0);
	assert_string_equal(config->settings.listen, "a");
	config_free(config);
	close(pipe_fds[0]);
	close(wake_fds[0]);
	close(wake_fds[1]);
}

/* Any cut, and any changed byte, of a good file is taken or refused; it does no harm. */
TEST(damaged_files)
{
	static const char text[] = "{\"listen\": \"a\", /* c */ \"buckets\": [1, 2.5e0], 'x': {},\n"
				   "\"targets\": [{\"exe\": \"\\u00e9\\\"\", \"time\": [[\"a\", "
				   "\"b\"]], \"key\": \"arg0\"}]} // end";
	static const char bytes[] = "\0\"'{}[],:\\/* \n\xff"
				    "0tn";
	const size_t n = sizeof(text) - 1;
	struct config *config;
	char copy[sizeof(text)];

	for (size_t i = 0; i <= n; i++)
		if (read_bytes(text, i, &config) == 0)
			config_free(config);
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < sizeof(bytes) - 1; j++) {
			memcpy(copy, text, sizeof(text));
			copy[i] = bytes[j];
			if (read_bytes(copy, n, &config) == 0)
				config_free(config);
		}
	}
}
