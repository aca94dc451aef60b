// SPDX-License-Identifier: MIT
/* What `top` writes into its cells: numbers, names, bars, and which columns there is room for. */
#include <locale.h>
#include <math.h>
#include <string.h>

#include "top/text.h"
#include "unit.h"

TEST(rates_have_three_digits)
{
	static const struct {
		double rate;
		const char *text;
	} cases[] = {
		{ NAN, "-" },	       { 0, "0" },	    { 0.04, "0.0" },	{ 9.96, "10.0" },
		{ 99.94, "99.9" },     { 99.96, "100" },    { 999.4, "999" },	{ 999.6, "1.00k" },
		{ 12345, "12.3k" },    { 99949, "99.9k" },  { 99951, "100k" },	{ 999499, "999k" },
		{ 999501, "1.00M" },   { 12.3e6, "12.3M" }, { 1.5e9, "1.50G" }, { 9.9e12, "9.90T" },
		{ 18.4e18, "18400P" },
	};
	char text[TEXT_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(text_rate(text, cases[i].rate), cases[i].text);
}

TEST(times_have_a_unit)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "-" },
		{ 1, "1ns" },
		{ 999, "999ns" },
		{ 1000, "1.00us" },
		{ 12345, "12.3us" },
		{ 999499, "999us" },
		{ 999501, "1.00ms" },
		{ 1234567, "1.23ms" },
		{ 999499999, "999ms" },
		{ 999500001, "1.00s" },
		{ 17000000000, "17.0s" },
		{ 3600000000000, "3600s" },
	};
	char text[TEXT_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(text_ns(text, cases[i].ns, false), cases[i].text);
	assert_string_equal(text_ns(text, 12345, true), "12.3µs");
}

TEST(other_numbers)
{
	char text[TEXT_BYTES];

	assert_string_equal(text_share(text, 0.00123), "0.12%");
	assert_string_equal(text_share(text, 0.1234), "12.3%");
	assert_string_equal(text_share(text, 1.3), "130%");
	assert_string_equal(text_share(text, NAN), "-");
	assert_string_equal(text_count(text, 123456789, 9), "123456789");
	assert_string_equal(text_count(text, 1234567890, 9), "1.23G");
	assert_string_equal(text_count(text, UINT64_MAX, 20), "18446744073709551615");
	assert_string_equal(text_duration(text, -1), "0s");
	assert_string_equal(text_duration(text, 59), "59s");
	assert_string_equal(text_duration(text, 61), "1m01s");
	assert_string_equal(text_duration(text, 3599), "59m59s");
	assert_string_equal(text_duration(text, 3600), "1h00m");
	assert_string_equal(text_duration(text, 86399), "23h59m");
	assert_string_equal(text_duration(text, 8 * 86400 + 3600), "8d01h");
}

static void check_fit(const char *from, int width, enum text_cut cut, const char *to, int columns)
{
	char out[64];

	assert_int_equal(text_fit(out, sizeof(out), from, width, cut), columns);
	assert_string_equal(out, to);
}

TEST(names_are_cut)
{
	check_fit("request_start", 20, TEXT_CUT_END, "request_start", 13);
	check_fit("request_start", 13, TEXT_CUT_END, "request_start", 13);
	check_fit("request_start", 12, TEXT_CUT_END, "request_sta…", 12);
	check_fit("request_start", 1, TEXT_CUT_END, "…", 1);
	check_fit("request_start", 0, TEXT_CUT_END, "", 0);
	check_fit("request_start", -3, TEXT_CUT_END, "", 0);
	check_fit("/usr/bin/app", 8, TEXT_CUT_FRONT, "…bin/app", 8);
	check_fit("/usr/bin/app", 12, TEXT_CUT_FRONT, "/usr/bin/app", 12);
	check_fit("request_start", 13, TEXT_CUT_MIDDLE, "request_start", 13);
	check_fit("request_start", 12, TEXT_CUT_MIDDLE, "reque…_start", 12);
	check_fit("request_start", 2, TEXT_CUT_MIDDLE, "…t", 2);
	check_fit("request_start", 1, TEXT_CUT_MIDDLE, "…", 1);
	check_fit("request_start", 0, TEXT_CUT_MIDDLE, "", 0);
	check_fit("日本語", 5, TEXT_CUT_MIDDLE, "日…語", 5);
	check_fit("日本語", 4, TEXT_CUT_MIDDLE, "…語", 3);
	/* A character two columns wide is not cut in half. */
	check_fit("日本語", 6, TEXT_CUT_END, "日本語", 6);
	check_fit("日本語", 5, TEXT_CUT_END, "日本…", 5);
	check_fit("日本語", 4, TEXT_CUT_END, "日…", 3);
	check_fit("日本語", 4, TEXT_CUT_FRONT, "…語", 3);
	/* An accent stays with its letter. */
	check_fit("cafe\xcc\x81s", 5, TEXT_CUT_END, "cafe\xcc\x81s", 5);
	check_fit("cafe\xcc\x81s", 4, TEXT_CUT_END, "caf…", 4);
}

