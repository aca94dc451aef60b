// SPDX-License-Identifier: MIT
/* The words and numbers of a report. Each line has the command that shows more of the same. */
#include "tool/overview_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/ctx.h"
#include "base/plural.h"
#include "base/search.h"
#include "cli/pair_note.h"
#include "profile/wait_kinds.h"
#include "tool/profile_output.h"
#include "tool/writer.h"

enum {
	TOP = 5,	  /* rows for functions and probes */
	TOP_PAIRS = 3,	  /* rows for pairs */
	FEW_SAMPLES = 30, /* with fewer samples, shares mean little */
	WORD_BYTES = 8,
	SHARE_WIDTH = 7, /* columns of shares */
	RATE_WIDTH = 12, /* columns of rates */
	NAME_BYTES = 1024,
};

static const double NO_SHARE = -1;

/* A program that uses less of a core than this is idle. */
static const double IDLE = 0.01;

/* What a profile is about, and the option of `profile`. */
static const struct {
	const char *title, *option;
} profile_texts[N_OVERVIEW_PROFILES] = {
	[PROFILE_CPU] = { "CPU time", "" },
	[PROFILE_WAITS] = { "waiting", " --off-cpu" },
	[PROFILE_WORDS] = { "allocation", " --alloc" },
};

/* ---- numbers -------------------------------------------------------------------------------- */

enum { SIZE_BYTES = 32 };

/* Write WORDS words to TEXT as bytes: "24.1 MB". Return TEXT. */
static const char *size_text(char text[SIZE_BYTES], double words)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	double size = words * WORD_BYTES;
	size_t unit = 0;

	while (size >= 999.5 && unit + 1 < sizeof(units) / sizeof(*units)) {
		size /= 1000;
		unit++;
	}
	snprintf(text, SIZE_BYTES, "%.*f %s", unit && size < 99.95 ? 1 : 0, size, units[unit]);
	return text;
}

