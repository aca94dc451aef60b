// SPDX-License-Identifier: MIT
#include "profile/formats/page_writer.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

static const char data_line[] = "\n@data\n";

/*
 * Write JSON in a form that is safe in a script element. `<`, `>` and `&` are escaped; in JSON they
 * occur only inside strings. U+2028 and U+2029 are escaped, too, since they end lines in older
 * JavaScript.
 */
void page_write_json(const char *json, FILE *to)
{
	for (const char *p = json; *p; p++) {
		if (*p == '<' || *p == '>' || *p == '&') {
			fprintf(to, "\\u%04x", (unsigned int)*p);
		} else if (strncmp(p, "\xe2\x80\xa8", 3) == 0 ||
			   strncmp(p, "\xe2\x80\xa9", 3) == 0) {
			fprintf(to, "\\u20%02x", (unsigned char)p[2] - 0x80);
			p += 2;
		} else {
			fputc(*p, to);
		}
	}
}

int page_write_object(struct ocp_ctx *ctx, struct json_object *object, FILE *to)
{
	const char *json =
		object ? json_object_to_json_string_ext(
				 object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
		       : NULL;

	if (json)
		page_write_json(json, to);
	json_object_put(object);
	return json ? 0 : ctx_no_memory(ctx);
}

int page_write(struct ocp_ctx *ctx, const char *page, const char *what,
	       int (*write_data)(struct ocp_ctx *ctx, const void *data, FILE *to), const void *data,
	       FILE *to)
{
	const char *at = strstr(page, data_line);
	int err;

	if (!at)
		return ctx_error(ctx, -EINVAL, "the page has no place for %s", what);
	errno = 0;
	fwrite(page, 1, (size_t)(at - page) + 1, to);
	err = write_data(ctx, data, to);
	fputs(at + sizeof(data_line) - 2, to);
	if (!err && (fflush(to) != 0 || ferror(to)))
		err = ctx_error(ctx, errno ? -errno : -EIO, "cannot write %s: %s", what,
				strerror(errno ? errno : EIO));
	return err;
}