/* Names are other people's: they command no terminal, and turn no line round. */
TEST(names_are_harmless)
{
	check_fit("\033]0;x\007\r\n\t\177", 20, TEXT_CUT_END, "?]0;x?????", 10);
	check_fit("a\x9b"
		  "31mb",
		  20, TEXT_CUT_END, "a?31mb", 6);
	check_fit("a\xc2\x9b"
		  "31mb",
		  20, TEXT_CUT_END, "a?31mb", 6);
	check_fit("a\xe2\x80\xae"
		  "b\xe2\x81\xa6"
		  "c",
		  20, TEXT_CUT_END, "a?b?c", 5);
	check_fit("\xff\xfe\xe6\x97", 20, TEXT_CUT_END, "????", 4);
	check_fit("x\xe2\x80\x8b\xef\xbb\xbf", 20, TEXT_CUT_END, "x??", 3);
}

/* OUT is never overrun, whatever is combined. */
TEST(little_room_is_enough)
{
	char text[512] = "e", out[8];

	for (int i = 0; i < 100; i++)
		strcat(text, "\xcc\x81");
	text_fit(out, sizeof(out), text, 10, TEXT_CUT_END);
	assert_true(strlen(out) < sizeof(out));
}

TEST(without_utf8_all_is_ascii)
{
	assert_non_null(setlocale(LC_CTYPE, "C"));
	assert_false(text_is_utf8());
	check_fit("caf\xc3\xa9_request", 7, TEXT_CUT_END, "caf??_~", 7);
	check_fit("request_start", 7, TEXT_CUT_FRONT, "~_start", 7);
	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
}

TEST(base_names)
{
	assert_string_equal(text_base_name("/usr/bin/app"), "app");
	assert_string_equal(text_base_name("app"), "app");
	assert_string_equal(text_base_name("/"), "/");
}

/* ---- bars ----------------------------------------------------------------------------------- */

TEST(a_minute_divides_evenly)
{
	static const int widths[][2] = { { 200, 60 }, { 60, 60 }, { 59, 30 }, { 29, 20 },
					 { 19, 15 },  { 14, 12 }, { 11, 10 }, { 1, 1 },
					 { 0, 0 },    { -5, 0 } };

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
		assert_int_equal(spark_width(widths[i][0]), widths[i][1]);
}

TEST(cells_keep_their_seconds)
{
	float rates[WATCH_COLUMNS], cells[20], before[20];

	/* Second number N of the watch has the rate N. */
	for (size_t tick = 60; tick < 200; tick++) {
		for (size_t i = 0; i < WATCH_COLUMNS; i++)
			rates[i] = (float)(tick - WATCH_COLUMNS + i);
		spark_fold(rates, tick, cells, 20);
		/*
		 * A complete cell is the mean of the same three seconds for as long as it is seen.
		 */
		if (tick > 60 && (tick - 1) % 3 == 0)
			assert_memory_equal(cells + 1, before + 2, 18 * sizeof(float));
		else if (tick > 60)
			assert_memory_equal(cells + 1, before + 1, 18 * sizeof(float));
		memcpy(before, cells, sizeof(cells));
	}
}

