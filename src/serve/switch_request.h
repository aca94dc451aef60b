/* SPDX-License-Identifier: MIT */
/* POST /api/v1/switch: parse the request, execute it, and log it in one line. */
#ifndef SERVE_SWITCH_REQUEST_H
#define SERVE_SWITCH_REQUEST_H

#include "serve/auth.h"
#include "serve/request.h"
#include "watch/watch.h"

/* Execute REQUEST if AUTH admits it, and fill in REPLY. */
void switch_request_take(struct auth *auth, struct ocp_ctx *ctx, struct watch *watch,
			 const struct client_request *request, struct http_reply *reply);
/* Like switch_request_take(), for a REQUEST that has been authorized. */
void switch_request_answer(struct ocp_ctx *ctx, struct watch *watch,
			   const struct client_request *request, struct http_reply *reply);

#endif
