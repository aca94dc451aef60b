// SPDX-License-Identifier: MIT
#include "serve/http.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/http_quota.h"
#include "serve/hosts.h"

enum {
	LAST_REPLIES_MS = 1000,
	CONNECTION_BYTES = 32 * 1024,
	LATE_MS = 50,
	STALE_MS = 1000,
	MAX_PATH_BYTES = 2048,
	MAX_HEADER_BYTES = 16 * 1024,
	MAX_BODY_BYTES = 64 * 1024,
	MAX_UNREAD_BYTES = 1024 * 1024,
};

/* ---- the target of a request ---------------------------------------------------------------- */

enum { URI_HOST_BYTES = 272 }; /* a name of 255 bytes, a port, and a zero byte */

/*
 * The target of a request, which is the second word of the request's first line. It is a path, or
 * http://HOST:PORT followed by a path. Clients send the second form to proxies, but every server
 * must accept it (RFC 9112, 3.2.2).
 */
struct uri {
	/* The host, with the port if one is given; empty: the target is only a path. */
	char host[URI_HOST_BYTES];
	size_t path_at; /* offset of the first byte of the path in the target */
	/* HTTP status with which to refuse the request; 0: the target is valid */
	unsigned int status;
	const char *error;
};

static void refuse_uri(struct uri *uri, unsigned int status, const char *error)
{
	uri->status = status;
	uri->error = error;
}

/*
 * Store the host, which has N bytes. Refuse escapes, which no host name contains, and text before
 * an @, which can only mislead people.
 */
static void take_host(struct uri *uri, const char *host, size_t n)
{
	if (n == 0 || host[0] == ':')
		refuse_uri(uri, MHD_HTTP_BAD_REQUEST, "the URL has no host");
	else if (n >= sizeof(uri->host) || memchr(host, '@', n) || memchr(host, '%', n))
		refuse_uri(uri, MHD_HTTP_BAD_REQUEST, "the URL has an invalid host");
	else
		memcpy(uri->host, host, n);
}

/* Refuse the target because of a zero byte that was not encoded. */
static void refuse_zero(struct uri *uri)
{
	refuse_uri(uri, MHD_HTTP_BAD_REQUEST, "the path contains a zero byte");
}

/* Parse TEXT, the target as received, not decoded. */
static void read_uri(struct uri *uri, const char *text)
{
	static const char scheme[] = "http://";
	const size_t n = sizeof(scheme) - 1;
	const char *path = text;

	*uri = (struct uri){ 0 };
	if (strncasecmp(text, scheme, n) == 0) {
		path = text + n + strcspn(text + n, "/?#");
		take_host(uri, text + n, (size_t)(path - text) - n);
	} else if (*text != '/' && strstr(text, "://")) {
		/*
		 * See RFC 9110, 7.4. This is usually an https URL that was sent without encryption.
		 */
		refuse_uri(uri, MHD_HTTP_MISDIRECTED_REQUEST, "only http is supported");
	}
	if (strchr(text, ' '))
		refuse_uri(uri, MHD_HTTP_BAD_REQUEST, "the URL contains a space");
	uri->path_at = (size_t)(path - text);
	/*
	 * Refuse %00 in the path: once decoded, it would end the path in this program, but not in
	 * other programs.
	 */
	path = strstr(path, "%00");
	if (path && !memchr(text, '?', (size_t)(path - text)))
		refuse_zero(uri);
}

/* ---- requests and connections --------------------------------------------------------------- */

/*
 * One request, from its first line to the end of the reply. If all members are 0, there is no
 * request.
 */
struct pending {
	struct uri uri;
	const char *uri_end;
	struct http_request request;
	bool has_begun; /* the headers have arrived */
	const struct http_route *route;
	struct http_reply refusal; /* status 0: the request is not refused */
	struct strbuf body;
	size_t n_came; /* bytes of the body that have arrived */
	bool has_late; /* the delayed answer has arrived, and is in client.held */
	unsigned int late_status;
};

/* One connection. */
struct connection {
	/* The first member, since connection_around() casts a client to its connection. */
	struct client client;
	/*
	 * Embedded, not allocated for each request: libmicrohttpd reports the end of every
	 * connection, but not the end of a request that did not fit into its memory.
	 */
	struct pending pending;
};

