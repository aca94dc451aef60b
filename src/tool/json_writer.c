// SPDX-License-Identifier: MIT
/*
 * Samples as JSON, one object per line: {"version":4,"type":"interval"|"total",...}. The version
 * changes when members change their meaning; it stays the same when members are added.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/args/value.h"
#include "measure/slower.h"
#include "measure/stacks.h"
#include "tool/json.h"
#include "tool/measure_limit.h"
#include "tool/result_rows.h"

/* ---- UTF-8 ---------------------------------------------------------------------------------- */

/*
 * Return the length of the valid UTF-8 sequence at AT, at most N bytes, and set *CODE to the code
 * point. Return 0 if the sequence is invalid.
 */
static size_t utf8_length(const unsigned char *at, size_t n, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = *at < 0x80 ? 1 : *at < 0xc0 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;

	if (length == 0 || length > n || *at >= 0xf8)
		return 0;
	*code = length == 1 ? *at : *at & (0x7fU >> length);
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (at[i] & 0x3f);
	}
	if (length > 1 && (*code < least[length] || *code > 0x10ffff || *code >> 11 == 0x1b))
		return 0;
	return length;
}

/*
 * Return N if the N bytes are UTF-8. If IS_CUT and only the sequence at the end is incomplete,
 * return the number of bytes before that sequence. Otherwise return N + 1.
 */
static size_t utf8_bytes(const char *bytes, size_t n, bool is_cut)
{
	const unsigned char *at = (const unsigned char *)bytes, *end = at + n;
	uint32_t code;

	while (at < end) {
		size_t length = utf8_length(at, (size_t)(end - at), &code);

		if (length == 0)
			return is_cut && end - at < 4 && *at >= 0xc0
				       ? (size_t)(at - (const unsigned char *)bytes)
				       : n + 1;
		at += length;
	}
	return n;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/*
 * Return a JSON number with the shortest text that reads back as REAL. If REAL is not finite,
 * return the object {"float":"nan"}, or the same with "inf" or "-inf".
 */
static struct json_object *json_of_float(double real)
{
	char text[FLOAT_TEXT_BYTES];
	struct json_object *object;

	float_text(text, real);
	if (isfinite(real))
		return json_object_new_double_s(real, text);
	object = json_object_new_object();
	json_add_string(object, "float", text);
	return object;
}

/* Return BYTES as in printed hits: a string, or an object if the text is cut or is not UTF-8. */
static struct json_object *json_of_bytes(const struct value_group *group, const char *bytes,
					 size_t n)
{
	const bool is_cut = value_group_is_cut(group);
	const size_t n_text = utf8_bytes(bytes, n, is_cut);
	struct json_object *object;
	char hex[2 * MEASURE_BY_TEXT + 1];

	if (n_text <= n && !is_cut)
		return json_object_new_string_len(bytes, (int)n);
	object = json_object_new_object();
	for (size_t i = 0; i < n; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
	if (n_text <= n)
		json_object_object_add(object, "string",
				       json_object_new_string_len(bytes, (int)n_text));
	else
		json_add_string(object, "hex", hex);
	json_add_uint(object, "bytes", group->value.number);
	if (is_cut)
		json_add_bool(object, "cut", true);
	return object;
}

static struct json_object *json_of_int(const struct value_group *group)
{
	const int64_t number = (int64_t)group->value.number;
	const char byte = (char)number;

	if (group->type == OCP_ARG_BOOL && (number == 0 || number == 1))
		return json_object_new_boolean(number == 1);
	if (group->type == OCP_ARG_CHAR && number >= 0 && number <= UINT8_MAX)
		return json_of_bytes(group, &byte, 1);
	return json_object_new_int64(number);
}

/* Return the value of GROUP as JSON, or NULL, which is written as null, if there is no value. */
static struct json_object *json_of_value(const struct value_group *group)
{
	const struct measure_by *by = &group->value;
	double real;

	switch (by->type) {
	case FILTER_TYPE_INT:
		return json_of_int(group);
	case FILTER_TYPE_FLOAT:
		memcpy(&real, &by->number, sizeof(real));
		return json_of_float(real);
	case FILTER_TYPE_STRING:
		return json_of_bytes(group, by->text,
				     by->number < MEASURE_BY_TEXT ? by->number : MEASURE_BY_TEXT);
	default:
		return NULL;
	}
}

static struct json_object *json_of_field(const struct result_field *field)
{
	switch (field->kind) {
	case FIELD_TEXT:
		return field->text ? json_object_new_string(field->text) : NULL;
	case FIELD_UINT:
	case FIELD_NS:
	case FIELD_ADDRESS:
		return json_object_new_uint64(field->number);
	case FIELD_INT:
		return json_object_new_int64(field->integer);
	case FIELD_MEAN:
	case FIELD_RATE:
	case FIELD_MEAN_NS:
	case FIELD_SECONDS:
		return json_object_new_double(field->real);
	case FIELD_FLOAT:
		return json_of_float(field->real);
	case FIELD_TRUE:
		return json_object_new_boolean(true);
	case FIELD_ARGUMENT:
		return json_of_value(field->group);
	default:
		return NULL;
	}
}

static struct json_object *json_of_result(const struct result_row *row)
{
	struct json_object *object = json_object_new_object();

	for (size_t i = 0; i < row->n; i++)
		if (row->fields[i].name)
			json_object_object_add(object, row->fields[i].name,
					       json_of_field(&row->fields[i]));
	return object;
}

/* Return an array of the nonempty buckets. */
static struct json_object *buckets_json(const uint64_t *buckets)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < OCP_BUCKETS; i++) {
		struct json_object *object;

		if (!buckets[i])
			continue;
		object = json_object_new_object();
		json_add_uint(object, "from_ns", ocp_bucket_start(i));
		json_add_uint(object, "below_ns", ocp_bucket_start(i + 1));
		json_add_uint(object, "count", buckets[i]);
		json_object_array_add(array, object);
	}
	return array;
}

