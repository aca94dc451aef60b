// SPDX-License-Identifier: MIT
#include "serve/control_http.h"

static struct auth_header header_of(const struct http_request *request, const char *name)
{
	return (struct auth_header){ http_header(request, name), http_header_count(request, name) };
}

struct control_request control_request_of(const struct http_request *request)
{
	return (struct control_request){
		.auth.host = request->host,
		.auth.authorization = header_of(request, "Authorization"),
		.auth.origin = header_of(request, "Origin"),
		.auth.content_type = header_of(request, "Content-Type"),
		.wanted = { request->body, request->n_body, request->peer },
	};
}