struct http {
	struct http_settings settings;
	struct MHD_Daemon *daemon;
	struct quota quota;
	int64_t run_ms; /* when the current http_run() began */
	/*
	 * Shared answers, indexed by the NUMBER of http_share(). They are dropped after each
	 * http_run() or, under load, after STALE_MS.
	 */
	struct held *shared[HTTP_MAX_SHARES + 1];
};

/* ---- connections ---------------------------------------------------------------------------- */

static struct connection *connection_of(struct MHD_Connection *mhd)
{
	return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static struct connection *connection_around(struct client *client)
{
	return (struct connection *)client;
}

static void forget_request(struct connection *connection)
{
	strbuf_free(&connection->pending.body);
	strbuf_free(&connection->pending.refusal.body);
	connection->pending = (struct pending){ 0 };
	connection->client.ticket = 0;
}

static void on_connection(void *data, struct MHD_Connection *mhd, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct http *http = data;
	struct connection *connection = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		/* If calloc() fails, on_request() gets NULL as its context. */
		*context = connection = calloc(1, sizeof(*connection));
		if (connection)
			quota_add_client(&http->quota, &connection->client, mhd);
		return;
	}
	*context = NULL;
	if (!connection)
		return;
	quota_remove_client(&http->quota, &connection->client);
	forget_request(connection);
	free(connection);
}

void http_expire(struct http *http)
{
	quota_expire(&http->quota);
}

/* ---- headers and arguments ------------------------------------------------------------------ */

const char *http_header(const struct http_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct argument_taker {
	void (*take)(void *data, const char *name, const char *value);
	void *data;
};

static enum MHD_Result take_argument(void *data, enum MHD_ValueKind kind, const char *name,
				     const char *value)
{
	const struct argument_taker *taker = data;

	(void)kind;
	taker->take(taker->data, name, value);
	return MHD_YES;
}

void http_arguments(const struct http_request *request,
		    void (*take)(void *data, const char *name, const char *value), void *data)
{
	struct argument_taker taker = { take, data };

	MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, take_argument,
				  &taker);
}

struct header_counter {
	const char *name;
	size_t n;
};

struct header_list {
	const char *name;
	struct strbuf values;
};

static enum MHD_Result count_header(void *data, enum MHD_ValueKind kind, const char *name,
				    const char *value)
{
	struct header_counter *counter = data;

	(void)kind;
	(void)value;
	counter->n += strcasecmp(name, counter->name) == 0;
	return MHD_YES;
}

static size_t count_headers(const struct http_request *request, const char *name)
{
	struct header_counter counter = { name, 0 };

	MHD_get_connection_values(request->connection, MHD_HEADER_KIND, count_header, &counter);
	return counter.n;
}

static struct request_header header_of(const struct http_request *request, const char *name)
{
	return (struct request_header){ http_header(request, name), count_headers(request, name) };
}

static enum MHD_Result add_to_list(void *data, enum MHD_ValueKind kind, const char *name,
				   const char *value)
{
	struct header_list *list = data;

	(void)kind;
	if (strcasecmp(name, list->name) != 0)
		return MHD_YES;
	if (list->values.n)
		strbuf_lit(&list->values, ", ");
	strbuf_str(&list->values, value ? value : "");
	return MHD_YES;
}

char *http_header_list(const struct http_request *request, const char *name)
{
	struct header_list list = { .name = name };

	MHD_get_connection_values(request->connection, MHD_HEADER_KIND, add_to_list, &list);
	strbuf_add(&list.values, "", 1);
	if (!list.values.is_short)
		return list.values.bytes;
	strbuf_free(&list.values);
	return NULL;
}

/*
 * Return true if two programs could read REQUEST differently: it has several Host or Content-Length
 * headers, or both Content-Length and Transfer-Encoding.
 */
static bool is_ambiguous(const struct http_request *request)
{
	return count_headers(request, "Host") > 1 || count_headers(request, "Content-Length") > 1 ||
	       (http_header(request, "Content-Length") &&
		http_header(request, "Transfer-Encoding"));
}

