// SPDX-License-Identifier: MIT
#include "serve/profile_http.h"

#include <string.h>

#include "serve/control_http.h"
#include "serve/control_message.h"

static void add_terminated_text(struct strbuf *out, const char *text)
{
	strbuf_add(out, text, strlen(text) + 1);
}

static void add_argument(void *data, const char *name, const char *value)
{
	add_terminated_text(data, name);
	add_terminated_text(data, value ? value : "");
}

void profile_http_write(const struct http_request *request, struct strbuf *out)
{
	struct control_request asked = control_request_of(request);
	struct strbuf text = { 0 };

	add_terminated_text(&text, request->path);
	http_arguments(request, add_argument, &text);
	asked.wanted.body = text.bytes;
	asked.wanted.n_body = text.n;
	if (text.is_short)
		out->is_short = true;
	else
		control_message_write(&asked, out);
	strbuf_free(&text);
}
