/* SPDX-License-Identifier: MIT */
/* Limits on what clients of serve/http.h may use; http_quota.c lists them. */
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

/* A response that is being sent, perhaps to several clients. */
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
	int64_t since_ms;  /* start of the current phase */
	int limit_ms;	   /* of this phase: REQUEST_MS, REPLY_MS, IDLE_MS or a reply's wait_ms */
	struct held *held; /* the reply being sent; NULL: none */
	bool is_over;	   /* the socket is shut down */
	uint64_t ticket;   /* not 0: suspended in libmicrohttpd until its answer arrives */
};

struct quota {
	struct client *clients;
	size_t n_clients, max_clients;
	size_t reply_bytes; /* of all held responses */
	bool has_woken;	    /* a client was resumed since http_run began */
};

/* Clients may use most of RLIMIT_NOFILE. */
void quota_init(struct quota *quota);

/*
 * Add CLIENT, which is all 0, for the connection MHD. If there are too many, close the oldest one.
 */
void quota_add_client(struct quota *quota, struct client *client, struct MHD_Connection *mhd);
void quota_remove_client(struct quota *quota, struct client *client);
/* Start a phase of CLIENT, of at most LIMIT_MS. */
void quota_begin(struct client *client, int limit_ms);
/* Shut CLIENT down. To libmicrohttpd it looks as if the client had closed the connection. */
void quota_end_client(struct quota *quota, struct client *client);
/* Shut down the clients that are over their time limit. */
void quota_expire(struct quota *quota);

/*
 * Suspend CLIENT until the answer to TICKET arrives, for at most LIMIT_MS. quota_wake() resumes it.
 */
void quota_suspend(struct client *client, uint64_t ticket, int limit_ms);
void quota_wake(struct quota *quota, struct client *client);

/*
 * Make a held response from RESPONSE, whose body has BYTES bytes; it has no users yet. If there is
 * no room, close the clients that have waited longest. NULL: out of memory, and RESPONSE is
 * destroyed.
 */
struct held *quota_make_held(struct quota *quota, struct MHD_Response *response, size_t bytes);
/* Add a user to HELD, and set *TO to HELD. */
void quota_hold(struct held **to, struct held *held);
/* Remove a user, and set *HELD to NULL. The last user frees the response. *HELD may be NULL. */
void quota_release(struct quota *quota, struct held **held);
/* Do replies take so much memory that clients should share them? */
bool quota_is_crowded(const struct quota *quota);
bool quota_is_sending(const struct quota *quota);

#endif
