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
	body_lit(&reply->body, "{\"error\":");
	body_json(&reply->body, error);
	body_lit(&reply->body, ",\"hint\":");
	body_json(&reply->body, hint);
	body_lit(&reply->body, "}\n");
}
