// SPDX-License-Identifier: MIT
/*
 * A report as a page. Its data, for profile/formats/page/report.js:
 *
 *	{ "pid": 1, "exe": "...", "wall_ms": ..., "span_s": ...,
 *	  "lines": [{ "topic", "label", "text", "command",
 *	              "rows": [{ "number", "share", "text", "command" }...] }...] }
 *
 * with the lines of overview_lines.h. A member that has no value is null.
 */
#include <stdio.h>

#include "profile/formats/page_writer.h"
#include "tool/json.h"
#include "tool/overview_lines.h"

static struct json_object *json_of_row(const struct overview_row *row)
{
	struct json_object *object = json_object_new_object();

	json_add_string(object, "number", row->number);
	json_object_object_add(object, "share",
			       row->share < 0 ? NULL : json_object_new_double(row->share));
	json_add_string(object, "text", row->text);
	json_add_string(object, "command", row->command);
	return object;
}

static struct json_object *json_of_line(const struct overview_line *line)
{
	struct json_object *object = json_object_new_object(), *rows = json_object_new_array();

	json_add_string(object, "topic", line->topic);
	json_add_string(object, "label", line->label);
	json_add_string(object, "text", line->text);
	json_add_string(object, "command", line->command);
	for (size_t i = 0; i < line->n_rows; i++)
		json_object_array_add(rows, json_of_row(&line->rows[i]));
	json_object_object_add(object, "rows", rows);
	return object;
}

static int write_overview_data(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	const struct overview *overview = data;
	struct json_object *top, *list;
	struct overview_lines lines;
	int err = overview_lines_make(ctx, overview, &lines);

	if (!err) {
		top = json_object_new_object();
		list = json_object_new_array();
		json_add_int(top, "pid", overview->pid);
		json_add_string(top, "exe", overview->exe);
		json_add_int(top, "wall_ms", overview->wall_ns / 1000000);
		json_add_double(top, "span_s", overview_seconds(overview->span_ns));
		for (size_t i = 0; i < lines.n; i++)
			json_object_array_add(list, json_of_line(&lines.list[i]));
		json_object_object_add(top, "lines", list);
		err = page_write_object(ctx, top, to);
	}
	overview_lines_free(&lines);
	return err;
}

int overview_write_page(struct ocp_ctx *ctx, const struct overview *overview, FILE *to)
{
	return page_write(ctx, report_page, "the report", write_overview_data, overview, to);
}
