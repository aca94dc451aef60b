// SPDX-License-Identifier: MIT
/*
 * Six texts in a row. A text is its length in 32 bits, its bytes, and a zero byte; or no_text.
 * Before each of the three headers is how many of it there are.
 */
#include "serve/control_message.h"

#include <stdint.h>
#include <string.h>

static const uint32_t no_text = UINT32_MAX;

static void add_number(struct body *out, uint32_t number)
{
	body_add(out, (const char *)&number, sizeof(number));
}

static void add_text(struct body *out, const char *text, size_t n)
{
	add_number(out, text ? (uint32_t)n : no_text);
	if (!text)
		return;
	body_add(out, text, n);
	body_add(out, "", 1);
}

static void add_string(struct body *out, const char *text)
{
	add_text(out, text, text ? strlen(text) : 0);
}

static void add_header(struct body *out, const struct control_header *header)
{
	add_number(out, (uint32_t)header->n);
	add_string(out, header->n ? header->value : NULL);
}

void control_message_write(const struct control_request *request, struct body *out)
{
	add_string(out, request->host);
	add_header(out, &request->authorization);
	add_header(out, &request->origin);
	add_header(out, &request->content_type);
	add_string(out, request->order.peer);
	add_text(out, request->order.body, request->order.n_body);
}

/* ---- reading -------------------------------------------------------------------------------- */

struct reader {
	const char *at;
	size_t left;
};

static bool take_number(struct reader *r, uint32_t *number)
{
	if (r->left < sizeof(*number))
		return false;
	memcpy(number, r->at, sizeof(*number));
	r->at += sizeof(*number);
	r->left -= sizeof(*number);
	return true;
}

static bool take_text(struct reader *r, const char **text, size_t *n)
{
	uint32_t number;

	*text = NULL;
	*n = 0;
	if (!take_number(r, &number))
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

/* A text without a zero byte in it. */
static bool take_string(struct reader *r, const char **text)
{
	size_t n;

	return take_text(r, text, &n) && (!*text || strlen(*text) == n);
}

static bool take_header(struct reader *r, struct control_header *header)
{
	uint32_t n;

	if (!take_number(r, &n) || !take_string(r, &header->value))
		return false;
	header->n = n;
	return !n == !header->value;
}

bool control_message_read(const char *bytes, size_t n, struct control_request *request)
{
	struct reader r = { bytes, n };

	return take_string(&r, &request->host) && take_header(&r, &request->authorization) &&
	       take_header(&r, &request->origin) && take_header(&r, &request->content_type) &&
	       take_string(&r, &request->order.peer) &&
	       take_text(&r, &request->order.body, &request->order.n_body) && r.left == 0 &&
	       request->host && request->order.peer && request->order.body;
}
