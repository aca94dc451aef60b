/* SPDX-License-Identifier: MIT */
/*
 * Pages: HTML files that need no other file. The build assembles each page from a file of page/ and
 * the files named in it. page_write() replaces the line "@data" of a page by JSON, which the
 * scripts of the page read.
 */
#ifndef PROFILE_FORMATS_PAGE_WRITER_H
#define PROFILE_FORMATS_PAGE_WRITER_H

#include <stdio.h>
#include "base/ctx.h"

struct json_object;

/* The pages of a profile and of a report; see page.S. */
extern const char flame_page[], report_page[];

/*
 * Write PAGE to TO. WRITE_DATA writes the JSON, from DATA, by page_write_object(). WHAT names the
 * content in messages: "the profile". Return 0 or a negative errno with a message.
 */
int page_write(struct ocp_ctx *ctx, const char *page, const char *what,
	       int (*write_data)(struct ocp_ctx *ctx, const void *data, FILE *to), const void *data,
	       FILE *to);

/* Write the text JSON in a form that is safe in a script element. */
void page_write_json(const char *json, FILE *to);

/*
 * Write OBJECT as JSON in a form that is safe in a script element, whatever its strings contain,
 * and free it. If OBJECT is NULL, return -ENOMEM with a message.
 */
int page_write_object(struct ocp_ctx *ctx, struct json_object *object, FILE *to);

#endif