/* Write N events in NS nanoseconds to TEXT: "2713.8/s". Return TEXT. */
static const char *rate_text(char text[SIZE_BYTES], double n, int64_t ns)
{
	const double rate = overview_per_second(n, ns);

	snprintf(text, SIZE_BYTES, "%.*f/s", rate < 99.95 ? 1 : 0, rate);
	return text;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Append text to *TO, which is NULL or was allocated. */
__attribute__((format(printf, 3, 0))) static void
append_text(struct overview_lines *lines, char **to, const char *fmt, va_list args)
{
	char *more = NULL, *all = NULL;

	if (vasprintf(&more, fmt, args) < 0) {
		lines->is_short = true;
		return;
	}
	if (asprintf(&all, "%s%s", *to ? *to : "", more) < 0)
		lines->is_short = true;
	else {
		free(*to);
		*to = all;
	}
	free(more);
}

static struct overview_line *last_line(struct overview_lines *lines)
{
	return &lines->list[lines->n - 1];
}

/*
 * Begin a line, whose label is LABEL; NULL: none. Callers need not check for errors: if memory is
 * short, the line is one that is never shown.
 */
static void begin_line(struct overview_lines *lines, const char *topic, const char *label)
{
	struct overview_line *new = array_add(lines->list, lines->n);

	if (!new) {
		lines->is_short = true;
		return;
	}
	*new = (struct overview_line){ .topic = topic, .text = strdup("") };
	if (label)
		new->label = strdup(label);
	lines->is_short |= !new->text || (label && !new->label);
}

/* Append to the text of the last line. */
__attribute__((format(printf, 2, 3))) static void add_words(struct overview_lines *lines,
							    const char *fmt, ...)
{
	va_list args;

	if (!lines->n)
		return;
	va_start(args, fmt);
	append_text(lines, &last_line(lines)->text, fmt, args);
	va_end(args);
}

/*
 * Set *COMMAND. Names of functions and probes have no control characters: the modules that read
 * them see to that.
 */
__attribute__((format(printf, 3, 4))) static void set_command(struct overview_lines *lines,
							      char **command, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	append_text(lines, command, fmt, args);
	va_end(args);
}

/* Set the command of the last line to `ocaml-probes VERB PID REST`. */
static void line_command(struct overview_lines *lines, const char *verb, const char *rest)
{
	if (lines->n)
		set_command(lines, &last_line(lines)->command, "ocaml-probes %s %d%s", verb,
			    (int)lines->pid, rest);
}

/* Add a row to the last line; NUMBER NULL: a note. Return the row, or NULL if out of memory. */
static struct overview_row *add_overview_row(struct overview_lines *lines, const char *number,
					     double share, const char *text)
{
	struct overview_line *line = lines->n ? last_line(lines) : NULL;
	struct overview_row *row = line ? array_add(line->rows, line->n_rows) : NULL;

	if (!row) {
		lines->is_short = true;
		return NULL;
	}
	*row = (struct overview_row){ .number = number ? strdup(number) : NULL,
				      .text = strdup(text),
				      .share = share };
	lines->is_short |= !row->text || (number && !row->number);
	return row;
}

/* Return NAME as one word of a shell, which the caller frees; NULL: out of memory. */
static char *shell_word(const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_.,:/+@%-";
	char *word, *to;

	if (*name && !name[strspn(name, plain)])
		return strdup(name);
	word = malloc(4 * strlen(name) + 3);
	if (!word)
		return NULL;
	to = stpcpy(word, "'");
	for (; *name; name++) {
		if (*name == '\'')
			to = stpcpy(to, "'\\''");
		else
			*to++ = *name;
	}
	stpcpy(to, "'");
	return word;
}

/* Set *COMMAND to the `attach` with OPTION, whose value is ITEM. */
static void attach_command(struct overview_lines *lines, char **command, const char *option,
			   const char *item)
{
	char *word = shell_word(item);

	if (word)
		set_command(lines, command, "ocaml-probes attach %d %s%s", (int)lines->pid, option,
			    word);
	else
		lines->is_short = true;
	free(word);
}

/* ---- facts ---------------------------------------------------------------------------------- */

static void add_program(struct overview_lines *lines, const struct overview *o)
{
	begin_line(lines, "program", o->exe);
	add_words(lines, "pid %d", (int)o->pid);
	if (o->gauges.runtime)
		add_words(lines, ", OCaml %s", o->gauges.runtime->version);
	if (o->gauges.runtime && o->gauges.runtime->has_domains)
		add_words(lines, ", %zu domain%s", o->gauges.now.n_domains,
			  plural(o->gauges.now.n_domains));
	add_words(lines, ", %lu thread%s", o->threads, plural(o->threads));
	line_command(lines, "info", "");
}

static void add_cpu(struct overview_lines *lines, const struct overview *o)
{
	const struct profile *waits = &o->profiles[PROFILE_WAITS].profile;

	if (o->cpu_ns < 0)
		return;
	begin_line(lines, "cpu_use", "CPU");
	add_words(lines, "%.1f%% of a core in %.1f s", 100 * overview_cpu_cores(o),
		  overview_seconds(o->span_ns));
	if (overview_cpu_cores(o) < IDLE)
		add_words(lines, ": the program is idle");
	if (!o->profiles[PROFILE_WAITS].why.text[0] && waits->always_waiting)
		add_words(lines, ", %zu thread%s waited the whole time", waits->always_waiting,
			  plural(waits->always_waiting));
	line_command(lines, "profile", " --by-thread");
}

/* Return the number of collections, minor and major, during the report. */
static uint64_t count_collections(const struct overview_gauges *g)
{
	return g->now.minor_collections - g->first.minor_collections + g->now.major_collections -
	       g->first.major_collections;
}

/* Add the collector's share of the CPU time, or why samples do not show it. */
static void add_collector_share(struct overview_lines *lines, const struct overview *o)
{
	const struct overview_profile *cpu = &o->profiles[PROFILE_CPU];
	const struct collector_time *time = &cpu->profile.collector;
	const double percent = time->all ? 100 / (double)time->all : 0;

	if (cpu->why.text[0] || !time->samples ||
	    (!time->collector && !count_collections(&o->gauges)))
		return;
	begin_line(lines, "collector", "collector");
	line_command(lines, "profile", " --gc");
	if (!profile_knows_collector(&cpu->profile)) {
		add_words(lines, "not known: ");
		if (time->doubtful)
			add_words(lines, "%" PRIu64 " of %" PRIu64 " CPU samples lack callers",
				  time->doubtful, time->samples);
		else
			add_words(lines, "in none of %" PRIu64 " CPU samples", time->samples);
		return;
	}
	add_words(lines, "%.1f%% of %" PRIu64 " CPU samples (minor %.1f, major %.1f",
		  (double)time->collector * percent, time->samples, (double)time->minor * percent,
		  (double)time->major * percent);
	if (time->collector > time->minor + time->major)
		add_words(lines, ", other %.1f",
			  (double)(time->collector - time->minor - time->major) * percent);
	add_words(lines, ")");
}

static void add_collections(struct overview_lines *lines, const struct overview *o)
{
	const struct overview_gauges *g = &o->gauges;
	const double minor = (double)(g->now.minor_collections - g->first.minor_collections);
	const double major = (double)(g->now.major_collections - g->first.major_collections);
	const double promoted = g->now.words.promoted - g->first.words.promoted;
	char text[SIZE_BYTES];

	begin_line(lines, "collections", "collections");
	line_command(lines, "gc", "");
	if (g->why.text[0])
		add_words(lines, "%s", g->why.text);
	else if (minor + major <= 0)
		add_words(lines, "none in %.1f s", overview_seconds(g->span_ns));
	else
		add_words(lines, "minor %s", rate_text(text, minor, g->span_ns));
	if (minor + major > 0)
		add_words(lines, ", major %s", rate_text(text, major, g->span_ns));
	if (minor + major > 0 && !g->now.lacks_ended_domains)
		add_words(lines, "; promoted %s/s",
			  size_text(text, overview_per_second(promoted, g->span_ns)));
}

static void add_heap_trend(struct overview_lines *lines, const struct overview_gauges *g)
{
	const uint64_t first = g->first.words.heap, now = g->now.words.heap;
	char size[SIZE_BYTES];

	if (g->least_heap == g->most_heap)
		add_words(lines, ", unchanged");
	else if (first == now)
		add_words(lines, ", as at the start");
	else
		add_words(lines, ", %s by %s", now > first ? "grew" : "shrank",
			  size_text(size, fabs((double)now - (double)first)));
	if (g->least_heap < (first < now ? first : now) ||
	    g->most_heap > (first > now ? first : now)) {
		add_words(lines, ", between %s", size_text(size, (double)g->least_heap));
		add_words(lines, " and %s", size_text(size, (double)g->most_heap));
	}
}

static void add_heap(struct overview_lines *lines, const struct overview *o)
{
	const struct overview_gauges *g = &o->gauges;
	char size[SIZE_BYTES];

	if (g->why.text[0])
		return;
	begin_line(lines, "heap", "heap");
	if (g->now.lacks_ended_domains) {
		add_words(lines, "not known, since the program is stripped and domains have ended");
		line_command(lines, "gc", "");
		return;
	}
	add_words(lines, "%s", size_text(size, (double)g->now.words.heap));
	add_heap_trend(lines, g);
	add_words(lines, "; allocated %s/s",
		  size_text(size, overview_per_second(overview_allocated_words(g), g->span_ns)));
	line_command(lines, o->has_memprof ? "memprof" : "gc", o->has_memprof ? " --live" : "");
}

/* ---- profiles ------------------------------------------------------------------------------- */

/* Add what the samples of PROFILE are, and what is wrong with them. */
static void add_samples(struct overview_lines *lines, const struct overview_profile *of)
{
	const struct profile *profile = &of->profile;
	const bool waits = profile->kind == PROFILE_WAITS;
	char time[TIME_BYTES];

	if (waits)
		add_words(lines, "%s, the sum of all threads",
			  print_time(time, (double)profile->value));
	else
		add_words(lines, "%" PRIu64 " sample%s", profile->samples,
			  plural(profile->samples));
	if (of->is_over_budget)
		add_words(lines, " in the first %.2f s",
			  overview_seconds((int64_t)profile->duration_ns));
	if (!waits && profile->samples < FEW_SAMPLES)
		add_words(lines, ", too few for exact shares");
	if (profile->lost)
		add_words(lines, ", %" PRIu64 " lost", profile->lost);
	if (profile->in_calls > profile->samples / 10)
		add_words(lines, ", short system calls weigh too much");
}

/* Add notes: what the threads have waited for most, and whether they lacked a CPU. */
static void add_waits(struct overview_lines *lines, const struct profile *profile)
{
	enum { MOST = 2 };
	struct wait_sum sums[N_WAIT_KINDS];
	char time[TIME_BYTES], text[NAME_BYTES];
	int n = 0;

	wait_kinds_sum(profile, sums);
	for (size_t i = 0; i < MOST; i++) {
		const enum wait_kind longest = wait_kinds_longest(sums);

		if (!sums[longest].ns)
			break;
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%s (%.0f%%)",
			      i ? ", " : "for ", wait_kind_text(longest),
			      profile_share(profile, sums[longest].ns));
		sums[longest].ns = 0;
	}
	if (n)
		add_overview_row(lines, NULL, NO_SHARE, text);
	if (!profile->knows_ready || profile->ready_ns < profile->duration_ns / 100)
		return;
	snprintf(text, sizeof(text), "ready, but without a CPU: %s",
		 print_time(time, (double)profile->ready_ns));
	add_overview_row(lines, NULL, NO_SHARE, text);
}

