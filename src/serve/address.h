/* SPDX-License-Identifier: MIT */
/* Socket addresses as people and URLs write them. */
#ifndef SERVE_ADDRESS_H
#define SERVE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum { ADDRESS_BYTES = 80 };

/* ADDRESS:PORT, an IPv6 address in brackets; "?" of what is neither that nor IPv4. */
void address_name(const struct sockaddr *address, char name[ADDRESS_BYTES]);
unsigned int address_port(const struct sockaddr *address);
bool address_is_loopback(const struct sockaddr *address);

#endif
