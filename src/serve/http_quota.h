/* SPDX-License-Identifier: MIT */
/* What clients of serve/http.h may take of the server: see http_quota.c. */
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

/* A response that clients are sent, perhaps several the same. */
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
	int64_t since_ms;  /* that it does what it does now, */
	int limit_ms;	   /* for which it has this long: REQUEST_MS, REPLY_MS or IDLE_MS */
	struct held *held; /* that it is being sent; NULL: none */
	bool is_over;	   /* was shut down */
	uint64_t ticket;   /* not 0: it waits for its answer, and libmicrohttpd leaves it alone */
};

struct quota {
	struct client *clients;
	size_t n_clients, max_clients;
	size_t reply_bytes; /* of all that is held */
	bool has_woken;	    /* a client, since http_run began */
};

int64_t quota_now_ms(void);

/* Clients may have most of RLIMIT_NOFILE. */
void quota_init(struct quota *quota);

/* CLIENT, all 0, has come by MHD. The oldest one ends when there are too many. */
void quota_add_client(struct quota *quota, struct client *client, struct MHD_Connection *mhd);
/* CLIENT has gone. */
void quota_remove_client(struct quota *quota, struct client *client);
/* From now on CLIENT has LIMIT_MS for what it does. */
void quota_begin(struct client *client, int limit_ms);
/* End CLIENT: libmicrohttpd sees that as the client's doing. */
void quota_end_client(struct quota *quota, struct client *client);
/* End the clients that took too long. */
void quota_expire(struct quota *quota);

/* CLIENT waits for the answer to TICKET from now on; and it does not any more. */
void quota_suspend(struct client *client, uint64_t ticket);
void quota_wake(struct quota *quota, struct client *client);

/*
 * RESPONSE, whose body takes BYTES, without users yet. Those who have waited longest for others end
 * if there is no room. NULL: memory is short, and RESPONSE is destroyed.
 */
struct held *quota_make_held(struct quota *quota, struct MHD_Response *response, size_t bytes);
void quota_hold(struct held **to, struct held *held);
/* Set *HELD, which may be NULL, to NULL; its last user frees it. */
void quota_release(struct quota *quota, struct held **held);
/* Do replies take so much memory that clients are to share them? */
bool quota_is_crowded(const struct quota *quota);
/* Is any client being sent a reply? */
bool quota_is_sending(const struct quota *quota);

#endif
