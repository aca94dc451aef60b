/* SPDX-License-Identifier: MIT */
/*
 * The ctx: where every module puts its error sentence and its log lines. The library never prints;
 * whoever holds the ctx reads the sentence or installs a callback.
 */
#ifndef BASE_CTX_H
#define BASE_CTX_H

#include <errno.h>
#include "ocaml_probes.h"

/*
 * Record the sentence of an error and be CODE (a negative errno), so that a function can say
 * `return ctx_error(ctx, -EPERM, "%s: ...", ...)`. Forgets an earlier hint. The text is one line:
 * control characters that came with an operand are shown as '?'. A macro, so that a static analyser
 * sees that the value is CODE.
 */
#define ctx_error(ctx, code, ...)                                                                  \
	({                                                                                         \
		int ctx_error_code = (code);                                                       \
		ctx_set_error((ctx), __VA_ARGS__);                                                 \
		ctx_error_code;                                                                    \
	})
void ctx_set_error(struct ocp_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Add what the user can do about the error just recorded. */
void ctx_hint(struct ocp_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "PREFIX: " before the recorded sentence; for a caller that knows the operand. */
void ctx_error_prefix(struct ocp_ctx *ctx, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void ctx_log(struct ocp_ctx *ctx, enum ocp_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* See ocp_ctx_allow_gigatext. */
bool ctx_gigatext_is_allowed(const struct ocp_ctx *ctx);

/* As every failed allocation is reported. */
static inline int ctx_no_memory(struct ocp_ctx *ctx)
{
	return ctx_error(ctx, -ENOMEM, "out of memory");
}

#endif
