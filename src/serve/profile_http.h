/* SPDX-License-Identifier: MIT */
/* Requests for profiles from HTTP, as messages of serve/control_message.h. */
#ifndef SERVE_PROFILE_HTTP_H
#define SERVE_PROFILE_HTTP_H

#include "serve/http.h"
#include "base/strbuf.h"

enum { PROFILE_WAIT_MS = 360000 }; /* how long a client waits for its profile */

/* Write REQUEST as a message to OUT. Its body is the text that serve/profile_request.h reads. */
void profile_http_write(const struct http_request *request, struct strbuf *out);

#endif
