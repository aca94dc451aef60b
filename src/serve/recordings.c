// SPDX-License-Identifier: MIT
#include "serve/recordings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/base_name.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "record/recorder_socket.h"
#include "serve/api.h"
#include "serve/json.h"

enum {
	MOST_ENTRIES = 8192, /* of the directory */
	MOST_DUMPS = 16,
	/* how long a client waits: a recorder writes its whole memory in a second or so */
	DUMP_MS = 30000,
	NAME_ROOM = 128,
	TICKETS = 16,
	TICKET_BYTES = 16, /* random bytes; two hexadecimal digits each */
	TICKET_MS = 30000,
};

/* The most bytes of a file that is sent: http_quota.c limits what all replies take. */
static const off_t most_sent_bytes = (off_t)128 << 20;

enum recording_form { FORM_TRACE, FORM_PAGE, FORMS };
static const char *const extensions[FORMS] = { ".pftrace", ".html" };

/* A recording: the files with one name. */
struct saved {
	char name[NAME_ROOM]; /* without the extension */
	struct timespec time; /* of the newest of its files */
	bool has[FORMS];
	uint64_t bytes[FORMS];
};

/*
 * A browser opens a page by its address, without the token. So the page of a client with the token
 * orders a ticket, which opens one recording, once.
 */
struct ticket {
	char text[2 * TICKET_BYTES + 1]; /* "": not in use */
	char file[NAME_ROOM];
	int64_t until_ms;
};

/* A client that waits for a file. */
struct pending_dump {
	uint64_t id; /* 0: not in use */
	int fd;
	int64_t until_ms;
	char name[NAME_ROOM]; /* of the recorder */
	struct strbuf files;  /* the names of the files as JSON, separated by commas */
};

struct recordings {
	struct ocp_ctx *ctx;
	const struct record_settings *is;
	struct auth *auth;
	struct recorders *recorders;
	int epoll_fd, folder_fd;
	struct timespec pruned; /* the time of the directory when it was pruned last */
	struct ticket tickets[TICKETS];
	size_t next_ticket;
	struct pending_dump dumps[MOST_DUMPS];
};

/* ---- the directory -------------------------------------------------------------------------- */

static int open_folder(struct ocp_ctx *ctx, const char *path)
{
	struct stat st;
	int fd;

	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0) {
		const int err = ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));

		if (fd >= 0)
			close(fd);
		return err;
	}
	if ((st.st_uid == geteuid() || st.st_uid == 0) && (st.st_mode & 022) == 0)
		return fd;
	close(fd);
	return ctx_error(ctx, -EPERM, "%s: other users can write to it", path);
}

int recordings_new(struct ocp_ctx *ctx, const struct record_settings *is, struct auth *auth,
		   struct recorders *recorders, int epoll_fd, struct recordings **out)
{
	const int fd = open_folder(ctx, is->folder);
	struct recordings *r;

	*out = NULL;
	if (fd < 0)
		return fd;
	r = calloc(1, sizeof(*r));
	if (!r) {
		close(fd);
		return ctx_no_memory(ctx);
	}
	*r = (struct recordings){
		.ctx = ctx,
		.is = is,
		.auth = auth,
		.recorders = recorders,
		.epoll_fd = epoll_fd,
		.folder_fd = fd,
	};
	*out = r;
	return 0;
}

static void drop_dump(struct pending_dump *dump)
{
	if (dump->id)
		close(dump->fd);
	strbuf_free(&dump->files);
	*dump = (struct pending_dump){ 0 };
}

void recordings_free(struct recordings *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < MOST_DUMPS; i++)
		drop_dump(&r->dumps[i]);
	close(r->folder_fd);
	free(r);
}

/*
 * If FILE is the name of a file of a recording, STEM-N.pftrace or STEM-N.html, return its form and
 * set *BYTES to the length of STEM-N. Otherwise return FORMS. FILE may end after the extension with
 * a dot: then REST is what follows.
 */
