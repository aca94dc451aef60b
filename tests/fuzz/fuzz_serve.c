// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: what clients send to `serve` and what stands in its file. The first byte says
 * which: `h` all that a client sends over one connection, to a real server in this process, with
 * libmicrohttpd and all checks of a request; `o` the body of a request to switch; `m` the message
 * that it is to the process that measures; else a configuration. There are no real
 * probes: the requested changes are only checked.
 */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/cli.h"
#include "serve/config.h"
#include "serve/http.h"
#include "serve/negotiate.h"
#include "serve/switch_request.h"

enum { PATIENCE_MS = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require_true(bool is_true, const char *condition, int line)
{
	if (is_true)
		return;
	fprintf(stderr, "fuzz_serve.c:%d: not true: %s\n", line, condition);
	abort();
}

#define require(condition) require_true(condition, #condition, __LINE__)

/* ---- in the place of what is not looked at -------------------------------------------------- */

static const struct watch_probe the_probe = { .name = "p" };
static const struct watch_target the_target = { .exe = "/x", .probes = &the_probe, .n_probes = 1 };

size_t watch_target_count(const struct watch *watch)
{
	(void)watch;
	return 1;
}

const struct watch_target *watch_target(const struct watch *watch, size_t target)
{
	(void)watch;
	require(target == 0);
	return &the_target;
}

ptrdiff_t watch_find_probe(const struct watch_target *target, const char *name)
{
	require(target == &the_target);
	return strcmp(name, the_probe.name) == 0 ? 0 : -1;
}

int watch_switch_handler(struct watch *watch, size_t target, const char *probe, bool on, size_t *n)
{
	(void)watch;
	require(target == 0 && strcmp(probe, the_probe.name) == 0);
	*n = on;
	return 0;
}

int watch_switch_counter(struct watch *watch, size_t target, const char *probe, bool on)
{
	(void)watch;
	require(target == 0 && strcmp(probe, the_probe.name) == 0);
	return on ? 0 : -EINVAL;
}

/* No control character of a client's gets to the terminal. */
void say(const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (const char *c = text; *c; c++)
		require((unsigned char)*c >= ' ' && *c != 0x7f);
}

/* ---- a server ------------------------------------------------------------------------------- */

static struct ocp_ctx *ctx;
static struct hosts hosts;
static struct auth auth;
static struct http *http;
static struct sockaddr_un address;
static socklen_t address_bytes = sizeof(address);

static void answer_switch(void *data, const struct http_request *request, struct http_reply *reply)
{
	(void)data;
	require(hosts_admit(&hosts, request->client.host, reply));
	require(request->client.body[request->client.n_body] == '\0');
	switch_request_take(&auth, ctx, NULL, &request->client, reply);
}

static void answer_get(void *data, const struct http_request *request, struct http_reply *reply)
{
	char *accept = http_header_list(request, "Accept");

	(void)data;
	require(!request->client.n_body);
	require(negotiate(accept) < EXPOSITIONS);
	reply->type = exposition_type(negotiate(accept));
	strbuf_str(&reply->body, request->path);
	free(accept);
}

static bool admit(void *data, const struct http_request *request, struct http_reply *reply)
{
	(void)data;
	return hosts_admit(&hosts, request->client.host, reply);
}

/* A socket that is no port: those run out. */
static int listen_somewhere(void)
{
	const struct sockaddr_un none = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	require(fd >= 0 && bind(fd, (const struct sockaddr *)&none, sizeof(sa_family_t)) == 0);
	require(getsockname(fd, (struct sockaddr *)&address, &address_bytes) == 0);
	require(listen(fd, 16) == 0);
	return fd;
}

static void start(void)
{
	static const char *const names[] = { "named.example" };
	static const struct http_route routes[] = {
		{ "/", answer_get, HTTP_GET, 0 },
		{ "/metrics", answer_get, HTTP_GET, 0 },
		{ "/switch", answer_switch, HTTP_POST, 0 },
	};
	static const struct listener listener = { .name = "127.0.0.1:9464", .port = 9464 };
	struct http_settings settings = { .routes = routes, .n_routes = 3, .admit = admit };

	ctx = ocp_ctx_new();
	require(ctx != NULL);
	hosts_init(&hosts, &listener, false, names, 1);
	require(auth_init(ctx, &hosts, NULL, &auth) == 0);
	strcpy(auth.token, "fuzz");
	settings.listen_fd = listen_somewhere();
	require(http_new(ctx, &settings, &http) == 0);
}

static void serve_client(const uint8_t *bytes, size_t n)
{
	char got[4096];
	size_t sent = 0;
	ssize_t came = -1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	require(fd >= 0 && connect(fd, (const struct sockaddr *)&address, address_bytes) == 0);
	for (int waited_ms = 0; came; waited_ms++) {
		const ssize_t done = sent < n ? send(fd, bytes + sent, n - sent, MSG_NOSIGNAL) : 0;

		sent += done > 0 ? (size_t)done : 0;
		if (sent == n || (done < 0 && errno == EPIPE))
			shutdown(fd, SHUT_WR);
		http_run(http);
		http_expire(http);
		do
			came = recv(fd, got, sizeof(got), 0);
		while (came > 0);
		if (came < 0 && errno != EAGAIN)
			came = 0;
		/* Whatever it was, it ends: nothing more can come. */
		require(waited_ms < PATIENCE_MS);
		if (came && waited_ms > 8)
			poll(NULL, 0, 1);
	}
	close(fd);
	/* And all that it had is freed: the leak checker looks after each client. */
	http_run(http);
	http_run(http);
}

/* ---- the others ----------------------------------------------------------------------------- */

static void obey(const char *text, size_t n)
{
	const struct client_request request = { .body = text, .n_body = n, .peer = "127.0.0.1:1" };
	struct http_reply reply = { 0 };

	switch_request_answer(ctx, NULL, &request, &reply);
	require(reply.type && reply.body.n && reply.body.bytes[reply.body.n - 1] == '\n');
	require(memchr(reply.body.bytes, '\n', reply.body.n) ==
		reply.body.bytes + reply.body.n - 1);
	strbuf_free(&reply.body);
}

/* Whatever the process that speaks HTTP writes: nothing is switched without the token. */
static void read_message(const char *bytes, size_t n)
{
	struct client_request request;
	struct http_reply reply = { 0 };
	struct strbuf again = { 0 };

	if (!client_request_read(bytes, n, &request))
		return;
	switch_request_take(&auth, ctx, NULL, &request, &reply);
	require(reply.body.n > 0);
	require(reply.status == 401 || reply.status == 403 ||
		(request.authorization.n == 1 &&
		 strcmp(request.authorization.value + 7, "fuzz") == 0));
	strbuf_free(&reply.body);
	client_request_write(&request, &again);
	require(again.n == n && memcmp(again.bytes, bytes, n) == 0);
	strbuf_free(&again);
}

/* Without a stop, the start is one function. */
static void check_pair(const struct request_pair *pair)
{
	require(*pair->start.text);
	if (pair->stop.text)
		require(*pair->stop.text);
	else
		require(item_is_code(pair->start.text) && pair->start.kind != ITEM_FUNCTION_REGEXP);
}

static void check_target(const struct watch_spec *target)
{
	const struct measure_request *request = target->request;

	require(!target->exe != !target->pid && target->pid >= 0);
	require(request->counted.n > 0 && measure_request_check(request) == REQUEST_FINE);
	for (size_t i = 0; i < request->n_pairs; i++)
		check_pair(&request->pairs[i]);
	require(request->budget >= 0 && request->depth <= OCP_MAX_DEPTH);
}

static void configure(const char *text, size_t n)
{
	struct ocp_ctx *own = ocp_ctx_new();
	struct config *config;

	require(own != NULL);
	if (config_parse(own, "fuzz", text, n, &config) != 0) {
		require(strncmp(ocp_error(own), "fuzz:", 5) == 0);
		require(!strchr(ocp_error(own), '\n'));
	} else {
		for (size_t i = 0; i < config->n_targets; i++)
			check_target(&config->targets[i]);
		for (size_t i = 0; i < config->settings.n_hosts; i++)
			require(!hosts_check_name(config->settings.hosts[i]));
		for (size_t i = 1; i < config->settings.buckets.n; i++)
			require(config->settings.buckets.bounds_ns[i - 1] <
				config->settings.buckets.bounds_ns[i]);
		config_free(config);
	}
	ocp_ctx_free(own);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char *text;

	if (!http)
		start();
	if (n == 0)
		return 0;
	if (*bytes == 'h') {
		serve_client(bytes + 1, n - 1);
		return 0;
	}
	/* A buffer of exactly that size, so that the sanitizer sees a step beyond it. */
	text = malloc(n);
	require(text != NULL);
	memcpy(text, bytes + 1, n - 1);
	text[n - 1] = '\0';
	if (*bytes == 'm')
		read_message(text, n - 1);
	else if (*bytes == 'o')
		obey(text, n - 1);
	else
		configure(text, n - 1);
	free(text);
	return 0;
}
