/* SPDX-License-Identifier: MIT */
/*
 * The description of a result. A sample is printed as rows: one for each probe, site, thread or
 * process with hits, and one for each pair, histogram, bucket and group. A row is a list of fields;
 * a field has its names, its kind and its value. The printers of tables, JSON and CSV print fields,
 * each in its own notation.
 */
#ifndef TOOL_RESULT_ROWS_H
#define TOOL_RESULT_ROWS_H

#include "measure/by_value.h"
#include "tool/writer.h"

/* The kind of a field. The comments name the member of struct result_field with the value. */
enum field_kind {
	FIELD_NULL, /* the value is unknown */
	FIELD_TEXT, /* `text`; may be NULL: unknown */
	/* `text` is the start of a pair, and `stop` its stop; NULL: there is only a start */
	FIELD_PAIR,
	FIELD_TRUE,
	FIELD_UINT,
	FIELD_INT,
	FIELD_MEAN,	/* `real` */
	FIELD_RATE,	/* `real`, per second */
	FIELD_FLOAT,	/* `real`, a float of OCaml: the text reads back as the same float */
	FIELD_NS,	/* `number`, a time */
	FIELD_MEAN_NS,	/* `real`, a time */
	FIELD_SECONDS,	/* `real`, a time */
	FIELD_ADDRESS,	/* `number` */
	FIELD_ARGUMENT, /* the value of `group` */
};

struct result_field {
	const char *name;   /* in JSON; NULL: the field is not in JSON */
	const char *column; /* in CSV; NULL: the field is not in CSV */
	enum field_kind kind;
	union {
		const char *text;
		uint64_t number;
		int64_t integer;
		double real;
		const struct value_group *group;
	};
	const char *stop;
};

/* A row of a result. Its texts belong to the sample. */
struct result_row {
	struct result_field fields[32];
	size_t n;
};

/*
 * Each of these functions sets ROW to the fields of one part of the sample of REPORT.
 *
 * Hits of a probe, site, thread or process:
 */
void result_of_hits(struct result_row *row, const struct report *report,
		    const struct ocp_hits *hits);
/* A pair, without its buckets. If REPORT is NULL, omit the rate, which only CSV has. */
void result_of_pair(struct result_row *row, const struct report *report,
		    const struct ocp_pair *pair);
/* The ints, or the floats, among the values of an argument, without the buckets. */
void result_of_ints(struct result_row *row, const struct report *report,
		    const struct ocp_histogram *histogram);
void result_of_floats(struct result_row *row, const struct report *report,
		      const struct ocp_histogram *histogram);
/* Bucket number BUCKET of the ints of HISTOGRAM. */
void result_of_int_bucket(struct result_row *row, const struct report *report,
			  const struct ocp_histogram *histogram, size_t bucket);
/* COUNT floats that are at least FROM and below BELOW or, if FROM is BELOW, equal to FROM. */
void result_of_float_bucket(struct result_row *row, const struct report *report,
			    const struct ocp_histogram *histogram, double from, double below,
			    uint64_t count);
/* A group of --by: the hits or pairs with one value of the argument ARG. */
void result_of_group(struct result_row *row, const struct report *report,
		     const struct value_group *group, const char *arg);
/* Only the hits, or the times, of a group. */
void result_of_group_counts(struct result_row *row, const struct report *report,
			    const struct value_group *group);
/*
 * All kinds of losses, also those that are 0. In JSON they are members of one object; in CSV each
 * has a row.
 */
void result_of_losses(struct result_row *row, const struct report *report);

/* Add a field at the end of ROW. Arguments as in struct result_field. */
void result_add_text(struct result_row *row, const char *name, const char *column,
		     const char *text);
void result_add_uint(struct result_row *row, const char *name, const char *column, uint64_t number);
/* Add EVENTS per second of the span of REPORT. */
void result_add_rate(struct result_row *row, const char *name, const char *column,
		     const struct report *report, uint64_t events);
void result_add_seconds(struct result_row *row, const char *name, const char *column,
			double seconds);

#endif