static enum recording_form form_of(const char *file, size_t *bytes, const char **rest)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
	const size_t stem = strspn(file, allowed);
	const char *digits = file + stem + 1;
	size_t n;

	if (!stem || *file == '.' || file[stem] != '-')
		return FORMS;
	n = strspn(digits, "0123456789");
	*bytes = stem + 1 + n;
	if (!n || *digits == '0' || n > 15 || *bytes + 16 > NAME_ROOM)
		return FORMS;
	for (int form = 0; form < FORMS; form++) {
		const size_t length = strlen(extensions[form]);

		*rest = digits + n + length;
		if (strncmp(digits + n, extensions[form], length) == 0 &&
		    (!**rest || **rest == '.'))
			return (enum recording_form)form;
	}
	return FORMS;
}

/* ---- the list ------------------------------------------------------------------------------- */

struct saved_list {
	struct saved *list;
	size_t n;
};

static int64_t timespec_ns(const struct timespec *time)
{
	return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
	return timespec_ns(a) > timespec_ns(b);
}

static int order_by_file(const void *a, const void *b)
{
	return strcmp(((const struct saved *)a)->name, ((const struct saved *)b)->name);
}

/* The newest first. */
static int order_by_time(const void *a, const void *b)
{
	const struct saved *x = a, *y = b;

	return is_later(&y->time, &x->time) - is_later(&x->time, &y->time) ?: order_by_file(a, b);
}

/*
 * FILE is the new file of a recording while the recorder PID, the digits of REST, writes it. A
 * recorder that was killed has left it.
 */
static void remove_left_file(const struct recordings *r, const char *file, const char *rest)
{
	char *end;
	const long pid = strtol(rest + 1, &end, 10);

	if (pid > 0 && strcmp(end, ".tmp") == 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH)
		unlinkat(r->folder_fd, file, 0);
}

