/* SPDX-License-Identifier: MIT */
/*
 * How `record --dump NAME`, and `serve`, ask a running flight recorder for a file. A recorder with
 * a name listens on a socket in the directory of its user (base/user_folder.h), which no other user
 * can enter. A lock on a file beside the socket says which process has the name: the kernel
 * releases it when the recorder ends, however it ends, so a socket without a lock is stale.
 *
 * Each message is a packet: a letter and a text. The client sends REQUEST_DUMP. The recorder sends
 * REPLY_TAKEN at once; when the file is written REPLY_FILE with the path of each file and
 * REPLY_DONE, or REPLY_FAILED with the reason. The end of the connection before that means that the
 * recorder has ended.
 */
#ifndef RECORD_RECORDER_SOCKET_H
#define RECORD_RECORDER_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/ctx.h"

/* ---- the recorder --------------------------------------------------------------------------- */

struct recorder_socket;

/*
 * Take the name NAME and listen. Returns 0; -EINVAL: the name is invalid; -EEXIST: another recorder
 * of this user has the name; or another negative errno. Messages are in CTX.
 */
int recorder_socket_open(struct ocp_ctx *ctx, const char *name, struct recorder_socket **out);
/* Release the name, and close all connections. SOCKET may be NULL. */
void recorder_socket_close(struct recorder_socket *socket);

/*
 * Take the requests that have arrived, without blocking. Returns true if any client waits for a
 * file, also one of an earlier call. SOCKET may be NULL.
 */
bool recorder_socket_take(struct recorder_socket *socket);

/*
 * Send the N paths of the files that were written to the clients that wait for a file, or WHY, the
 * reason why there are none, and close their connections. The paths may be relative to the current
 * directory. SOCKET may be NULL.
 */
void recorder_socket_answer(struct recorder_socket *socket, char *const *paths, size_t n,
			    const char *why);

/* ---- the client ----------------------------------------------------------------------------- */

/*
 * Ask the recorder NAME of this user for a file. Returns a descriptor to pass to
 * recorder_dump_take(), or a negative errno with a message in CTX: -EINVAL if the name is invalid,
 * -ESRCH if there is no such recorder.
 */
int recorder_dump_begin(struct ocp_ctx *ctx, const char *name);

/*
 * Take the next path. Returns 1 and sets *PATH, which the caller frees; 0: all files were taken; or
 * a negative errno with a message in CTX: -ESRCH if the recorder NAME has ended, -ETIMEDOUT if it
 * does not react. Blocks until the recorder has written the file, unless IS_WAITING is false: then
 * returns -EAGAIN, without a message, if nothing has arrived. Close FD in the end.
 */
int recorder_dump_take(struct ocp_ctx *ctx, const char *name, int fd, bool is_waiting, char **path);

#endif
