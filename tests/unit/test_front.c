// SPDX-License-Identifier: MIT
/*
 * The process that speaks HTTP: what it can still do once it has given up all, and what it and the
 * one that measures say to each other. The latter believes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/confine.h"
#include "serve/channel.h"
#include "serve/request.h"
#include "serve/sandbox.h"
#include "unit.h"

static struct ocp_ctx *ctx;

static int set_up(void **state)
{
	(void)state;
	ctx = ocp_ctx_new();
	return ctx ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	ocp_ctx_free(ctx);
	return 0;
}

ALL_TESTS(set_up, tear_down);

/* ---- the sandbox ---------------------------------------------------------------------------- */

/* A child's finding: "" is well. */
static char *finding;

static bool is_denied(long result, const char *what)
{
	if (result == -1 && errno == EPERM)
		return true;
	snprintf(finding, 256, "%s: returned %ld, %s", what, result, strerror(errno));
	return false;
}

#define denied(call) is_denied((long)(call), #call)

static void try_what_is_denied(void)
{
	static const struct sockaddr_un nobody = { .sun_family = AF_UNIX, .sun_path = "/x" };
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY };
	char *const none[] = { NULL };
	struct iovec part = { finding, 1 };
	const pid_t parent = getpid();
	int fd;

	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (confine_drop_capabilities(ctx) != 0 || sandbox_filter_syscalls(ctx) != 0) {
		snprintf(finding, 256, "%s", ocp_error(ctx));
		return;
	}
	/* Files. */
	(void)(denied(syscall(SYS_open, "/dev/null", O_RDONLY)) &&
	       denied(openat(AT_FDCWD, "/dev/null", O_RDONLY)) &&
	       denied(syscall(SYS_openat2, AT_FDCWD, "/dev/null", &attr, 24L)) &&
	       denied(syscall(SYS_creat, "/tmp/x", 0600)) && denied(unlink("/tmp/x")) &&
	       denied(rename("/tmp/x", "/tmp/y")) && denied(link("/tmp/x", "/tmp/y")) &&
	       denied(symlink("/tmp/x", "/tmp/y")) && denied(mkdir("/tmp/x", 0700)) &&
	       denied(chmod("/tmp/x", 0600)) && denied(access("/", R_OK)) && denied(chdir("/")) &&
	       denied(syscall(SYS_memfd_create, "x", 0)) &&
	       denied(syscall(SYS_io_uring_setup, 1, &attr)) &&
	       denied(syscall(SYS_open_by_handle_at, 0, &attr, 0)) &&
	       /* Programs and processes. */
	       denied(execve("/bin/true", none, none)) &&
	       denied(syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH)) &&
	       denied(syscall(SYS_fork)) && denied(syscall(SYS_vfork)) &&
	       denied(syscall(SYS_clone, 0, 0, 0, 0, 0)) &&
	       denied(syscall(SYS_clone3, &attr, 64L)) && denied(kill(parent, 0)) &&
	       denied(syscall(SYS_tgkill, parent, parent, 0)) &&
	       denied(ptrace(PTRACE_SEIZE, getppid(), NULL, NULL)) &&
	       denied(process_vm_readv(getppid(), &part, 1, &part, 1, 0)) &&
	       denied(process_vm_writev(getppid(), &part, 1, &part, 1, 0)) &&
	       denied(syscall(SYS_pidfd_open, getppid(), 0)) &&
	       denied(syscall(SYS_pidfd_getfd, 0, 0, 0)) &&
	       denied(syscall(SYS_kcmp, 1, 1, 0, 0, 0)) &&
	       /* The kernel. */
	       denied(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr))) &&
	       denied(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0)) &&
	       denied(syscall(SYS_userfaultfd, 0)) && denied(syscall(SYS_unshare, 0)) &&
	       denied(syscall(SYS_keyctl, 0, 0)) && denied(syscall(SYS_mount, "", "", "", 0, "")) &&
	       denied(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)) &&
	       denied(syscall(SYS_seccomp, 0, 0, NULL)) && denied(syscall(SYS_setuid, 0)) &&
	       denied(syscall(SYS_setrlimit, 0, &attr)) && denied(syscall(SYS_ioctl, 0, 0, 0)) &&
	       /* Sockets, but for those that clients open. */
	       denied(socket(AF_INET, SOCK_STREAM, 0)) &&
	       denied(socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){ 0 })) &&
	       denied(connect(fd, (const struct sockaddr *)&nobody, sizeof(nobody))) &&
	       denied(bind(fd, (const struct sockaddr *)&nobody, sizeof(nobody))) &&
	       denied(listen(fd, 1)) &&
	       denied(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &fd, sizeof(fd))) &&
	       /* Memory that runs; and numbers of x32. */
	       denied(syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0)) &&
	       denied(syscall(SYS_mprotect, &attr, 1, PROT_EXEC)) &&
	       denied(syscall(0x40000000 | SYS_getpid)));
}

