/* SPDX-License-Identifier: MIT */
/*
 * The HTTP process. The measuring process has rights that clients must not obtain: it may read
 * other processes, change some of them, and load BPF programs. libmicrohttpd and serve/http.c parse
 * input from clients, so they run in a separate process: a child that is forked before the first
 * program is read. This child has only
 *
 *	- the listening socket, its connections, stderr, and the channel (serve/channel.h);
 *	- no capability, and no way to get one (serve/sandbox.h);
 *	- the system calls for this work: it cannot open files, create sockets, execute
 *	  programs, send signals or read other processes.
 *
 * Over the channel the child can request what every HTTP client may read. Switching needs the
 * token, which only the measuring process knows. The measuring process, not the child, checks the
 * token, the Origin and the Content-Type of each request. But the child sees the tokens that
 * clients send. An attacker who controls the child can lie to clients, take the next client's
 * token, write to stderr, and keep the measuring process busy with scrapes. The attacker cannot
 * read or write files or other processes, and cannot switch anything before a client has sent the
 * token.
 *
 * The kernel enforces these limits, whatever the child's memory contains. A thread without
 * capabilities, instead of a process, would not suffice, since it could write the memory of the
 * other threads.
 */
#ifndef SERVE_FRONT_H
#define SERVE_FRONT_H

#include "serve/channel.h"
#include "serve/hosts.h"

struct front;

/*
 * Start the child to serve clients on LISTENER. Closes the fd of LISTENER in this process, and sets
 * it to -1. The child serves no clients before front_go(). Call this while the program has one
 * thread and no secrets, since the child gets a copy of all memory.
 */
int front_start(struct ocp_ctx *ctx, struct listener *listener, const struct hosts *hosts,
		struct front **out);
/* Let the child serve clients. */
int front_go(struct ocp_ctx *ctx, struct front *front);
/* Return the channel on which the child sends requests. */
int front_fd(const struct front *front);
/*
 * Call this if the child has exited, or has sent an invalid request. CODE is the error of
 * channel_take() or channel_answer(). Kill the child if it still runs, and return an error with the
 * reason.
 */
int front_failed(struct ocp_ctx *ctx, struct front *front, int code);
/*
 * End the child, which first finishes current replies, for at most a second. Return an error if the
 * child exited abnormally. FRONT may be NULL.
 */
int front_free(struct ocp_ctx *ctx, struct front *front);

#endif
