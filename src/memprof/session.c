// SPDX-License-Identifier: MIT
#include "memprof/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernel/ticks.h"
#include "memprof/ring_reader.h"
#include "look/memfd_file.h"
#include "look/proc_file.h"

/* ---- the rate -------------------------------------------------------------------------------- */

bool memprof_rate_read(const char *text, double *rate)
{
	char *end;

	errno = 0;
	*rate = strtod(text, &end);
	/* Written so that NaN, which compares false, is rejected. */
	return !errno && end != text && !*end && *rate >= MEMPROF_MIN_RATE && *rate <= 1;
}

enum { USUAL_DATA = 16 << 20, SIGNPOST_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

struct memprof_session {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct memprof_signpost post;
	int socket;  /* our end of this session's socket pair */
	int request; /* copy of the program's socket; -1 after the request, like ring_fd */
	int ring_fd;
	struct ring_reader reader;
};

/* ---- the signpost ---------------------------------------------------------------------------- */

/*
 * Return true if descriptor NUMBER of PID is the signpost, and read the signpost into POST. The
 * link in /proc may change at any time, and so may the file to which the link leads.
 */
static bool read_signpost(pid_t pid, const char *number, struct memprof_signpost *post)
{
	static const char expected[] = "/memfd:" MEMPROF_NAME;
	char name[32], path[PROC_PATH_BYTES], link[sizeof(expected)];
	struct stat st;
	ssize_t n;
	int fd;
	bool is_it;

	if (strlen(number) > 12)
		return false;
	snprintf(name, sizeof(name), "fd/%.12s", number);
	proc_path(path, pid, name);
	n = readlink(path, link, sizeof(link));
	if (n < (ssize_t)sizeof(expected) - 1 || memcmp(link, expected, sizeof(expected) - 1) != 0)
		return false;
	fd = memfd_file_open(path, O_RDONLY, &st);
	if (fd < 0)
		return false;
	memset(post, 0, sizeof(*post));
	is_it = memfd_file_is_sealed(fd, SIGNPOST_SEALS) &&
		pread(fd, post, sizeof(*post), 0) >=
			(ssize_t)offsetof(struct memprof_signpost, features) &&
		post->magic == MEMPROF_MAGIC;
	close(fd);
	return is_it;
}

/*
 * Return true if POST is the signpost of PID itself. After a fork, a child has the signpost of its
 * parent until the library has made a new one.
 */
static bool is_of(struct ocp_ctx *ctx, pid_t pid, const struct memprof_signpost *post)
{
	struct proc_status status;

	return proc_status_read(ctx, pid, &status) == 0 &&
	       (uint32_t)(status.ns_pid ? status.ns_pid : pid) == post->pid;
}

/* Say that PID runs no program, or a program without the library. */
static int say_not_linked(struct ocp_ctx *ctx, pid_t pid)
{
	int err;

	if (!proc_has_memory(pid))
		return proc_why_no_access(ctx, pid, ESRCH);
	err = ctx_error(ctx, -ENODATA, "pid %d: is not linked with ocaml-probes.memprof", (int)pid);
	ctx_hint(ctx, "`ocaml-probes profile --alloc -pid %d` needs no library", (int)pid);
	return err;
}

static int say_other_version(struct ocp_ctx *ctx, pid_t pid, uint32_t version)
{
	ctx_error(ctx, -EPROTO,
		  "pid %d: its ocaml-probes.memprof speaks version %u of the protocol, this tool "
		  "speaks version %d",
		  (int)pid, version, MEMPROF_VERSION);
	ctx_hint(ctx, version < MEMPROF_VERSION
			      ? "build the program again with the library of this tool"
			      : "use the tool that came with the program's library");
	return -EPROTO;
}

static int find_signpost(struct ocp_ctx *ctx, pid_t pid, struct memprof_signpost *post)
{
	char path[PROC_PATH_BYTES];
	const struct dirent *entry;
	bool found = false;
	DIR *dir;

	proc_path(path, pid, "fd");
	dir = opendir(path);
	if (!dir)
		return proc_why_no_access(ctx, pid, errno);
	while (!found && (entry = readdir(dir)))
		found = read_signpost(pid, entry->d_name, post) && is_of(ctx, pid, post);
	closedir(dir);
	if (!found)
		return say_not_linked(ctx, pid);
	if (post->version != MEMPROF_VERSION)
		return say_other_version(ctx, pid, post->version);
	if (post->ocaml >= 50000 && post->ocaml < 50300)
		return ctx_error(
			ctx, -EOPNOTSUPP,
			"pid %d: OCaml 5.0 to 5.2 have no Gc.Memprof; 4.13, 4.14, 5.3 and later have it",
			(int)pid);
	return 0;
}

/* Return -EPROTO if the library lacks a feature that SPEC needs, otherwise 0. */
static int check_features(struct ocp_ctx *ctx, pid_t pid, const struct memprof_signpost *post,
			  const struct memprof_spec *spec)
{
	if (!spec->by_probes || post->features & MEMPROF_BY_PROBES)
		return 0;
	ctx_error(
		ctx, -EPROTO,
		"pid %d: its ocaml-probes.memprof is older than this tool: its events come through "
		"the ring only",
		(int)pid);
	ctx_hint(ctx, "build the program again, or use --events=ring");
	return -EPROTO;
}

int memprof_check(struct ocp_ctx *ctx, pid_t pid, const struct memprof_spec *spec)
{
	struct memprof_signpost post;
	const int err = find_signpost(ctx, pid, &post);

	return err ? err : check_features(ctx, pid, &post, spec);
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* Copy descriptor NUMBER of PID. Return 0 or a negative errno. */
static int copy_descriptor(pid_t pid, int number, int *copy)
{
	int pidfd, err = 0;

	/*
	 * Avoid pidfd_getfd(2) if possible: filters of system calls, as in containers, may refuse
	 * it.
	 */
	if (pid == getpid()) {
		*copy = fcntl(number, F_DUPFD_CLOEXEC, 0);
		return *copy < 0 ? -errno : 0;
	}
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return -errno;
	*copy = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
	if (*copy < 0)
		err = -errno;
	close(pidfd);
	return err;
}

/*
 * Return true if FD is the expected socket. The process chooses what kind of file FD is. So call
 * getsockopt(2) first: fstat(2) could block on another kind of file.
 */
static bool is_local_socket(int fd, uint64_t inode)
{
	struct stat st;
	int domain;
	socklen_t bytes = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX &&
	       fstat(fd, &st) == 0 && st.st_ino == inode;
}

/* Copy the program's socket. For another process, the kernel requires the right to trace it. */
static int take_socket(struct memprof_session *s)
{
	const int err = copy_descriptor(s->pid, (int)s->post.socket_fd, &s->request);

	if (s->request < 0 && err == -ENOSYS)
		return ctx_error(s->ctx, err, "memprof needs Linux 5.9");
	if (s->request < 0 && err != -EBADF)
		return proc_why_no_access(s->ctx, s->pid, -err);
	if (s->request < 0 || !is_local_socket(s->request, s->post.socket_ino))
		return ctx_error(s->ctx, -EAGAIN,
				 "pid %d: has closed the socket of ocaml-probes.memprof; try again",
				 (int)s->pid);
	return 0;
}

/*
 * Make the ring. Its pages are allocated here, so their memory is charged to this process, and the
 * program never waits for memory.
 */
static int make_ring(struct memprof_session *s, uint64_t data)
{
	const uint64_t bytes = MEMPROF_RING_BYTES + data;
	void *at = MAP_FAILED;
	int err = 0;

	s->ring_fd = memfd_create("ocaml-probes.ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (s->ring_fd >= 0)
		err = posix_fallocate(s->ring_fd, 0, (off_t)bytes);
	if (s->ring_fd >= 0 && !err &&
	    fcntl(s->ring_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->ring_fd, 0);
	if (at == MAP_FAILED)
		return ctx_error(s->ctx, err ? -err : -errno,
				 "cannot make a ring of %llu bytes: %s", (unsigned long long)bytes,
				 strerror(err ? err : errno));
	ring_reader_init(&s->reader, at, data);
	return 0;
}

static uint32_t flags_of(const struct memprof_session *s, const struct memprof_spec *spec)
{
	return (spec->by_probes ? MEMPROF_BY_PROBES : 0) |
	       (s->reader.in_ticks ? MEMPROF_IN_TICKS : 0);
}

static int send_request(struct memprof_session *s, const struct memprof_spec *spec, int theirs)
{
	struct memprof_request request = { .magic = MEMPROF_MAGIC,
					   .version = MEMPROF_VERSION,
					   .depth = spec->depth,
					   .rate = spec->rate,
					   .flags = flags_of(s, spec) };
	const int fds[2] = { s->ring_fd, theirs };
	union {
		char bytes[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec data = { &request, sizeof(request) };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(header), fds, sizeof(fds));
	if (sendmsg(s->request, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return ctx_error(s->ctx, -errno, "pid %d: cannot request a profile: %s",
				 (int)s->pid, strerror(errno));
	return 0;
}

static int request_profile(struct memprof_session *s, const struct memprof_spec *spec)
{
	int pair[2];
	int err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
		return ctx_error(s->ctx, -errno, "cannot make a socket: %s", strerror(errno));
	s->socket = pair[0];
	err = send_request(s, spec, pair[1]);
	close(pair[1]);
	close(s->request);
	close(s->ring_fd);
	s->request = s->ring_fd = -1;
	return err;
}

int memprof_open(struct ocp_ctx *ctx, pid_t pid, const struct memprof_spec *spec,
		 struct memprof_session **out)
{
	struct memprof_session *s = calloc(1, sizeof(*s));
	int err;

	*out = s;
	if (!s)
		return ctx_no_memory(ctx);
	s->ctx = ctx;
	s->pid = pid;
	s->socket = s->request = s->ring_fd = -1;
	err = find_signpost(ctx, pid, &s->post);
	if (!err)
		err = check_features(ctx, pid, &s->post, spec);
	if (!err)
		err = take_socket(s);
	if (!err)
		err = make_ring(s, spec->data	     ? spec->data
				   : spec->by_probes ? MEMPROF_MIN_DATA
						     : USUAL_DATA);
	if (!err && !spec->by_probes && ticks_are_clock())
		ring_reader_use_ticks(&s->reader, ticks_moment);
	if (!err)
		err = request_profile(s, spec);
	if (err) {
		memprof_close(s);
		*out = NULL;
	}
	return err;
}

void memprof_close(struct memprof_session *s)
{
	if (!s)
		return;
	if (s->socket >= 0)
		close(s->socket);
	if (s->request >= 0)
		close(s->request);
	if (s->ring_fd >= 0)
		close(s->ring_fd);
	if (s->reader.ring)
		munmap(s->reader.ring, MEMPROF_RING_BYTES + s->reader.data);
	ring_reader_fini(&s->reader);
	free(s);
}

/* ---- while it runs --------------------------------------------------------------------------- */

uint32_t memprof_ocaml(const struct memprof_session *s)
{
	return s->post.ocaml;
}

uint64_t memprof_number(const struct memprof_session *s)
{
	return __atomic_load_n(&s->reader.ring->session, __ATOMIC_ACQUIRE);
}

int memprof_fd(const struct memprof_session *s)
{
	return s->socket;
}

void memprof_stop(struct memprof_session *s)
{
	(void)!send(s->socket, "stop", 4, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool memprof_next(struct memprof_session *s, struct memprof_event *event)
{
	return ring_reader_next(&s->reader, event);
}

void memprof_finish(struct memprof_session *s)
{
	ring_reader_finish(&s->reader);
}

/*
 * Return true if the numbers in LOSSES are possible. No program loses 2^48 events before the tool
 * reads some.
 */
static bool is_possible(const struct memprof_losses *losses)
{
	const uint64_t limit = UINT64_C(1) << 48;

	for (int i = 0; i < MEMPROF_KINDS; i++)
		if (losses->events[i] >= limit)
			return false;
	return losses->samples < limit && losses->forks < limit;
}

struct memprof_losses memprof_losses(const struct memprof_session *s, bool at_end)
{
	const struct memprof_ring *ring = s->reader.ring;
	struct memprof_losses losses = {
		.samples = __atomic_load_n(&ring->lost_samples, __ATOMIC_RELAXED),
		.forks = __atomic_load_n(&ring->forks, __ATOMIC_RELAXED),
		.is_damaged = s->reader.is_damaged,
		.is_cut = at_end && ring_reader_has_rest(&s->reader),
	};

	for (int i = 0; i < MEMPROF_KINDS; i++)
		losses.events[i] = __atomic_load_n(&ring->lost[i], __ATOMIC_RELAXED);
	if (!is_possible(&losses))
		losses = (struct memprof_losses){ .is_damaged = losses.is_damaged,
						  .is_cut = losses.is_cut,
						  .is_false = true };
	return losses;
}

/* ---- replies of the program ------------------------------------------------------------------ */

static uint8_t *bits_of(uint8_t *bits, uint32_t domain)
{
	return &bits[domain % MEMPROF_SEEN_DOMAINS / 8];
}

static bool is_set(const uint8_t *bits, uint32_t domain)
{
	return bits[domain % MEMPROF_SEEN_DOMAINS / 8] & 1 << domain % 8;
}

static void set(uint8_t *bits, uint32_t domain)
{
	*bits_of(bits, domain) |= (uint8_t)(1 << domain % 8);
}

static void record_domain_start(struct memprof_answers *a, uint32_t domain)
{
	if (!a->started_ns)
		a->started_ns = clock_ns(CLOCK_MONOTONIC);
	set(a->started, domain);
}

/*
 * Record that a domain refused the profile. There are two cases. A domain that was spawned during
 * the profile has inherited the profile of its parent, and therefore refuses to start it again;
 * that it is profiled can be seen from its events. Any other domain refuses because the program
 * itself has started a profile there.
 */
static void record_refusal(struct memprof_answers *a, const struct memprof_answer *answer)
{
	if (!a->refused_ns)
		a->refused_ns = clock_ns(CLOCK_MONOTONIC);
	memcpy(a->refusal, answer->text, sizeof(a->refusal));
	if (a->n_refused < MEMPROF_MAX_REFUSED && !is_set(a->seen, answer->domain))
		a->refused[a->n_refused++] = answer->domain;
}

static int handle_reply(struct ocp_ctx *ctx, pid_t pid, struct memprof_answers *a,
			const struct memprof_answer *answer)
{
	switch (answer->kind) {
	case MEMPROF_STARTED:
		record_domain_start(a, answer->domain);
		break;
	case MEMPROF_REFUSED:
		record_refusal(a, answer);
		break;
	case MEMPROF_BUSY:
		return ctx_error(ctx, -EBUSY, "pid %d: %s", (int)pid,
				 answer->text[0] ? "its last profile has not ended yet"
						 : "another tool profiles it");
	case MEMPROF_INVALID:
		return ctx_error(ctx, -EPROTO, "pid %d: has refused: %s", (int)pid, answer->text);
	case MEMPROF_STOPPED:
		a->has_stopped = true;
	}
	return 0;
}

/*
 * Take the next reply of the program. Return false if no reply is waiting. Set *HAS_ENDED if the
 * program has closed the session. A message that is not a valid reply is ignored.
 */
static bool take_reply(struct memprof_session *s, struct memprof_answer *answer, bool *has_ended)
{
	ssize_t n;

	*has_ended = false;
	do {
		n = recv(s->socket, answer, sizeof(*answer), MSG_DONTWAIT);
	} while ((n < 0 && errno == EINTR) || (n > 0 && n != (ssize_t)sizeof(*answer)));
	if (n <= 0) {
		*has_ended = n == 0 || errno != EAGAIN;
		return false;
	}
	answer->text[sizeof(answer->text) - 1] = '\0';
	return true;
}

int memprof_answers_take(struct ocp_ctx *ctx, pid_t pid, struct memprof_session *session,
			 struct memprof_answers *a)
{
	struct memprof_answer answer;
	int err = 0;

	while (!err && !a->is_closed && take_reply(session, &answer, &a->is_closed))
		err = handle_reply(ctx, pid, a, &answer);
	return err;
}

void memprof_answers_see(struct memprof_answers *a, uint32_t domain)
{
	set(a->seen, domain);
	for (size_t i = 0; i < a->n_refused; i++)
		if (a->refused[i] == domain)
			a->refused[i--] = a->refused[--a->n_refused];
}

bool memprof_answers_started(const struct memprof_answers *a, uint32_t domain)
{
	return is_set(a->started, domain);
}

bool memprof_answers_refuse(const struct memprof_answers *a, int64_t now_ns)
{
	return a->refused_ns && !a->started_ns && now_ns >= a->refused_ns + MEMPROF_REFUSAL_NS;
}

int memprof_answers_refusal(struct ocp_ctx *ctx, pid_t pid, const struct memprof_answers *a)
{
	const int err =
		ctx_error(ctx, -EBUSY, "pid %d: no profile was started: %s", (int)pid, a->refusal);

	if (strstr(a->refusal, "already started"))
		ctx_hint(ctx, "the program itself runs a profile, which is not disturbed");
	return err;
}
