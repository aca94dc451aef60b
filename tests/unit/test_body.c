// SPDX-License-Identifier: MIT
/* Numbers as decimals, and strings of others with their escapes. */
#include <math.h>
#include <string.h>

#include "serve/body.h"
#include "unit.h"

static void assert_body(struct body *body, const char *expected)
{
	assert_false(body->is_short);
	body_add(body, "", 1);
	assert_string_equal(body->bytes, expected);
	body_free(body);
}

static void numbers(void **state)
{
	struct body body = { 0 };

	(void)state;
	body_u64(&body, 0);
	body_lit(&body, " ");
	body_u64(&body, UINT64_MAX);
	assert_body(&body, "0 18446744073709551615");
	body_scaled(&body, 0, 9);
	body_lit(&body, " ");
	body_scaled(&body, 1, 9);
	body_lit(&body, " ");
	body_scaled(&body, 1500, 3);
	body_lit(&body, " ");
	body_scaled(&body, UINT64_MAX, 9);
	assert_body(&body, "0.000000000 0.000000001 1.500 18446744073.709551615");
}

static void reals(void **state)
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
	struct body body = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
		body_real(&body, reals[i].value, reals[i].decimals);
		assert_body(&body, reals[i].expected);
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

static void strings_of_others(void **state)
{
	struct body body = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		body_label(&body, strings[i].string);
		assert_body(&body, strings[i].label);
		body_json(&body, strings[i].string);
		assert_body(&body, strings[i].json);
	}
	body_json(&body, NULL);
	assert_body(&body, "null");
}

static void it_grows(void **state)
{
	struct body body = { 0 };

	(void)state;
	for (size_t i = 0; i < 100000; i++)
		body_lit(&body, "0123456789");
	assert_int_equal(body.n, 1000000);
	assert_memory_equal(body.bytes + 999990, "0123456789", 10);
	body_free(&body);
	assert_null(body.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(reals),
		cmocka_unit_test(strings_of_others),
		cmocka_unit_test(it_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
