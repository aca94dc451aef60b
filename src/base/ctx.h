/* SPDX-License-Identifier: MIT */
/*
 * Room base: what every C program needs and the C library lacks.
 * In: strings, numbers, files, the clock.
 * Out: arrays, searches, regular expressions, error messages.
 * Callers: all rooms.
 */
/*
 * The context (ctx): functions of the library record error messages in the ctx, and send their log
 * lines to it. The library never prints: the owner of the ctx reads the messages, and installs a
 * callback for the log lines.
 */
#ifndef BASE_CTX_H
#define BASE_CTX_H

#include <errno.h>
#include "ocaml_probes.h"

/*
 * Record the message of an error and evaluate to CODE (a negative errno), for
 * `return ctx_error(ctx, -EPERM, "%s: ...", ...)`. Deletes an earlier hint. The text becomes one
 * line: control characters of an operand are replaced by '?'. This is a macro so that a static
 * analyser sees that the value is CODE.
 */
#define ctx_error(ctx, code, ...)                                                                  \
	({                                                                                         \
		int ctx_error_code = (code);                                                       \
		ctx_set_error((ctx), __VA_ARGS__);                                                 \
		ctx_error_code;                                                                    \
	})
void ctx_set_error(struct ocp_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Record a hint: what the user can do about the last recorded error. */
void ctx_hint(struct ocp_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Put "PREFIX: " before the recorded message, where PREFIX is FMT formatted. For callers that know
 * which object the error is about.
 */
void ctx_error_prefix(struct ocp_ctx *ctx, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void ctx_log(struct ocp_ctx *ctx, enum ocp_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * While IS_PAUSED is true, log nothing: for a trial, after which the same lines would be logged
 * again.
 */
void ctx_pause_log(struct ocp_ctx *ctx, bool is_paused);

/* Return whether the user allows writes to code on 1 GiB pages: see ocp_ctx_allow_gigatext(). */
bool ctx_gigatext_is_allowed(const struct ocp_ctx *ctx);

/*
 * Return whether CTX may wait another millisecond for a process in the middle of an exec. It may do
 * so 500 times: the programs of a hostile user can make each exec take long.
 */
bool ctx_may_wait_for_exec(struct ocp_ctx *ctx);

/* Record the message "out of memory", and return -ENOMEM. */
static inline int ctx_no_memory(struct ocp_ctx *ctx)
{
	return ctx_error(ctx, -ENOMEM, "out of memory");
}

#endif
