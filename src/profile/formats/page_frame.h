/* SPDX-License-Identifier: MIT */
/*
 * What the pages that the tool writes have in common: a page is one HTML file that the build
 * assembles (page/assemble), in which the line "@data" is replaced by the data, as JSON in a script
 * element.
 */
#ifndef PROFILE_FORMATS_PAGE_FRAME_H
#define PROFILE_FORMATS_PAGE_FRAME_H

#include <stdio.h>
#include "base/ctx.h"

/*
 * Write PAGE to TO; in the place of its data, call WRITE with DATA, which writes JSON. Returns 0 or
 * a negative errno with a message in CTX. WHAT is the name of the data in this message.
 */
int page_frame_write(struct ocp_ctx *ctx, const char *page, const char *what,
		     int (*write)(struct ocp_ctx *ctx, const void *data, FILE *to),
		     const void *data, FILE *to);

/*
 * Write JSON in a form that is safe in a script element: `<`, `>` and `&` are escaped, which occur
 * only inside strings; so are U+2028 and U+2029, which end lines in older JavaScript.
 */
void page_frame_write_json(const char *json, FILE *to);

#endif
