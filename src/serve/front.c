// SPDX-License-Identifier: MIT
#include "serve/front.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "base/interrupted.h"
#include "serve/http.h"
#include "serve/sandbox.h"
#include "serve/web/assets.h"

enum {
	EXPIRE_MS = 1000,
	END_MS = 5000,
	PROFILE_WAIT_MS = 360000, /* how long a client waits for its profile */
};

/* ---- asking the measuring process ----------------------------------------------------------- */

/*
 * The HTTP process's end of the channel: it sends requests to the measuring process, and keeps the
 * latest answers.
 *
 * A client waits only briefly for a new answer. While the measuring process is busy, the client
 * gets the previous answer and its age. If there is no previous answer, if a client needs an answer
 * that was made after its request, or if it switches a probe, the client gets a ticket and waits
 * until the answer with this ticket arrives.
 */

enum {
	/* How long a client waits for an answer before it gets the previous answer. */
	ASKS_WAIT_MS = 50,
	ASKS_FIRST_MS = 5000,	  /* how long a client waits if there is no previous answer */
	ASKS_MAX_SWITCHES = 8,	  /* maximum number of unanswered requests ASK_SWITCH */
	ASKS_MAX_PROFILES = 24,	  /* maximum number of unanswered requests for profiles */
	ASKS_MAX_AGE_MS = 300000, /* an older answer is not sent: the measuring process hangs */
};

struct asks {
	int fd;
	bool is_alone; /* the channel has failed: the measuring process has exited */
	/* Unanswered requests, in the order of sending. */
	struct {
		enum ask ask;
		uint64_t ticket; /* the id of the request in the channel */
		int64_t since_ms;
		bool is_ended; /* ASK_END_OF_PROFILE has been sent for this request */
	} waiting[2 * ASK_SWITCH + ASKS_MAX_SWITCHES + ASKS_MAX_PROFILES];
	size_t n_waiting;
	uint64_t last_ticket;
	/* The latest answer to each kind of request before ASK_SWITCH in enum ask. */
	struct known_answer {
		bool is_there;
		struct strbuf body;
		int64_t made_ms;
	} known[ASK_SWITCH];
	struct http *http; /* the HTTP server, whose clients wait for the answers */
};

enum asks_result {
	ASKS_FRESH,   /* the answer was made during this call */
	ASKS_OLD,     /* the previous answer: the measuring process is busy */
	ASKS_NOTHING, /* no answer yet: the measuring process is busy, hangs or has exited */
};

static void asks_free(struct asks *asks)
{
	for (size_t i = 0; i < ASK_SWITCH; i++)
		strbuf_free(&asks->known[i].body);
}

/*
 * Keep BODY, the answer to ASK, for other clients, unless it is an error. Takes over the memory of
 * BODY.
 */
static void keep_answer(struct asks *asks, enum ask ask, unsigned int status, struct strbuf *body)
{
	struct known_answer *known = &asks->known[ask];

	if (status || body->is_short) {
		strbuf_free(body);
		return;
	}
	strbuf_free(&known->body);
	*known = (struct known_answer){ true, *body, clock_ms() };
}

/*
 * Return true if each answer to ASK is for one client only. If false, answers to ASK are kept and
 * shared by clients.
 */
static bool is_private(enum ask ask)
{
	return ask >= ASK_SWITCH;
}

static bool is_profile(enum ask ask)
{
	return ask > ASK_SWITCH;
}

static const char *type_of(enum ask ask)
{
	if (ask == ASK_PROFILE || ask == ASK_HEAP || ask == ASK_RECORDING)
		return "application/octet-stream";
	if (ask == ASK_PAGE)
		return "text/html; charset=utf-8";
	if (ask == ASK_PROFILES)
		return "text/plain; charset=utf-8";
	return ask < ASK_STATUS ? exposition_type((enum exposition)(ask - ASK_METRICS))
				: "application/json";
}

/*
 * Send the answer that has arrived from the measuring process to the clients that wait for TICKET.
 */
