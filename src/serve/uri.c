// SPDX-License-Identifier: MIT
#include "serve/uri.h"

#include <string.h>
#include <strings.h>

enum { BAD_REQUEST = 400, MISDIRECTED = 421 };

static void refuse_uri(struct uri *uri, unsigned int status, const char *error)
{
	uri->status = status;
	uri->error = error;
}

/*
 * Store the host, which has N bytes. Refuse escapes, which no host name contains, and text before
 * an @, which can only mislead people.
 */
static void take_host(struct uri *uri, const char *host, size_t n)
{
	if (n == 0 || host[0] == ':')
		refuse_uri(uri, BAD_REQUEST, "the URL has no host");
	else if (n >= sizeof(uri->host) || memchr(host, '@', n) || memchr(host, '%', n))
		refuse_uri(uri, BAD_REQUEST, "the URL has an invalid host");
	else
		memcpy(uri->host, host, n);
}

void uri_read(struct uri *uri, const char *text)
{
	static const char scheme[] = "http://";
	const size_t n = sizeof(scheme) - 1;
	const char *path = text;

	*uri = (struct uri){ 0 };
	if (strncasecmp(text, scheme, n) == 0) {
		path = text + n + strcspn(text + n, "/?#");
		take_host(uri, text + n, (size_t)(path - text) - n);
	} else if (*text != '/' && strstr(text, "://")) {
		/* See RFC 9110, 7.4. The usual cause is an https URL sent without encryption. */
		refuse_uri(uri, MISDIRECTED, "only http is supported");
	}
	if (strchr(text, ' '))
		refuse_uri(uri, BAD_REQUEST, "the URL contains a space");
	uri->path_at = (size_t)(path - text);
	/* A decoded zero byte would end the path in this program, but not in others. */
	path = strstr(path, "%00");
	if (path && !memchr(text, '?', (size_t)(path - text)))
		uri_refuse_zero(uri);
}

void uri_refuse_zero(struct uri *uri)
{
	refuse_uri(uri, BAD_REQUEST, "the path contains a zero byte");
}
