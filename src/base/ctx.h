/* SPDX-License-Identifier: MIT */
/*
 * The ctx: where every module puts its error sentence and its log lines. The library never prints;
 * whoever holds the ctx reads the sentence or installs a callback.
 */
#ifndef BASE_CTX_H
#define BASE_CTX_H

#include <errno.h>
#include <stdarg.h>
#include "ocaml_probes.h"

/*
 * Record the sentence of an error and return CODE (a negative errno), so that a function can say
 * `return ctx_error(ctx, -EPERM, "%s: ...", ...)`. Forgets an earlier hint. The text is one line:
 * control characters that came with an operand are shown as '?'.
 */
#define ctx_error(ctx, code, ...)                                                                  \
	({                                                                                         \
		int error_code_ = (code);                                                          \
		ctx_record((ctx), __VA_ARGS__);                                                    \
		error_code_;                                                                       \
	})
/* Its function; a macro around it lets compilers and linters see which code comes back. */
void ctx_record(struct ocp_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Add what the user can do about the error just recorded. */
void ctx_hint(struct ocp_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "PREFIX: " before the recorded sentence; for a caller that knows the operand. */
void ctx_error_prefix(struct ocp_ctx *ctx, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void ctx_log(struct ocp_ctx *ctx, enum ocp_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The errno ENOMEM, as every allocation reports it. */
static inline int ctx_no_memory(struct ocp_ctx *ctx)
{
	return ctx_error(ctx, -ENOMEM, "out of memory");
}

#endif