static void send_answer(const struct asks *asks, enum ask ask, uint64_t ticket, unsigned int status,
			const struct strbuf *body)
{
	struct http_reply reply = { .status = status,
				    .type = status ? "application/json" : type_of(ask) };

	if (!http_is_awaited(asks->http, ticket))
		return;
	strbuf_add(&reply.body, body->bytes, body->n);
	http_add_header(&reply, "Cache-Control", "no-store");
	if (ask < ASK_STATUS)
		http_add_header(&reply, "Vary", "Accept");
	if ((ask == ASK_PROFILE || ask == ASK_HEAP) && !status)
		http_add_header(&reply, "Content-Disposition",
				ask == ASK_HEAP ? "attachment; filename=\"heap.pb.gz\""
						: "attachment; filename=\"profile.pb.gz\"");
	if (ask == ASK_RECORDING && !status)
		http_add_header(&reply, "Content-Disposition", "attachment");
	/* The page has a policy of its own. It must not act as a page of this server. */
	if (ask == ASK_PAGE)
		http_add_header(&reply, "Content-Security-Policy",
				"sandbox allow-scripts allow-forms; frame-ancestors 'none'");
	if (ask == ASK_PAGE)
		http_add_header(&reply, "Referrer-Policy", "no-referrer");
	if (status == HTTP_UNAUTHORIZED)
		http_add_header(&reply, "WWW-Authenticate", "Bearer");
	http_answer(asks->http, ticket, &reply);
}

/*
 * Take one answer from the channel. Return false if no answer has arrived, or if the channel has
 * failed.
 */
static bool take_one(struct asks *asks)
{
	struct strbuf body = { 0 };
	unsigned int status = 0;
	uint64_t ticket = 0;
	const int err = channel_receive(asks->fd, &ticket, &status, &body);
	enum ask ask;
	size_t at = 0;

	if (err == -EAGAIN)
		return false;
	while (at < asks->n_waiting && asks->waiting[at].ticket != ticket)
		at++;
	if (err || at == asks->n_waiting) {
		asks->is_alone = true;
		strbuf_free(&body);
		return false;
	}
	ask = asks->waiting[at].ask;
	asks->n_waiting--;
	memmove(asks->waiting + at, asks->waiting + at + 1,
		(asks->n_waiting - at) * sizeof(asks->waiting[0]));
	send_answer(asks, ask, ticket, status, &body);
	if (is_private(ask))
		strbuf_free(&body);
	else
		keep_answer(asks, ask, status, &body);
	return true;
}

/* Take the answers that have arrived. Call this when `fd` is readable. */
static void asks_collect(struct asks *asks)
{
	while (!asks->is_alone && take_one(asks))
		;
}

/*
 * Return the number of unanswered requests ASK, and set *LAST to the ticket of the newest of them,
 * if there is one.
 */
static size_t count_waiting(const struct asks *asks, enum ask ask, uint64_t *last)
{
	size_t n = 0;

	for (size_t i = 0; i < asks->n_waiting; i++) {
		if (asks->waiting[i].ask != ask)
			continue;
		*last = asks->waiting[i].ticket;
		n++;
	}
	return n;
}

static uint64_t send_ask(struct asks *asks, enum ask ask, const struct strbuf *message)
{
	const uint64_t ticket = asks->last_ticket + 1;
	const int err = channel_ask(asks->fd, ask, ticket, message->bytes, message->n);

	asks->is_alone |= err && err != -EAGAIN;
	if (err)
		return 0;
	asks->waiting[asks->n_waiting].ask = ask;
	asks->waiting[asks->n_waiting].ticket = asks->last_ticket = ticket;
	asks->waiting[asks->n_waiting].is_ended = false;
	asks->waiting[asks->n_waiting++].since_ms = clock_ms();
	return ticket;
}

static size_t count_profiles(const struct asks *asks)
{
	size_t n = 0;

	for (size_t i = 0; i < asks->n_waiting; i++)
		n += is_profile(asks->waiting[i].ask);
	return n;
}

/*
 * Send ASK with MESSAGE, and return the ticket of the request. If clients share the answers to ASK,
 * and two requests ASK are already unanswered, send nothing and return the ticket of the second of
 * these. In both cases, the answer with the returned ticket is made after this call. Return 0 if
 * too many requests are waiting, or if asks->is_alone.
 */
