// SPDX-License-Identifier: MIT
/* Which text format a scraper gets, by its Accept. */
#include "serve/negotiate.h"
#include "unit.h"

static const struct {
	const char *accept;
	enum exposition expected;
} headers[] = {
	{ 0 },
	{ "", EXPOSITION_TEXT },
	{ "*/*", EXPOSITION_TEXT },
	{ "text/html", EXPOSITION_TEXT },
	{ "text/plain", EXPOSITION_TEXT },
	{ "application/openmetrics-text", EXPOSITION_OPENMETRICS },
	{ "APPLICATION/OpenMetrics-Text", EXPOSITION_OPENMETRICS },
	{ "application/openmetrics-text;version=1.0.0", EXPOSITION_OPENMETRICS },
	{ "application/openmetrics-text; version=\"1.0.0\"; charset=utf-8",
	  EXPOSITION_OPENMETRICS },
	/* The version that is asked for, the newer one of those that are liked as well. */
	{ "application/openmetrics-text;version=0.0.1", EXPOSITION_OPENMETRICS_0 },
	{ "application/openmetrics-text; version=\"0.0.1\"; charset=utf-8,*/*;q=0.1",
	  EXPOSITION_OPENMETRICS_0 },
	{ "application/openmetrics-text;version=0.0.1,application/openmetrics-text;version=1.0.0",
	  EXPOSITION_OPENMETRICS },
	{ "application/openmetrics-text;version=0.0.1,application/openmetrics-text;version=1.0.0;"
	  "q=0.9",
	  EXPOSITION_OPENMETRICS_0 },
	{ "application/openmetrics-text;version=0.0.1;q=0.9,application/openmetrics-text",
	  EXPOSITION_OPENMETRICS },
	{ "application/openmetrics-text,application/openmetrics-text;version=1.0.0;q=0",
	  EXPOSITION_OPENMETRICS_0 },
	{ "application/openmetrics-text;version=0.0.1,text/plain", EXPOSITION_TEXT },
	{ "application/openmetrics-text;version=2.0.0", EXPOSITION_TEXT },
	{ "application/openmetrics-text;version=2.0.0,application/*;q=0.9",
	  EXPOSITION_OPENMETRICS },
	{ "application/openmetrics-text;charset=latin1", EXPOSITION_TEXT },
	{ "application/*", EXPOSITION_OPENMETRICS },
	{ "application/*, text/*", EXPOSITION_TEXT },
	{ "text/*;q=0.5, application/*;q=0.6", EXPOSITION_OPENMETRICS },
	/* Prometheus 2.20, 2.42, and 3 */
	{ "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
	  EXPOSITION_OPENMETRICS_0 },
	{ "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
	  "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
	  EXPOSITION_OPENMETRICS },
	{ "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
	  "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
	  "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
	  EXPOSITION_OPENMETRICS },
	{ "text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.8", EXPOSITION_TEXT },
	{ "text/plain;q=0.8,application/openmetrics-text;q=0.9", EXPOSITION_OPENMETRICS },
	{ "text/plain;q=0.8 , application/openmetrics-text;q=0.8", EXPOSITION_TEXT },
	{ "text/plain;q=0.123,application/openmetrics-text;q=0.124", EXPOSITION_OPENMETRICS },
	/* The more specific range counts, wherever it stands, also if it is liked less. */
	{ "application/openmetrics-text;q=0, */*", EXPOSITION_TEXT },
	{ "*/*, application/openmetrics-text;q=0", EXPOSITION_TEXT },
	{ "text/plain;q=0, */*", EXPOSITION_OPENMETRICS },
	{ "text/plain;q=0.1, */*;q=0.9", EXPOSITION_OPENMETRICS },
	{ "text/plain;q=0, application/openmetrics-text;q=0", EXPOSITION_TEXT },
	{ "text/*;q=0.9, text/plain;q=0.1, application/openmetrics-text;q=0.5",
	  EXPOSITION_OPENMETRICS },
	{ "application/openmetrics-text;q=0.000", EXPOSITION_TEXT },
	{ "application/openmetrics-text;Q=0.5, text/plain; q = 0.4", EXPOSITION_OPENMETRICS },
	/* A separator in quotes does not separate. */
	{ "text/plain;x=\",application/openmetrics-text;\";q=0.2, application/openmetrics-text;"
	  "q=0.1",
	  EXPOSITION_TEXT },
	{ "text/plain;x=\"\\\",\";q=0.1, application/openmetrics-text;q=0.2",
	  EXPOSITION_OPENMETRICS },
	/* What is no range, or has no qvalue, counts for nothing. */
	{ "application/openmetrics-text;q=2", EXPOSITION_TEXT },
	{ "application/openmetrics-text;q=1.001", EXPOSITION_TEXT },
	{ "application/openmetrics-text;q=-1", EXPOSITION_TEXT },
	{ "application/openmetrics-text;q=0.1234", EXPOSITION_TEXT },
	{ "application/openmetrics-text;q=nan", EXPOSITION_TEXT },
	{ "application/openmetrics-text;q=", EXPOSITION_TEXT },
	{ "application/openmetrics-text;q=1e0", EXPOSITION_TEXT },
	{ "application/openmetrics-text;q=1.", EXPOSITION_OPENMETRICS },
	{ "openmetrics-text", EXPOSITION_TEXT },
	{ ",,;,/,;q,=,\"", EXPOSITION_TEXT },
	{ "application/openmetrics-text;q", EXPOSITION_OPENMETRICS },
	{ "*/openmetrics-text", EXPOSITION_TEXT },
	{ "\"", EXPOSITION_TEXT },
	{ "\\", EXPOSITION_TEXT },
};

TEST(the_better_liked_is_chosen)
{
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		if (negotiate(headers[i].accept) != headers[i].expected)
			fail_msg("Accept: %s", headers[i].accept);
}

TEST(types_have_versions)
{
	assert_string_equal(exposition_type(EXPOSITION_TEXT),
			    "text/plain; version=0.0.4; charset=utf-8");
	assert_string_equal(exposition_type(EXPOSITION_OPENMETRICS),
			    "application/openmetrics-text; version=1.0.0; charset=utf-8");
	assert_string_equal(exposition_type(EXPOSITION_OPENMETRICS_0),
			    "application/openmetrics-text; version=0.0.1; charset=utf-8");
}
