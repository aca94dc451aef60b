/* SPDX-License-Identifier: MIT */
/* A request to switch as it comes by HTTP. */
#ifndef SERVE_CONTROL_HTTP_H
#define SERVE_CONTROL_HTTP_H

#include "serve/control.h"
#include "serve/http.h"

/* What REQUEST, which came by HTTP, asks for. It points into REQUEST. */
struct control_request control_request_of(const struct http_request *request);

#endif
