// SPDX-License-Identifier: MIT
#include "serve/http.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

const char *http_header(const struct http_request *request, const char *name)
{
	return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct argument_taker {
	void (*take)(void *data, const char *name, const char *value);
	void *data;
};

static enum MHD_Result take_argument(void *data, enum MHD_ValueKind kind, const char *name,
				     const char *value)
{
	const struct argument_taker *taker = data;

	(void)kind;
	taker->take(taker->data, name, value);
	return MHD_YES;
}

void http_arguments(const struct http_request *request,
		    void (*take)(void *data, const char *name, const char *value), void *data)
{
	struct argument_taker taker = { take, data };

	MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, take_argument,
				  &taker);
}

struct header_counter {
	const char *name;
	size_t n;
};

struct header_list {
	const char *name;
	struct strbuf values;
};

static enum MHD_Result count_header(void *data, enum MHD_ValueKind kind, const char *name,
				    const char *value)
{
	struct header_counter *counter = data;

	(void)kind;
	(void)value;
	counter->n += strcasecmp(name, counter->name) == 0;
	return MHD_YES;
}

size_t http_header_count(const struct http_request *request, const char *name)
{
	struct header_counter counter = { name, 0 };

	MHD_get_connection_values(request->connection, MHD_HEADER_KIND, count_header, &counter);
	return counter.n;
}

static enum MHD_Result add_to_list(void *data, enum MHD_ValueKind kind, const char *name,
				   const char *value)
{
	struct header_list *list = data;

	(void)kind;
	if (strcasecmp(name, list->name) != 0)
		return MHD_YES;
	if (list->values.n)
		strbuf_lit(&list->values, ", ");
	strbuf_str(&list->values, value ? value : "");
	return MHD_YES;
}

char *http_header_list(const struct http_request *request, const char *name)
{
	struct header_list list = { .name = name };

	MHD_get_connection_values(request->connection, MHD_HEADER_KIND, add_to_list, &list);
	strbuf_add(&list.values, "", 1);
	if (!list.values.is_short)
		return list.values.bytes;
	strbuf_free(&list.values);
	return NULL;
}

bool http_is_ambiguous(const struct http_request *request)
{
	return http_header_count(request, "Host") > 1 ||
	       http_header_count(request, "Content-Length") > 1 ||
	       (http_header(request, "Content-Length") &&
		http_header(request, "Transfer-Encoding"));
}

bool http_lacks_host(const struct http_request *request, const char *version)
{
	return strcmp(version, "HTTP/1.0") != 0 && !http_header(request, "Host");
}
