/* SPDX-License-Identifier: MIT */
/* Choose the text format for a scraper. */
#ifndef SERVE_NEGOTIATE_H
#define SERVE_NEGOTIATE_H

enum exposition {
	EXPOSITION_TEXT,	/* 0.0.4 */
	EXPOSITION_OPENMETRICS, /* 1.0.0 */
	/* The draft, 0.0.1, with the same output. Prometheus 2.30 accepts only this version. */
	EXPOSITION_OPENMETRICS_0,
	EXPOSITIONS,
};

/*
 * Return the format that ACCEPT, the header's value or NULL, prefers (RFC 9110, 12.5.1). Return
 * text if there is no preference or no match, since an answer is more useful than a refusal.
 */
enum exposition negotiate(const char *accept);
const char *exposition_type(enum exposition exposition);

#endif