/*
 * Return true if REQUEST lacks the Host header, which HTTP/1.1 and later require (RFC 9112, 3.2).
 */
static bool lacks_host(const struct http_request *request, const char *version)
{
	return strcmp(version, "HTTP/1.0") != 0 && !http_header(request, "Host");
}

/* ---- replies -------------------------------------------------------------------------------- */

static struct MHD_Response *make_response(struct http_reply *reply)
{
	struct MHD_Response *response;

	if (reply->data)
		return MHD_create_response_from_buffer(reply->n_data, (void *)reply->data,
						       MHD_RESPMEM_PERSISTENT);
	response = MHD_create_response_from_buffer(reply->body.n, reply->body.bytes,
						   MHD_RESPMEM_MUST_FREE);
	if (response)
		reply->body = (struct strbuf){ 0 };
	return response;
}

static bool add_headers(struct MHD_Response *response, const struct http_reply *reply)
{
	bool is_ok = true;

	if (reply->type)
		is_ok = MHD_add_response_header(response, "Content-Type", reply->type) == MHD_YES;
	is_ok &= MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES;
	for (size_t i = 0; i < reply->n_headers; i++)
		is_ok &= MHD_add_response_header(response, reply->headers[i].name,
						 reply->headers[i].value) == MHD_YES;
	return is_ok;
}

/*
 * Make a struct held, which has no users yet, from REPLY, and take over the body of REPLY. NULL:
 * out of memory.
 */
static struct held *make_held(struct http *http, struct http_reply *reply)
{
	struct MHD_Response *response = NULL;
	size_t bytes;

	if (reply->body.is_short) {
		strbuf_free(&reply->body);
		http_error(reply, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory", NULL);
	}
	bytes = reply->body.n;
	if (!reply->body.is_short)
		response = make_response(reply);
	strbuf_free(&reply->body);
	if (response && add_headers(response, reply))
		return quota_make_held(&http->quota, response, bytes);
	if (response)
		MHD_destroy_response(response);
	return NULL;
}

static bool is_late(const struct http *http)
{
	return quota_is_crowded(&http->quota) || clock_ms() - http->run_ms >= LATE_MS;
}

bool http_share(const struct http_request *request, struct http_reply *reply, unsigned int number)
{
	reply->share = number;
	reply->is_shared = is_late(request->http) && request->http->shared[number];
	return reply->is_shared;
}

/* Send REPLY, and take over its body. */
static enum MHD_Result send_reply(struct http *http, struct MHD_Connection *mhd,
				  struct http_reply *reply)
{
	struct connection *connection = connection_of(mhd);
	struct held *held = reply->is_shared ? http->shared[reply->share] : make_held(http, reply);
	enum MHD_Result result;

