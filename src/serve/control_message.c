// SPDX-License-Identifier: MIT
/*
 * Write and read the message of a switch request. The message is six texts in a row: host, three
 * headers, peer, body. A text is its length as 32 bits, its bytes, and a zero byte; a missing text
 * is the number no_text. Before each header is the number of headers of the same name, in 32 bits.
 */
#include "serve/control_message.h"

#include <stdint.h>
#include <string.h>

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

static void add_header(struct strbuf *out, const struct auth_header *header)
{
	add_uint32(out, (uint32_t)header->n);
	add_message_string(out, header->n ? header->value : NULL);
}

void control_message_write(const struct control_request *request, struct strbuf *out)
{
	add_message_string(out, request->auth.host);
	add_header(out, &request->auth.authorization);
	add_header(out, &request->auth.origin);
	add_header(out, &request->auth.content_type);
	add_message_string(out, request->wanted.peer);
	add_message_text(out, request->wanted.body, request->wanted.n_body);
}

/* ---- reading -------------------------------------------------------------------------------- */

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

static bool take_header(struct message_reader *r, struct auth_header *header)
{
	uint32_t n;

	if (!take_uint32(r, &n) || !take_message_string(r, &header->value))
		return false;
	header->n = n;
	return !n == !header->value;
}

bool control_message_read(const char *bytes, size_t n, struct control_request *request)
{
	struct message_reader r = { bytes, n };

	return take_message_string(&r, &request->auth.host) &&
	       take_header(&r, &request->auth.authorization) &&
	       take_header(&r, &request->auth.origin) &&
	       take_header(&r, &request->auth.content_type) &&
	       take_message_string(&r, &request->wanted.peer) &&
	       take_text(&r, &request->wanted.body, &request->wanted.n_body) && r.left == 0 &&
	       request->auth.host && request->wanted.peer && request->wanted.body;
}
