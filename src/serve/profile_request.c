// SPDX-License-Identifier: MIT
#include "serve/profile_request.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sanitize.h"

enum { BAD_REQUEST = 400 };

struct parameter_reader {
	struct profile_request *request;
	struct http_reply *reply;
	bool has_seconds, has_hz, has_kind;
	bool has_no_time; /* the path takes no `seconds`: the answer is the current state */
};

/* Fill in the reply with an error about the parameter NAME. Always return false. */
static bool refuse_parameter(struct parameter_reader *r, const char *name, const char *value,
			     const char *why)
{
	char text[256];

	snprintf(text, sizeof(text), "%s '%.60s': %s", name, value, why);
	make_one_line(text);
	http_error(r->reply, BAD_REQUEST, text, NULL);
	return false;
}

/*
 * Parse VALUE, a whole number from 1 to MOST. *HAS says whether the parameter has been given
 * before; set it to true. Return false if VALUE is refused.
 */
static bool parse_number_parameter(struct parameter_reader *r, const char *name, const char *value,
				   bool *has, unsigned int most, unsigned int *number)
{
	char why[64], *end;
	unsigned long parsed;

	if (*has)
		return refuse_parameter(r, name, value, "given twice");
	*has = true;
	errno = 0;
	parsed = strtoul(value, &end, 10);
	snprintf(why, sizeof(why), "not a whole number from 1 to %u", most);
	if (errno || strspn(value, "0123456789") != strlen(value) || end == value || !parsed ||
	    parsed > most)
		return refuse_parameter(r, name, value, why);
	*number = (unsigned int)parsed;
	return true;
}

static bool take_kind(struct parameter_reader *r, const char *value)
{
	if (strcmp(value, "cpu") == 0)
		r->request->kind = PROFILE_CPU;
	else if (strcmp(value, "alloc") == 0)
		r->request->kind = PROFILE_WORDS;
	else
		return refuse_parameter(r, "kind", value, "not cpu or alloc");
	return true;
}

static bool take_argument(struct parameter_reader *r, const char *name, const char *value)
{
	struct record_filter *filter = &r->request->filter;
	unsigned int pid;
	bool has_pid = filter->pid;

	if (strcmp(name, "seconds") == 0 && !r->has_no_time)
		return parse_number_parameter(r, name, value, &r->has_seconds, PROFILE_MAX_SECONDS,
					      &r->request->seconds);
	if (strcmp(name, "hz") == 0)
		return parse_number_parameter(r, name, value, &r->has_hz, PROFILE_MAX_HZ,
					      &r->request->hz);
	if (strcmp(name, "kind") == 0 && r->has_kind)
		return take_kind(r, value);
	if (strcmp(name, "pid") == 0) {
		if (!parse_number_parameter(r, name, value, &has_pid, INT_MAX, &pid))
			return false;
		filter->pid = (pid_t)pid;
		return true;
	}
	if (strcmp(name, "exe") == 0) {
		if (filter->exe)
			return refuse_parameter(r, name, value, "given twice");
		filter->exe = value;
		return true;
	}
	/*
	 * Go's servers take debug=0 for the binary format of pprof, the only format that is
	 * supported here.
	 */
	if (strcmp(name, "debug") == 0 && strcmp(value, "0") == 0)
		return true;
	return refuse_parameter(r, name, value,
				"no such parameter: there are seconds, hz, exe and pid");
}

/*
 * Return the text at *AT, and advance *AT past its zero byte. NULL: there is no zero byte before
 * END.
 */
static const char *next_text(const char **at, const char *end)
{
	const char *text = *at, *zero = memchr(text, 0, (size_t)(end - text));

	if (!zero)
		return NULL;
	*at = zero + 1;
	return text;
}

bool profile_request_read(const char *text, size_t n, struct profile_request *request,
			  struct http_reply *reply)
{
	struct parameter_reader r = { .request = request, .reply = reply };
	const char *end = text + n, *at = text, *path = next_text(&at, end), *name, *value;

	*request = (struct profile_request){ .kind = PROFILE_CPU, .hz = PROFILE_HZ };
	if (!path) {
		http_error(reply, BAD_REQUEST, "invalid request for a profile", NULL);
		return false;
	}
	r.has_kind = strcmp(path, "/api/v1/profile") == 0;
	r.has_no_time = strcmp(path, "/api/v1/heap") == 0;
	if (r.has_no_time || strcmp(path, "/debug/pprof/allocs") == 0 ||
	    strcmp(path, "/debug/pprof/heap") == 0)
		request->kind = PROFILE_WORDS;
	while ((name = next_text(&at, end)) && (value = next_text(&at, end)))
		if (!take_argument(&r, name, value))
			return false;
	if (r.has_hz && request->kind != PROFILE_CPU)
		return refuse_parameter(&r, "hz", "", "only for CPU time");
	if (!request->seconds && (request->kind == PROFILE_CPU || r.has_kind))
		request->seconds = PROFILE_SECONDS;
	return true;
}