struct json_object *json_of_pair(const struct ocp_pair *pair)
{
	struct json_object *object;
	struct result_row row;

	result_of_pair(&row, NULL, pair);
	object = json_of_result(&row);
	json_object_object_add(object, "buckets", buckets_json(pair->buckets));
	return object;
}

static struct json_object *floats_json(const struct report *report,
				       const struct ocp_histogram *histogram)
{
	struct json_object *object, *array = json_object_new_array();
	const uint64_t *buckets = histogram->floats->buckets;
	struct result_row row;

	result_of_floats(&row, report, histogram);
	object = json_of_result(&row);
	for (size_t i = 0; i < OCP_FLOAT_BUCKETS; i++) {
		if (!buckets[i])
			continue;
		result_of_float_bucket(&row, report, histogram, ocp_float_bucket_start(i),
				       ocp_float_bucket_start(i + 1), buckets[i]);
		json_object_array_add(array, json_of_result(&row));
	}
	json_object_object_add(object, "buckets", array);
	return object;
}

static struct json_object *histogram_json(const struct report *report,
					  const struct ocp_histogram *histogram)
{
	struct json_object *object, *buckets = json_object_new_array();
	struct result_row row;

	result_of_ints(&row, report, histogram);
	object = json_of_result(&row);
	for (size_t i = 0; i < OCP_SIGNED_BUCKETS; i++) {
		if (!histogram->buckets[i])
			continue;
		result_of_int_bucket(&row, report, histogram, i);
		json_object_array_add(buckets, json_of_result(&row));
	}
	json_object_object_add(object, "buckets", buckets);
	if (histogram->floats)
		json_object_object_add(object, "floats", floats_json(report, histogram));
	return object;
}

/* Return an array of the probes that have uses without a site. Other probes have no entry. */
static struct json_object *uses_without_site_json(const struct ocp_sample *sample)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < ocp_sample_probe_count(sample); i++) {
		const struct ocp_probe_hits *probe = ocp_sample_probe(sample, i);
		struct json_object *object;

		if (!probe->n_uses_without_site)
			continue;
		object = json_object_new_object();
		json_add_string(object, "name", probe->probe);
		json_add_uint(object, "uses", probe->n_uses);
		json_add_uint(object, "without_site", probe->n_uses_without_site);
		json_object_array_add(array, object);
	}
	return array;
}

