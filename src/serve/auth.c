// SPDX-License-Identifier: MIT
#include "serve/auth.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

enum { MAX_LOGGED_A_SECOND = 5 };
static int choose_token(struct ocp_ctx *ctx, struct auth *auth)
{
	unsigned char random[TOKEN_BYTES];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return ctx_error(ctx, -EIO, "getrandom: cannot make the token");
	for (size_t i = 0; i < TOKEN_BYTES; i++)
		snprintf(auth->token + 2 * i, 3, "%02x", random[i]);
	return 0;
}

/*
 * Check that FILE, opened as FD, is a regular file that belongs to this user or root, and that its
 * mode gives other users no access, since it contains the token.
 */
static int check_token_file(struct ocp_ctx *ctx, const char *file, int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return ctx_error(ctx, -errno, "%s: %s", file, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return ctx_error(ctx, -EINVAL, "%s: not a regular file", file);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return ctx_error(ctx, -EPERM, "%s: it belongs to another user", file);
	if (st.st_mode & 077) {
		ctx_set_error(ctx, "%s: other users can read or write it", file);
		ctx_hint(ctx, "chmod 600 %s", file);
		return -EPERM;
	}
	return 0;
}

static int read_token(struct ocp_ctx *ctx, const char *file, struct auth *auth)
{
	const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char text[TOKEN_ROOM + 2];
	ssize_t n = 0;
	int err = check_token_file(ctx, file, fd);

	if (!err && (n = read(fd, text, sizeof(text))) < 0)
		err = ctx_error(ctx, -errno, "%s: %s", file, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (err)
		return err;
	if (n && text[n - 1] == '\n')
		n--;
	for (ssize_t i = 0; i < n; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return ctx_error(ctx, -EINVAL,
					 "%s: not one line of printable characters without spaces",
					 file);
	if (n < TOKEN_LEAST || n > TOKEN_ROOM)
		return ctx_error(ctx, -EINVAL, "%s: a token has %d to %d characters", file,
				 TOKEN_LEAST, TOKEN_ROOM);
	memcpy(auth->token, text, (size_t)n);
	auth->token[n] = '\0';
	return 0;
}

int auth_init(struct ocp_ctx *ctx, const struct hosts *hosts, const char *file, struct auth *auth)
{
	*auth = (struct auth){ .hosts = hosts };
	return file ? read_token(ctx, file, auth) : choose_token(ctx, auth);
}

/*
 * Return true if TEXT is the token. The comparison takes the same time wherever TEXT differs from
 * the token.
 */
static bool is_token(const struct auth *auth, const char *text)
{
	const size_t bytes = strlen(auth->token);
	unsigned char difference = 0;

	if (strlen(text) != bytes)
		return false;
	for (size_t i = 0; i < bytes; i++)
		difference |= (unsigned char)(text[i] ^ auth->token[i]);
	return difference == 0;
}

static bool is_authorized(const struct auth *auth, const struct client_request *request)
{
	static const char scheme[] = "Bearer ";
	const struct request_header *header = &request->authorization;

	return header->n == 1 && strncasecmp(header->value, scheme, sizeof(scheme) - 1) == 0 &&
	       is_token(auth, header->value + sizeof(scheme) - 1);
}

/*
 * Return true if the request can come from the server's own page or from a program that is not a
 * browser. Browsers send the origin of the page with each POST; other programs do not send an
 * origin. If --host names a proxy, browsers may reach the proxy over https.
 */
static bool is_same_origin(const struct auth *auth, const struct client_request *request)
{
	static const char http[] = "http://", https[] = "https://";
	const struct request_header *origin = &request->origin;

	if (!origin->n)
		return true;
	if (origin->n > 1 || !request->host)
		return false;
	if (strncmp(origin->value, http, sizeof(http) - 1) == 0)
		return strcasecmp(origin->value + sizeof(http) - 1, request->host) == 0;
	return strncmp(origin->value, https, sizeof(https) - 1) == 0 &&
	       hosts_is_named(auth->hosts, request->host) &&
	       strcasecmp(origin->value + sizeof(https) - 1, request->host) == 0;
}

static bool is_json(const struct client_request *request)
{
	static const char type[] = "application/json";
	const char *rest;

	if (request->content_type.n != 1 ||
	    strncasecmp(request->content_type.value, type, sizeof(type) - 1) != 0)
		return false;
	rest = request->content_type.value + sizeof(type) - 1;
	rest += strspn(rest, " \t");
	return !*rest || *rest == ';';
}

/*
 * Return NULL if REQUEST is allowed. Otherwise fill in REPLY, and return the reason for the log.
 */
static const char *refuse_caller(const struct auth *auth, const struct client_request *request,
				 bool has_json_body, struct http_reply *reply)
{
	if (!is_same_origin(auth, request)) {
		http_error(reply, HTTP_FORBIDDEN, "Origin is not this server", NULL);
		return "wrong Origin";
	}
	if (!is_authorized(auth, request)) {
		http_error(reply, HTTP_UNAUTHORIZED, "missing or wrong token",
			   "open the address that was printed when the server started, or send "
			   "the token: Authorization: Bearer TOKEN");
		return "missing or wrong token";
	}
	if (has_json_body && !is_json(request)) {
		http_error(reply, HTTP_UNSUPPORTED_MEDIA_TYPE,
			   "Content-Type is not application/json", NULL);
		return "Content-Type is not application/json";
	}
	return NULL;
}

/*
 * Return false if too many refusals were logged in this second, so that refused clients cannot fill
 * the log.
 */
static bool may_log_refusal(struct auth *auth)
{
	const int64_t now_s = clock_ns(CLOCK_MONOTONIC) / 1000000000;

	if (now_s != auth->refusals_s) {
		auth->refusals_s = now_s;
		auth->n_refusals = 0;
	}
	return auth->n_refusals++ < MAX_LOGGED_A_SECOND;
}

static bool admit_caller(struct auth *auth, const struct client_request *request,
			 bool has_json_body, const char *what, struct http_reply *reply)
{
	const char *why = refuse_caller(auth, request, has_json_body, reply);

	if (why && may_log_refusal(auth))
		client_request_log(request->peer, "%s refused: %s", what, why);
	return !why;
}

bool auth_admit(struct auth *auth, const struct client_request *request, const char *what,
		struct http_reply *reply)
{
	return admit_caller(auth, request, false, what, reply);
}

bool auth_admit_json(struct auth *auth, const struct client_request *request, const char *what,
		     struct http_reply *reply)
{
	return admit_caller(auth, request, true, what, reply);
}
