// SPDX-License-Identifier: MIT
/*
 * Writes and reads the text that describes a kept meter: what the numbers in the maps of a pinned
 * meter mean, or the numbers of a meter that counts inside of processes. The text has these lines:
 *
 *	ocaml-probes-kept 2 LAYOUT     layout of the maps: MEASURE_VERSION
 *	start NS                       of CLOCK_MONOTONIC
 *	split N                        enum ocp_split
 *	cost HIT_NS EMPTY_PAIR_NS [PAIRED_HIT_NS]
 *	program =PATH | pid PID ...
 *	pair BY_KEY =START =STOP       in the order of their numbers; BY_KEY 1: by an argument,
 *	                               0: by thread
 *	probe COUNTED =NAME            in the order of their numbers
 *	file =PATH                     in the order of their numbers
 *	site PROBE FILE VA OFF LINE COL =SYMBOL =SOURCE   in the order of `hits`
 *	uncounted ...                  a site whose hits are not hits of the probe: where calls end
 *	nobody =                       in place of a site whose number is free
 *	past PROBE HITS                hits of sites that were removed
 *	uses PROBE N WITHOUT           uses in the source, and those without a site
 *
 * A word after "=" has %xx for bytes that are not printable, for % and for space.
 *
 * The parser is strict: each line, number and word must be complete and within its limits, and a
 * number must refer to an earlier line.
 */
#include "measure/pin_meta.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sanitize.h"
#include "base/strbuf.h"
#include "measure.h"

#define BRAND		"ocaml-probes-kept "
#define FORMAT		BRAND "2 " TEXT_OF(MEASURE_VERSION)
#define TEXT_OF(number) AS_TEXT(number)
#define AS_TEXT(number) #number

/* ---- writing -------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void put_format(struct strbuf *text,
							     const char *format, ...)
{
	va_list args;
	char *string;
	int n;

	va_start(args, format);
	n = vasprintf(&string, format, args);
	va_end(args);
	if (n < 0) {
		text->is_short = true;
		return;
	}
	strbuf_add(text, string, (size_t)n);
	free(string);
}

static bool is_unescaped(char c)
{
	return isgraph((unsigned char)c) && c != '%';
}

static void append_escaped_word(struct strbuf *text, const char *word)
{
	strbuf_lit(text, " =");
	while (word && *word) {
		size_t n = 0;

		while (is_unescaped(word[n]))
			n++;
		strbuf_add(text, word, n);
		word += n;
		if (*word)
			put_format(text, "%%%02x", (unsigned char)*word++);
	}
}

/*
 * Write a space and the digits of NUMBER in BASE to TO. Return the end of the digits. (printf(3)
 * would take ten times as long.)
 */
static char *put_number(char *to, uint64_t number, unsigned int base)
{
	char digits[20];
	size_t n = 0;

	do
		digits[n++] = "0123456789abcdef"[number % base];
	while (number /= base);
	*to++ = ' ';
	while (n)
		*to++ = digits[--n];
	return to;
}

/*
 * Write the line of SITE. There can be 100 000 sites. Most of them have no symbol and no source, so
 * this case is fast.
 */
static void put_site(struct strbuf *text, const struct measured_site *site)
{
	const bool has_words = site->symbol || site->source;
	char line[256], *to; /* at most 140 bytes without words */

	to = stpcpy(line, site->counts ? "site" : "uncounted");
	to = put_number(to, site->probe_index, 10);
	to = put_number(to, site->file, 10);
	to = put_number(to, site->va, 16);
	to = put_number(to, site->symbol_off, 16);
	to = put_number(to, (uint64_t)site->line, 10);
	to = put_number(to, (uint64_t)site->source_column, 10);
	if (!has_words)
		to = stpcpy(to, " = =\n");
	strbuf_add(text, line, (size_t)(to - line));
	if (!has_words)
		return;
	append_escaped_word(text, site->symbol);
	append_escaped_word(text, site->source);
	strbuf_lit(text, "\n");
}