/* Add the member "groups": all groups, sorted by value. Without --by, add nothing. */
static void add_groups(struct json_object *top, const struct report *report)
{
	const struct value_groups *groups = sample_value_groups(report->sample);
	struct json_object *array;
	struct result_row row;

	if (!groups->arg[0])
		return;
	array = json_object_new_array();
	for (size_t i = 0; i < groups->n; i++) {
		result_of_group(&row, report, &groups->list[i], groups->arg);
		json_object_array_add(array, json_of_result(&row));
	}
	json_object_object_add(top, "groups", array);
}

/* ---- stacks --------------------------------------------------------------------------------- */

static const char *frame_kind_text(enum frame_kind kind)
{
	static const char *const texts[] = {
		[FRAME_OCAML] = "ocaml",	 [FRAME_C] = "c",
		[FRAME_KERNEL] = "kernel",	 [FRAME_UNKNOWN] = "unknown",
		[FRAME_TRUNCATED] = "truncated", [FRAME_THREAD] = "thread",
	};

	return texts[kind];
}

/* Write the frames of a hit as a JSON array. */
static void write_frames(const struct named_frames *frames)
{
	putchar('[');
	for (size_t i = 0; i < frames->n; i++) {
		const struct named_frame *frame = frames->list[i];

		printf("%s{\"function\":", i ? "," : "");
		write_json_text(frame->function, strlen(frame->function));
		printf(",\"kind\":\"%s\"", frame_kind_text(frame->kind));
		if (frame->file) {
			fputs(",\"file\":", stdout);
			write_json_text(frame->file, strlen(frame->file));
			printf(",\"line\":%" PRIu32, frame->line);
		}
		if (frame->item) {
			fputs(",\"item\":", stdout);
			write_json_text(frame->item, strlen(frame->item));
		}
		fputs(frame->is_inlined ? ",\"inlined\":true}" : "}", stdout);
	}
	putchar(']');
}

struct json_object *json_of_frame(const struct named_frame *frame)
{
	struct json_object *object = json_object_new_object();

	json_add_string(object, "function", frame->function);
	json_add_string(object, "kind", frame_kind_text(frame->kind));
	if (frame->file) {
		json_add_string(object, "file", frame->file);
		json_add_uint(object, "line", frame->line);
	}
	if (frame->item)
		json_add_string(object, "item", frame->item);
	if (frame->is_inlined)
		json_add_bool(object, "inlined", true);
	return object;
}

static struct json_object *json_of_stack_row(const struct report *report,
					     const struct stack_row *row)
{
	struct json_object *object = json_object_new_object(), *frames = json_object_new_array();

	if (row->probe) {
		json_add_string(object, "name", row->probe);
		json_add_uint(object, "hits", row->n);
	} else {
		const struct ocp_pair *pair = ocp_sample_pair(report->sample, row->pair);

		json_add_string(object, "start", pair->start);
		json_add_string(object, "stop", pair->stop);
		json_add_uint(object, "count", row->n);
		json_add_uint(object, "sum_ns", row->sum_ns);
		json_add_uint(object, "max_ns", row->max_ns);
	}
	for (size_t i = 0; i < row->frames.n; i++)
		json_object_array_add(frames, json_of_frame(row->frames.list[i]));
	json_object_object_add(object, "frames", frames);
	return object;
}

static void add_stacks(struct json_object *top, const struct report *report)
{
	const struct stack_rows *rows = report->stacks;
	struct json_object *stacks = json_object_new_array(), *walks = json_object_new_object();

	for (size_t i = 0; i < rows->n; i++)
		json_object_array_add(stacks, json_of_stack_row(report, &rows->list[i]));
	json_object_object_add(top, "stacks", stacks);
	json_add_uint(walks, "walked", rows->walks);
	json_add_uint(walks, "truncated", rows->truncated);
	json_add_uint(walks, "lost", rows->lost);
	json_add_uint(walks, "rows_full", rows->not_counted);
	json_object_object_add(top, "walks", walks);
}

/* ---- samples -------------------------------------------------------------------------------- */

static struct json_object *hits_json(const struct report *report)
{
	struct json_object *array = json_object_new_array();
	struct result_row row;

	for (size_t i = 0; i < ocp_sample_hits_count(report->sample); i++) {
		result_of_hits(&row, report, ocp_sample_hits(report->sample, i));
		json_object_array_add(array, json_of_result(&row));
	}
	return array;
}

