// SPDX-License-Identifier: MIT
/*
 * Who may switch probes, and by which names clients may ask for the server. A request that passes
 * all checks of switch_request_take() gets to switch_request_answer, and has no body here: it is
 * answered with 400.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/auth.h"
#include "serve/switch_request.h"
#include "unit.h"

enum { PASSED = 400, UNAUTHORIZED = 401, FORBIDDEN = 403, UNSUPPORTED = 415, MISDIRECTED = 421 };

static struct ocp_ctx *ctx;
static struct hosts hosts;
static struct auth auth;
static int null_fd, stderr_fd;
static struct listener listener = { .name = "127.0.0.1:9464", .port = 9464, .is_loopback = true };

static int set_up(void **state)
{
	(void)state;
	null_fd = open("/dev/null", O_WRONLY);
	stderr_fd = dup(STDERR_FILENO);
	ctx = ocp_ctx_new();
	hosts_init(&hosts, &listener, true, NULL, 0);
	return ctx ? auth_init(ctx, &hosts, NULL, &auth) : -1;
}

static int tear_down(void **state)
{
	(void)state;
	ocp_ctx_free(ctx);
	return 0;
}

ALL_TESTS(set_up, tear_down);

static struct request_header one(const char *value)
{
	return (struct request_header){ value, 1 };
}

static struct client_request good_request(void)
{
	static char value[16 + TOKEN_ROOM];

	snprintf(value, sizeof(value), "Bearer %s", auth.token);
	return (struct client_request){
		.host = "127.0.0.1:9464",
		.authorization = one(value),
		.content_type = one("application/json"),
		.body = "",
		.peer = "127.0.0.1:1",
	};
}

static unsigned int status_of(const struct client_request *request)
{
	struct http_reply reply = { 0 };

	/* Without the log of refusals. */
	dup2(null_fd, STDERR_FILENO);
	switch_request_take(&auth, ctx, NULL, request, &reply);
	dup2(stderr_fd, STDERR_FILENO);
	strbuf_free(&reply.body);
	return reply.status;
}

/* The status if TOKEN, of N bytes, is sent, in a buffer that ends where it does. */
static unsigned int status_with_token(const char *token, size_t n)
{
	static const char scheme[] = "Bearer ";
	const size_t n_scheme = sizeof(scheme) - 1;
	struct client_request request = good_request();
	char *value = malloc(n_scheme + n + 1);
	unsigned int status;

	assert_non_null(value);
	memcpy(value, scheme, n_scheme);
	memcpy(value + n_scheme, token, n);
	value[n_scheme + n] = '\0';
	request.authorization = one(value);
	status = status_of(&request);
	free(value);
	return status;
}

/* ---- the token ------------------------------------------------------------------------------ */

TEST(the_token_passes)
{
	assert_int_equal(strlen(auth.token), 2 * TOKEN_BYTES);
	assert_int_equal(status_with_token(auth.token, strlen(auth.token)), PASSED);
}

/* One character alone is wrong: each of them, by each bit, and by case. */
TEST(each_character_counts)
{
	const size_t n = strlen(auth.token);
	char token[sizeof(auth.token)];

	for (size_t i = 0; i < n; i++)
		for (unsigned int bit = 0; bit < 7; bit++) {
			memcpy(token, auth.token, sizeof(token));
			token[i] = (char)(token[i] ^ (1 << bit));
			if (token[i])
				assert_int_equal(status_with_token(token, n), UNAUTHORIZED);
		}
}

/* Two differences do not make up for each other, wherever they are. */
TEST(differences_add_up)
{
	const size_t n = strlen(auth.token);
	char token[sizeof(auth.token)];

	for (size_t i = 0; i < n; i++)
		for (size_t j = i + 1; j < n; j++) {
			memcpy(token, auth.token, sizeof(token));
			token[i] ^= 1;
			token[j] ^= 1;
			assert_int_equal(status_with_token(token, n), UNAUTHORIZED);
		}
	for (size_t i = 0; i < n; i++)
		token[i] = (char)(auth.token[i] ^ 1);
	assert_int_equal(status_with_token(token, n), UNAUTHORIZED);
}