/* Add a row with the share that VALUE is of PROFILE. */
static struct overview_row *add_share(struct overview_lines *lines, const struct profile *profile,
				      uint64_t value, const char *text)
{
	const double percent = profile_share(profile, value);
	char number[SIZE_BYTES];

	snprintf(number, sizeof(number), "%.1f%%", percent);
	return add_overview_row(lines, number, percent / 100, text);
}

static void add_own_functions(struct overview_lines *lines, const struct overview_profile *of)
{
	const struct own_functions *own = &of->own;
	char text[NAME_BYTES];
	uint64_t rest = 0;

	for (size_t i = 0; i < own->n; i++) {
		const struct named_frame *frame = own->list[i].frame;
		struct overview_row *row = NULL;

		if (i < TOP)
			row = add_share(lines, &of->profile, own->list[i].value, frame->function);
		else
			rest += own->list[i].value;
		if (row && frame->item)
			attach_command(lines, &row->command, "--count=", frame->item);
	}
	if (own->n > TOP) {
		snprintf(text, sizeof(text), "(%zu other function%s of the program)", own->n - TOP,
			 plural(own->n - TOP));
		add_share(lines, &of->profile, rest, text);
	}
	if (own->other_value)
		add_share(lines, &of->profile, own->other_value, "(in no function of the program)");
}