static uint64_t asks_queue(struct asks *asks, enum ask ask, const struct strbuf *message)
{
	uint64_t last = 0;
	size_t n;

	asks_collect(asks);
	if (asks->is_alone)
		return 0;
	n = count_waiting(asks, ask, &last);
	if (ask == ASK_SWITCH && n == ASKS_MAX_SWITCHES)
		return 0;
	if (is_profile(ask) && count_profiles(asks) == ASKS_MAX_PROFILES)
		return 0;
	/*
	 * The measuring process executes one request after the other. While two requests ASK are
	 * unanswered, it has not yet started the second one, so the answer to the second one will
	 * be current.
	 */
	if (!is_private(ask) && n == 2)
		return last;
	return send_ask(asks, ask, message);
}

/* Ask the measuring process to end each unanswered profile whose client has gone. */
static void asks_end_profiles(struct asks *asks)
{
	for (size_t i = 0; i < asks->n_waiting; i++) {
		const uint64_t ticket = asks->waiting[i].ticket;

		if (is_profile(asks->waiting[i].ask) && !asks->waiting[i].is_ended &&
		    !http_is_awaited(asks->http, ticket))
			asks->waiting[i].is_ended =
				channel_ask(asks->fd, ASK_END_OF_PROFILE, ticket, "", 0) == 0;
	}
}

/*
 * Return the time at which the oldest unanswered request was sent, or the current time if no
 * request is waiting. Ignore requests for profiles, since profiles take long.
 */
static int64_t oldest_ms(const struct asks *asks)
{
	for (size_t i = 0; i < asks->n_waiting; i++)
		if (!is_profile(asks->waiting[i].ask))
			return asks->waiting[i].since_ms;
	return clock_ms();
}

/*
 * Wait briefly for the answer to ASK. The deadline counts from the oldest unanswered request, so
 * that the waits of several clients do not add up while the measuring process is busy.
 */
static void await(struct asks *asks, enum ask ask)
{
	const int64_t deadline_ms = oldest_ms(asks) + ASKS_WAIT_MS;
	struct pollfd fd = { .fd = asks->fd, .events = POLLIN };
	uint64_t last;

	while (!asks->is_alone && count_waiting(asks, ask, &last)) {
		const int64_t left_ms = deadline_ms - clock_ms();

		if (left_ms <= 0 || poll(&fd, 1, (int)left_ms) == 0)
			break;
		take_one(asks);
	}
}

/* Return true if the latest answer to ASK is recent enough for clients. */
static bool is_usable(const struct known_answer *known)
{
	return known->is_there && clock_ms() - known->made_ms <= ASKS_MAX_AGE_MS;
}

/*
 * Wait briefly for a new answer to ASK. Append the latest answer to BODY, and set *AGE_MS to the
 * age of this answer. ASK must precede ASK_SWITCH in enum ask. On ASKS_NOTHING, set *TICKET to the
 * ticket of the next answer, or to 0 if there will be none or if asks->is_alone.
 */
static enum asks_result asks_get(struct asks *asks, enum ask ask, struct strbuf *body,
				 int64_t *age_ms, uint64_t *ticket)
{
	const struct known_answer *known = &asks->known[ask];
	const int64_t begin_ms = clock_ms();

	*ticket = 0;
	asks_collect(asks);
	if (!asks->is_alone && !count_waiting(asks, ask, ticket))
		*ticket = send_ask(asks, ask, &(struct strbuf){ 0 });
	if (asks->n_waiting)
		await(asks, ask);
	*age_ms = clock_ms() - known->made_ms;
	if (asks->is_alone)
		*ticket = 0;
	if (asks->is_alone || !is_usable(known))
		return ASKS_NOTHING;
	strbuf_add(body, known->body.bytes, known->body.n);
	return known->made_ms >= begin_ms ? ASKS_FRESH : ASKS_OLD;
}

/* ---- the paths ------------------------------------------------------------------------------ */

struct routes {
	const struct hosts *hosts;
	struct asks asks;
	struct http_route *list;
	char age[24]; /* value of the Age header, in seconds */
};

/*
 * Costly answers are shared: http_share() identifies each kind of request before ASK_SWITCH by a
 * number from 1.
 */