static void put_probes(struct strbuf *text, const struct site_table *table)
{
	for (size_t i = 0; i < table->n_probes; i++) {
		strbuf_str(text, table->probes[i].is_counted ? "probe 1" : "probe 0");
		append_escaped_word(text, table->probes[i].name);
		strbuf_lit(text, "\n");
	}
	for (size_t i = 0; i < table->n_probes; i++)
		if (table->probes[i].past_hits)
			put_format(text, "past %zu %" PRIu64 "\n", i, table->probes[i].past_hits);
	for (size_t i = 0; i < table->n_probes; i++) {
		char line[128], *to = stpcpy(line, "uses");

		if (!table->probes[i].n_uses)
			continue;
		to = put_number(to, i, 10);
		to = put_number(to, table->probes[i].n_uses, 10);
		to = put_number(to, table->probes[i].n_uses_without_site, 10);
		*to++ = '\n';
		strbuf_add(text, line, (size_t)(to - line));
	}
}

static void put_all(struct strbuf *text, const struct ocp_meter *meter,
		    const struct ocp_costs *costs)
{
	const struct site_table *table = &meter->table;

	put_format(text, FORMAT "\nstart %" PRId64 "\nsplit %d\ncost %f %f", meter->start_ns,
		   (int)meter->request.split, costs->cost_per_hit_ns, costs->empty_pair_ns);
	if (costs->cost_per_paired_hit_ns > 0)
		put_format(text, " %f", costs->cost_per_paired_hit_ns);
	strbuf_lit(text, "\n");
	if (meter->program_name) {
		strbuf_str(text, "program");
		append_escaped_word(text, meter->program_name);
		strbuf_lit(text, "\n");
	}
	for (size_t i = 0; i < meter->n_pids; i++)
		put_format(text, "pid %d\n", (int)meter->pids[i]);
	/* A process that writes events does not count its pairs: later tools read its hits only. */
	for (size_t i = 0; !meter->request.event_bytes && i < meter->request.n_pairs; i++) {
		strbuf_str(text, meter->request.pairs[i].key_arg >= 0 ? "pair 1" : "pair 0");
		append_escaped_word(text, meter->request.pairs[i].start.text);
		append_escaped_word(text, request_pair_stop(&meter->request.pairs[i]));
		strbuf_lit(text, "\n");
	}
	put_probes(text, table);
	for (size_t i = 0; i < table->n_files; i++) {
		strbuf_str(text, "file");
		append_escaped_word(text, table->files[i].name);
		strbuf_lit(text, "\n");
	}
	for (size_t i = 0; i < table->n_sites; i++) {
		if (table->sites[i].file == NO_FILE)
			strbuf_str(text, "nobody =\n");
		else
			put_site(text, &table->sites[i]);
	}
	strbuf_add(text, "", 1);
}