static void add_profile(struct overview_lines *lines, const struct overview *o,
			enum profile_kind kind)
{
	const struct overview_profile *of = &o->profiles[kind];

	begin_line(lines, profile_kind_name(kind), profile_texts[kind].title);
	line_command(lines, "profile", profile_texts[kind].option);
	if (lines->n)
		last_line(lines)->number_width = SHARE_WIDTH;
	if (of->why.text[0]) {
		add_words(lines, "not sampled: %s", of->why.text);
		return;
	}
	if (of->profile.samples)
		add_samples(lines, of);
	else
		add_words(lines, "%s", profile_empty_text(kind));
	if (kind == PROFILE_WAITS)
		add_waits(lines, &of->profile);
	add_own_functions(lines, of);
}

/* ---- probes --------------------------------------------------------------------------------- */

static int by_probe_hits(const void *a, const void *b)
{
	const struct ocp_probe_hits *const *x = a, *const *y = b;
	const int order = COMPARE((*y)->hits, (*x)->hits);

	return order ? order : strcmp((*x)->probe, (*y)->probe);
}

static int by_pair_p99(const void *a, const void *b)
{
	const struct ocp_pair *const *x = a, *const *y = b;

	return COMPARE(ocp_pair_quantile_ns(*y, 0.99), ocp_pair_quantile_ns(*x, 0.99));
}

