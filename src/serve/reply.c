// SPDX-License-Identifier: MIT
#include "serve/reply.h"

void http_add_header(struct http_reply *reply, const char *name, const char *value)
{
	if (reply->n_headers == HTTP_MAX_HEADERS)
		return;
	reply->headers[reply->n_headers].name = name;
	reply->headers[reply->n_headers++].value = value;
}

void http_error(struct http_reply *reply, unsigned int status, const char *error, const char *hint)
{
	reply->status = status;
	reply->type = "application/json";
	strbuf_lit(&reply->body, "{\"error\":");
	strbuf_json(&reply->body, error);
	strbuf_lit(&reply->body, ",\"hint\":");
	strbuf_json(&reply->body, hint);
	strbuf_lit(&reply->body, "}\n");
}