char *pin_meta_text(const struct ocp_meter *meter, const struct ocp_costs *costs)
{
	struct strbuf text = { 0 };

	put_all(&text, meter, costs);
	if (!text.is_short)
		return text.bytes;
	strbuf_free(&text);
	return NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

/*
 * Return the byte that the two hexadecimal digits at FROM stand for. Return -1 if no two such
 * digits are at FROM, or if they are 00.
 */
static int decode_escape(const char *from)
{
	const char digits[] = { from[0], from[0] ? from[1] : '\0', '\0' };
	char *end;
	long byte;

	if (!isxdigit((unsigned char)digits[0]) || !isxdigit((unsigned char)digits[1]))
		return -1;
	byte = strtol(digits, &end, 16);
	return byte ? (int)byte : -1;
}

/*
 * Remove the next word from *LINE, decode it in place, and return it. Return NULL at the end of
 * *LINE, or if the word is damaged.
 */
static char *take_word(char **line)
{
	char *word = strsep(line, " "), *to = word;

	if (!word || *word != '=')
		return NULL;
	for (const char *from = word + 1; *from; from++) {
		int byte = (unsigned char)*from;

		if (*from == '%') {
			byte = decode_escape(from + 1);
			if (byte < 0)
				return NULL;
			from += 2;
		}
		*to++ = (char)byte;
	}
	*to = '\0';
	return word;
}

/*
 * Remove the next word from *LINE and parse it as a number in BASE into *NUMBER. Return false if
 * the word is not such a number, or if the number is above MAX.
 */
static bool take_next_number(char **line, int base, uint64_t max, uint64_t *number)
{
	const char *word = strsep(line, " ");
	char *end;

	/* strtoull also accepts spaces and signs. */
	if (!word || !isxdigit((unsigned char)*word))
		return false;
	errno = 0;
	*number = strtoull(word, &end, base);
	return errno == 0 && *end == '\0' && *number <= max;
}

static bool take_cost(char **line, double *ns)
{
	const char *word = strsep(line, " ");
	char *end;

	if (!word || !isdigit((unsigned char)*word))
		return false;
	*ns = strtod(word, &end);
	return *end == '\0' && isfinite(*ns);
}

/* The state of the parser and its results. The strings of sites point into the parsed text. */
struct pin_reader {
	struct ocp_meter *meter;
	struct site *sites; /* by site number: a site of which only the address is set */
	bool has_start, has_split, has_costs;
};

static bool read_start(struct pin_reader *r, char **line)
{
	uint64_t start_ns;

	if (r->has_start || !take_next_number(line, 10, INT64_MAX, &start_ns))
		return false;
	r->meter->start_ns = (int64_t)start_ns;
	r->has_start = true;
	return true;
}

static bool read_split(struct pin_reader *r, char **line)
{
	uint64_t split;

	if (r->has_split || !take_next_number(line, 10, OCP_BY_PROCESS, &split))
		return false;
	r->meter->request.split = (enum ocp_split)split;
	r->has_split = true;
	return true;
}

static bool read_costs(struct pin_reader *r, char **line)
{
	struct ocp_costs *costs = &r->meter->pinned_costs;

	if (r->has_costs || !take_cost(line, &costs->cost_per_hit_ns) ||
	    !take_cost(line, &costs->empty_pair_ns) ||
	    (*line && !take_cost(line, &costs->cost_per_paired_hit_ns)))
		return false;
	r->has_costs = true;
	return true;
}

static bool read_program_line(struct pin_reader *r, char **line)
{
	const char *name = r->meter->program_name ? NULL : take_word(line);

	return name && (r->meter->program_name = strdup(name));
}

static bool read_pid(struct pin_reader *r, char **line)
{
	struct ocp_meter *meter = r->meter;
	pid_t *new;
	uint64_t pid;

	if (!take_next_number(line, 10, INT_MAX, &pid) || !pid)
		return false;
	new = array_add(meter->pids, meter->n_pids);
	if (new)
		*new = (pid_t)pid;
	return new != NULL;
}

static bool read_pair(struct pin_reader *r, char **line)
{
	uint64_t by_key;
	const char *start = take_next_number(line, 10, 1, &by_key) ? take_word(line) : NULL;
	const char *stop = start ? take_word(line) : NULL;
	struct measure_request *request = &r->meter->request;

	if (!stop || measure_request_add_pair(request, start, *stop ? stop : NULL))
		return false;
	request->pairs[request->n_pairs - 1].key_arg = by_key ? 0 : -1;
	return true;
}

static bool read_probe(struct pin_reader *r, char **line)
{
	struct site_table *table = &r->meter->table;
	uint64_t is_counted;
	const char *name = take_next_number(line, 10, 1, &is_counted) ? take_word(line) : NULL;
	struct measured_probe *new = name ? array_add(table->probes, table->n_probes) : NULL;

	if (!new)
		return false;
	*new = (struct measured_probe){ .name = strdup(name), .is_counted = is_counted };
	return new->name != NULL;
}

static bool read_past(struct pin_reader *r, char **line)
{
	struct site_table *table = &r->meter->table;
	uint64_t probe_index, hits;

	if (!take_next_number(line, 10, UINT32_MAX, &probe_index) ||
	    probe_index >= table->n_probes || !take_next_number(line, 10, UINT64_MAX, &hits))
		return false;
	table->probes[probe_index].past_hits = hits;
	return true;
}

static bool read_uses(struct pin_reader *r, char **line)
{
	struct site_table *table = &r->meter->table;
	uint64_t probe_index, n, n_without;

	if (!take_next_number(line, 10, UINT32_MAX, &probe_index) ||
	    probe_index >= table->n_probes || !take_next_number(line, 10, UINT32_MAX, &n) ||
	    !take_next_number(line, 10, n, &n_without))
		return false;
	table->probes[probe_index].n_uses = n;
	table->probes[probe_index].n_uses_without_site = n_without;
	return true;
}

static bool read_file_line(struct pin_reader *r, char **line)
{
	struct site_table *table = &r->meter->table;
	const char *name = take_word(line);
	struct measured_file *new = name ? array_add(table->files, table->n_files) : NULL;

	if (!new)
		return false;
	*new = (struct measured_file){ .name = strdup(name), .guard.fd = -1 };
	return new->name != NULL;
}

static bool append_site(struct pin_reader *r, const struct measured_site *site)
{
	struct site_table *table = &r->meter->table;
	struct site *places = array_grow(r->sites, table->n_sites, sizeof(*places));
	struct measured_site *new = places ? array_add(table->sites, table->n_sites) : NULL;

	if (places)
		r->sites = places;
	if (!new)
		return false;
	*new = *site;
	places[new - table->sites] = (struct site){ .has_code = true, .va = site->va };
	return true;
}

static bool read_site_that(struct pin_reader *r, char **line, bool counts)
{
	const struct site_table *table = &r->meter->table;
	struct measured_site site = { .counts = counts };
	uint64_t probe_index, file, number, source_column;

	if (!take_next_number(line, 10, UINT32_MAX, &probe_index) ||
	    probe_index >= table->n_probes || !take_next_number(line, 10, UINT32_MAX, &file) ||
	    file >= table->n_files || !take_next_number(line, 16, UINT64_MAX, &site.va) ||
	    !take_next_number(line, 16, UINT64_MAX, &site.symbol_off) ||
	    !take_next_number(line, 10, INT_MAX, &number) ||
	    !take_next_number(line, 10, INT_MAX, &source_column))
		return false;
	site.probe_index = (uint32_t)probe_index;
	site.file = (uint32_t)file;
	site.line = (int)number;
	site.source_column = (int)source_column;
	site.symbol = take_word(line);
	site.source = site.symbol ? take_word(line) : NULL;
	if (!site.source)
		return false;
	if (!*site.symbol)
		site.symbol = NULL;
	if (!*site.source)
		site.source = NULL;
	return append_site(r, &site);
}

static bool read_site(struct pin_reader *r, char **line)
{
	return read_site_that(r, line, true);
}

static bool read_uncounted(struct pin_reader *r, char **line)
{
	return read_site_that(r, line, false);
}

static bool read_nobody(struct pin_reader *r, char **line)
{
	const char *word = take_word(line);

	return word && !*word && append_site(r, &(struct measured_site){ .file = NO_FILE });
}

static bool read_description_line(struct pin_reader *r, char *line)
{
	static const struct {
		const char *what;
		bool (*read)(struct pin_reader *r, char **line);
	} lines[] = {
		{ "start", read_start },   { "split", read_split },
		{ "cost", read_costs },	   { "program", read_program_line },
		{ "pid", read_pid },	   { "pair", read_pair },
		{ "probe", read_probe },   { "past", read_past },
		{ "uses", read_uses },	   { "file", read_file_line },
		{ "site", read_site },	   { "uncounted", read_uncounted },
		{ "nobody", read_nobody },
	};
	const char *what = strsep(&line, " ");

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		/* A line is valid only if its reader has consumed all words. */
		if (strcmp(what, lines[i].what) == 0)
			return lines[i].read(r, &line) && !line;
	return false;
}

static int compare_probes(const void *a, const void *b, void *data)
{
	const struct measured_probe *probes = data;

	return strcmp(probes[*(const uint32_t *)a].name, probes[*(const uint32_t *)b].name);
}

/*
 * Fill in the rest of the table, which site_table_add_file() would otherwise fill in. Return false
 * if memory is short or if two probes have the same name.
 */
static bool finish_table(struct pin_reader *r)
{
	struct site_table *table = &r->meter->table;

	for (size_t i = 0; i < table->n_sites; i++)
		table->sites[i].site = table->sites[i].file == NO_FILE ? NULL : &r->sites[i];
	table->by_name = calloc(table->n_probes + 1, sizeof(*table->by_name));
	if (!table->by_name)
		return false;
	for (size_t i = 0; i < table->n_probes; i++)
		table->by_name[i] = (uint32_t)i;
	qsort_r(table->by_name, table->n_probes, sizeof(*table->by_name), compare_probes,
		table->probes);
	for (size_t i = 1; i < table->n_probes; i++)
		if (compare_probes(&table->by_name[i - 1], &table->by_name[i], table->probes) == 0)
			return false;
	return true;
}

static bool is_complete(const struct pin_reader *r)
{
	const struct ocp_meter *meter = r->meter;

	return r->has_start && r->has_split && r->has_costs && meter->table.n_probes > 0 &&
	       (meter->program_name != NULL) != (meter->n_pids > 0);
}

/* Replace terminal control characters in all strings: the writer of the text is not trusted. */
static void make_plain(struct ocp_meter *meter)
{
	struct site_table *table = &meter->table;

	for (size_t i = 0; i < meter->request.n_pairs; i++) {
		make_one_line((char *)meter->request.pairs[i].start.text);
		if (!request_pair_is_calls(&meter->request.pairs[i]))
			make_one_line((char *)meter->request.pairs[i].stop.text);
	}
	for (size_t i = 0; i < table->n_probes; i++)
		make_one_line(table->probes[i].name);
	for (size_t i = 0; i < table->n_files; i++)
		make_one_line(table->files[i].name);
	for (size_t i = 0; i < table->n_sites; i++) {
		/* The strings point into our copy of the text, so we may modify them. */
		if (table->sites[i].symbol)
			make_one_line((char *)(uintptr_t)table->sites[i].symbol);
		if (table->sites[i].source)
			make_one_line((char *)(uintptr_t)table->sites[i].source);
	}
}

/* Parse TEXT into METER. Return 0, -ENOMEM, or -EBADMSG or -EPROTO without a message. */
static int parse_description(struct ocp_meter *meter, char *text, bool is_trusted)
{
	struct pin_reader r = { .meter = meter };
	const char *line = strsep(&text, "\n");
	bool ok = text && strcmp(line, FORMAT) == 0;
	char *next;

	if (!ok && strncmp(line, BRAND, strlen(BRAND)) == 0)
		return -EPROTO;
	/* Every line, including the last one, must end with a newline. */
	while (ok && (next = strsep(&text, "\n")) && (text || *next))
		ok = text && read_description_line(&r, next);
	if (ok && !is_trusted)
		make_plain(meter);
	ok = ok && is_complete(&r) && finish_table(&r);
	if (r.sites && site_table_keep(&meter->table, r.sites))
		return -ENOMEM;
	return ok ? 0 : -EBADMSG;
}

int pin_meta_parse(struct ocp_meter *meter, const char *folder, char *text)
{
	int err = parse_description(meter, text, true);

	if (err == -EBADMSG)
		ctx_error(meter->ctx, err, "%s/meta: damaged", folder);
	if (err != -EPROTO)
		return err;
	/* The maps of another version may have other sizes. */
	ctx_error(
		meter->ctx, err,
		"%s: pinned by another version of ocaml-probes; use that version to read or detach it",
		folder);
	ctx_hint(meter->ctx, "rm -r %s ends the measurement; its totals are lost", folder);
	return err;
}

int pin_meta_parse_untrusted(struct ocp_meter *meter, char *text)
{
	return parse_description(meter, text, false);
}

/* ---- comparing ------------------------------------------------------------------------------ */

/*
 * Return true if LINE says what was requested. Other lines contain the time, the costs, and the
 * files, sites and uses that were found.
 */
static bool is_wish(const char *line)
{
	static const char *const wishes[] = {
		BRAND, "split ", "program", "pid ", "pair ", "probe "
	};

	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++)
		if (strncmp(line, wishes[i], strlen(wishes[i])) == 0)
			return true;
	return false;
}

static const char *skip_line(const char *line)
{
	line += strcspn(line, "\n");
	return line + (*line == '\n');
}

/*
 * Return true if B contains each line of A that says what was requested. Both texts have these
 * lines in the same order.
 */
bool pin_meta_is_part(const char *a, const char *b)
{
	for (; *a; a = skip_line(a)) {
		const size_t bytes = strcspn(a, "\n") + 1;

		if (!is_wish(a))
			continue;
		while (*b && strncmp(a, b, bytes) != 0)
			b = skip_line(b);
		if (!*b)
			return false;
		b = skip_line(b);
	}
	return true;
}