/* Return the probes of SAMPLE, the one with most hits first; NULL if out of memory. */
static const struct ocp_probe_hits **sort_probes(const struct ocp_sample *sample, size_t *n)
{
	const struct ocp_probe_hits **list;

	*n = ocp_sample_probe_count(sample);
	list = calloc(*n + 1, sizeof(struct ocp_probe_hits *));
	for (size_t i = 0; list && i < *n; i++)
		list[i] = ocp_sample_probe(sample, i);
	if (list)
		qsort(list, *n, sizeof(struct ocp_probe_hits *), by_probe_hits);
	return list;
}

/* Return the pairs of SAMPLE that have begun, the slowest first; NULL if out of memory. */
static const struct ocp_pair **sort_pairs(const struct ocp_sample *sample, size_t *n)
{
	const size_t n_all = ocp_sample_pair_count(sample);
	const struct ocp_pair **list = calloc(n_all + 1, sizeof(struct ocp_pair *));

	*n = 0;
	for (size_t i = 0; list && i < n_all; i++)
		if (ocp_sample_pair(sample, i)->starts)
			list[(*n)++] = ocp_sample_pair(sample, i);
	if (list)
		qsort(list, *n, sizeof(struct ocp_pair *), by_pair_p99);
	return list;
}

static void add_probe_rows(struct overview_lines *lines, const struct ocp_sample *sample)
{
	const int64_t ns = ocp_sample_time_ns(sample);
	const struct ocp_probe_hits **list;
	char rate[SIZE_BYTES], text[NAME_BYTES];
	size_t n, n_hit = 0;

	list = sort_probes(sample, &n);
	lines->is_short |= !list;
	for (size_t i = 0; list && i < n; i++) {
		struct overview_row *row = NULL;

		n_hit += list[i]->hits != 0;
		if (i < TOP && list[i]->hits)
			row = add_overview_row(lines, rate_text(rate, (double)list[i]->hits, ns),
					       NO_SHARE, list[i]->probe);
		if (row)
			attach_command(lines, &row->command, "--count=", list[i]->probe);
	}
	if (n_hit > TOP) {
		snprintf(text, sizeof(text), "(%zu other%s)", n_hit - TOP, plural(n_hit - TOP));
		add_overview_row(lines, "", NO_SHARE, text);
	}
	free(list);
}

static void add_pair(struct overview_lines *lines, const struct ocp_pair *pair, int64_t ns)
{
	char note[PAIR_NOTE_BYTES], name[NAME_BYTES], text[2 * NAME_BYTES], rate[SIZE_BYTES];
	char p50[TIME_BYTES], p99[TIME_BYTES], max[TIME_BYTES];
	struct overview_row *row;

	pair_name(name, sizeof(name), pair->start, pair->stop);
	if (pair_note(note, pair->start, pair->stop, pair)) {
		row = add_overview_row(lines, "", NO_SHARE, note);
	} else if (pair->count) {
		snprintf(text, sizeof(text), "%s: p50 %s, p99 %s, max %s", name,
			 print_time(p50, (double)ocp_pair_quantile_ns(pair, 0.5)),
			 print_time(p99, (double)ocp_pair_quantile_ns(pair, 0.99)),
			 print_time(max, (double)pair->max_ns));
		row = add_overview_row(lines, rate_text(rate, (double)pair->count, ns), NO_SHARE,
				       text);
	} else {
		snprintf(text, sizeof(text), "%s: %" PRIu64 " begun, none ended", name,
			 pair->starts);
		row = add_overview_row(lines, "", NO_SHARE, text);
	}
	if (row)
		attach_command(lines, &row->command, "--time=", name);
}

