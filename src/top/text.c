// SPDX-License-Identifier: MIT
#include "top/text.h"

#include <inttypes.h>
#include <langinfo.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

bool text_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static const char *nothing(char *text)
{
	text[0] = '-';
	text[1] = '\0';
	return text;
}

/*
 * Write VALUE, which is below 999.5, with three digits and UNIT. The bounds are not 10 and 100:
 * printf would round 9.999 up to "10.00", which has four digits.
 */
static const char *three_digits(char *text, double value, const char *unit)
{
	snprintf(text, TEXT_BYTES, "%.*f%s",
		 value < 9.995	 ? 2
		 : value < 99.95 ? 1
				 : 0,
		 value, unit);
	return text;
}

const char *text_rate(char *text, double rate)
{
	static const char *const units[] = { "k", "M", "G", "T", "P" };
	size_t unit = 0;

	if (isnan(rate) || rate < 0)
		return nothing(text);
	if (rate < 999.5) {
		snprintf(text, TEXT_BYTES, "%.*f", rate > 0 && rate < 99.95 ? 1 : 0, rate);
		return text;
	}
	for (rate /= 1000; rate >= 999.5 && unit < sizeof(units) / sizeof(units[0]) - 1; unit++)
		rate /= 1000;
	return three_digits(text, rate, units[unit]);
}

const char *text_ns(char *text, uint64_t ns, bool utf8)
{
	const double value = (double)ns;

	if (ns == 0)
		return nothing(text);
	if (ns < 1000)
		snprintf(text, TEXT_BYTES, "%" PRIu64 "ns", ns);
	else if (value < 999.5e3)
		three_digits(text, value / 1e3, utf8 ? "µs" : "us");
	else if (value < 999.5e6)
		three_digits(text, value / 1e6, "ms");
	else
		three_digits(text, value / 1e9, "s");
	return text;
}

const char *text_share(char *text, double share)
{
	if (isnan(share) || share < 0)
		return nothing(text);
	return three_digits(text, 100 * share, "%");
}

const char *text_count(char *text, uint64_t count, int width)
{
	if (snprintf(text, TEXT_BYTES, "%" PRIu64, count) > width)
		text_rate(text, (double)count);
	return text;
}