/* Add FILE to LIST if it is a file of a recording. Returns false if memory is short. */
static bool add_file(const struct recordings *r, const char *file, struct saved_list *list)
{
	const char *rest = "";
	size_t bytes;
	const enum recording_form form = form_of(file, &bytes, &rest);
	struct saved *recording;
	struct stat st;

	if (form != FORMS && *rest == '.')
		remove_left_file(r, file, rest);
	if (form == FORMS || *rest || fstatat(r->folder_fd, file, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !S_ISREG(st.st_mode))
		return true;
	recording = array_add(list->list, list->n);
	if (!recording)
		return false;
	*recording = (struct saved){ .time = st.st_mtim };
	memcpy(recording->name, file, bytes);
	recording->has[form] = true;
	recording->bytes[form] = (uint64_t)st.st_size;
	return true;
}

/* Make one recording of the files with one name. */
static void join_forms(struct saved_list *list)
{
	size_t n = 0;

	if (list->n)
		qsort(list->list, list->n, sizeof(*list->list), order_by_file);
	for (size_t i = 0; i < list->n; i++) {
		struct saved *last = &list->list[n ? n - 1 : 0], *next = &list->list[i];

		if (!n || strcmp(last->name, next->name) != 0) {
			list->list[n++] = *next;
			continue;
		}
		for (int form = 0; form < FORMS; form++) {
			last->has[form] |= next->has[form];
			last->bytes[form] += next->bytes[form];
		}
		if (is_later(&next->time, &last->time))
			last->time = next->time;
	}
	list->n = n;
}

/* Read the recordings into LIST, the newest first. Returns 0 or a negative errno with a message. */
static int read_recordings(const struct recordings *r, struct saved_list *list)
{
	const int fd = openat(r->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;
	bool has_room = true;

	*list = (struct saved_list){ 0 };
	if (!folder) {
		const int err = ctx_error(r->ctx, -errno, "%s: %s", r->is->folder, strerror(errno));

		if (fd >= 0)
			close(fd);
		return err;
	}
	for (size_t i = 0; has_room && i < MOST_ENTRIES && (entry = readdir(folder)); i++)
		has_room = add_file(r, entry->d_name, list);
	closedir(folder);
	if (!has_room) {
		free(list->list);
		*list = (struct saved_list){ 0 };
		return ctx_no_memory(r->ctx);
	}
	join_forms(list);
	if (list->n)
		qsort(list->list, list->n, sizeof(*list->list), order_by_time);
	return 0;
}

static void remove_recording(const struct recordings *r, const struct saved *recording)
{
	for (int form = 0; form < FORMS; form++) {
		char file[NAME_ROOM + 16];

		snprintf(file, sizeof(file), "%s%s", recording->name, extensions[form]);
		if (recording->has[form] && unlinkat(r->folder_fd, file, 0) != 0 && errno != ENOENT)
			say("%s/%s: %s", r->is->folder, file, strerror(errno));
	}
}

void recordings_prune(struct recordings *r)
{
	struct saved_list list;
	uint64_t bytes = 0;
	struct stat st;

	if (fstat(r->folder_fd, &st) != 0 ||
	    (st.st_mtim.tv_sec == r->pruned.tv_sec && st.st_mtim.tv_nsec == r->pruned.tv_nsec) ||
	    read_recordings(r, &list) != 0)
		return;
	/* The time of a directory is coarse: another file may come at the same time. */
	if (clock_ns(CLOCK_REALTIME) - 1000000000 > timespec_ns(&st.st_mtim))
		r->pruned = st.st_mtim;
	for (size_t i = 0; i < list.n; i++) {
		bytes += list.list[i].bytes[FORM_TRACE] + list.list[i].bytes[FORM_PAGE];
		/* The newest one always stays. */
		if (i && (i >= r->is->files || bytes > (uint64_t)r->is->disk_mb << 20))
			remove_recording(r, &list.list[i]);
	}
	free(list.list);
}

/* ---- the answers ---------------------------------------------------------------------------- */

static void add_recorders(struct json *j, const struct recorders *recorders)
{
	json_open_member(j, "recorders", "[");
	for (size_t i = 0; i < recorders_count(recorders); i++) {
		const struct recorder_state is = recorders_at(recorders, i);

		json_open(j, "{");
		json_text(j, "name", is.stem);
		json_text(j, "exe", is.exe);
		if (is.exe)
			json_null(j, "pid");
		else
			json_u64(j, "pid", (uint64_t)is.pid);
		json_bool(j, "running", is.is_running);
		json_text(j, "problem", is.problem);
		json_close(j, "}");
	}
	json_close(j, "]");
}

static void answer_list(const struct recordings *r, struct http_reply *reply)
{
	struct json j = { .out = &reply->body };
	struct saved_list list;

	if (read_recordings(r, &list) != 0) {
		http_error(reply, HTTP_SERVER_ERROR, ocp_error(r->ctx), NULL);
		return;
	}
	json_open(&j, "{");
	json_u64(&j, "version", API_VERSION);
	add_recorders(&j, r->recorders);
	json_open_member(&j, "recordings", "[");
	for (size_t i = 0; i < list.n; i++) {
		const struct saved *is = &list.list[i];
		const uint64_t ms =
			(uint64_t)is->time.tv_sec * 1000 + (uint64_t)is->time.tv_nsec / 1000000;

		json_open(&j, "{");
		json_text(&j, "name", is->name);
		json_scaled(&j, "time", ms, 3);
		if (is->has[FORM_TRACE])
			json_u64(&j, "trace_bytes", is->bytes[FORM_TRACE]);
		else
			json_null(&j, "trace_bytes");
		if (is->has[FORM_PAGE])
			json_u64(&j, "page_bytes", is->bytes[FORM_PAGE]);
		else
			json_null(&j, "page_bytes");
		json_close(&j, "}");
	}
	strbuf_lit(&reply->body, "]}\n");
	free(list.list);
}

/* Let REPLY have the contents of FILE, a name from a client. */
static void answer_file(const struct recordings *r, const char *file, struct http_reply *reply)
{
	const char *rest = "";
	size_t bytes;
	const bool is_named = file && form_of(file, &bytes, &rest) != FORMS && !*rest;
	const int fd = is_named ? openat(r->folder_fd, file,
					 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
				: -1;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		http_error(reply, HTTP_NOT_FOUND, "there is no such recording",
			   "/api/v1/recordings lists them");
	} else if (st.st_size > most_sent_bytes) {
		http_error(reply, HTTP_CONFLICT, "the recording has more than 128 MB",
			   "copy it from the directory on the server");
	} else {
		reply->has_file = true;
		reply->file_fd = fd;
		reply->n_file = (size_t)st.st_size;
		return;
	}
	if (fd >= 0)
		close(fd);
}

/*
 * Return the value of the argument NAME in the body of REQUEST, which is the path and the
 * arguments, each with a zero byte. NULL: there is no such argument.
 */
static const char *argument_of(const struct client_request *request, const char *name)
{
	const char *at = request->body, *end = at + request->n_body;
	const char *texts[2] = { NULL, NULL };

	/* The path, and then names and values. */
	for (size_t i = 0; at < end; i++) {
		const char *zero = memchr(at, 0, (size_t)(end - at));

		if (!zero)
			return NULL;
		if (i && i % 2 == 0 && strcmp(texts[0], name) == 0)
			return at;
		texts[0] = at;
		at = zero + 1;
	}
	return NULL;
}

/*
 * Copy the text of the member KEY of the body of REQUEST, a JSON object with this member only, to
 * TEXT. Return false if the body is something else; then REPLY has the error.
 */
static bool read_member(const struct client_request *request, const char *key, char text[NAME_ROOM],
			struct http_reply *reply)
{
	struct json_object *root =
		strlen(request->body) == request->n_body ? json_tokener_parse(request->body) : NULL;
	struct json_object *value = NULL;
	const bool is_right = json_object_is_type(root, json_type_object) &&
			      json_object_object_length(root) == 1 &&
			      json_object_object_get_ex(root, key, &value) &&
			      json_object_is_type(value, json_type_string) &&
			      json_object_get_string_len(value) < NAME_ROOM;
	char why[64];

	if (is_right)
		snprintf(text, NAME_ROOM, "%s", json_object_get_string(value));
	json_object_put(root);
	if (is_right)
		return true;
	snprintf(why, sizeof(why), "the body is not {\"%s\": NAME}", key);
	http_error(reply, HTTP_BAD_REQUEST, why, "/api/v1/recordings lists the names");
	return false;
}

/* ---- pages ---------------------------------------------------------------------------------- */

static void answer_ticket(struct recordings *r, const struct client_request *request,
			  struct http_reply *reply)
{
	struct ticket *ticket = &r->tickets[r->next_ticket++ % TICKETS];
	unsigned char random[TICKET_BYTES];
	struct json j = { .out = &reply->body };
	char file[NAME_ROOM], path[NAME_ROOM];

	if (!read_member(request, "name", file, reply))
		return;
	if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
		http_error(reply, HTTP_SERVER_ERROR, "no random numbers", NULL);
		return;
	}
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(ticket->text + 2 * i, 3, "%02x", random[i]);
	snprintf(ticket->file, sizeof(ticket->file), "%s", file);
	ticket->until_ms = clock_ms() + TICKET_MS;
	snprintf(path, sizeof(path), "recordings/page?ticket=%s", ticket->text);
	json_open(&j, "{");
	json_text(&j, "path", path);
	strbuf_lit(&reply->body, "}\n");
}

static bool is_same_ticket(const struct ticket *ticket, const char *text)
{
	unsigned char difference = 0;

	if (!*ticket->text || strlen(text) != strlen(ticket->text))
		return false;
	for (size_t i = 0; ticket->text[i]; i++)
		difference |= (unsigned char)(ticket->text[i] ^ text[i]);
	return !difference && clock_ms() < ticket->until_ms;
}

/* Send the page for which the client has a ticket. The ticket is then used up. */
static void answer_page(struct recordings *r, const struct client_request *request,
			struct http_reply *reply)
{
	const char *text = argument_of(request, "ticket");

	for (size_t i = 0; text && i < TICKETS; i++) {
		struct ticket *ticket = &r->tickets[i];
		const char *dot = strrchr(ticket->file, '.');

		if (!is_same_ticket(ticket, text))
			continue;
		ticket->text[0] = '\0';
		answer_file(r, dot && strcmp(dot, extensions[FORM_PAGE]) == 0 ? ticket->file : NULL,
			    reply);
		return;
	}
	http_error(reply, HTTP_FORBIDDEN, "this address was used already, or is too old",
		   "open the recording from the page of the server again");
}

/* ---- dumps ---------------------------------------------------------------------------------- */

/* Order a file from the recorder of STEM. Return true if REPLY is the answer. */
static bool order_dump(struct recordings *r, const char *stem, uint64_t id,
		       struct http_reply *reply)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct pending_dump *dump = r->dumps;
	size_t i = 0;

	while (i < recorders_count(r->recorders) &&
	       strcmp(recorders_at(r->recorders, i).stem, stem) != 0)
		i++;
	while (dump < r->dumps + MOST_DUMPS && dump->id)
		dump++;
	if (i == recorders_count(r->recorders)) {
		http_error(reply, HTTP_NOT_FOUND, "there is no such recorder",
			   "/api/v1/recordings lists them");
		return true;
	}
	if (dump == r->dumps + MOST_DUMPS) {
		http_error(reply, HTTP_TOO_MANY_REQUESTS,
			   "16 recordings, the maximum, are already being written", NULL);
		return true;
	}
	snprintf(dump->name, sizeof(dump->name), "%s", recorders_at(r->recorders, i).name);
	dump->fd = recorder_dump_begin(r->ctx, dump->name);
	if (dump->fd < 0) {
		http_error(reply, HTTP_UNAVAILABLE, "the recorder does not run",
			   recorders_at(r->recorders, i).problem);
		return true;
	}
	if (epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, dump->fd, &event) != 0) {
		http_error(reply, HTTP_SERVER_ERROR, strerror(errno), NULL);
		close(dump->fd);
		return true;
	}
	dump->id = id;
	dump->until_ms = clock_ms() + DUMP_MS;
	return false;
}

