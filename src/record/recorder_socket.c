// SPDX-License-Identifier: MIT
#include "record/recorder_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/user_folder.h"
#include "kernel/pinned.h"

enum message {
	REQUEST_DUMP = 'D',
	REPLY_TAKEN = 't',
	REPLY_FILE = 'f',
	REPLY_FAILED = 'e',
	REPLY_DONE = 'd'
};

enum {
	MOST_WAITING = 16,
	FILE_NAME_BYTES = PIN_MAX_NAME_BYTES + 16,
	MESSAGE_BYTES = PATH_MAX + 2,
	TAKEN_MS = 10000, /* how long a client waits for REPLY_TAKEN */
	BACKLOG = 64,
};

/* Write the name of the socket of NAME, and that of its lock file. */
static void name_files(const char *name, char socket[FILE_NAME_BYTES], char lock[FILE_NAME_BYTES])
{
	snprintf(socket, FILE_NAME_BYTES, "record.%s", name);
	snprintf(lock, FILE_NAME_BYTES, "record.%s.lock", name);
}

static int check_name(struct ocp_ctx *ctx, const char *name)
{
	if (pin_name_is_valid(name))
		return 0;
	return ctx_error(ctx, -EINVAL,
			 "'%s': invalid name (allowed are 1 to %d of A-Z a-z 0-9 _ -)", name,
			 PIN_MAX_NAME_BYTES);
}

/*
 * The address of FILE in the directory FOLDER_FD. The path of the directory may be longer than an
 * address can be, and it may be replaced; its descriptor is neither.
 */
static struct sockaddr_un address_of(int folder_fd, const char *file)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", folder_fd,
		 file);
	return address;
}