/* What serving takes. */
static void try_what_is_allowed(int listen_fd, int client_fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	const int epoll_fd = epoll_create1(0);
	struct timespec now;
	char bytes[8];
	char *memory;
	int fd;

	if (confine_drop_capabilities(ctx) != 0 || sandbox_filter_syscalls(ctx) != 0) {
		snprintf(finding, 256, "%s", ocp_error(ctx));
		return;
	}
	memory = malloc(64 << 20);
	if (!memory)
		snprintf(finding, 256, "malloc");
	free(memory);
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &event) != 0 ||
	    epoll_wait(epoll_fd, &event, 1, 10000) != 1)
		snprintf(finding, 256, "epoll: %s", strerror(errno));
	fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK);
	if (fd < 0 || recv(fd, bytes, sizeof(bytes), MSG_PEEK) != 5 || send(fd, "hello", 5, 0) != 5)
		snprintf(finding, 256, "a client: %s", strerror(errno));
	if (shutdown(fd, SHUT_RDWR) != 0 || close(fd) != 0)
		snprintf(finding, 256, "its end: %s", strerror(errno));
	if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) != 0 ||
	    poll(&(struct pollfd){ .fd = client_fd }, 1, 0) < 0)
		snprintf(finding, 256, "waiting: %s", strerror(errno));
}

