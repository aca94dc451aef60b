// SPDX-License-Identifier: MIT
#include "serve/auth.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORBIDDEN = 403, UNAUTHORIZED = 401, UNSUPPORTED_MEDIA_TYPE = 415 };

int auth_init(struct ocp_ctx *ctx, const struct hosts *hosts, struct auth *auth)
{
	unsigned char random[TOKEN_BYTES];

	*auth = (struct auth){ .hosts = hosts };
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

int auth_init_from(struct ocp_ctx *ctx, const struct hosts *hosts, const char *file,
		   struct auth *auth)
{
	*auth = (struct auth){ .hosts = hosts };
	return read_token(ctx, file, auth);
}

/*
 * Return true if TEXT is the token. The time does not depend on where TEXT differs from the token.
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

static bool is_authorized(const struct auth *auth, const struct auth_request *request)
{
	static const char scheme[] = "Bearer ";
	const struct auth_header *header = &request->authorization;

	return header->n == 1 && strncasecmp(header->value, scheme, sizeof(scheme) - 1) == 0 &&
	       is_token(auth, header->value + sizeof(scheme) - 1);
}

/*
 * Return true if the request can come from the server's own page or from a program that is not a
 * browser. Browsers send the origin of the page with each POST; other programs do not send an
 * origin. A proxy named by --host may be reached over https.
 */
static bool is_same_origin(const struct auth *auth, const struct auth_request *request)
{
	static const char http[] = "http://", https[] = "https://";
	const struct auth_header *origin = &request->origin;

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

static bool is_json(const struct auth_request *request)
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

const char *auth_refuse_caller(const struct auth *auth, const struct auth_request *request,
			       struct http_reply *reply)
{
	if (!is_same_origin(auth, request)) {
		http_error(reply, FORBIDDEN, "Origin is not this server", NULL);
		return "wrong Origin";
	}
	if (!is_authorized(auth, request)) {
		http_error(reply, UNAUTHORIZED, "missing or wrong token",
			   "open the address that was printed when the server started, or send "
			   "the token: Authorization: Bearer TOKEN");
		return "missing or wrong token";
	}
	return NULL;
}

const char *auth_refuse(const struct auth *auth, const struct auth_request *request,
			struct http_reply *reply)
{
	const char *why = auth_refuse_caller(auth, request, reply);

	if (why)
		return why;
	if (!is_json(request)) {
		http_error(reply, UNSUPPORTED_MEDIA_TYPE, "Content-Type is not application/json",
			   NULL);
		return "Content-Type is not application/json";
	}
	return NULL;
}
