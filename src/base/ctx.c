// SPDX-License-Identifier: MIT
#include "base/ctx.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_rules.h"
#include "base/sanitize.h"

enum { ERROR_BYTES = 1024, HINT_BYTES = 512 };

struct ocp_ctx {
	ocp_log_fn log_fn;
	void *log_data;
	enum ocp_log_level log_level;
	bool log_is_paused;
	bool gigatext_allowed;
	unsigned int n_exec_waits;	     /* see ctx_may_wait_for_exec() */
	const struct file_rules *file_rules; /* NULL: no rules */
	char error[ERROR_BYTES];
	char hint[HINT_BYTES];
};

struct ocp_ctx *ocp_ctx_new(void)
{
	return calloc(1, sizeof(struct ocp_ctx));
}

bool ctx_may_wait_for_exec(struct ocp_ctx *ctx)
{
	enum { MOST_WAITS = 500 };

	return ctx->n_exec_waits++ < MOST_WAITS;
}

void ocp_ctx_free(struct ocp_ctx *ctx)
{
	free(ctx);
}

void ocp_ctx_set_log(struct ocp_ctx *ctx, ocp_log_fn fn, void *data, enum ocp_log_level level)
{
	ctx->log_fn = fn;
	ctx->log_data = data;
	ctx->log_level = level;
}

void ocp_ctx_allow_gigatext(struct ocp_ctx *ctx, bool allow)
{
	ctx->gigatext_allowed = allow;
}

bool ctx_gigatext_is_allowed(const struct ocp_ctx *ctx)
{
	return ctx->gigatext_allowed;
}

void file_rules_set(struct ocp_ctx *ctx, const struct file_rules *rules)
{
	ctx->file_rules = rules;
}

int file_rules_admit(struct ocp_ctx *ctx, int fd, const struct file_origin *origin)
{
	const struct file_rules *rules = ctx->file_rules;

	return rules && rules->admit ? rules->admit(rules->data, fd, origin) : FILE_UNKNOWN;
}

void file_rules_exceeded(struct ocp_ctx *ctx, int fd, const struct file_origin *origin)
{
	const struct file_rules *rules = ctx->file_rules;

	if (rules && rules->exceeds)
		rules->exceeds(rules->data, fd, origin);
}

bool file_rules_check_owners(const struct ocp_ctx *ctx)
{
	return ctx->file_rules && ctx->file_rules->check_owners;
}

size_t file_rules_max_sites(const struct ocp_ctx *ctx, const struct file_origin *origin)
{
	const struct file_rules *rules = ctx->file_rules;

	if (!rules)
		return 0;
	return origin->is_library ? rules->max_library_sites : rules->max_sites;
}

const char *ocp_error(const struct ocp_ctx *ctx)
{
	return ctx->error;
}

const char *ocp_hint(const struct ocp_ctx *ctx)
{
	return ctx->hint[0] ? ctx->hint : NULL;
}

const char *ocp_version(void)
{
	return OCP_VERSION;
}

void ctx_set_error(struct ocp_ctx *ctx, const char *fmt, ...)
{
	/* Format into a separate buffer, because an operand may be ctx->error itself. */
	char text[ERROR_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	make_one_line(text);
	memcpy(ctx->error, text, sizeof(text));
	ctx->hint[0] = '\0';
}

void ctx_hint(struct ocp_ctx *ctx, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ctx->hint, sizeof(ctx->hint), fmt, ap);
	va_end(ap);
	make_one_line(ctx->hint);
}

void ctx_error_prefix(struct ocp_ctx *ctx, const char *fmt, ...)
{
	char text[ERROR_BYTES];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || n >= (int)sizeof(text))
		return;
	snprintf(text + n, sizeof(text) - (size_t)n, ": %.*s", ERROR_BYTES - n - 3, ctx->error);
	make_one_line(text);
	memcpy(ctx->error, text, sizeof(text));
}

void ctx_pause_log(struct ocp_ctx *ctx, bool is_paused)
{
	ctx->log_is_paused = is_paused;
}

void ctx_log(struct ocp_ctx *ctx, enum ocp_log_level level, const char *fmt, ...)
{
	char line[ERROR_BYTES];
	va_list ap;

	if (!ctx->log_fn || ctx->log_is_paused || level > ctx->log_level)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	make_one_line(line);
	ctx->log_fn(ctx->log_data, level, line);
}