const char *text_duration(char *text, int64_t seconds)
{
	const int64_t s = seconds > 0 ? seconds : 0, minutes = s / 60, hours = s / 3600;

	if (s < 60)
		snprintf(text, TEXT_BYTES, "%" PRId64 "s", s);
	else if (hours == 0)
		snprintf(text, TEXT_BYTES, "%" PRId64 "m%02ds", minutes, (int)(s % 60));
	else if (hours < 24)
		snprintf(text, TEXT_BYTES, "%" PRId64 "h%02dm", hours, (int)(minutes % 60));
	else
		snprintf(text, TEXT_BYTES, "%" PRId64 "d%02dh", hours / 24, (int)(hours % 24));
	return text;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* A character as it is displayed. A combining character is a separate glyph, of width 0. */
struct glyph {
	char bytes[MB_LEN_MAX + 1];
	size_t n;
	int width;
};

/*
 * Return true if C is an invisible mark, or a character that can reverse the direction of the text
 * beside it: an embedding, an override or an isolate.
 */
static bool changes_direction(wchar_t c)
{
	return c == 0x61c || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* Read the glyph at TEXT, which is not empty. Return the text after the glyph. */
static const char *take_glyph(const char *text, struct glyph *glyph)
{
	mbstate_t state = { 0 };
	wchar_t c;
	size_t n = mbrtowc(&c, text, strlen(text), &state);
	int width = n <= MB_LEN_MAX ? wcwidth(c) : -1;

	/* Not a valid character: take one byte, which is shown as "?". */
	if (n == 0 || n > MB_LEN_MAX)
		n = 1;
	if (width < 0 || !iswprint((wint_t)c) || changes_direction(c)) {
		*glyph = (struct glyph){ "?", 1, 1 };
		return text + n;
	}
	memcpy(glyph->bytes, text, n);
	glyph->bytes[n] = '\0';
	glyph->n = n;
	glyph->width = width;
	return text + n;
}

int text_width(const char *text)
{
	struct glyph glyph;
	int width = 0;

	while (*text) {
		text = take_glyph(text, &glyph);
		width += glyph.width;
	}
	return width;
}

/* A text that is being written to `out`: it has N bytes and WIDTH columns so far. */
struct filling {
	char *out;
	size_t n, size;
	int width;
};

static bool put_glyph(struct filling *to, const struct glyph *glyph)
{
	if (to->n + glyph->n >= to->size)
		return false;
	memcpy(to->out + to->n, glyph->bytes, glyph->n);
	to->n += glyph->n;
	to->out[to->n] = '\0';
	to->width += glyph->width;
	return true;
}

/*
 * TEXT is WIDTH columns wide. Skip glyphs at its front until at most ALLOWED columns are left, and
 * return the rest.
 */
static const char *skip_front(const char *text, int width, int allowed)
{
	struct glyph glyph;

	while (width > allowed) {
		text = take_glyph(text, &glyph);
		width -= glyph.width;
	}
	return text;
}

static void put_some(struct filling *to, const char *text, int width)
{
	struct glyph glyph;

	while (*text) {
		text = take_glyph(text, &glyph);
		if (glyph.width > width || !put_glyph(to, &glyph))
			break;
		width -= glyph.width;
	}
}

int text_fit(char *out, size_t size, const char *text, int width, enum text_cut cut)
{
	const struct glyph ellipsis = text_is_utf8() ? (struct glyph){ "…", strlen("…"), 1 }
						     : (struct glyph){ "~", 1, 1 };
	struct filling to = { .out = out, .size = size };
	const int all = text_width(text), head = cut == TEXT_CUT_FRONT ? 0
						 : cut == TEXT_CUT_END ? width - 1
								       : (width - 1) / 2;

	out[0] = '\0';
	if (width <= 0)
		return 0;
	if (all <= width) {
		put_some(&to, text, width);
		return to.width;
	}
	put_some(&to, text, head);
	put_glyph(&to, &ellipsis);
	if (cut != TEXT_CUT_END)
		put_some(&to, skip_front(text, all, width - 1 - head), width - 1 - head);
	return to.width;
}

const char *text_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* ---- rates as bars -------------------------------------------------------------------------- */

int spark_width(int room)
{
	int width = room < WATCH_COLUMNS ? room : WATCH_COLUMNS;

	while (width > 0 && WATCH_COLUMNS % width != 0)
		width--;
	return width > 0 ? width : 0;
}

void spark_fold(const float *rates, size_t tick, float *cells, int width)
{
	const int seconds = WATCH_COLUMNS / width;
	/* The number of ticks in the newest cell, which is not complete yet. */
	const int newest = tick ? (int)((tick - 1) % (size_t)seconds) + 1 : seconds;
	int end = WATCH_COLUMNS, begin = WATCH_COLUMNS - newest;

	for (int cell = width - 1; cell >= 0; cell--) {
		float sum = 0;
		int n = 0;

		for (int i = begin > 0 ? begin : 0; i < end; i++) {
			if (isnan(rates[i]))
				continue;
			sum += rates[i];
			n++;
		}
		cells[cell] = n ? sum / (float)n : NAN;
		end = begin;
		begin = end - seconds;
	}
}

float spark_highest(const float *cells, int width)
{
	float highest = 0;

	for (int i = 0; i < width; i++)
		if (cells[i] > highest)
			highest = cells[i];
	return highest;
}

void spark_draw(char *text, const float *cells, int width, float highest, bool utf8)
{
	static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
	const int last = sizeof(bars) / sizeof(bars[0]) - 1;

	for (int i = 0; i < width; i++) {
		const char *bar = " ";
		int level = 0;

		if (cells[i] > 0)
			level = highest > 0 ? 1 + (int)(cells[i] / highest * (float)(last - 1)) : 1;
		if (!isnan(cells[i]))
			bar = (utf8 ? bars : ascii)[level < last ? level : last];
		memcpy(text, bar, strlen(bar));
		text += strlen(bar);
	}
	*text = '\0';
}

/* ---- what fits on a screen ------------------------------------------------------------------ */

enum { FEWEST_PROBES = 4, ROOMY = 16 };

static int least(int a, int b)
{
	return a < b ? a : b;
}

static bool has_rank(const struct column *columns, size_t n, int rank)
{
	for (size_t i = 0; i < n; i++)
		if (columns[i].rank >= rank)
			return true;
	return false;
}

void layout_columns(struct column *columns, size_t n, int x, int width, int gap)
{
	int used = x - gap;

	for (size_t i = 0; i < n; i++)
		columns[i].width = 0;
	for (int rank = 0; has_rank(columns, n, rank); rank++)
		for (size_t i = 0; i < n; i++) {
			if (columns[i].rank != rank)
				continue;
			if (rank > 0 && used + gap + columns[i].min > width)
				continue;
			columns[i].width = columns[i].min;
			used += gap + columns[i].min;
		}
	for (int rank = 0; has_rank(columns, n, rank); rank++)
		for (size_t i = 0; i < n; i++) {
			int more = least(columns[i].want - columns[i].min, width - used);

			if (columns[i].rank != rank || !columns[i].width || more <= 0)
				continue;
			columns[i].width += more;
			used += more;
		}
	for (size_t i = 0; i < n; i++) {
		columns[i].x = x;
		if (columns[i].width)
			x += columns[i].width + gap;
	}
}

struct heights layout_heights(int lines, size_t n_programs, size_t n_pairs)
{
	struct heights heights = { .gap = lines >= ROOMY };
	int left = lines - heights.gap - 1;

	if (n_programs > 1) {
		int room = least(lines / 4, left - FEWEST_PROBES) - 1 - heights.gap;

		heights.programs = room > 0 ? least(room, (int)n_programs) : 0;
		if (heights.programs)
			left -= heights.programs + 1 + heights.gap;
	}
	if (n_pairs) {
		int room = least(lines / 3, left - FEWEST_PROBES - 1 - heights.gap);

		heights.pairs = room > 0 ? least(room, (int)n_pairs) : 0;
		if (heights.pairs)
			left -= heights.pairs + 1 + heights.gap;
	}
	heights.probes = left > 0 ? left : 0;
	return heights;
}
