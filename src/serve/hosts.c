// SPDX-License-Identifier: MIT
#include "serve/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

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