/* Run WHAT in a child, which ends by itself. */
static void in_child(void (*what)(int, int), int a, int b)
{
	int status;
	pid_t pid;

	finding = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(finding, MAP_FAILED);
	pid = fork();
	if (pid == 0) {
		what(a, b);
		/* Before _exit() itself the sanitizers make calls that are denied now. */
		syscall(SYS_exit_group, 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_string_equal(finding, "");
	assert_int_equal(status, 0);
	munmap(finding, 4096);
}

static void denied_things(int a, int b)
{
	(void)a;
	(void)b;
	try_what_is_denied();
}

TEST(a_sandbox_keeps_in)
{
	in_child(denied_things, 0, 0);
}

TEST(a_sandbox_lets_serve)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(address);
	const int listen_fd = socket(AF_UNIX, SOCK_STREAM, 0);
	const int client_fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char reply[8];

	assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(listen_fd, 1), 0);
	assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(connect(client_fd, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(send(client_fd, "hello", 5, 0), 5);
	in_child(try_what_is_allowed, listen_fd, client_fd);
	assert_int_equal(recv(client_fd, reply, sizeof(reply), 0), 5);
	close(listen_fd);
	close(client_fd);
}

/* Which descriptors up to 63 are open, without 0 to 2. */
static uint64_t open_files(void)
{
	uint64_t open = 0;

	for (int fd = 3; fd < 64; fd++)
		open |= (uint64_t)(fcntl(fd, F_GETFD) >= 0) << fd;
	return open;
}

static void close_files(int a, int b)
{
	const int kept[] = { a, b };

	if (confine_close_files(ctx, kept, 2) != 0)
		snprintf(finding, 256, "%s", ocp_error(ctx));
	else if (open_files() != ((uint64_t)1 << a | (uint64_t)1 << b))
		snprintf(finding, 256, "open: %llx", (unsigned long long)open_files());
	else if (write(1, "x", 1) != 1 || read(0, finding, 1) != 0)
		snprintf(finding, 256, "0 and 1 are no /dev/null");
}

TEST(what_is_not_kept_is_closed)
{
	int fds[8];

	for (size_t i = 0; i < 8; i++)
		assert_true((fds[i] = dup(2)) > 0);
	in_child(close_files, fds[0], fds[1]);
	in_child(close_files, fds[2], fds[5]);
	in_child(close_files, fds[6], fds[7]);
	for (size_t i = 0; i < 8; i++)
		close(fds[i]);
}

/* ---- the channel ---------------------------------------------------------------------------- */

/* Send N BYTES as they are, and take them. */
static int taken(const void *bytes, size_t n, struct asked *asked)
{
	int fds[2], err;

	assert_int_equal(channel_new(fds), 0);
	assert_int_equal(send(fds[1], bytes, n, 0), n);
	err = channel_take(fds[0], asked);
	close(fds[0]);
	close(fds[1]);
	return err;
}

TEST(bad_messages_are_refused)
{
	struct asked *asked = malloc(sizeof(*asked));
	char *big = calloc(1, ASK_BYTES + 32);
	struct {
		uint64_t id;
		uint32_t number, padding;
	} head = { .id = 77 };

	assert_true(asked && big);
	for (size_t n = 1; n < sizeof(head); n++)
		assert_int_equal(taken(&head, n, asked), -EPROTO);
	head.number = ASKS;
	assert_int_equal(taken(&head, sizeof(head), asked), -EPROTO);
	head.number = UINT32_MAX;
	assert_int_equal(taken(&head, sizeof(head), asked), -EPROTO);
	head.number = ASK_SWITCH;
	memcpy(big, &head, sizeof(head));
	assert_int_equal(taken(big, sizeof(head) + ASK_BYTES + 1, asked), -EPROTO);
	assert_int_equal(taken(big, sizeof(head) + ASK_BYTES, asked), 0);
	assert_int_equal(asked->ask, ASK_SWITCH);
	assert_int_equal(asked->id, 77);
	assert_int_equal(asked->n, ASK_BYTES);
	free(big);
	free(asked);
}

TEST(nobody_is_waited_for)
{
	struct asked *asked = malloc(sizeof(*asked));
	struct strbuf body = { 0 };
	int fds[2], err = 0;

	assert_non_null(asked);
	assert_int_equal(channel_new(fds), 0);
	assert_int_equal(channel_take(fds[0], asked), -EAGAIN);
	/* A client that does not read the answers. */
	for (int i = 0; !err && i < 100000; i++)
		err = channel_answer(fds[0], 1, 0, &body);
	assert_int_equal(err, -EAGAIN);
	close(fds[1]);
	assert_int_equal(channel_take(fds[0], asked), -EPIPE);
	close(fds[0]);
	free(asked);
}

/* An answer of any size comes as it was, behind what was there. */
TEST(answers_come)
{
	static const size_t sizes[] = { 0, 1, 5000000 };
	struct asked *asked = malloc(sizeof(*asked));

	assert_non_null(asked);
	for (size_t i = 0; i < 3; i++) {
		struct strbuf sent = { 0 }, got = { 0 };
		unsigned int status = 0;
		uint64_t id = 0;
		int fds[2], wait_status;
		pid_t pid;

		for (size_t at = 0; at < sizes[i]; at++)
			strbuf_add(&sent, &(const char){ (char)(at * 7) }, 1);
		strbuf_lit(&got, "before");
		assert_int_equal(channel_new(fds), 0);
		pid = fork();
		if (pid == 0) {
			while (channel_take(fds[0], asked) == -EAGAIN)
				poll(&(struct pollfd){ .fd = fds[0], .events = POLLIN }, 1, -1);
			_exit(asked->ask != ASK_STATUS || strcmp(asked->bytes, "what") != 0 ||
			      channel_answer(fds[0], asked->id, 404, &sent));
		}
		close(fds[0]);
		assert_int_equal(channel_receive(fds[1], &id, &status, &got), -EAGAIN);
		assert_int_equal(channel_ask(fds[1], ASK_STATUS, 9, "what", 4), 0);
		poll(&(struct pollfd){ .fd = fds[1], .events = POLLIN }, 1, -1);
		assert_int_equal(channel_receive(fds[1], &id, &status, &got), 0);
		assert_int_equal(status, 404);
		assert_int_equal(id, 9);
		assert_int_equal(got.n, 6 + sizes[i]);
		assert_memory_equal(got.bytes, "before", 6);
		if (sizes[i])
			assert_memory_equal(got.bytes + 6, sent.bytes, sizes[i]);
		/* The other one has gone. */
		assert_int_equal(waitpid(pid, &wait_status, 0), pid);
		assert_int_equal(wait_status, 0);
		assert_int_equal(channel_ask(fds[1], ASK_STATUS, 10, "", 0), -EPIPE);
		assert_int_equal(channel_receive(fds[1], &id, &status, &got), -EPIPE);
		close(fds[1]);
		strbuf_free(&sent);
		strbuf_free(&got);
	}
	free(asked);
}

/* ---- child processes ------------------------------------------------------------------------ */

/* DATA: what the child reports; NULL: it ends without a report. */
static int be_child(const void *data, pid_t parent, int fd)
{
	const int *err = data;

	if (!err || parent != getppid())
		return 7;
	if (*err) {
		ctx_set_error(ctx, "the reason");
		ctx_hint(ctx, "the hint");
	}
	server_child_report(ctx, fd, *err);
	return 3;
}

static int exit_status_of(const struct server_child *child)
{
	int status;

	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_true(WIFEXITED(status));
	close(child->fd);
	return WEXITSTATUS(status);
}

TEST(children_report)
{
	const int fine = 0, refused = -EACCES;
	struct server_child child;
	struct child_report report;

	assert_int_equal(server_child_start(ctx, &child, be_child, &fine, &report), 0);
	assert_int_equal(report.err, 0);
	assert_int_equal(exit_status_of(&child), 3);
	assert_int_equal(server_child_start(ctx, &child, be_child, &refused, &report), 0);
	assert_int_equal(report.err, -EACCES);
	assert_string_equal(report.error, "the reason");
	assert_string_equal(report.hint, "the hint");
	assert_int_equal(exit_status_of(&child), 3);
	/* Without a report. */
	assert_int_equal(server_child_start(ctx, &child, be_child, NULL, &report), -EPIPE);
	assert_int_equal(exit_status_of(&child), 7);
}

/* ---- requests to switch --------------------------------------------------------------------- */

static const struct client_request whole = {
	.host = "host:1",
	.authorization = { "Bearer x", 1 },
	.origin = { "http://host:1", 2 },
	.content_type = { "", 1 },
	.peer = "127.0.0.1:2",
	.body = "{\0}",
	.n_body = 3,
};

static void assert_same(const char *a, const char *b)
{
	if (a && b)
		assert_string_equal(a, b);
	else
		assert_ptr_equal(a, b);
}

static void assert_comes_back(const struct client_request *request)
{
	struct client_request got;
	struct strbuf message = { 0 };

	client_request_write(request, &message);
	assert_true(client_request_read(message.bytes, message.n, &got));
	assert_same(got.host, request->host);
	assert_int_equal(got.authorization.n, request->authorization.n);
	assert_same(got.authorization.value, request->authorization.value);
	assert_int_equal(got.origin.n, request->origin.n);
	assert_same(got.origin.value, request->origin.value);
	assert_int_equal(got.content_type.n, request->content_type.n);
	assert_same(got.content_type.value, request->content_type.value);
	assert_same(got.peer, request->peer);
	assert_int_equal(got.n_body, request->n_body);
	assert_memory_equal(got.body, request->body, request->n_body + 1);
	strbuf_free(&message);
}

TEST(requests_come_back)
{
	struct client_request request = whole;

	assert_comes_back(&request);
	request.authorization = request.origin = (struct request_header){ 0 };
	request.body = "";
	request.n_body = 0;
	assert_comes_back(&request);
}

/* READ in a buffer that ends where it does, which the sanitizer watches. */
static bool reads(const char *bytes, size_t n)
{
	struct client_request request;
	char *copy = malloc(n ? n : 1);
	bool result;

	assert_non_null(copy);
	memcpy(copy, bytes, n);
	result = client_request_read(copy, n, &request);
	free(copy);
	return result;
}

TEST(damaged_requests_are_refused)
{
	struct client_request request = whole;
	struct strbuf message = { 0 };

	client_request_write(&whole, &message);
	assert_true(reads(message.bytes, message.n));
	for (size_t n = 0; n < message.n; n++)
		assert_false(reads(message.bytes, n));
	strbuf_add(&message, "", 1);
	assert_false(reads(message.bytes, message.n));
	/* The zero byte behind the body. */
	message.bytes[message.n - 2] = 'x';
	assert_false(reads(message.bytes, message.n - 1));
	message.bytes[message.n - 2] = '\0';
	/* Its first number is how long the host is: "host:1". */
	for (uint32_t length = 0; length < 300; length++) {
		memcpy(message.bytes, &length, sizeof(length));
		if (length != 6)
			assert_false(reads(message.bytes, message.n - 1));
	}
	for (uint32_t length = UINT32_MAX - 10; length; length++) {
		memcpy(message.bytes, &length, sizeof(length));
		assert_false(reads(message.bytes, message.n - 1));
	}
	strbuf_free(&message);
	/* What has to be there. */
	request.host = NULL;
	client_request_write(&request, &message);
	assert_false(reads(message.bytes, message.n));
	strbuf_free(&message);
	request = whole;
	request.peer = NULL;
	client_request_write(&request, &message);
	assert_false(reads(message.bytes, message.n));
	strbuf_free(&message);
	request = whole;
	request.body = NULL;
	client_request_write(&request, &message);
	assert_false(reads(message.bytes, message.n));
	strbuf_free(&message);
	/* A header that is there and has no value. */
	request = whole;
	request.origin.value = NULL;
	client_request_write(&request, &message);
	assert_false(reads(message.bytes, message.n));
	strbuf_free(&message);
}