_Static_assert((int)ASK_SWITCH == (int)HTTP_MAX_SHARES, "there is room for each");

static void say_busy(const struct routes *routes, struct http_reply *reply)
{
	http_add_header(reply, "Retry-After", "1");
	http_error(reply, HTTP_UNAVAILABLE,
		   routes->asks.is_alone ? "the server is shutting down"
					 : "the server is busy measuring",
		   NULL);
}

/* Return true if the client refuses cached answers (RFC 9111, 5.2.1.4). */
static bool wants_new(const struct http_request *request)
{
	char *list = http_header_list(request, "Cache-Control");
	const bool wants = list && strcasestr(list, "no-cache");

	free(list);
	return wants;
}

/* Answer with the measuring process's answer to ASK. TYPE is the Content-Type on success. */
static void pass_on(struct routes *routes, const struct http_request *request, enum ask ask,
		    const char *type, struct http_reply *reply)
{
	enum asks_result result;
	int64_t age_ms = 0;

	if (wants_new(request)) {
		reply->ticket = asks_queue(&routes->asks, ask, &(struct strbuf){ 0 });
		if (!reply->ticket)
			say_busy(routes, reply);
		return;
	}
	result = asks_get(&routes->asks, ask, &reply->body, &age_ms, &reply->ticket);
	if (result == ASKS_NOTHING && reply->ticket)
		return;
	reply->ticket = 0;
	http_add_header(reply, "Cache-Control", "no-store");
	reply->type = type;
	if (result == ASKS_NOTHING)
		say_busy(routes, reply);
	if (result != ASKS_OLD)
		return;
	snprintf(routes->age, sizeof(routes->age), "%lld", (long long)age_ms / 1000);
	http_add_header(reply, "Age", routes->age);
}

static void answer_metrics(void *data, const struct http_request *request, struct http_reply *reply)
{
	char *accept = http_header_list(request, "Accept");
	const enum exposition exposition = negotiate(accept);

	free(accept);
	if (http_share(request, reply, ASK_METRICS + exposition + 1))
		return;
	http_add_header(reply, "Vary", "Accept");
	pass_on(data, request, ASK_METRICS + exposition, exposition_type(exposition), reply);
}

static void answer_json(void *data, const struct http_request *request, struct http_reply *reply)
{
	if (!http_share(request, reply, request->what + 1))
		pass_on(data, request, request->what, "application/json", reply);
}

/* Pass a POST request to the measuring process. */
static void answer_post(void *data, const struct http_request *request, struct http_reply *reply)
{
	struct routes *routes = data;
	struct strbuf message = { 0 };

	client_request_write(&request->client, &message);
	if (message.is_short)
		http_error(reply, HTTP_UNAVAILABLE, "out of memory", NULL);
	else
		reply->ticket = asks_queue(&routes->asks, request->what, &message);
	if (!reply->ticket && !reply->status)
		say_busy(routes, reply);
	strbuf_free(&message);
}

static void add_terminated_text(struct strbuf *out, const char *text)
{
	strbuf_add(out, text, strlen(text) + 1);
}

static void add_argument(void *data, const char *name, const char *value)
{
	add_terminated_text(data, name);
	add_terminated_text(data, value ? value : "");
}

/*
 * Append REQUEST, for a profile, to OUT as a message. The body of the message is the path and the
 * arguments, as serve/profiling.c parses them.
 */
static void write_profile_message(const struct http_request *request, struct strbuf *out)
{
	struct client_request client = request->client;
	struct strbuf text = { 0 };

	add_terminated_text(&text, request->path);
	http_arguments(request, add_argument, &text);
	client.body = text.bytes;
	client.n_body = text.n;
	if (text.is_short)
		out->is_short = true;
	else
		client_request_write(&client, out);
	strbuf_free(&text);
}

/* Pass REQUEST, for a profile, to the measuring process. The client gets the answer later. */
static void answer_profile(void *data, const struct http_request *request, struct http_reply *reply)
{
	struct routes *routes = data;
	struct strbuf message = { 0 };

	write_profile_message(request, &message);
	if (message.is_short || message.n > ASK_BYTES)
		http_error(reply, HTTP_UNAVAILABLE, "out of memory", NULL);
	else
		reply->ticket = asks_queue(&routes->asks, request->what, &message);
	reply->wait_ms = PROFILE_WAIT_MS;
	if (!reply->ticket && !reply->status)
		say_busy(routes, reply);
	strbuf_free(&message);
}

