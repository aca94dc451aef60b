// SPDX-License-Identifier: MIT
#include "serve/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/sanitize.h"
#include "cli/cli.h"
#include "serve/json.h"

/* ---- writing a message ---------------------------------------------------------------------- */

/*
 * A message is six texts in a row: host, three headers, peer, body. A text is its length as 32
 * bits, its bytes, and a zero byte; a missing text is the number no_text. Before each header is the
 * number of headers of the same name, in 32 bits.
 */

static const uint32_t no_text = UINT32_MAX;

static void add_uint32(struct strbuf *out, uint32_t number)
{
	strbuf_add(out, (const char *)&number, sizeof(number));
}

static void add_message_text(struct strbuf *out, const char *text, size_t n)
{
	add_uint32(out, text ? (uint32_t)n : no_text);
	if (!text)
		return;
	strbuf_add(out, text, n);
	strbuf_add(out, "", 1);
}

static void add_message_string(struct strbuf *out, const char *text)
{
	add_message_text(out, text, text ? strlen(text) : 0);
}

static void add_header(struct strbuf *out, const struct request_header *header)
{
	add_uint32(out, (uint32_t)header->n);
	add_message_string(out, header->n ? header->value : NULL);
}

void client_request_write(const struct client_request *request, struct strbuf *out)
{
	add_message_string(out, request->host);
	add_header(out, &request->authorization);
	add_header(out, &request->origin);
	add_header(out, &request->content_type);
	add_message_string(out, request->peer);
	add_message_text(out, request->body, request->n_body);
}

/* ---- reading a message ---------------------------------------------------------------------- */

struct message_reader {
	const char *at;
	size_t left;
};

static bool take_uint32(struct message_reader *r, uint32_t *number)
{
	if (r->left < sizeof(*number))
		return false;
	memcpy(number, r->at, sizeof(*number));
	r->at += sizeof(*number);
	r->left -= sizeof(*number);
	return true;
}

static bool take_text(struct message_reader *r, const char **text, size_t *n)
{
	uint32_t number;

	*text = NULL;
	*n = 0;
	if (!take_uint32(r, &number))
		return false;
	if (number == no_text)
		return true;
	if (number >= r->left || r->at[number])
		return false;
	*text = r->at;
	*n = number;
	r->at += number + 1;
	r->left -= number + 1;
	return true;
}

/* Take a text. Return false if it is invalid or contains a zero byte. */
static bool take_message_string(struct message_reader *r, const char **text)
{
	size_t n;

	return take_text(r, text, &n) && (!*text || strlen(*text) == n);
}

static bool take_header(struct message_reader *r, struct request_header *header)
{
	uint32_t n;

	if (!take_uint32(r, &n) || !take_message_string(r, &header->value))
		return false;
	header->n = n;
	return !n == !header->value;
}

bool client_request_read(const char *bytes, size_t n, struct client_request *request)
{
	struct message_reader r = { bytes, n };

	return take_message_string(&r, &request->host) &&
	       take_header(&r, &request->authorization) && take_header(&r, &request->origin) &&
	       take_header(&r, &request->content_type) && take_message_string(&r, &request->peer) &&
	       take_text(&r, &request->body, &request->n_body) && r.left == 0 && request->host &&
	       request->peer && request->body;
}

/* ---- the log -------------------------------------------------------------------------------- */

void client_request_log(const char *peer, const char *fmt, ...)
{
	char text[1024], from[128], when[32];
	const time_t now = time(NULL);
	struct tm utc;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* PEER comes from the HTTP process, which is not trusted. */
	snprintf(from, sizeof(from), "%s", peer);
	make_one_line(from);
	make_one_line(text);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
	say("%s %s: %s", when, from, text);
}

/* ---- replies -------------------------------------------------------------------------------- */

void http_add_header(struct http_reply *reply, const char *name, const char *value)
{
	if (reply->n_headers == HTTP_MAX_HEADERS)
		return;
	reply->headers[reply->n_headers].name = name;
	reply->headers[reply->n_headers++].value = value;
}

void http_error(struct http_reply *reply, unsigned int status, const char *error, const char *hint)
{
	struct json j = { .out = &reply->body };

	reply->status = status;
	reply->type = "application/json";
	json_open(&j, "{");
	json_text(&j, "error", error);
	json_text(&j, "hint", hint);
	strbuf_lit(&reply->body, "}\n");
}
