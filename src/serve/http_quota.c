// SPDX-License-Identifier: MIT
/*
 * Limits on clients:
 *
 *	memory  32 KiB for a request and 64 KiB for its body; 256 MiB for all unsent replies
 *	time    10 s to send a request; 30 s to receive a reply; 2 minutes between two requests;
 *	        2 minutes to wait for a delayed answer (6 minutes for a profile). Each time is
 *	        for the whole phase, not since the last byte.
 *	number  If there is no room for a new connection or reply, the connection that has
 *	        waited longest is closed, so that a flood of idle connections keeps nobody out.
 *
 * libmicrohttpd has limits only for single connections, and restarts its clock at every byte. So
 * this file has a clock for each connection. An expired connection is shut down, which looks to
 * libmicrohttpd as if the client had closed the connection.
 */
#include "serve/http_quota.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/clock.h"

enum {
	MAX_CONNECTIONS = 8192,
	OTHER_FDS = 64, /* reserved for the other files of this process */
};

static const size_t max_reply_bytes = (size_t)256 * 1024 * 1024;
/*
 * If replies take more memory than this, new clients share existing replies, so that older clients
 * are not closed.
 */
static const size_t crowded_bytes = (size_t)64 * 1024 * 1024;

static size_t max_connections(void)
{
	struct rlimit limit = { 0 };
	size_t n_fds;

	getrlimit(RLIMIT_NOFILE, &limit);
	n_fds = limit.rlim_cur;
	if (n_fds < OTHER_FDS + MIN_CONNECTIONS)
		return n_fds / 2;
	return n_fds - OTHER_FDS < MAX_CONNECTIONS ? n_fds - OTHER_FDS : MAX_CONNECTIONS;
}

void quota_init(struct quota *quota)
{
	*quota = (struct quota){ .max_clients = max_connections() };
}

/* ---- clients -------------------------------------------------------------------------------- */

void quota_wake(struct quota *quota, struct client *client)
{
	quota->has_woken = true;
	client->ticket = 0;
	MHD_resume_connection(client->mhd);
}

void quota_suspend(struct client *client, uint64_t ticket, int limit_ms)
{
	quota_begin(client, limit_ms);
	client->ticket = ticket;
	MHD_suspend_connection(client->mhd);
}

void quota_end_client(struct quota *quota, struct client *client)
{
	client->is_over = true;
	quota_release(quota, &client->held);
	shutdown(client->fd, SHUT_RDWR);
	if (client->ticket)
		quota_wake(quota, client);
}

void quota_begin(struct client *client, int limit_ms)
{
	client->since_ms = clock_ms();
	client->limit_ms = limit_ms;
}

/*
 * Shut down the connection that has waited longest. If HAS_REPLY, consider only connections with a
 * reply. Return false if there is no connection to shut down.
 */
static bool end_oldest(struct quota *quota, bool has_reply)
{
	struct client *oldest = NULL;

	for (struct client *c = quota->clients; c; c = c->next)
		if (!c->is_over && (c->held || !has_reply) &&
		    (!oldest || c->since_ms < oldest->since_ms))
			oldest = c;
	if (oldest)
		quota_end_client(quota, oldest);
	return oldest;
}

void quota_add_client(struct quota *quota, struct client *client, struct MHD_Connection *mhd)
{
	if (quota->n_clients >= quota->max_clients)
		end_oldest(quota, false);
	client->mhd = mhd;
	client->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	quota_begin(client, REQUEST_MS);
	client->next = quota->clients;
	if (client->next)
		client->next->previous = client;
	quota->clients = client;
	quota->n_clients++;
}

void quota_remove_client(struct quota *quota, struct client *client)
{
	if (client->previous)
		client->previous->next = client->next;
	else
		quota->clients = client->next;
	if (client->next)
		client->next->previous = client->previous;
	quota_release(quota, &client->held);
	quota->n_clients--;
}

/*
 * Return true if the client has disconnected while it waits for an answer. libmicrohttpd misses an
 * end of file that arrives with the last bytes, since it does not read again before the next event.
 */
static bool is_deserted(const struct client *client)
{
	char byte;

	return client->limit_ms != REPLY_MS &&
	       recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void quota_expire(struct quota *quota)
{
	const int64_t now = clock_ms();

	for (struct client *c = quota->clients; c; c = c->next)
		if (!c->is_over && (c->since_ms + c->limit_ms <= now || is_deserted(c)))
			quota_end_client(quota, c);
}

/* ---- replies -------------------------------------------------------------------------------- */

struct held *quota_make_held(struct quota *quota, struct MHD_Response *response, size_t bytes)
{
	struct held *held = calloc(1, sizeof(*held));

	if (!held) {
		MHD_destroy_response(response);
		return NULL;
	}
	while (quota->reply_bytes + bytes > max_reply_bytes && end_oldest(quota, true))
		;
	quota->reply_bytes += bytes;
	*held = (struct held){ .response = response, .bytes = bytes, .made_ms = clock_ms() };
	return held;
}

void quota_hold(struct held **to, struct held *held)
{
	held->users++;
	*to = held;
}

void quota_release(struct quota *quota, struct held **held)
{
	struct held *released = *held;

	*held = NULL;
	if (!released || --released->users)
		return;
	quota->reply_bytes -= released->bytes;
	MHD_destroy_response(released->response);
	free(released);
}

bool quota_is_crowded(const struct quota *quota)
{
	return quota->reply_bytes > crowded_bytes;
}

bool quota_is_sending(const struct quota *quota)
{
	for (const struct client *c = quota->clients; c; c = c->next)
		if (c->held && !c->is_over)
			return true;
	return false;
}
