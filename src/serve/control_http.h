/* SPDX-License-Identifier: MIT */
/* Convert HTTP requests to switch requests. */
#ifndef SERVE_CONTROL_HTTP_H
#define SERVE_CONTROL_HTTP_H

#include "serve/control.h"
#include "serve/http.h"

/*
 * Return the headers, the body (NULL if REQUEST is not a POST) and the client of REQUEST, as far as
 * a switch request needs them. The result points into REQUEST.
 */
struct control_request control_request_of(const struct http_request *request);

#endif