	if (!held)
		return MHD_NO;
	quota_begin(&connection->client, REPLY_MS);
	quota_hold(&connection->client.held, held);
	result = MHD_queue_response(mhd, reply->status ? reply->status : MHD_HTTP_OK,
				    held->response);
	if (result == MHD_NO)
		quota_release(&http->quota, &connection->client.held);
	else if (reply->share && !reply->status && !reply->is_shared && is_late(http)) {
		quota_release(&http->quota, &http->shared[reply->share]);
		quota_hold(&http->shared[reply->share], held);
	}
	return result;
}

/* ---- delayed answers ------------------------------------------------------------------------ */

bool http_is_awaited(const struct http *http, uint64_t ticket)
{
	const struct client *c = http->quota.clients;

	while (c && c->ticket != ticket)
		c = c->next;
	return c;
}

void http_answer(struct http *http, uint64_t ticket, struct http_reply *reply)
{
	const unsigned int status = reply->status ? reply->status : MHD_HTTP_OK;
	struct held *held = make_held(http, reply), *own = NULL;

	if (held)
		quota_hold(&own, held);
	for (struct client *c = http->quota.clients; c; c = c->next) {
		if (!c->ticket || (ticket && c->ticket != ticket))
			continue;
		if (held) {
			struct pending *pending = &connection_around(c)->pending;

			quota_hold(&c->held, held);
			pending->has_late = true;
			pending->late_status = status;
			quota_wake(&http->quota, c);
		} else {
			quota_end_client(&http->quota, c);
		}
	}
	quota_release(&http->quota, &own);
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool answers(const struct http_route *route, const char *method)
{
	if (route->method == HTTP_POST)
		return strcmp(method, "POST") == 0;
	if (route->method == HTTP_ONLY_GET)
		return strcmp(method, "GET") == 0;
	return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

/*
 * Return the route for METHOD and the request's path. If there is no such route, fill in REPLY and
 * return NULL.
 */
static const struct http_route *find_route(const struct http *http,
					   const struct http_request *request, const char *method,
					   struct http_reply *reply)
{
	static const char *const allowed[] = {
		[HTTP_GET] = "GET, HEAD", [HTTP_ONLY_GET] = "GET", [HTTP_POST] = "POST"
	};
	const struct http_route *same_path = NULL;

	for (size_t i = 0; i < http->settings.n_routes; i++) {
		const struct http_route *route = &http->settings.routes[i];

		if (strcmp(route->path, request->path) != 0)
			continue;
		if (answers(route, method))
			return route;
		same_path = route;
	}
	if (!same_path) {
		http_error(reply, MHD_HTTP_NOT_FOUND, "no such path", NULL);
		return NULL;
	}
	http_add_header(reply, "Allow", allowed[same_path->method]);
	http_error(reply, MHD_HTTP_METHOD_NOT_ALLOWED, "method not allowed for this path", NULL);
	return NULL;
}

/*
 * Check the request except its body, and find its route. If something is wrong, fill in
 * pending->refusal.
 */
static void examine_request(struct http *http, struct pending *pending, const char *method,
			    const char *version)
{
	const struct http_request *request = &pending->request;
	struct http_reply *reply = &pending->refusal;
	const char *length = http_header(request, "Content-Length");
	const size_t header_bytes = MHD_get_connection_info(request->connection,
							    MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
					    ->header_size;

	if (strlen(request->path) > MAX_PATH_BYTES)
		http_error(reply, MHD_HTTP_URI_TOO_LONG, "the path is too long", NULL);
	else if (header_bytes > MAX_HEADER_BYTES)
		http_error(reply, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE,
			   "the headers exceed 16 KiB", NULL);
	else if (lacks_host(request, version))
		http_error(reply, MHD_HTTP_BAD_REQUEST, "missing Host header", NULL);
	else if (is_ambiguous(request))
		http_error(reply, MHD_HTTP_BAD_REQUEST, "conflicting headers", NULL);
	else if (pending->uri.status)
		http_error(reply, pending->uri.status, pending->uri.error, NULL);
	else if (!http->settings.admit || http->settings.admit(http->settings.data, request, reply))
		pending->route = find_route(http, request, method, reply);
	if (!reply->status && length && strtoull(length, NULL, 10) > MAX_BODY_BYTES)
		http_error(reply, MHD_HTTP_CONTENT_TOO_LARGE, "the body exceeds 64 KiB", NULL);
}

/*
 * Return true if the URI contained a zero byte, at which a C string ends. libmicrohttpd keeps the
 * first line in one buffer. So VERSION, the next word of the line, begins one byte after the end of
 * the URI, unless a zero byte has ended the URI early.
 */
static bool was_cut(const struct pending *pending, const char *version)
{
	const uintptr_t gap = (uintptr_t)version - (uintptr_t)pending->uri_end;

	return gap > 1 && gap < CONNECTION_BYTES;
}

/*
 * Return true if the body should be read before the refusal is sent: closing a connection with
 * unread bytes resets it, and the reset may overtake the reply. A client that sends "Expect" or a
 * large body is refused at once. A bad request is also refused at once, since it is unknown where
 * its body ends.
 */
static bool is_body_awaited(const struct pending *pending)
{
	const struct http_request *request = &pending->request;
	const char *length = http_header(request, "Content-Length");

	return pending->refusal.status != MHD_HTTP_BAD_REQUEST && !http_header(request, "Expect") &&
	       (length ? strtoull(length, NULL, 10) <= MAX_UNREAD_BYTES
		       : http_header(request, "Transfer-Encoding") != NULL);
}

static enum MHD_Result begin_request(struct http *http, struct MHD_Connection *mhd,
				     struct pending *pending, const char *path, const char *method,
				     const char *version)
{
	struct http_request *request = &pending->request;

	pending->has_begun = true;
	request->http = http;
	request->connection = mhd;
	/*
	 * The path can be found by its offset in the undecoded URI: decoding keeps the length of
	 * the part before the path, since escapes in that part are refused.
	 */
	request->path = pending->uri.status ? "/" : path + pending->uri.path_at;
	if (pending->uri.path_at && !*request->path)
		request->path = "/";
	/*
	 * RFC 9112, 3.2.2: if the request target is in absolute form, its host applies and the Host
	 * header is ignored.
	 */
	request->client.host =
		*pending->uri.host ? pending->uri.host : http_header(request, "Host");
	request->client.authorization = header_of(request, "Authorization");
	request->client.origin = header_of(request, "Origin");
	request->client.content_type = header_of(request, "Content-Type");
	examine_request(http, pending, method, version);
	if (!pending->refusal.status || is_body_awaited(pending))
		return MHD_YES;
	return send_reply(http, mhd, &pending->refusal);
}

/* Take N bytes of the body. Return false if the body is too large to wait for its end. */
static bool take_body(struct pending *pending, const char *bytes, size_t n)
{
	pending->n_came += n;
	if (pending->n_came > MAX_UNREAD_BYTES)
		return false;
	if (pending->refusal.status || pending->route->method != HTTP_POST)
		return true;
	/*
	 * A body that is too large is refused only after its end: libmicrohttpd accepts no reply in
	 * the middle of a body. So only drop the bytes beyond the limit.
	 */
	if (pending->n_came <= MAX_BODY_BYTES)
		strbuf_add(&pending->body, bytes, n);
	return true;
}

static enum MHD_Result answer_request(struct http *http, struct MHD_Connection *mhd,
				      struct pending *pending)
{
	struct http_request *request = &pending->request;
	struct http_reply reply = { 0 };
	char peer[ADDRESS_BYTES];

	if (pending->refusal.status)
		return send_reply(http, mhd, &pending->refusal);
	if (connection_of(mhd)->client.is_over)
		return MHD_NO;
	if (pending->has_late) {
		quota_begin(&connection_of(mhd)->client, REPLY_MS);
		return MHD_queue_response(mhd, pending->late_status,
					  connection_of(mhd)->client.held->response);
	}
	strbuf_add(&pending->body, "", 1);
	if (pending->n_came > MAX_BODY_BYTES) {
		http_error(&reply, MHD_HTTP_CONTENT_TOO_LARGE, "the body exceeds 64 KiB", NULL);
	} else if (pending->body.is_short) {
		http_error(&reply, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory", NULL);
	} else {
		address_name(MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
				     ->client_addr,
			     peer);
		request->client.peer = peer;
		request->client.body = pending->body.bytes;
		request->client.n_body = pending->body.n - 1;
		request->what = pending->route->what;
		pending->route->answer(http->settings.data, request, &reply);
	}
	if (reply.ticket) {
		quota_suspend(&connection_of(mhd)->client, reply.ticket,
			      reply.wait_ms ? reply.wait_ms : IDLE_MS);
		return MHD_YES;
	}
	return send_reply(http, mhd, &reply);
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *mhd, const char *path,
				  const char *method, const char *version, const char *upload,
				  size_t *n_upload, void **context)
{
	struct pending *pending = *context;

	if (!pending)
		return MHD_NO; /* calloc() failed in on_connection() */
	if (!pending->has_begun && was_cut(pending, version))
		refuse_zero(&pending->uri);
	if (!pending->has_begun)
		return begin_request(data, mhd, pending, path, method, version);
	if (!*n_upload)
		return answer_request(data, mhd, pending);
	if (!take_body(pending, upload, *n_upload))
		return MHD_NO;
	*n_upload = 0;
	return MHD_YES;
}

static void on_completed(void *data, struct MHD_Connection *mhd, void **context,
			 enum MHD_RequestTerminationCode code)
{
	struct connection *connection = connection_of(mhd);
	struct http *http = data;

	(void)code;
	*context = NULL;
	if (!connection)
		return;
	quota_release(&http->quota, &connection->client.held);
	forget_request(connection);
	quota_begin(&connection->client, IDLE_MS);
}

/* Called when the first line of a request has arrived. URI is not decoded yet. */
static void *on_uri(void *data, const char *uri, struct MHD_Connection *mhd)
{
	struct connection *connection = connection_of(mhd);

	(void)data;
	if (!connection)
		return NULL;
	if (connection->client.limit_ms == IDLE_MS)
		quota_begin(&connection->client, REQUEST_MS);
	forget_request(connection);
	if (uri) {
		read_uri(&connection->pending.uri, uri);
		connection->pending.uri_end = uri + strlen(uri);
	}
	return &connection->pending;
}

/* ---- the server ----------------------------------------------------------------------------- */

int http_new(struct ocp_ctx *ctx, const struct http_settings *settings, struct http **out)
{
	struct http *http = calloc(1, sizeof(*http));

	if (!http) {
		close(settings->listen_fd);
		return ctx_no_memory(ctx);
	}
	http->settings = *settings;
	quota_init(&http->quota);
	/*
	 * With STRICT_FOR_CLIENT 1, libmicrohttpd also refuses requests without a Host header and
	 * URIs with a space, which this file checks itself. libmicrohttpd up to 0.9.75 sends the
	 * header of some of its own refusals twice: of requests without Host, of an invalid
	 * Content-Length, and of cookies that exceed its memory. The last two still occur, since
	 * libmicrohttpd calls no function of this file before it refuses them. Each of these
	 * refusals ends the connection, so the second header is not taken for the reply to a later
	 * request.
	 */
	/*
	 * The connection limit leaves room for connections that are shut down but not closed yet.
	 */
	http->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_TURBO | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request,
		http, MHD_OPTION_LISTEN_SOCKET, settings->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)(http->quota.max_clients + MIN_CONNECTIONS),
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_NOTIFY_COMPLETED,
		on_completed, http, MHD_OPTION_URI_LOG_CALLBACK, on_uri, http,
		MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
		MHD_OPTION_END);
	if (!http->daemon) {
		close(settings->listen_fd);
		free(http);
		return ctx_error(ctx, -EIO, "libmicrohttpd: the server did not start");
	}
	*out = http;
	return 0;
}

void http_free(struct http *http)
{
	struct http_reply end = { 0 };
	int64_t deadline_ms;
	int listen_fd;

	if (!http)
		return;
	listen_fd = MHD_quiesce_daemon(http->daemon);
	if (listen_fd >= 0)
		close(listen_fd);
	http_error(&end, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is shutting down", NULL);
	http_answer(http, 0, &end);
	deadline_ms = clock_ms() + LAST_REPLIES_MS;
	while (quota_is_sending(&http->quota) && clock_ms() < deadline_ms) {
		poll(&(struct pollfd){ .fd = http_fd(http), .events = POLLIN }, 1, 10);
		http_run(http);
	}
	for (size_t i = 0; i <= HTTP_MAX_SHARES; i++)
		quota_release(&http->quota, &http->shared[i]);
	MHD_stop_daemon(http->daemon);
	free(http);
}

int http_fd(const struct http *http)
{
	return MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int http_timeout_ms(struct http *http)
{
	MHD_UNSIGNED_LONG_LONG timeout_ms;

	if (http->quota.has_woken)
		return 0;
	if (MHD_get_timeout(http->daemon, &timeout_ms) != MHD_YES)
		return -1;
	return timeout_ms < 1000 ? (int)timeout_ms : 1000;
}

void http_run(struct http *http)
{
	http->run_ms = clock_ms();
	http->quota.has_woken = false;
	MHD_run(http->daemon);
	for (size_t i = 0; i <= HTTP_MAX_SHARES; i++) {
		const struct held *held = http->shared[i];

		if (held &&
		    !(quota_is_crowded(&http->quota) && http->run_ms - held->made_ms < STALE_MS))
			quota_release(&http->quota, &http->shared[i]);
	}
}
