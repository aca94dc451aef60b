// SPDX-License-Identifier: MIT
#include "serve/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	BACKLOG = 1024,
	/*
	 * The send buffer of each connection. By default, the kernel buffers megabytes of a reply
	 * that the client does not read, which http_quota.c cannot account for.
	 */
	SEND_BYTES = 128 * 1024,
};

/* ---- addresses as text ---------------------------------------------------------------------- */

static const struct sockaddr_in *ipv4(const struct sockaddr *address)
{
	return (const struct sockaddr_in *)address;
}

static const struct sockaddr_in6 *ipv6(const struct sockaddr *address)
{
	return (const struct sockaddr_in6 *)address;
}

static unsigned int port_of(const struct sockaddr *address)
{
	return ntohs(address->sa_family == AF_INET6 ? ipv6(address)->sin6_port
						    : ipv4(address)->sin_port);
}

void address_name(const struct sockaddr *address, char name[ADDRESS_BYTES])
{
	const bool is_ipv6 = address->sa_family == AF_INET6;
	char host[INET6_ADDRSTRLEN] = "?";

	if (!is_ipv6 && address->sa_family != AF_INET) {
		snprintf(name, ADDRESS_BYTES, "?");
		return;
	}
	inet_ntop(address->sa_family,
		  is_ipv6 ? (const void *)&ipv6(address)->sin6_addr : &ipv4(address)->sin_addr,
		  host, sizeof(host));
	snprintf(name, ADDRESS_BYTES, is_ipv6 ? "[%s]:%u" : "%s:%u", host, port_of(address));
}

static bool is_loopback_address(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&ipv6(address)->sin6_addr);
	return (ntohl(ipv4(address)->sin_addr.s_addr) >> 24) == 127;
}

/* ---- the socket ----------------------------------------------------------------------------- */

static int refuse_address(struct ocp_ctx *ctx, const char *text, const char *why)
{
	int err = ctx_error(ctx, -EINVAL, "'%s': %s", text, why);

	ctx_hint(ctx, "for example 127.0.0.1:9464, [::1]:9464, or 0.0.0.0:9464 for all "
		      "addresses of this machine");
	return err;
}

/* Split TEXT into HOST, a buffer of HOST_BYTES bytes, and *PORT, which points into TEXT. */
static int split(struct ocp_ctx *ctx, const char *text, char *host, size_t host_bytes,
		 const char **port)
{
	const char *whole = text, *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;

	if (!n)
		return refuse_address(ctx, text, "not ADDRESS:PORT");
	if (text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	} else if (memchr(text, ':', n)) {
		return refuse_address(ctx, text, "an IPv6 address needs brackets");
	}
	if (strspn(colon + 1, "0123456789") != strlen(colon + 1) || !colon[1] ||
	    strtoul(colon + 1, NULL, 10) > 65535)
		return refuse_address(ctx, whole, "not a port from 0 to 65535");
	snprintf(host, host_bytes, "%.*s", (int)n, text);
	if (strcmp(host, "localhost") == 0)
		snprintf(host, host_bytes, "127.0.0.1");
	*port = colon + 1;
	return 0;
}

static int open_socket(const struct addrinfo *info)
{
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int yes = 1, send_bytes = SEND_BYTES;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
	if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
		const int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

/* Set the name, port and is_loopback of LISTENER from its socket. */
static void describe_listener(struct listener *listener)
{
	struct sockaddr_storage storage = { 0 };
	const struct sockaddr *address = (const struct sockaddr *)&storage;
	socklen_t length = sizeof(storage);

	getsockname(listener->fd, (struct sockaddr *)&storage, &length);
	address_name(address, listener->name);
	listener->port = port_of(address);
	listener->is_loopback = is_loopback_address(address);
}

int listen_open(struct ocp_ctx *ctx, const char *text, struct listener *listener)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *info;
	const char *port;
	char host[128];
	int err = split(ctx, text, host, sizeof(host), &port);

	if (err)
		return err;
	if (getaddrinfo(host, port, &hints, &info) != 0)
		return refuse_address(ctx, text, "not a numeric address");
	listener->fd = open_socket(info);
	freeaddrinfo(info);
	if (listener->fd < 0) {
		err = ctx_error(ctx, listener->fd, "%s: %s", text, strerror(-listener->fd));
		if (err == -EACCES)
			ctx_hint(ctx, "a port below 1024 needs CAP_NET_BIND_SERVICE");
		return err;
	}
	describe_listener(listener);
	return 0;
}