/* Add the members that only the total has. */
static void add_total(struct json_object *top, const struct report *report)
{
	const struct ocp_costs *costs = report->costs;
	const bool has_pairs = ocp_sample_pair_count(report->sample) != 0;

	if (report->engine)
		json_add_string(top, "engine", report->engine);
	if (report->engine_reason)
		json_add_string(top, "engine_reason", report->engine_reason);
	json_add_uint(top, "stepped_hits", ocp_sample_stepped_hits(report->sample));
	json_add_double(top, "cost_per_hit_ns", ocp_sample_cost_per_hit_ns(report->sample, costs));
	if (has_pairs)
		json_add_double(top, "empty_pair_ns", costs->empty_pair_ns);
	if (has_pairs && costs->empty_stepped_pair_ns > 0)
		json_add_double(top, "empty_stepped_pair_ns", costs->empty_stepped_pair_ns);
	json_add_double(top, "cpu_overhead", report_cost(report));
	if (report->share) {
		json_add_double(top, "program_cpu_s", report->share->cpu_ns / 1e9);
		json_add_double(top, "program_share", cpu_share_of(report->share));
	}
}

static void write_sample_json(const struct report *report)
{
	struct json_object *top = json_object_new_object(), *pairs = json_object_new_array(),
			   *histograms = json_object_new_array();
	const struct ocp_sample *sample = report->sample;
	struct result_row losses;
	char wall[WALL_BYTES];

	json_add_int(top, "version", JSON_VERSION);
	json_add_string(top, "type", report->is_total ? "total" : "interval");
	json_add_double(top, "elapsed_s", (double)report->at_ns / 1e9);
	json_add_double(top, "span_s", (double)ocp_sample_time_ns(sample) / 1e9);
	if (report->wall_ns)
		json_add_string(top, "time", utc_text(wall, report->wall_ns));
	json_object_object_add(top, "probes", hits_json(report));
	for (size_t i = 0; i < ocp_sample_pair_count(sample); i++)
		json_object_array_add(pairs, json_of_pair(ocp_sample_pair(sample, i)));
	json_object_object_add(top, "pairs", pairs);
	for (size_t i = 0; i < ocp_sample_histogram_count(sample); i++)
		json_object_array_add(histograms,
				      histogram_json(report, ocp_sample_histogram(sample, i)));
	json_object_object_add(top, "histograms", histograms);
	add_groups(top, report);
	json_object_object_add(top, "uses_without_site", uses_without_site_json(sample));
	if (report->stacks)
		add_stacks(top, report);
	if (report->prints && report->is_total)
		json_add_uint(top, "printed", report->n_printed);
	if (report->has_slow && report->is_total)
		json_add_uint(top, "slow_printed", report->n_slow);
	if (report->has_slow)
		json_add_uint(top, "slow", ocp_sample_losses(sample)->slow);
	result_of_losses(&losses, report);
	json_object_object_add(top, "losses", json_of_result(&losses));
	if (report->is_total)
		add_total(top, report);
	json_print(top, JSON_C_TO_STRING_PLAIN);
	fflush(stdout);
}

/* ---- hits ----------------------------------------------------------------------------------- */

/*
 * Print hits as JSON, one object per line. Integers and floats are numbers, strings are strings;
 * other values are objects:
 *
 *	{"float":"nan"}				nan, inf, -inf
 *	{"string":"...","bytes":N,"cut":true}	N bytes, of which only the first were recorded
 *	{"hex":"ff00","bytes":N,"cut":...}	a string that is not UTF-8
 *	{"tag":0,"size":N,"fields":[...]}	a block; "cut":true if there are more fields
 *	{"list":[...]}, {"floats":[...]}	"cut":true likewise
 *	{"lazy":VALUE}				a lazy value that has been forced
 *	{"kind":"closure"}			any other value; a custom block also has an "id"
 *
 * "args" has the values by position, as OCaml's memory shows them; "named" has those with a name,
 * by their declared types: a bool is true or false, a character a string.
 *
 * Written without json-c, for speed, and to escape all characters that could affect a terminal.
 */

/* Return false for characters that JSON escapes, that control a terminal, or that reverse text. */
static bool is_written_as_is(uint32_t code)
{
	return code >= ' ' && code != '"' && code != '\\' && !(code >= 0x7f && code < 0xa0) &&
	       !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069);
}

