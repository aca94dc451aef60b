/* SPDX-License-Identifier: MIT */
/* The text format for a scraper. */
#ifndef SERVE_NEGOTIATE_H
#define SERVE_NEGOTIATE_H

enum exposition {
	EXPOSITION_TEXT,	/* 0.0.4 */
	EXPOSITION_OPENMETRICS, /* 1.0.0 */
	/* The draft, 0.0.1; the output is the same. Prometheus 2.30 accepts only this one. */
	EXPOSITION_OPENMETRICS_0,
	EXPOSITIONS,
};

/*
 * The format that ACCEPT, the header's value or NULL, prefers (RFC 9110, 12.5.1). Text if there is
 * no preference or no match, since an answer is of more use than a refusal.
 */
enum exposition negotiate(const char *accept);
const char *exposition_type(enum exposition exposition);

#endif