/* Add the slowest pairs. */
static void add_pairs(struct overview_lines *lines, const struct overview *o)
{
	const struct overview_probes *probes = &o->probes;
	const struct ocp_pair **list;
	char name[NAME_BYTES], time[TIME_BYTES];
	size_t n;

	if (probes->pairs_why.text[0]) {
		begin_line(lines, "pairs", "pairs");
		add_words(lines, "not timed: %s", probes->pairs_why.text);
		line_command(lines, "info", " --sites");
		return;
	}
	list = sort_pairs(probes->sample, &n);
	lines->is_short |= !list;
	if (list && n) {
		begin_line(lines, "pairs", "pairs");
		add_words(lines, "by p99");
		if (probes->costs.empty_pair_ns > 0)
			add_words(lines, ", an empty one takes %s",
				  print_time(time, probes->costs.empty_pair_ns));
		pair_name(name, sizeof(name), list[0]->start, list[0]->stop);
		if (lines->n) {
			last_line(lines)->number_width = RATE_WIDTH;
			attach_command(lines, &last_line(lines)->command, "--time ", name);
		}
	}
	for (size_t i = 0; list && i < n && i < TOP_PAIRS; i++)
		add_pair(lines, list[i], ocp_sample_time_ns(probes->sample));
	free(list);
}

static void add_probes(struct overview_lines *lines, const struct overview *o)
{
	const struct overview_probes *probes = &o->probes;
	char rate[SIZE_BYTES];
	uint64_t hits;

	begin_line(lines, "probes", "probes");
	if (!probes->n) {
		add_words(lines, "none; functions can be counted");
		line_command(lines, "functions", "");
		return;
	}
	add_words(lines, "%zu", probes->n);
	if (probes->why.text[0] || !probes->sample) {
		add_words(lines, ", not counted: %s", probes->why.text);
		line_command(lines, "info", "");
		return;
	}
	hits = ocp_sample_all_hits(probes->sample);
	add_words(lines, ", %" PRIu64 " hit%s", hits, plural(hits));
	if (hits)
		add_words(lines, ", %s%s", probes->is_slowed ? "at least " : "",
			  rate_text(rate, (double)hits, ocp_sample_time_ns(probes->sample)));
	if (probes->is_over_budget)
		add_words(lines, " in the first %.2f s",
			  overview_seconds(ocp_sample_time_ns(probes->sample)));
	line_command(lines, "attach", " --count");
	if (lines->n)
		last_line(lines)->number_width = RATE_WIDTH;
	add_probe_rows(lines, probes->sample);
	add_pairs(lines, o);
}

/* ---- all ------------------------------------------------------------------------------------ */

int overview_lines_make(struct ocp_ctx *ctx, const struct overview *o, struct overview_lines *lines)
{
	/* The order of the profiles. */
	static const enum profile_kind kinds[] = { PROFILE_CPU, PROFILE_WORDS, PROFILE_WAITS };

	*lines = (struct overview_lines){ .pid = o->pid };
	add_program(lines, o);
	add_cpu(lines, o);
	add_collector_share(lines, o);
	add_collections(lines, o);
	add_heap(lines, o);
	for (size_t i = 0; i < N_OVERVIEW_PROFILES; i++)
		add_profile(lines, o, kinds[i]);
	add_probes(lines, o);
	if (o->no_bpf.text[0]) {
		begin_line(lines, "no_bpf", "without BPF");
		add_words(lines, "%s", o->no_bpf.text);
	}
	begin_line(lines, "cost", NULL);
	add_words(lines, "this report has cost the program %.2f%% of a core",
		  100 * overview_per_second(o->cost_ns / 1e9, o->span_ns));
	return lines->is_short ? ctx_no_memory(ctx) : 0;
}

void overview_lines_free(struct overview_lines *lines)
{
	for (size_t i = 0; i < lines->n; i++) {
		struct overview_line *line = &lines->list[i];

		for (size_t j = 0; j < line->n_rows; j++) {
			free(line->rows[j].number);
			free(line->rows[j].text);
			free(line->rows[j].command);
		}
		free(line->rows);
		free(line->label);
		free(line->text);
		free(line->command);
	}
	free(lines->list);
	*lines = (struct overview_lines){ 0 };
}
