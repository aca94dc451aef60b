/* SPDX-License-Identifier: MIT */
/*
 * The process that speaks HTTP. Who measures has rights that strangers must not get at: it may look
 * into other processes, some of them change, and load BPF programs. What strangers send is read by
 * libmicrohttpd and by serve/http.c. So a process of its own does that, a child from before the
 * first program was looked at, and all that it has is
 *
 *	- the listening socket, its connections, stderr, and the channel (serve/channel.h);
 *	- no capability, and no way to one (serve/sandbox.h);
 *	- the system calls that this takes: it can open no file, make no socket, run nothing, send
 *	  no signal and look into no other process, root's or not.
 *
 * Over the channel it may ask for what everybody may read by HTTP. To switch something it needs the
 * token, which only the other process knows and compares, like Origin and Content-Type; it sees
 * those that clients send, though. An attacker who takes it over can lie to clients, take the
 * next client's token, write to stderr, and keep the measuring process busy with scrapes. It cannot
 * read or write a file or another process, nor switch anything before somebody has sent the token.
 *
 * The kernel checks all that, nothing in the front's memory does. A thread without capabilities
 * would not do: it could write the other threads' memory.
 */
#ifndef SERVE_FRONT_H
#define SERVE_FRONT_H

#include "serve/channel.h"
#include "serve/hosts.h"
#include "serve/listen.h"

struct front;

/*
 * Start it for LISTENER, whose fd is closed here. It waits for front_go. To be called while the
 * program has one thread and knows no secret: the child has a copy of all memory.
 */
int front_start(struct ocp_ctx *ctx, struct listener *listener, const struct hosts *hosts,
		struct front **out);
/* Let it answer clients. */
int front_go(struct ocp_ctx *ctx, struct front *front);
/* The channel, on which it asks. */
int front_fd(const struct front *front);
/*
 * It has ended by itself, or asks nonsense (CODE, of channel_take or channel_answer): end it, and
 * return an error that says so.
 */
int front_failed(struct ocp_ctx *ctx, struct front *front, int code);
/*
 * End it, after the clients that are being answered, which have a second. An error if it did not
 * end as it should. Takes NULL.
 */
int front_free(struct ocp_ctx *ctx, struct front *front);

#endif