void write_json_text(const char *bytes, size_t n)
{
	const unsigned char *at = (const unsigned char *)bytes;
	uint32_t code = 0;

	putchar('"');
	while (n) {
		size_t length = utf8_length(at, n, &code);

		/* Unreachable if utf8_bytes() has accepted the text. */
		if (length == 0) {
			length = 1;
			code = 0xfffd;
		}
		if (code == '"' || code == '\\')
			printf("\\%c", (int)code);
		else if (is_written_as_is(code) && code != 0xfffd)
			fwrite(at, 1, length, stdout);
		else
			printf("\\u%04" PRIx32, code);
		at += length;
		n -= length;
	}
	putchar('"');
}

static void write_cut(const struct ocp_value *value)
{
	if (value->is_cut)
		fputs(",\"cut\":true", stdout);
}

static void write_string_value(const struct ocp_value *value)
{
	const size_t n = utf8_bytes(value->bytes, value->n_bytes, value->is_cut);

	if (n <= value->n_bytes && !value->is_cut) {
		write_json_text(value->bytes, n);
		return;
	}
	if (n <= value->n_bytes) {
		fputs("{\"string\":", stdout);
		write_json_text(value->bytes, n);
	} else {
		fputs("{\"hex\":\"", stdout);
		for (size_t i = 0; i < value->n_bytes; i++)
			printf("%02x", (unsigned char)value->bytes[i]);
		putchar('"');
	}
	printf(",\"bytes\":%" PRIu64, value->size);
	write_cut(value);
	putchar('}');
}

static void write_float(double real)
{
	char text[FLOAT_TEXT_BYTES];

	float_text(text, real);
	if (isfinite(real))
		fputs(text, stdout);
	else
		printf("{\"float\":\"%s\"}", text);
}

static void write_hit_value(const struct ocp_value *value);

static void write_items(const struct ocp_value *value, const char *name)
{
	printf("\"%s\":[", name);
	for (size_t i = 0; i < value->n_items; i++) {
		const struct ocp_value item = ocp_value_item(value, i);

		if (i)
			putchar(',');
		write_hit_value(&item);
	}
	putchar(']');
	write_cut(value);
	putchar('}');
}

/* Write a value of which only the kind was recorded. */
static void write_kind(const struct ocp_value *value)
{
	printf("{\"kind\":\"%s\"", ocp_value_kind_name(value->kind));
	if (value->kind == OCP_CUSTOM && value->n_bytes) {
		fputs(",\"id\":", stdout);
		write_json_text(value->bytes, value->n_bytes);
	}
	putchar('}');
}

static void write_forced(const struct ocp_value *value)
{
	struct ocp_value item;

	if (!value->n_items) {
		write_kind(value);
		return;
	}
	item = ocp_value_item(value, 0);
	fputs("{\"lazy\":", stdout);
	write_hit_value(&item);
	putchar('}');
}

static void write_hit_value(const struct ocp_value *value)
{
	switch (value->kind) {
	case OCP_INT:
	case OCP_C_INT:
	case OCP_INT64:
	case OCP_INT32:
	case OCP_NATIVEINT:
		printf("%" PRId64, value->number);
		break;
	case OCP_FLOAT:
		write_float(value->real);
		break;
	case OCP_STRING:
		write_string_value(value);
		break;
	case OCP_BLOCK:
		printf("{\"tag\":%u,\"size\":%" PRIu64 ",", value->tag, value->size);
		write_items(value, "fields");
		break;
	case OCP_LIST:
		putchar('{');
		write_items(value, "list");
		break;
	case OCP_FLOATS:
		putchar('{');
		write_items(value, "floats");
		break;
	case OCP_FORCED:
		write_forced(value);
		break;
	default:
		write_kind(value);
	}
}

/*
 * Write a value by the type that the program declares: bools and characters are ints in OCaml's
 * memory.
 */
static void write_typed(const struct ocp_value *value, enum ocp_arg_type type)
{
	const char byte = (char)value->number;

	if (value->kind == OCP_INT && type == OCP_ARG_BOOL && (value->number & ~1LL) == 0)
		fputs(value->number ? "true" : "false", stdout);
	else if (value->kind == OCP_INT && type == OCP_ARG_CHAR && value->number >= 0 &&
		 value->number <= UINT8_MAX)
		write_string_value(&(const struct ocp_value){
			.kind = OCP_STRING, .bytes = &byte, .n_bytes = 1, .size = 1 });
	else
		write_hit_value(value);
}

