/* SPDX-License-Identifier: MIT */
/* A switch request as one message of serve/channel.h. */
#ifndef SERVE_CONTROL_MESSAGE_H
#define SERVE_CONTROL_MESSAGE_H

#include <stdbool.h>
#include "serve/control.h"
#include "base/strbuf.h"

void control_message_write(const struct control_request *request, struct strbuf *out);

/*
 * Parse the N BYTES into REQUEST, which points into them. False: they are invalid. The sender is
 * untrusted.
 */
bool control_message_read(const char *bytes, size_t n, struct control_request *request);

#endif