/* Refuse the clients that have waited ASKS_FIRST_MS for an answer and can get no previous one. */
static void refuse_overdue(struct routes *routes)
{
	const struct asks *asks = &routes->asks;

	for (size_t i = 0; i < asks->n_waiting; i++) {
		const uint64_t ticket = asks->waiting[i].ticket;
		struct http_reply reply = { 0 };

		if (is_private(asks->waiting[i].ask) ||
		    clock_ms() - asks->waiting[i].since_ms < ASKS_FIRST_MS ||
		    is_usable(&asks->known[asks->waiting[i].ask]) ||
		    !http_is_awaited(asks->http, ticket))
			continue;
		http_add_header(&reply, "Cache-Control", "no-store");
		say_busy(routes, &reply);
		http_answer(asks->http, ticket, &reply);
	}
}

/*
 * Drop the clients that have exceeded their time limits, and end the profiles whose clients have
 * gone. Call this every second.
 */
static void routes_expire(struct routes *routes)
{
	refuse_overdue(routes);
	http_expire(routes->asks.http);
	asks_end_profiles(&routes->asks);
}

static void answer_health(void *data, const struct http_request *request, struct http_reply *reply)
{
	(void)data;
	(void)request;
	reply->type = "text/plain; charset=utf-8";
	strbuf_lit(&reply->body, "ok\n");
}

/* Return true if LIST, the value of If-None-Match, contains TAG. */
static bool has_tag(const char *list, const char *tag)
{
	const char *found = list ? strstr(list, tag) : NULL;

	return found || (list && strcmp(list, "*") == 0);
}

static void answer_asset(void *data, const struct http_request *request, struct http_reply *reply)
{
	const struct asset *asset = asset_find(request->path);

	(void)data;
	http_add_header(reply, "ETag", asset->etag);
	http_add_header(reply, "Cache-Control", "no-cache");
	http_add_header(reply, "Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
			"'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
			"frame-ancestors 'none'");
	http_add_header(reply, "Referrer-Policy", "no-referrer");
	/* A reply with 304 must have the Content-Length of the full reply. */
	if (has_tag(http_header(request, "If-None-Match"), asset->etag))
		reply->status = HTTP_NOT_MODIFIED;
	reply->type = asset->type;
	reply->data = asset->data;
	reply->n_data = asset->bytes;
}

static bool admit(void *data, const struct http_request *request, struct http_reply *reply)
{
	const struct routes *routes = data;

	return hosts_admit(routes->hosts, request->client.host, reply);
}

/*
 * Serve clients on LISTEN_FD, and take ownership of it, also after an error. The caller must have
 * set hosts and asks.fd in ROUTES, which must outlive the server.
 */
