/* SPDX-License-Identifier: MIT */
/*
 * Room serve/web: the web page.
 * In: files at build time.
 * Out: the bytes of each file.
 * Callers: serve.
 */
/* The files of the web page, which are part of this program. */
#ifndef SERVE_WEB_ASSETS_H
#define SERVE_WEB_ASSETS_H

#include <stddef.h>

struct asset {
	const char *path; /* "/page.js"; the page itself is "/" */
	const char *type; /* for Content-Type */
	const unsigned char *data;
	size_t bytes;
	const char *etag; /* value of the ETag header, with quotes */
};

/*
 * Return the asset for PATH, the path of a request without its query. NULL: there is no such asset.
 */
const struct asset *asset_find(const char *path);

/* All assets: a table that src/serve/web/embed writes. */
extern const struct asset assets[];
extern const size_t n_assets;

#endif
