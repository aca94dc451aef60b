/* SPDX-License-Identifier: MIT */
/* Convert a switch request to a message of serve/channel.h, and back. */
#ifndef SERVE_CONTROL_MESSAGE_H
#define SERVE_CONTROL_MESSAGE_H

#include <stdbool.h>
#include "serve/control.h"
#include "base/strbuf.h"

void control_message_write(const struct control_request *request, struct strbuf *out);

/*
 * Parse the N BYTES, which come from an untrusted process, into REQUEST, which points into BYTES.
 * Return false if they are invalid.
 */
bool control_message_read(const char *bytes, size_t n, struct control_request *request);

#endif