/* Write the arguments that have names, by name. */
static void write_named(const struct ocp_hit *hit)
{
	char name[OCP_ARG_NAME_BYTES];
	bool has_any = false;

	for (size_t i = 0; i < hit->n_args; i++) {
		const enum ocp_arg_type type = ocp_arg_name(hit->arg_names, i, name);
		const struct ocp_value value = ocp_hit_arg(hit, i);

		if (!*name)
			continue;
		printf("%s\"%s\":", has_any ? "," : ",\"named\":{", name);
		write_typed(&value, type);
		has_any = true;
	}
	if (has_any)
		putchar('}');
}

/* Write the members "args" and "named" of HIT. */
static void write_args(const struct ocp_hit *hit)
{
	fputs("\"args\":[", stdout);
	for (size_t i = 0; i < hit->n_args; i++) {
		const struct ocp_value value = ocp_hit_arg(hit, i);

		if (i)
			putchar(',');
		write_hit_value(&value);
	}
	putchar(']');
	write_named(hit);
	if (hit->n_left_out)
		printf(",\"args_left_out\":%zu", hit->n_left_out);
}

static void write_text_member(const char *name, const char *text)
{
	printf("\"%s\":", name);
	write_json_text(text, strlen(text));
}

static void write_thread(const struct ocp_hit *hit)
{
	printf("\"pid\":%d,\"tid\":%d,", (int)hit->pid, (int)hit->tid);
	write_text_member("comm", hit->comm);
	putchar(',');
}

static void write_hit_json(const struct ocp_hit *hit, const struct named_frames *frames,
			   int64_t wall_ns, bool is_first)
{
	char wall[WALL_BYTES];

	(void)is_first;
	printf("{\"version\":%d,\"type\":\"hit\",\"time_s\":%.6f,", JSON_VERSION,
	       (double)hit->time_ns / 1e9);
	if (wall_ns)
		printf("\"time\":\"%s\",", utc_text(wall, wall_ns));
	write_thread(hit);
	write_text_member("probe", hit->probe);
	putchar(',');
	write_args(hit);
	if (frames) {
		fputs(",\"stack\":", stdout);
		write_frames(frames);
	}
	puts("}");
}

/* ---- slow pairs ----------------------------------------------------------------------------- */

/*
 * Print slow pairs, one per line:
 *
 *	{"version":4,"type":"slow","time_s":S,"time":"...","pid":N,"tid":N,"comm":"...",
 *	 "start":"...","stop":"...","ns":N,
 *	 "started":{"time_s":S,"tid":N,"comm":"...","args":[...],"named":{...}},
 *	 "stopped":{"args":[...],"named":{...}}}
 *
 * "started" is null if the arguments of the start were not kept. Of a call of a function, "stop" is
 * "", and "stopped" has no arguments.
 */
static void write_slow(const struct slow_pair *pair, int64_t wall_ns)
{
	const struct ocp_hit *stop = pair->stop_hit, *start = pair->start_hit;
	char wall[WALL_BYTES];

	printf("{\"version\":%d,\"type\":\"slow\",\"time_s\":%.6f,\"time\":\"%s\",", JSON_VERSION,
	       (double)stop->time_ns / 1e9, utc_text(wall, wall_ns));
	write_thread(stop);
	write_text_member("start", pair->start);
	putchar(',');
	write_text_member("stop", pair->stop);
	printf(",\"ns\":%" PRIu64 ",\"started\":", pair->ns);
	if (start) {
		printf("{\"time_s\":%.6f,\"tid\":%d,", (double)start->time_ns / 1e9,
		       (int)start->tid);
		write_text_member("comm", start->comm);
		putchar(',');
		write_args(start);
		putchar('}');
	} else {
		fputs("null", stdout);
	}
	fputs(",\"stopped\":{", stdout);
	write_args(stop);
	puts("}}");
}

const struct writer json_writer = { .write = write_sample_json,
				    .write_hit = write_hit_json,
				    .write_slow = write_slow };