static bool send_message(int fd, enum message kind, const char *text)
{
	char bytes[MESSAGE_BYTES];
	const int n = snprintf(bytes, sizeof(bytes), "%c%s", kind, text);

	return n < (int)sizeof(bytes) &&
	       send(fd, bytes, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n;
}

/* Return true if the process at the other end of FD belongs to this user or to root. */
static bool is_trusted_peer(int fd)
{
	struct ucred peer;
	socklen_t n = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

/* ---- the recorder --------------------------------------------------------------------------- */

struct waiting_client {
	int fd; /* -1: not in use */
	bool has_asked;
};

struct recorder_socket {
	int folder_fd, lock_fd, fd;
	char file[FILE_NAME_BYTES], lock[FILE_NAME_BYTES];
	struct waiting_client clients[MOST_WAITING];
};

/*
 * Lock the file of the name. A recorder that ends removes the file while it has the lock, so a lock
 * of a file that is no longer there counts for nothing. Returns 0 or a negative errno; -EWOULDBLOCK
 * if another process has the lock.
 */
static int take_lock(struct recorder_socket *s)
{
	for (;;) {
		struct stat locked, there;

		s->lock_fd = openat(s->folder_fd, s->lock,
				    O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
		if (s->lock_fd < 0 || flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0)
			return -errno;
		if (fstat(s->lock_fd, &locked) == 0 &&
		    fstatat(s->folder_fd, s->lock, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		    locked.st_ino == there.st_ino && locked.st_dev == there.st_dev)
			return 0;
		close(s->lock_fd);
	}
}

static int listen_on(struct recorder_socket *s)
{
	const struct sockaddr_un address = address_of(s->folder_fd, s->file);

	/* The socket of a recorder that was killed. */
	if (unlinkat(s->folder_fd, s->file, 0) != 0 && errno != ENOENT)
		return -errno;
	s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || bind(s->fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(s->fd, BACKLOG) != 0)
		return -errno;
	return 0;
}

int recorder_socket_open(struct ocp_ctx *ctx, const char *name, struct recorder_socket **out)
{
	struct recorder_socket *s;
	char folder[PATH_MAX];
	int err = check_name(ctx, name);

	*out = NULL;
	if (err)
		return err;
	s = calloc(1, sizeof(*s));
	if (!s)
		return ctx_no_memory(ctx);
	*s = (struct recorder_socket){ .folder_fd = -1, .lock_fd = -1, .fd = -1 };
	for (size_t i = 0; i < MOST_WAITING; i++)
		s->clients[i].fd = -1;
	name_files(name, s->file, s->lock);
	s->folder_fd = user_folder_make(ctx, "flight recorders", folder, OCP_LOG_WARN);
	err = s->folder_fd < 0 ? s->folder_fd : take_lock(s);
	if (err == -EWOULDBLOCK)
		err = ctx_error(ctx, -EEXIST, "'%s': another flight recorder has this name", name);
	else if (!err && (err = listen_on(s)))
		ctx_error(ctx, err, "%s/%s: %s", folder, s->file, strerror(-err));
	else if (err && s->folder_fd >= 0)
		ctx_error(ctx, err, "%s/%s: %s", folder, s->lock, strerror(-err));
	if (err) {
		recorder_socket_close(s);
		return err;
	}
	*out = s;
	return 0;
}

static void drop_client(struct waiting_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	*client = (struct waiting_client){ .fd = -1 };
}

void recorder_socket_close(struct recorder_socket *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < MOST_WAITING; i++)
		drop_client(&s->clients[i]);
	/* Only the process that has the lock removes the files. */
	if (s->fd >= 0) {
		unlinkat(s->folder_fd, s->file, 0);
		close(s->fd);
		unlinkat(s->folder_fd, s->lock, 0);
	}
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	if (s->folder_fd >= 0)
		close(s->folder_fd);
	free(s);
}

/* Accept clients as long as there is room. The others wait in the queue of the kernel. */
static void accept_clients(struct recorder_socket *s)
{
	for (size_t i = 0; i < MOST_WAITING; i++) {
		struct waiting_client *client = &s->clients[i];

		if (client->fd >= 0)
			continue;
		client->fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (client->fd < 0)
			return;
		if (!is_trusted_peer(client->fd))
			drop_client(client);
	}
}

/* Take the request of CLIENT. A client that has gone, or asks for something else, is dropped. */
static void take_request(struct waiting_client *client)
{
	char request[2];
	const ssize_t n = recv(client->fd, request, sizeof(request), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != 1 || request[0] != REQUEST_DUMP || client->has_asked ||
	    !send_message(client->fd, REPLY_TAKEN, ""))
		drop_client(client);
	else
		client->has_asked = true;
}

bool recorder_socket_take(struct recorder_socket *s)
{
	bool is_awaited = false;

	if (!s)
		return false;
	accept_clients(s);
	for (size_t i = 0; i < MOST_WAITING; i++) {
		if (s->clients[i].fd >= 0)
			take_request(&s->clients[i]);
		is_awaited |= s->clients[i].has_asked;
	}
	return is_awaited;
}

static bool send_path(int fd, const char *path)
{
	char folder[PATH_MAX], full[2 * PATH_MAX];

	if (path[0] == '/')
		return send_message(fd, REPLY_FILE, path);
	if (!getcwd(folder, sizeof(folder)))
		return false;
	snprintf(full, sizeof(full), "%s/%s", folder, path);
	return send_message(fd, REPLY_FILE, full);
}

void recorder_socket_answer(struct recorder_socket *s, char *const *paths, size_t n,
			    const char *why)
{
	for (size_t i = 0; s && i < MOST_WAITING; i++) {
		struct waiting_client *client = &s->clients[i];

		if (!client->has_asked)
			continue;
		for (size_t j = 0; !why && j < n; j++)
			if (!send_path(client->fd, paths[j]))
				why = "the path of the file is too long";
		send_message(client->fd, why ? REPLY_FAILED : REPLY_DONE, why ? why : "");
		drop_client(client);
	}
}

/* ---- the client ----------------------------------------------------------------------------- */

static int no_recorder(struct ocp_ctx *ctx, const char *name)
{
	return ctx_error(ctx, -ESRCH, "'%s': no flight recorder of this user has this name", name);
}

/* Connect FD with the recorder NAME. Returns 0 or a negative errno. */
static int connect_to(struct ocp_ctx *ctx, int fd, const char *name)
{
	char path[PATH_MAX], file[FILE_NAME_BYTES], lock[FILE_NAME_BYTES];
	int err = -ENOENT;

	name_files(name, file, lock);
	/* The recorder has taken the first directory that it could use, in another environment. */
	for (int folder = 0; err && folder < N_USER_FOLDERS; folder++) {
		const int folder_fd = user_folder_path(geteuid(), folder, path)
					      ? user_folder_open(ctx, path, geteuid(), OCP_LOG_WARN)
					      : -1;
		const struct sockaddr_un address = address_of(folder_fd, file);

		if (folder_fd < 0)
			continue;
		err = connect(fd, (const struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
		close(folder_fd);
	}
	return err;
}

int recorder_dump_begin(struct ocp_ctx *ctx, const char *name)
{
	int err = check_name(ctx, name), fd;

	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return ctx_error(ctx, -errno, "socket: %s", strerror(errno));
	err = connect_to(ctx, fd, name);
	if (!err && !is_trusted_peer(fd))
		err = ctx_error(ctx, -EPERM, "'%s': another user listens on its socket", name);
	else if (err == -ENOENT || err == -ECONNREFUSED)
		err = no_recorder(ctx, name);
	else if (err)
		ctx_error(ctx, err, "'%s': %s", name, strerror(-err));
	if (!err && !send_message(fd, REQUEST_DUMP, ""))
		err = ctx_error(ctx, -ESRCH, "flight recorder '%s' has ended", name);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* Wait for a packet. The first one must come soon, unless the recorder is stopped. */
static int await_packet(struct ocp_ctx *ctx, const char *name, int fd, int ms)
{
	int n;

	do
		n = poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, ms);
	while (n < 0 && errno == EINTR);
	if (n)
		return n < 0 ? ctx_error(ctx, -errno, "poll: %s", strerror(errno)) : 0;
	return ctx_error(ctx, -ETIMEDOUT, "flight recorder '%s' does not react", name);
}

/* Receive one packet into BYTES, as a string. Returns 0 or a negative errno, as documented. */
static int receive_packet(struct ocp_ctx *ctx, const char *name, int fd, char bytes[MESSAGE_BYTES])
{
	const ssize_t n = recv(fd, bytes, MESSAGE_BYTES - 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0)
		return ctx_error(ctx, -ESRCH, "flight recorder '%s' has ended, without a file",
				 name);
	bytes[n] = '\0';
	return 0;
}

int recorder_dump_take(struct ocp_ctx *ctx, const char *name, int fd, bool is_waiting, char **path)
{
	char bytes[MESSAGE_BYTES];
	int ms = TAKEN_MS;

	for (;;) {
		int err = is_waiting ? await_packet(ctx, name, fd, ms) : 0;

		if (!err)
			err = receive_packet(ctx, name, fd, bytes);
		if (err == -EAGAIN && is_waiting)
			continue;
		if (err)
			return err;
		if (bytes[0] == REPLY_DONE)
			return 0;
		if (bytes[0] == REPLY_FAILED)
			return ctx_error(ctx, -EIO, "flight recorder '%s': %s", name, bytes + 1);
		if (bytes[0] == REPLY_FILE)
			break;
		/* REPLY_TAKEN: from now on, the recorder writes the file, which may take long. */
		ms = -1;
	}
	*path = strdup(bytes + 1);
	return *path ? 1 : ctx_no_memory(ctx);
}
