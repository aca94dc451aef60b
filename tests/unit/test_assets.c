// SPDX-License-Identifier: MIT
/* The page's files are in the program as they are in the source, and found by the paths that they
 * use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/web/assets.h"
#include "unit.h"

static char *read_source(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "rb");
	char *text = calloc(1, 1 << 20);

	assert_non_null(file);
	assert_non_null(text);
	*bytes = fread(text, 1, (1 << 20) - 1, file);
	assert_true(feof(file));
	fclose(file);
	return text;
}

TEST(assets_are_the_files)
{
	static const struct {
		const char *path, *file, *type;
	} expected[] = {
		{ "/", "page.html", "text/html; charset=utf-8" },
		{ "/page.css", "page.css", "text/css; charset=utf-8" },
		{ "/page.js", "page.js", "text/javascript; charset=utf-8" },
		{ "/model.js", "model.js", "text/javascript; charset=utf-8" },
		{ "/uplot.js", "vendor/uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8" },
		{ "/uplot.css", "vendor/uplot/uPlot.min.css", "text/css; charset=utf-8" },
		{ "/uplot-license.txt", "vendor/uplot/LICENSE", "text/plain; charset=utf-8" },
	};
	char name[128], *text;
	size_t bytes;

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const struct asset *asset = asset_find(expected[i].path);

		assert_non_null(asset);
		snprintf(name, sizeof(name), "src/serve/web/%s", expected[i].file);
		text = read_source(name, &bytes);
		assert_string_equal(asset->path, expected[i].path);
		assert_string_equal(asset->type, expected[i].type);
		assert_int_equal(asset->bytes, bytes);
		assert_memory_equal(asset->data, text, bytes);
		free(text);
	}
}

TEST(other_paths_are_not_found)
{
	static const char *const paths[] = { "",	  "page.js",	 "/page.jsx",
					     "//page.js", "/../page.js", "/page.js/",
					     "/Page.js",  "/embed",	 "/page.html" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		assert_null(asset_find(paths[i]));
}

TEST(entity_tags_tell_files_apart)
{
	assert_true(n_assets > 5);
	for (size_t i = 0; i < n_assets; i++) {
		assert_int_equal(strlen(assets[i].etag), 34);
		assert_int_equal(assets[i].etag[0], '"');
		assert_int_equal(assets[i].etag[33], '"');
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(assets[i].etag, assets[j].etag);
	}
}

/* Whatever the page and its modules load is served. */
TEST(all_that_is_imported_is_there)
{
	static const char *const marks[] = { "from \"./", "src=\"", "rel=\"stylesheet\" href=\"" };
	size_t found = 0;

	for (size_t i = 0; i < n_assets; i++) {
		if (strstr(assets[i].path, "uplot"))
			continue;
		for (size_t m = 0; m < sizeof(marks) / sizeof(marks[0]); m++) {
			/* The bytes are followed by a NUL. */
			const char *at = (const char *)assets[i].data;

			while ((at = strstr(at, marks[m])) != NULL) {
				char path[64];

				at += strlen(marks[m]);
				snprintf(path, sizeof(path), "/%.*s", (int)strcspn(at, "\""), at);
				if (!asset_find(path))
					fail_msg("%s asks for %s", assets[i].path, path);
				found++;
			}
		}
	}
	assert_true(found > 10);
}
