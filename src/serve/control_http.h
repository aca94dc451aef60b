/* SPDX-License-Identifier: MIT */
/* Switch requests from HTTP. */
#ifndef SERVE_CONTROL_HTTP_H
#define SERVE_CONTROL_HTTP_H

#include "serve/control.h"
#include "serve/http.h"

/* The switch request of REQUEST. It points into REQUEST. */
/* Its body is that of a POST. */
struct control_request control_request_of(const struct http_request *request);

#endif