TEST(each_length_counts)
{
	const size_t n = strlen(auth.token);
	char longer[sizeof(auth.token) + 1];

	for (size_t i = 0; i < n; i++) {
		/* Its beginning, and its end. */
		assert_int_equal(status_with_token(auth.token, i), UNAUTHORIZED);
		assert_int_equal(status_with_token(auth.token + n - i, i), UNAUTHORIZED);
	}
	for (int c = 1; c < 128; c++) {
		snprintf(longer, sizeof(longer), "%s%c", auth.token, c);
		assert_int_equal(status_with_token(longer, n + 1), UNAUTHORIZED);
		snprintf(longer, sizeof(longer), "%c%s", c, auth.token);
		assert_int_equal(status_with_token(longer, n + 1), UNAUTHORIZED);
	}
	assert_int_equal(status_with_token("", 0), UNAUTHORIZED);
}

TEST(two_tokens_differ)
{
	struct auth other;

	assert_int_equal(auth_init(ctx, &hosts, NULL, &other), 0);
	assert_string_not_equal(other.token, auth.token);
	assert_int_equal(strspn(other.token, "0123456789abcdef"), 2 * TOKEN_BYTES);
	assert_int_equal(status_with_token(other.token, strlen(other.token)), UNAUTHORIZED);
}

TEST(only_one_bearer)
{
	struct client_request request = good_request();
	char value[16 + TOKEN_ROOM];

	request.authorization.n = 2;
	assert_int_equal(status_of(&request), UNAUTHORIZED);
	request.authorization = (struct request_header){ 0 };
	assert_int_equal(status_of(&request), UNAUTHORIZED);
	for (size_t i = 0; i < 7; i++) {
		snprintf(value, sizeof(value), "Bearer %s", auth.token);
		value[i] = 'x';
		request.authorization = one(value);
		assert_int_equal(status_of(&request), UNAUTHORIZED);
	}
	request.authorization = one("Bearer");
	assert_int_equal(status_of(&request), UNAUTHORIZED);
	request.authorization = one(auth.token);
	assert_int_equal(status_of(&request), UNAUTHORIZED);
	snprintf(value, sizeof(value), "bEARER %s", auth.token);
	request.authorization = one(value);
	assert_int_equal(status_of(&request), PASSED);
}

/* ---- the other headers ---------------------------------------------------------------------- */

TEST(origins)
{
	static const char *const names[] = { "proxy.example" };
	static const struct {
		const char *host, *origin;
		unsigned int status;
	} cases[] = {
		{ "127.0.0.1:9464", "http://127.0.0.1:9464", PASSED },
		{ "LocalHost:9464", "http://localhost:9464", PASSED },
		{ "127.0.0.1:9464", "http://127.0.0.1:9465", FORBIDDEN },
		{ "127.0.0.1:9464", "http://127.0.0.1", FORBIDDEN },
		{ "127.0.0.1:9464", "http://127.0.0.1:94640", FORBIDDEN },
		{ "127.0.0.1:9464", "http://127.0.0.1:946", FORBIDDEN },
		{ "127.0.0.1:9464", "http://localhost:9464", FORBIDDEN },
		{ "127.0.0.1:9464", "http://", FORBIDDEN },
		{ "127.0.0.1:9464", "127.0.0.1:9464", FORBIDDEN },
		{ "127.0.0.1:9464", "https://127.0.0.1:9464", FORBIDDEN },
		{ "127.0.0.1:9464", "null", FORBIDDEN },
		{ "127.0.0.1:9464", "", FORBIDDEN },
		{ NULL, "http://127.0.0.1:9464", FORBIDDEN },
		{ "proxy.example", "http://proxy.example", PASSED },
		{ "proxy.example", "https://proxy.example", PASSED },
		{ "proxy.example", "https://proxy.example:1", FORBIDDEN },
		{ "proxy.example", "https://other.example", FORBIDDEN },
		{ "other.example", "https://other.example", FORBIDDEN },
	};
	struct client_request request = good_request();

	hosts.names = names;
	hosts.n_names = 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		request.host = cases[i].host;
		request.origin = one(cases[i].origin);
		if (status_of(&request) != cases[i].status)
			fail_msg("%s for %s", cases[i].origin, cases[i].host);
	}
	request.host = "127.0.0.1:9464";
	request.origin = (struct request_header){ "http://127.0.0.1:9464", 2 };
	assert_int_equal(status_of(&request), FORBIDDEN);
	hosts.n_names = 0;
}