static int routes_start(struct ocp_ctx *ctx, struct routes *routes, int listen_fd)
{
	static const struct http_route fixed[] = {
		{ "/metrics", answer_metrics, HTTP_GET, ASK_METRICS },
		{ "/api/v1/status", answer_json, HTTP_GET, ASK_STATUS },
		{ "/api/v1/history", answer_json, HTTP_GET, ASK_HISTORY },
		/*
		 * The status has no histograms of pairs, so pages request the history of the pairs
		 * repeatedly, as often as the size of this answer allows.
		 */
		{ "/api/v1/history/pairs", answer_json, HTTP_GET, ASK_PAIR_HISTORY },
		{ "/api/v1/history/15m", answer_json, HTTP_GET, ASK_QUARTER_HOUR },
		{ "/api/v1/switch", answer_post, HTTP_POST, ASK_SWITCH },
		{ "/api/v1/profile", answer_profile, HTTP_ONLY_GET, ASK_FLAME },
		{ "/debug/pprof/profile", answer_profile, HTTP_ONLY_GET, ASK_PROFILE },
		{ "/debug/pprof/allocs", answer_profile, HTTP_ONLY_GET, ASK_PROFILE },
		{ "/debug/pprof/heap", answer_profile, HTTP_ONLY_GET, ASK_HEAP },
		{ "/api/v1/heap", answer_profile, HTTP_ONLY_GET, ASK_SITES },
		{ "/debug/pprof/", answer_profile, HTTP_ONLY_GET, ASK_PROFILES },
		{ "/api/v1/recordings", answer_profile, HTTP_ONLY_GET, ASK_RECORDINGS },
		{ "/api/v1/recording", answer_profile, HTTP_ONLY_GET, ASK_RECORDING },
		{ "/api/v1/recordings/open", answer_post, HTTP_POST, ASK_TICKET },
		{ "/api/v1/recordings/dump", answer_post, HTTP_POST, ASK_DUMP },
		{ "/recordings/page", answer_profile, HTTP_ONLY_GET, ASK_PAGE },
		{ "/healthz", answer_health, HTTP_GET, 0 },
	};
	const size_t n_fixed = sizeof(fixed) / sizeof(fixed[0]);
	struct http_route *list = malloc((n_fixed + n_assets) * sizeof(*list));
	const struct http_settings settings = {
		.listen_fd = listen_fd,
		.routes = list,
		.n_routes = n_fixed + n_assets,
		.admit = admit,
		.data = routes,
	};

	if (!list) {
		close(listen_fd);
		return ctx_no_memory(ctx);
	}
	memcpy(list, fixed, sizeof(fixed));
	for (size_t i = 0; i < n_assets; i++)
		list[n_fixed + i] =
			(struct http_route){ assets[i].path, answer_asset, HTTP_GET, 0 };
	routes->list = list;
	return http_new(ctx, &settings, &routes->asks.http);
}

static void routes_stop(struct routes *routes)
{
	http_free(routes->asks.http);
	free(routes->list);
	routes->list = NULL;
	asks_free(&routes->asks);
}

/* ---- the process ---------------------------------------------------------------------------- */

struct front {
	struct server_child child; /* the pid is 0 after the child was reaped */
	int status;
};

/* The data that the parent passes to be_front(), the function of the child. */
struct front_setup {
	struct ocp_ctx *ctx;
	int listen_fd;
	const struct hosts *hosts;
};

/* ---- the child ------------------------------------------------------------------------------ */

/*
 * Serve clients until the channel fails, usually because the measuring process has exited. Take
 * answers from the channel whenever they arrive, since some arrive only after asks_get() has
 * stopped waiting for them.
 */
static void serve_channel(struct routes *routes)
{
	struct http *http = routes->asks.http;
	struct pollfd both[] = { { .fd = http_fd(http), .events = POLLIN },
				 { .fd = routes->asks.fd, .events = POLLIN } };
	int64_t expire_ms = clock_ms() + EXPIRE_MS;

	while (!routes->asks.is_alone) {
		const int timeout_ms = http_timeout_ms(http);

		poll(both, 2, timeout_ms < 0 || timeout_ms > EXPIRE_MS ? EXPIRE_MS : timeout_ms);
		if (both[1].revents)
			asks_collect(&routes->asks);
		http_run(http);
		if (clock_ms() >= expire_ms) {
			routes_expire(routes);
			expire_ms = clock_ms() + EXPIRE_MS;
		}
	}
}

/* With sanitizers, do not filter system calls: the leak checker ptraces the other threads. */
#ifdef __SANITIZE_ADDRESS__
static const bool is_filtered = false;
#else
static const bool is_filtered = true;
#endif

/*
 * Give up all rights that the HTTP process does not need, and let the kernel kill this process when
 * PARENT exits.
 */
