/* SPDX-License-Identifier: MIT */
/* A request to switch as one message, for serve/channel.h. */
#ifndef SERVE_CONTROL_MESSAGE_H
#define SERVE_CONTROL_MESSAGE_H

#include <stdbool.h>
#include "serve/control.h"
#include "serve/strbuf.h"

void control_message_write(const struct control_request *request, struct strbuf *out);

/*
 * The request that BYTES, of which there are N, are, and which points into them. False: they are
 * none. Nothing is said about who wrote them.
 */
bool control_message_read(const char *bytes, size_t n, struct control_request *request);

#endif
