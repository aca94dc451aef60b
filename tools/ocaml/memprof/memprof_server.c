// SPDX-License-Identifier: MIT
/*
 * The thread that waits for tools. It has a separate table of descriptors. Daemons close all
 * descriptors of the program and reuse their numbers: with a shared table, they would close the
 * descriptors of this thread, or make it read from another file.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memprof_state.h"

enum {
	FIRST_FD = 100, /* leave low numbers to the program */
	STACK_BYTES = 128 << 10,
	BELL_MS = 2,
	BELLS = 100,	   /* bells of a round at this pace */
	SLOW_BELL_MS = 50, /* the pace of later bells, while a domain has not answered */
	ROUND_MS = 1000,
};

/* Descriptors in the program's table; 0: none. */
static struct {
	int signpost, socket;
	ino_t signpost_ino, socket_ino;
} own;

/* ---- a session: only the thread uses it ------------------------------------------------------ */

struct server {
	int listen;  /* -1: the program has closed the other end */
	int session; /* -1: none */
	struct memprof_ring *ring;
	uint64_t data;
	bool is_stopping;
	int64_t round_ns,
		bell_ns; /* when the round began, and when the bell is to be rung; 0: never */
	unsigned int bells;
};

struct start {
	int listen;
	sem_t is_ready;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void send_answer(int socket, enum memprof_answer_kind kind, const char *text)
{
	struct memprof_answer answer = { .kind = kind };

	strncpy(answer.text, text, sizeof(answer.text) - 1);
	(void)!send(socket, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void schedule_bell(struct server *s, int64_t after_ms)
{
	s->bell_ns = now_ns() + after_ms * 1000000;
}

static void start_round(struct server *s)
{
	s->round_ns = now_ns();
	s->bells = 0;
	memprof_new_round();
	memprof_ring_bell();
	schedule_bell(s, BELL_MS);
}

static void begin_session(struct server *s, const struct memprof_request *request)
{
	s->is_stopping = false;
	memprof_events_open(s->ring, s->data, memprof_next_epoch(), request->flags);
	memprof_begin(request->rate, request->depth);
	start_round(s);
}

static void stop_events(struct server *s)
{
	memprof_events_close();
	munmap(s->ring, MEMPROF_RING_BYTES + s->data);
	s->ring = NULL;
	s->is_stopping = true;
	memprof_end();
	start_round(s);
}

static void end_session(struct server *s)
{
	s->is_stopping = false;
	s->bell_ns = 0;
	if (s->session >= 0) {
		send_answer(s->session, MEMPROF_STOPPED, "");
		close(s->session);
		s->session = -1;
	}
}

/* ---- requests -------------------------------------------------------------------------------- */

/*
 * Map the ring in FD. Refuse a ring that can shrink or has holes, so that no write to it can fail.
 * Returns NULL, or the reason of the refusal.
 */
static const char *map_ring(struct server *s, int fd)
{
	struct stat st;
	uint64_t data;
	void *at;
	const int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return "the ring can shrink";
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < MEMPROF_RING_BYTES)
		return "the ring is not a file";
	data = (uint64_t)st.st_size - MEMPROF_RING_BYTES;
	if (data < MEMPROF_MIN_DATA || data > MEMPROF_MAX_DATA || (data & (data - 1)))
		return "the size of the ring is wrong";
	if ((uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size)
		return "the ring has holes";
	at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		  0);
	if (at == MAP_FAILED)
		return "the ring cannot be mapped";
	/* A forked child must not write to the ring. */
	madvise(at, (size_t)st.st_size, MADV_DONTFORK);
	s->ring = at;
	s->data = data;
	if (s->ring->magic == MEMPROF_MAGIC && s->ring->data == data)
		return NULL;
	munmap(at, (size_t)st.st_size);
	s->ring = NULL;
	return "the ring is of another version";
}

/*
 * Return NULL if REQUEST is valid, otherwise the reason. Members that the request of an older tool
 * lacks are 0.
 */
static const char *check_request(const struct memprof_request *request, ssize_t bytes)
{
	if (bytes < (ssize_t)offsetof(struct memprof_request, flags) ||
	    request->magic != MEMPROF_MAGIC || request->version != MEMPROF_VERSION)
		return "the request is of another version";
	if (!(request->rate > 0 && request->rate <= 1))
		return "the rate is not above 0 and up to 1";
	if (request->depth > MEMPROF_MAX_DEPTH)
		return "the call stack is too deep";
	if (request->flags & ~(uint32_t)(MEMPROF_BY_PROBES | MEMPROF_IN_TICKS))
		return "the request is for a newer library";
	return NULL;
}

/* Handle REQUEST, which a tool has sent with its ring and its socket. */
static void take_request(struct server *s, const struct memprof_request *request, ssize_t bytes,
			 int ring, int session)
{
	const char *wrong = check_request(request, bytes);

	if (s->session >= 0 || s->is_stopping) {
		send_answer(session, MEMPROF_BUSY,
			    s->is_stopping && s->session < 0 ? "stopping" : "");
		close(session);
		return;
	}
	if (!wrong)
		wrong = map_ring(s, ring);
	if (wrong) {
		send_answer(session, MEMPROF_INVALID, wrong);
		close(session);
		return;
	}
	s->session = session;
	begin_session(s, request);
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static void receive(struct server *s)
{
	struct memprof_request request = { 0 };
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec data = { &request, sizeof(request) };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	const ssize_t bytes = recvmsg(s->listen, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int fds[8];
	size_t n = 0;

	if (bytes < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (bytes <= 0) {
		close(s->listen);
		s->listen = -1;
		return;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		n = n < 8 ? n : 8;
		memcpy(fds, CMSG_DATA(c), n * sizeof(int));
		break;
	}
	if (n != 2) {
		close_all(fds, n);
		return;
	}
	take_request(s, &request, bytes, fds[0], fds[1]);
	close(fds[0]);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void send_news(struct server *s)
{
	struct memprof_answer answer;

	while (memprof_take_answer(&answer))
		if (s->session >= 0)
			(void)!send(s->session, &answer, sizeof(answer),
				    MSG_NOSIGNAL | MSG_DONTWAIT);
}

/*
 * Ring the bell until each domain has answered. Domains can start at any time, so a new round
 * begins each second.
 */
static void look_after_domains(struct server *s)
{
	struct memprof_news news;
	const int64_t now = now_ns();

	if (!s->bell_ns)
		return;
	news = memprof_news();
	send_news(s);
	if (s->is_stopping && news.all_stopped) {
		end_session(s);
		return;
	}
	if (now < s->bell_ns)
		return;
	if (!news.all_seen || s->is_stopping) {
		memprof_ring_bell();
		schedule_bell(s, s->bells++ < BELLS ? BELL_MS : SLOW_BELL_MS);
	} else if (now >= s->round_ns + ROUND_MS * INT64_C(1000000)) {
		start_round(s);
	} else {
		schedule_bell(s, ROUND_MS);
	}
}

/*
 * If the program has closed the socket, wait until its handler has made another server, and return
 * true: this server then ends.
 */
static bool ask_for_server(const struct server *s)
{
	if (s->listen >= 0 || s->session >= 0 || s->is_stopping)
		return false;
	memprof_want_server();
	do {
		usleep(SLOW_BELL_MS * 1000);
		memprof_ring_bell();
	} while (memprof_wants_server());
	return true;
}

/* Any message of the tool, and the end of the tool, ends the session. */
static void hear_session(struct server *s)
{
	char message[64];
	const ssize_t bytes = recv(s->session, message, sizeof(message), MSG_DONTWAIT);

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (s->ring)
		stop_events(s);
	if (bytes <= 0) {
		close(s->session);
		s->session = -1;
	}
}

static int timeout_of(const struct server *s)
{
	const int64_t left_ns = s->bell_ns - now_ns();

	if (!s->bell_ns)
		return -1;
	return left_ns > 0 ? (int)(left_ns / 1000000) + 1 : 0;
}

static void serve(struct server *s)
{
	while (!ask_for_server(s)) {
		struct pollfd fds[2] = { { .fd = s->listen, .events = POLLIN },
					 { .fd = s->session, .events = POLLIN } };

		if (poll(fds, 2, timeout_of(s)) < 0 && errno != EINTR)
			usleep(10000);
		if (fds[1].revents)
			hear_session(s);
		if (fds[0].revents)
			receive(s);
		look_after_domains(s);
	}
}

static void *run(void *data)
{
	struct start *start = data;
	struct server server = { .listen = start->listen, .session = -1 };
	bool works;

	prctl(PR_SET_NAME, "ocaml-memprof");
	works = syscall(SYS_close_range, server.listen + 1, ~0U, CLOSE_RANGE_UNSHARE) == 0 &&
		syscall(SYS_close_range, 0, server.listen - 1, 0) == 0;
	if (!works)
		start->listen = -1;
	sem_post(&start->is_ready);
	if (works)
		serve(&server);
	return NULL;
}

/* Returns false if no thread could be started, or if it does not work on this kernel. */
static bool start_thread(int listen)
{
	struct start start = { .listen = listen };
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	bool runs;

	if (pthread_attr_init(&attributes) != 0)
		return false;
	sem_init(&start.is_ready, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	runs = pthread_create(&thread, &attributes, run, &start) == 0;
	while (runs && sem_wait(&start.is_ready) != 0)
		continue;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	sem_destroy(&start.is_ready);
	return runs && start.listen >= 0;
}

/* ---- descriptors of the program -------------------------------------------------------------- */

/* Move FD to a high number, which the program is unlikely to use. Returns the new number. */
static int move_up(int fd)
{
	const int moved = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD) : -1;

	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}

static void close_own(int *fd, ino_t ino)
{
	struct stat st;

	if (*fd && fstat(*fd, &st) == 0 && st.st_ino == ino)
		close(*fd);
	*fd = 0;
}

void memprof_server_close(void)
{
	close_own(&own.signpost, own.signpost_ino);
	close_own(&own.socket, own.socket_ino);
}

static bool write_signpost(uint32_t ocaml)
{
	struct memprof_signpost post = { .magic = MEMPROF_MAGIC,
					 .version = MEMPROF_VERSION,
					 .pid = (uint32_t)getpid(),
					 .ocaml = ocaml,
					 .socket_fd = (uint32_t)own.socket,
					 .socket_ino = own.socket_ino,
					 .features = MEMPROF_BY_PROBES };
	struct stat st;
	int fd = move_up(memfd_create(MEMPROF_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (fd < 0)
		return false;
	if (write(fd, &post, sizeof(post)) != sizeof(post) || fstat(fd, &st) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
		close(fd);
		return false;
	}
	own.signpost = fd;
	own.signpost_ino = st.st_ino;
	return true;
}

/* The signpost is made last: a tool that sees the signpost finds a server. */
void memprof_server_open(uint32_t ocaml)
{
	struct stat st;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return;
	pair[0] = move_up(pair[0]);
	pair[1] = move_up(pair[1]);
	if (fstat(pair[1], &st) == 0 && start_thread(pair[0])) {
		own.socket = pair[1];
		own.socket_ino = st.st_ino;
		if (!write_signpost(ocaml))
			memprof_server_close();
	} else {
		close(pair[1]);
	}
	close(pair[0]);
}