TEST(content_types)
{
	static const struct {
		const char *type;
		unsigned int status;
	} cases[] = {
		{ "application/json", PASSED },
		{ "Application/JSON; charset=utf-8", PASSED },
		{ "application/json \t;x", PASSED },
		{ "application/jsonx", UNSUPPORTED },
		{ "application/jso", UNSUPPORTED },
		{ "text/plain", UNSUPPORTED },
		{ "text/plain; application/json", UNSUPPORTED },
		{ "", UNSUPPORTED },
	};
	struct client_request request = good_request();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		request.content_type = one(cases[i].type);
		if (status_of(&request) != cases[i].status)
			fail_msg("%s", cases[i].type);
	}
	request.content_type = (struct request_header){ "application/json", 2 };
	assert_int_equal(status_of(&request), UNSUPPORTED);
	request.content_type = (struct request_header){ 0 };
	assert_int_equal(status_of(&request), UNSUPPORTED);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static bool admits(const struct hosts *by, const char *host)
{
	struct http_reply reply = { 0 };
	const bool is_admitted = hosts_admit(by, host, &reply);

	assert_int_equal(reply.status, is_admitted ? 0 : MISDIRECTED);
	if (!is_admitted && host)
		assert_non_null(memmem(reply.body.bytes, reply.body.n, "--host NAME", 11));
	strbuf_free(&reply.body);
	return is_admitted;
}

static void check_all(const struct hosts *by, const char *const *list, size_t n, bool expected)
{
	for (size_t i = 0; i < n; i++)
		if (admits(by, list[i]) != expected)
			fail_msg("%s: %s", list[i], expected ? "is refused" : "is admitted");
}

#define admits_all(by, list)  check_all(by, list, sizeof(list) / sizeof((list)[0]), true)
#define admits_none(by, list) check_all(by, list, sizeof(list) / sizeof((list)[0]), false)

/* Without --control: what nobody can let resolve to us. */
TEST(hosts_without_control)
{
	static const char *const yes[] = {
		"127.0.0.1:9464", "127.0.0.1",		"10.1.2.3:80", "192.0.2.1",   "[::1]:9464",
		"[2001:db8::7]",  "[::ffff:1.2.3.4]:1", "localhost",   "LOCALHOST:1",
	};
	static const char *const no[] = {
		"",
		":9464",
		"evil.example",
		"evil.example:9464",
		"127.0.0.1.evil.example",
		"localhost.evil.example:9464",
		"1.2.3",
		"1.2.3.4.5",
		"1.2.3.256",
		"1.2.3.4:x",
		"1.2.3.4:80:80",
		"[::1",
		"::1",
		"[::1]x:1",
		"[evil]:1",
		"127.0.0.1 ",
		"localhos",
		"localhostx",
		"0x7f000001",
		"[127.0.0.1]",
	};
	struct listener everywhere = { .name = "0.0.0.0:9464", .port = 9464 };
	struct hosts open;

	hosts_init(&open, &everywhere, false, NULL, 0);
	admits_all(&open, yes);
	admits_none(&open, no);
	assert_false(admits(&open, NULL));
	snprintf(open.machine, sizeof(open.machine), "web1");
	assert_true(admits(&open, "web1:9464"));
	assert_true(admits(&open, "WEB1"));
	assert_false(admits(&open, "web1.example:9464"));
	assert_false(admits(&open, "web:9464"));
	open.machine[0] = '\0';
	assert_false(admits(&open, ""));
	assert_false(admits(&open, ":9464"));
}

