// SPDX-License-Identifier: MIT
#include "serve/profile_taker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/confine.h"
#include "serve/channel.h"
#include "serve/reply.h"

int taker_begin(struct ocp_ctx *ctx, pid_t parent, int fd, const char *name)
{
	const int err = confine_close_files(ctx, &fd, 1);

	prctl(PR_SET_NAME, name);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return getppid() != parent ? -ESRCH : err;
}

void taker_report(struct ocp_ctx *ctx, int fd, int err)
{
	struct profiling_report report = { .err = err };

	if (err) {
		snprintf(report.error, sizeof(report.error), "%s", ocp_error(ctx));
		snprintf(report.hint, sizeof(report.hint), "%s",
			 ocp_hint(ctx) ? ocp_hint(ctx) : "");
	}
	send(fd, &report, sizeof(report), MSG_NOSIGNAL);
}

void taker_answer(int fd, uint64_t id, unsigned int status, const struct strbuf *body)
{
	if (channel_answer(fd, id, status, body) != 0)
		exit(EXIT_FAILURE);
}

void taker_answer_error(struct ocp_ctx *ctx, int fd, uint64_t id, unsigned int status,
			const char *hint)
{
	struct http_reply reply = { 0 };

	http_error(&reply, status, ocp_error(ctx), hint);
	taker_answer(fd, id, reply.status, &reply.body);
	strbuf_free(&reply.body);
}

int taker_add_body(struct ocp_ctx *ctx, const struct profiling_numbers *numbers,
		   taker_write_fn write, const void *data, struct strbuf *body)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);
	int err;

	if (!to)
		return ctx_no_memory(ctx);
	err = write(ctx, data, to);
	if (fclose(to) != 0 && !err)
		err = ctx_no_memory(ctx);
	strbuf_add(body, (const char *)numbers, sizeof(*numbers));
	if (!err)
		strbuf_add(body, text, bytes);
	if (!err && body->is_short)
		err = ctx_no_memory(ctx);
	free(text);
	return err;
}
