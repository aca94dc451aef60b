/* SPDX-License-Identifier: MIT */
/* Choose the text format of the metrics for a scraper. */
#ifndef SERVE_NEGOTIATE_H
#define SERVE_NEGOTIATE_H

enum exposition {
	EXPOSITION_TEXT,	/* version 0.0.4 */
	EXPOSITION_OPENMETRICS, /* version 1.0.0 */
	/*
	 * Version 0.0.1, a draft, with the same output as 1.0.0. Prometheus 2.30 accepts only this
	 * version of OpenMetrics.
	 */
	EXPOSITION_OPENMETRICS_0,
	EXPOSITIONS,
};

/*
 * Return the format that the client prefers (RFC 9110, 12.5.1). ACCEPT is the value of its Accept
 * header, or NULL. Return EXPOSITION_TEXT if ACCEPT has no preference or allows none of the
 * formats, since an answer is more useful than a refusal.
 */
enum exposition negotiate(const char *accept);
const char *exposition_type(enum exposition exposition);

#endif
