// SPDX-License-Identifier: MIT
#include "serve/hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	BACKLOG = 1024,
	/*
	 * The send buffer of each connection. By default, the kernel buffers megabytes of a reply
	 * that the client does not read, and http_quota.c cannot account for this memory.
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
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): all of it is set */
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

/* ---- names ---------------------------------------------------------------------------------- */

enum { HTTP_PORT = 80, MAX_NAME_BYTES = 255 };

static const char digits[] = "0123456789";

/* Return the length of HOST, not including the port if HOST ends with ":" and digits. */
static size_t name_length(const char *host)
{
	const char *colon = strrchr(host, ':');

	return colon && strspn(colon + 1, digits) == strlen(colon + 1) ? (size_t)(colon - host)
								       : strlen(host);
}

static bool is_address(const char *name)
{
	const size_t n = strlen(name);
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (*name != '[')
		return inet_pton(AF_INET, name, &address) == 1;
	if (n < 2 || name[n - 1] != ']' || n - 2 >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)(n - 2), name + 1);
	return inet_pton(AF_INET6, text, &address) == 1;
}

void hosts_init(struct hosts *hosts, const struct listener *listener, bool has_control,
		const char *const *names, size_t n)
{
	*hosts = (struct hosts){
		.port = listener->port, .has_control = has_control, .names = names, .n_names = n
	};
	snprintf(hosts->own, sizeof(hosts->own), "%.*s",
		 (int)(strrchr(listener->name, ':') - listener->name), listener->name);
	if (gethostname(hosts->machine, sizeof(hosts->machine)) != 0)
		hosts->machine[0] = '\0';
	hosts->machine[sizeof(hosts->machine) - 1] = '\0';
}

const char *hosts_check_name(const char *text)
{
	const size_t n = name_length(text);
	const char *port = text + n;
	char name[MAX_NAME_BYTES + 1];

	if (n > MAX_NAME_BYTES)
		return "more than 255 bytes";
	snprintf(name, sizeof(name), "%.*s", (int)n, text);
	if (!n || (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				"-_.") != n &&
		   !is_address(name)))
		return "not NAME or NAME:PORT, as in a URL after http://";
	if (*port && (strlen(port) > 6 || strtoul(port + 1, NULL, 10) < 1 ||
		      strtoul(port + 1, NULL, 10) > 65535))
		return "not a port from 1 to 65535";
	return NULL;
}

/* Return true if HOST is NAME with this PORT. Clients omit port 80. */
static bool is_at(const char *host, const char *name, unsigned int port)
{
	const size_t n = strlen(name);
	char text[8];

	if (strncasecmp(host, name, n) != 0)
		return false;
	snprintf(text, sizeof(text), ":%u", port);
	return strcmp(host + n, text) == 0 || (port == HTTP_PORT && !host[n]);
}

/* Return true if HOST is NAME, with any port or without a port. */
static bool is_anywhere(const char *host, const char *name)
{
	const size_t n = strlen(name);

	return n && name_length(host) == n && strncasecmp(host, name, n) == 0;
}

bool hosts_is_named(const struct hosts *hosts, const char *host)
{
	for (size_t i = 0; i < hosts->n_names; i++)
		if (strcasecmp(host, hosts->names[i]) == 0 || is_anywhere(host, hosts->names[i]))
			return true;
	return false;
}

/* Return true if HOST is a name or address of this server itself, not one given by the user. */
static bool is_own(const struct hosts *hosts, const char *host)
{
	const char *const names[] = { hosts->own, "localhost", "127.0.0.1", "[::1]" };
	char name[MAX_NAME_BYTES + 1];
	const size_t n = name_length(host);

	if (hosts->has_control) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (is_at(host, names[i], hosts->port))
				return true;
		return false;
	}
	if (n >= sizeof(name))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)n, host);
	return is_address(name) || is_anywhere(host, "localhost") ||
	       is_anywhere(host, hosts->machine);
}

bool hosts_admit(const struct hosts *hosts, const char *host, struct http_reply *reply)
{
	if (host && (is_own(hosts, host) || hosts_is_named(hosts, host)))
		return true;
	if (!host)
		http_error(reply, HTTP_MISDIRECTED, "missing host", NULL);
	else
		http_error(
			reply, HTTP_MISDIRECTED, "Host is not a name of this server",
			hosts->has_control
				? "use the address that was printed when it started; if a proxy "
				  "or another name leads here, start it with --host NAME"
				: "use a numeric address; if a proxy or another name leads here, "
				  "start it with --host NAME");
	return false;
}
