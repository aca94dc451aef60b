// SPDX-License-Identifier: MIT
#include "profile/formats/page_frame.h"

#include <errno.h>
#include <string.h>

static const char data_line[] = "\n@data\n";

int page_frame_write(struct ocp_ctx *ctx, const char *page, const char *what,
		     int (*write)(struct ocp_ctx *ctx, const void *data, FILE *to),
		     const void *data, FILE *to)
{
	const char *at = strstr(page, data_line);
	int err;

	if (!at)
		return ctx_error(ctx, -EINVAL, "the page has no place for the %s", what);
	errno = 0;
	fwrite(page, 1, (size_t)(at - page) + 1, to);
	err = write(ctx, data, to);
	fputs(at + sizeof(data_line) - 2, to);
	if (!err && (fflush(to) != 0 || ferror(to)))
		err = ctx_error(ctx, errno ? -errno : -EIO, "cannot write the %s: %s", what,
				strerror(errno ? errno : EIO));
	return err;
}

void page_frame_write_json(const char *json, FILE *to)
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
