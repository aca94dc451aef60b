/* SPDX-License-Identifier: MIT */
/* Which of the text formats a scraper gets. */
#ifndef SERVE_NEGOTIATE_H
#define SERVE_NEGOTIATE_H

enum exposition {
	EXPOSITION_TEXT,	/* 0.0.4 */
	EXPOSITION_OPENMETRICS, /* 1.0.0 */
	/* 0.0.1, the draft: what we write is the same. Prometheus 2.30 asks for no other. */
	EXPOSITION_OPENMETRICS_0,
	EXPOSITIONS,
};

/*
 * The one that ACCEPT, the header's value or NULL, likes best (RFC 9110, 12.5.1), text if it is
 * indifferent, or accepts none of them: an answer is of more use than a refusal.
 */
enum exposition negotiate(const char *accept);
const char *exposition_type(enum exposition exposition);

#endif