/* With --control: our own address, with our port. */
TEST(hosts_with_control)
{
	static const char *const yes[] = { "127.0.0.1:9464", "localhost:9464", "LocalHost:9464",
					   "[::1]:9464" };
	static const char *const no[] = {
		"127.0.0.1",	   "127.0.0.1:1",
		"127.0.0.1:94640", "127.0.0.1:9464.evil.example",
		"localhost",	   "127.0.0.2:9464",
		"10.1.2.3:9464",   "evil.example:9464",
		"[::2]:9464",	   "",
	};
	struct listener at_80 = { .name = "[::1]:80", .port = 80 };
	struct hosts own;

	admits_all(&hosts, yes);
	admits_none(&hosts, no);
	assert_false(admits(&hosts, NULL));
	hosts_init(&own, &at_80, true, NULL, 0);
	assert_true(admits(&own, "[::1]"));
	assert_true(admits(&own, "localhost"));
	assert_true(admits(&own, "localhost:80"));
	assert_false(admits(&own, "localhost:9464"));
}

TEST(given_hosts)
{
	static const char *const names[] = { "probes.example", "other.example:8080" };
	static const char *const yes[] = { "probes.example",	  "Probes.Example",
					   "probes.example:9464", "probes.example:1",
					   "other.example:8080",  "OTHER.example:8080" };
	static const char *const no[] = {
		"probes.example.evil.example", "xprobes.example",  "other.example",
		"other.example:80800",	       "other.example:80", "example"
	};
	struct hosts by;

	for (int has_control = 0; has_control < 2; has_control++) {
		hosts_init(&by, &listener, has_control, names, 2);
		admits_all(&by, yes);
		admits_none(&by, no);
	}
}

TEST(names_that_are_none)
{
	static const char *const good[] = { "a",	  "a.b-c_d.E0", "x:1",	"x:65535",
					    "1.2.3.4:80", "[::1]:80",	"[::1]" };
	static const char *const bad[] = { "",	  ":80",  "x:",	      "x:0",	  "x:65536",
					   "x:y", "x y",  "*.x",      "http://x", "x/y",
					   "u@x", "[::1", "x:123456", "\xc3\xa9" };
	char longest[257];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (hosts_check_name(good[i]))
			fail_msg("%s: %s", good[i], hosts_check_name(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!hosts_check_name(bad[i]))
			fail_msg("'%s' is taken", bad[i]);
	memset(longest, 'x', sizeof(longest));
	longest[256] = '\0';
	assert_non_null(hosts_check_name(longest));
	longest[255] = '\0';
	assert_null(hosts_check_name(longest));
}

/* The first five of a second. */
TEST(few_refusals_are_logged)
{
	const int log = memfd_create("log", MFD_CLOEXEC);
	struct client_request request = good_request();
	int64_t second;
	char text[8192];
	ssize_t n;
	int lines = 0;

	assert_true(log >= 0);
	request.authorization = one("Bearer wrong");
	do {
		second = clock_ns(CLOCK_MONOTONIC) / 1000000000;
		while (clock_ns(CLOCK_MONOTONIC) / 1000000000 == second)
			usleep(1000);
		assert_int_equal(ftruncate(log, 0), 0);
		lseek(log, 0, SEEK_SET);
		dup2(log, STDERR_FILENO);
		for (int i = 0; i < 20; i++) {
			struct http_reply reply = { 0 };

			switch_request_take(&auth, ctx, NULL, &request, &reply);
			strbuf_free(&reply.body);
		}
		dup2(stderr_fd, STDERR_FILENO);
	} while (clock_ns(CLOCK_MONOTONIC) / 1000000000 != second + 1);
	n = pread(log, text, sizeof(text) - 1, 0);
	close(log);
	assert_true(n > 0);
	text[n] = '\0';
	for (const char *at = text; (at = strstr(at, "switch refused")); at++)
		lines++;
	assert_int_equal(lines, 5);
}

/* The log goes to a terminal. The name of a client comes from the process that is not trusted. */
TEST(the_log_is_plain)
{
	static const char peer[] = "a\x1b[2J\r\n\x7f\xc2\x9b\xe2\x80\xae"
				   "b";
	const int log = memfd_create("log", MFD_CLOEXEC);
	char text[512];
	ssize_t n;

	assert_true(log >= 0);
	dup2(log, STDERR_FILENO);
	client_request_log(peer, "no\x1b[1mprobe");
	dup2(stderr_fd, STDERR_FILENO);
	n = pread(log, text, sizeof(text) - 1, 0);
	close(log);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, " a?[2J?????b: no?[1mprobe\n"));
}
