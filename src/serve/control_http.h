/* SPDX-License-Identifier: MIT */
/* Switch requests from HTTP. */
#ifndef SERVE_CONTROL_HTTP_H
#define SERVE_CONTROL_HTTP_H

#include "serve/control.h"
#include "serve/http.h"

/*
 * Return the credentials, the body (NULL unless it is a POST) and the client of REQUEST. The result
 * points into REQUEST.
 */
struct control_request control_request_of(const struct http_request *request);

#endif
