/* SPDX-License-Identifier: MIT */
/* Convert HTTP requests for profiles to messages of serve/control_message.h. */
#ifndef SERVE_PROFILE_HTTP_H
#define SERVE_PROFILE_HTTP_H

#include "serve/http.h"
#include "base/strbuf.h"

enum {
	PROFILE_WAIT_MS = 360000
	/* how long a client waits for the profile that it has requested */
};

/* Append REQUEST to OUT as a message whose body is the text that serve/profile_request.h parses. */
void profile_http_write(const struct http_request *request, struct strbuf *out);

#endif
