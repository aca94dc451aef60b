/* SPDX-License-Identifier: MIT */
/*
 * Limits on the memory, the time and the connections that clients of serve/http.h may use. The list
 * of the limits is in http_quota.c.
 */
#ifndef SERVE_HTTP_QUOTA_H
#define SERVE_HTTP_QUOTA_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	REQUEST_MS = 10000,
	REPLY_MS = 30000,
	IDLE_MS = 120000,
	MIN_CONNECTIONS = 16,
};

/* A response that is being sent, possibly to several clients. */
struct held {
	struct MHD_Response *response;
	size_t bytes;
	int64_t made_ms;
	unsigned int users;
};

/* One connection. */
struct client {
	struct client *previous, *next;
	struct MHD_Connection *mhd;
	int fd;
	int64_t since_ms; /* when the current phase began */
	/*
	 * How long the current phase may take: REQUEST_MS, REPLY_MS, IDLE_MS or a reply's wait_ms.
	 */
	int limit_ms;
	struct held *held; /* the reply that is being sent; NULL: no reply */
	bool is_over;	   /* the socket is shut down */
	/*
	 * Not 0: the connection is suspended in libmicrohttpd until the answer to this ticket
	 * arrives.
	 */
	uint64_t ticket;
};

struct quota {
	struct client *clients;
	size_t n_clients, max_clients;
	size_t reply_bytes; /* sum of the bytes of all held responses */
	bool has_woken;	    /* a client has been resumed since http_run() began */
};

/* Initialize QUOTA. Clients may use most of the descriptors that RLIMIT_NOFILE allows. */
void quota_init(struct quota *quota);

/*
 * Add CLIENT, which must be all 0, for the connection MHD. If there are too many clients, first
 * shut down the client that has waited longest.
 */
void quota_add_client(struct quota *quota, struct client *client, struct MHD_Connection *mhd);
void quota_remove_client(struct quota *quota, struct client *client);
/* Start a new phase of CLIENT. The phase may take LIMIT_MS. */
void quota_begin(struct client *client, int limit_ms);
/* Shut CLIENT down. To libmicrohttpd this looks as if the client had closed the connection. */
void quota_end_client(struct quota *quota, struct client *client);
/* Shut down the clients that have exceeded their time limits. */
void quota_expire(struct quota *quota);

/*
 * quota_suspend() suspends CLIENT until the answer to TICKET arrives, for at most LIMIT_MS.
 * quota_wake() resumes CLIENT.
 */
void quota_suspend(struct client *client, uint64_t ticket, int limit_ms);
void quota_wake(struct quota *quota, struct client *client);

/*
 * Make a struct held from RESPONSE, whose body has BYTES bytes. The held response has no users yet.
 * If replies would take too much memory, first shut down the clients with a reply that have waited
 * longest. NULL: out of memory; RESPONSE has been destroyed.
 */
struct held *quota_make_held(struct quota *quota, struct MHD_Response *response, size_t bytes);
/* Add a user to HELD, and set *TO to HELD. */
void quota_hold(struct held **to, struct held *held);
/*
 * Remove a user from *HELD, and set *HELD to NULL. The last user frees the response. *HELD may be
 * NULL.
 */
void quota_release(struct quota *quota, struct held **held);
/* Return true if replies take so much memory that clients should share them. */
bool quota_is_crowded(const struct quota *quota);
bool quota_is_sending(const struct quota *quota);

#endif