static void add_dumped(struct pending_dump *dump, const char *path)
{
	if (dump->files.n)
		strbuf_lit(&dump->files, ",");
	strbuf_json(&dump->files, base_name(path));
}

bool recordings_take(struct recordings *r, uint64_t *id, struct http_reply *reply)
{
	for (size_t i = 0; i < MOST_DUMPS; i++) {
		struct pending_dump *dump = &r->dumps[i];
		char *path;
		int more = 1;

		while (dump->id && more == 1) {
			more = recorder_dump_take(r->ctx, dump->name, dump->fd, false, &path);
			if (more == 1) {
				add_dumped(dump, path);
				free(path);
			}
		}
		if (!dump->id || (more == -EAGAIN && clock_ms() < dump->until_ms))
			continue;
		*id = dump->id;
		if (more == -EAGAIN) {
			http_error(reply, HTTP_UNAVAILABLE,
				   "the recorder has not written a file within 30 seconds", NULL);
		} else if (more) {
			http_error(reply, HTTP_UNAVAILABLE, ocp_error(r->ctx), NULL);
		} else {
			strbuf_lit(&reply->body, "{\"files\":[");
			strbuf_add(&reply->body, dump->files.bytes ? dump->files.bytes : "",
				   dump->files.n);
			strbuf_lit(&reply->body, "]}\n");
			reply->body.is_short |= dump->files.is_short;
		}
		drop_dump(dump);
		return true;
	}
	return false;
}

/* ---- requests ------------------------------------------------------------------------------- */

bool recordings_answer(struct recordings *r, const struct asked *asked, struct http_reply *reply)
{
	const bool is_json = asked->ask == ASK_TICKET || asked->ask == ASK_DUMP;
	struct client_request request;
	char stem[NAME_ROOM];

	if (!client_request_read(asked->bytes, asked->n, &request)) {
		http_error(reply, HTTP_BAD_REQUEST, "invalid request for a recording", NULL);
		return true;
	}
	if (asked->ask == ASK_PAGE) {
		answer_page(r, &request, reply);
		return true;
	}
	if (is_json ? !auth_admit_json(r->auth, &request, "recording", reply)
		    : !auth_admit(r->auth, &request, "recording", reply))
		return true;
	if (asked->ask == ASK_RECORDINGS) {
		answer_list(r, reply);
	} else if (asked->ask == ASK_RECORDING) {
		answer_file(r, argument_of(&request, "name"), reply);
	} else if (asked->ask == ASK_TICKET) {
		answer_ticket(r, &request, reply);
	} else if (read_member(&request, "recorder", stem, reply)) {
		client_request_log(request.peer, "recording of %s ordered", stem);
		return order_dump(r, stem, asked->id, reply);
	}
	return true;
}
