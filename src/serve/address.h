/* SPDX-License-Identifier: MIT */
/* Socket addresses as text, in the form that users and URLs write. */
#ifndef SERVE_ADDRESS_H
#define SERVE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum { ADDRESS_BYTES = 80 };

/* Write ADDRESS:PORT, with an IPv6 address in brackets; "?" for other address families. */
void address_name(const struct sockaddr *address, char name[ADDRESS_BYTES]);
unsigned int address_port(const struct sockaddr *address);
bool address_is_loopback(const struct sockaddr *address);

#endif