static int enter_sandbox(struct ocp_ctx *ctx, pid_t parent)
{
	int err = confine_drop_capabilities(ctx);

	/*
	 * Do this after dropping capabilities: the kernel clears this setting when credentials
	 * change.
	 */
	if (!err && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		err = ctx_error(ctx, -errno, "prctl(PR_SET_PDEATHSIG): %s", strerror(errno));
	if (!err && getppid() != parent)
		err = ctx_error(ctx, -ESRCH, "the server has exited");
	if (!err && is_filtered)
		err = sandbox_filter_syscalls(ctx);
	return err;
}

static int keep_two(struct ocp_ctx *ctx, int a, int b)
{
	const int kept[] = { a < b ? a : b, a < b ? b : a };

	return confine_close_files(ctx, kept, 2);
}

/* Run as the child process. Does not return. */
static int be_front(const void *data, pid_t parent, int channel_fd)
{
	const struct front_setup *setup = data;
	struct routes routes = { .hosts = setup->hosts, .asks.fd = channel_fd };
	char go;
	int err = keep_two(setup->ctx, setup->listen_fd, channel_fd);

	prctl(PR_SET_NAME, "probes-http");
	if (!err)
		err = routes_start(setup->ctx, &routes, setup->listen_fd);
	if (!err)
		err = enter_sandbox(setup->ctx, parent);
	server_child_report(setup->ctx, channel_fd, err);
	if (!err && recv(channel_fd, &go, 1, 0) == 1)
		serve_channel(&routes);
	routes_stop(&routes);
	exit(err ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* ---- the parent ----------------------------------------------------------------------------- */

/* Wait for the child to exit. After END_MS, kill it. */
static void reap(struct front *front)
{
	const int64_t deadline_ms = clock_ms() + END_MS;

	while (front->child.pid > 0) {
		const pid_t pid = waitpid(front->child.pid, &front->status, WNOHANG);

		if (pid > 0 || (pid < 0 && errno != EINTR))
			front->child.pid = 0;
		else if (clock_ms() >= deadline_ms)
			kill(front->child.pid, SIGKILL);
		if (front->child.pid > 0)
			poll(NULL, 0, 5);
	}
}

static int say_end(struct ocp_ctx *ctx, const struct front *front)
{
	static const char who[] = "the HTTP process";

	if (WIFSIGNALED(front->status))
		return ctx_error(ctx, -EIO, "%s was killed by signal %d (%s)", who,
				 WTERMSIG(front->status), strsignal(WTERMSIG(front->status)));
	return ctx_error(ctx, -EIO, "%s ended with status %d", who, WEXITSTATUS(front->status));
}

int front_failed(struct ocp_ctx *ctx, struct front *front, int code)
{
	if (code != -EPIPE)
		kill(front->child.pid, SIGKILL);
	reap(front);
	if (code == -EPIPE)
		return say_end(ctx, front);
	return ctx_error(ctx, -EIO, "the HTTP process violated the protocol: %s; it was killed",
			 strerror(-code));
}

int front_free(struct ocp_ctx *ctx, struct front *front)
{
	int err = 0;

	if (!front)
		return 0;
	if (front->child.pid > 0) {
		shutdown(front->child.fd, SHUT_WR);
		reap(front);
		err = front->status ? say_end(ctx, front) : 0;
	}
	close(front->child.fd);
	free(front);
	return err;
}

/* Start the child. Return 0, the error that the child has reported, or another error. */
static int start_child(struct ocp_ctx *ctx, struct front *front, const struct front_setup *setup)
{
	struct child_report report;
	int err = server_child_start(ctx, &front->child, be_front, setup, &report);

	if (err == -EPIPE)
		return front_failed(ctx, front, err);
	if (err || !report.err)
		return err;
	reap(front);
	ctx_set_error(ctx, "%s", report.error);
	if (*report.hint)
		ctx_hint(ctx, "%s", report.hint);
	return report.err;
}

int front_start(struct ocp_ctx *ctx, struct listener *listener, const struct hosts *hosts,
		struct front **out)
{
	const struct front_setup setup = { ctx, listener->fd, hosts };
	struct front *front = calloc(1, sizeof(*front));
	int err;

	if (!front)
		return ctx_no_memory(ctx);
	front->child.fd = -1;
	err = start_child(ctx, front, &setup);
	close(listener->fd);
	listener->fd = -1;
	if (!err) {
		*out = front;
		return 0;
	}
	if (front->child.fd >= 0)
		close(front->child.fd);
	free(front);
	return err;
}

int front_go(struct ocp_ctx *ctx, struct front *front)
{
	return send(front->child.fd, "", 1, MSG_NOSIGNAL) == 1 ? 0
							       : front_failed(ctx, front, -EPIPE);
}

int front_fd(const struct front *front)
{
	return front->child.fd;
}
