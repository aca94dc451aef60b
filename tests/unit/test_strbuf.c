// SPDX-License-Identifier: MIT
/* Numbers as decimals, and strings of others with their escapes. */
#include <math.h>
#include <string.h>

#include "base/strbuf.h"
#include "unit.h"

static void assert_text(struct strbuf *buf, const char *expected)
{
	assert_false(buf->is_short);
	strbuf_add(buf, "", 1);
	assert_string_equal(buf->bytes, expected);
	strbuf_free(buf);
}

TEST(numbers)
{
	struct strbuf buf = { 0 };

	strbuf_u64(&buf, 0);
	strbuf_lit(&buf, " ");
	strbuf_u64(&buf, UINT64_MAX);
	assert_text(&buf, "0 18446744073709551615");
	strbuf_scaled(&buf, 0, 9);
	strbuf_lit(&buf, " ");
	strbuf_scaled(&buf, 1, 9);
	strbuf_lit(&buf, " ");
	strbuf_scaled(&buf, 1500, 3);
	strbuf_lit(&buf, " ");
	strbuf_scaled(&buf, UINT64_MAX, 9);
	assert_text(&buf, "0.000000000 0.000000001 1.500 18446744073.709551615");
}

TEST(reals)
{
	static const struct {
		double value;
		unsigned int decimals;
		const char *expected;
	} reals[] = {
		{ 0, 1, "0.0" },
		{ 0.0004, 3, "0.000" },
		{ 0.0005, 3, "0.001" },
		{ 0.9996, 3, "1.000" },
		{ 123456.789, 3, "123456.789" },
		{ -1, 3, "0.000" },
		{ NAN, 3, "0.000" },
		{ 1e300, 3, "9223372036854775.807" },
		{ INFINITY, 9, "9223372036.854775807" },
	};
	struct strbuf buf = { 0 };

	for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
		strbuf_real(&buf, reals[i].value, reals[i].decimals);
		assert_text(&buf, reals[i].expected);
	}
}

#define BAD "\xef\xbf\xbd"

static const struct {
	const char *string, *label, *json;
} strings[] = {
	{ "", "", "\"\"" },
	{ "plain", "plain", "\"plain\"" },
	{ "a\"b\\c\nd", "a\\\"b\\\\c\\nd", "\"a\\\"b\\\\c\\u000ad\"" },
	{ "\t\x01\x7f", "\t\x01\x7f", "\"\\u0009\\u0001\\u007f\"" },
	{ "</script>", "</script>", "\"</script>\"" },
	{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xab", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xab",
	  "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xab\"" },
	{ "\xff", BAD, "\"" BAD "\"" },
	{ "a\x80z", "a" BAD "z", "\"a" BAD "z\"" },
	/* cut off: at the end, and before a quote that must be escaped */
	{ "\xc3", BAD, "\"" BAD "\"" },
	{ "\xe2\x82", BAD BAD, "\"" BAD BAD "\"" },
	{ "\xc3\"", BAD "\\\"", "\"" BAD "\\\"\"" },
	{ "\xf0\x9f\x90\n", BAD BAD BAD "\\n", "\"" BAD BAD BAD "\\u000a\"" },
	/* overlong, a surrogate, beyond U+10FFFF */
	{ "\xc0\xaf", BAD BAD, "\"" BAD BAD "\"" },
	{ "\xe0\x80\xaf", BAD BAD BAD, "\"" BAD BAD BAD "\"" },
	{ "\xed\xa0\x80", BAD BAD BAD, "\"" BAD BAD BAD "\"" },
	{ "\xf4\x90\x80\x80", BAD BAD BAD BAD, "\"" BAD BAD BAD BAD "\"" },
	{ "\xf0\x80\x80\xaf", BAD BAD BAD BAD, "\"" BAD BAD BAD BAD "\"" },
	{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"" },
};

TEST(strings_of_others)
{
	struct strbuf buf = { 0 };

	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		strbuf_label(&buf, strings[i].string);
		assert_text(&buf, strings[i].label);
		strbuf_json(&buf, strings[i].string);
		assert_text(&buf, strings[i].json);
	}
	strbuf_json(&buf, NULL);
	assert_text(&buf, "null");
}

TEST(it_grows)
{
	struct strbuf buf = { 0 };

	for (size_t i = 0; i < 100000; i++)
		strbuf_lit(&buf, "0123456789");
	assert_int_equal(buf.n, 1000000);
	assert_memory_equal(buf.bytes + 999990, "0123456789", 10);
	strbuf_free(&buf);
	assert_null(buf.bytes);
}
