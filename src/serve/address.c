// SPDX-License-Identifier: MIT
#include "serve/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

static const struct sockaddr_in *ipv4(const struct sockaddr *address)
{
	return (const struct sockaddr_in *)address;
}

static const struct sockaddr_in6 *ipv6(const struct sockaddr *address)
{
	return (const struct sockaddr_in6 *)address;
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
	snprintf(name, ADDRESS_BYTES, is_ipv6 ? "[%s]:%u" : "%s:%u", host, address_port(address));
}

unsigned int address_port(const struct sockaddr *address)
{
	return ntohs(address->sa_family == AF_INET6 ? ipv6(address)->sin6_port
						    : ipv4(address)->sin_port);
}

bool address_is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&ipv6(address)->sin6_addr);
	return (ntohl(ipv4(address)->sin_addr.s_addr) >> 24) == 127;
}