TEST(what_is_not_known_is_no_zero)
{
	float rates[WATCH_COLUMNS], cells[60];
	char text[60 * 4 + 1];

	for (size_t i = 0; i < WATCH_COLUMNS; i++)
		rates[i] = i < 56 ? NAN : 0;
	rates[57] = 0.001f;
	rates[58] = 1000;
	spark_fold(rates, 4, cells, 60);
	assert_true(spark_highest(cells, 60) == 1000);
	spark_draw(text, cells + 54, 6, 1000, true);
	assert_string_equal(text, "  ▁▂█▁");
	spark_draw(text, cells + 54, 6, 1000, false);
	assert_string_equal(text, "  _.#_");
	/* On a larger scale; and where no value is higher than 0. */
	spark_draw(text, cells + 56, 4, 2000, true);
	assert_string_equal(text, "▁▂▅▁");
	spark_draw(text, cells + 56, 1, 0, true);
	assert_string_equal(text, "▁");
	/* Means are of what is known. */
	rates[56] = 3;
	spark_fold(rates, 58, cells, 12);
	assert_true(isnan(cells[9]));
	assert_true(cells[10] == 3);
}

TEST(levels_rise_evenly)
{
	float cells[8] = { 0, 100, 200, 300, 400, 500, 600, 700 };
	char text[8 * 4 + 1];

	spark_draw(text, cells, 8, 700, true);
	assert_string_equal(text, "▁▂▃▄▅▆▇█");
	spark_draw(text, cells, 8, 700, false);
	assert_string_equal(text, "_.:-=+*#");
}

/* ---- columns and lines ---------------------------------------------------------------------- */

TEST(columns_go_by_rank)
{
	struct column columns[] = {
		{ .rank = 0, .min = 10, .want = 30 }, { .rank = -1, .min = 5, .want = 5 },
		{ .rank = 1, .min = 6, .want = 6 },   { .rank = 3, .min = 8, .want = 8 },
		{ .rank = 2, .min = 5, .want = 9 },
	};
	const size_t n = sizeof(columns) / sizeof(columns[0]);

	layout_columns(columns, n, 2, 80, 2);
	assert_int_equal(columns[0].width, 30);
	assert_int_equal(columns[1].width, 0);
	assert_int_equal(columns[2].x, 34);
	assert_int_equal(columns[3].width, 8);
	assert_int_equal(columns[4].width, 9);
	layout_columns(columns, n, 2, 30, 2);
	assert_int_equal(columns[0].width, 13);
	assert_int_equal(columns[3].width, 0);
	assert_int_equal(columns[4].width, 5);
	assert_int_equal(columns[4].x, 25);
	/* The first is there even if there is no room. */
	layout_columns(columns, n, 2, 5, 2);
	assert_int_equal(columns[0].width, 10);
	for (int width = 1; width < 200; width++) {
		int end = 0;

		layout_columns(columns, n, 2, width, 2);
		for (size_t i = 0; i < n; i++) {
			if (!columns[i].width)
				continue;
			assert_true(columns[i].x >= end);
			end = columns[i].x + columns[i].width;
		}
		assert_true(end <= width || end == 12);
	}
}

TEST(lines_add_up)
{
	for (int lines = 4; lines < 100; lines++)
		for (size_t programs = 0; programs < 40; programs += 1 + programs / 3)
			for (size_t pairs = 0; pairs < 70; pairs += 1 + pairs / 2) {
				struct heights h = layout_heights(lines, programs, pairs);
				int sum = h.gap + 1 + h.probes;

				sum += h.programs ? h.programs + 1 + h.gap : 0;
				sum += h.pairs ? h.pairs + 1 + h.gap : 0;
				assert_int_equal(sum, lines);
				assert_true(h.probes >= 3);
				assert_true((size_t)h.programs <= programs);
				assert_true((size_t)h.pairs <= pairs);
				assert_true(lines < 20 || !pairs || h.pairs > 0);
			}
}

static int use_utf8(void **state)
{
	(void)state;
	return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

ALL_TESTS(use_utf8, NULL);
