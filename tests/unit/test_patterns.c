// SPDX-License-Identifier: MIT
/* Patterns in lines of OCaml: what stands between < and > in the cases is one. */
#include <string.h>

#include "code/patterns.h"
#include "unit.h"

static void check(const char *marked)
{
	char line[128], found[128];
	struct pattern_reader reader = { .text = line, .at = line, .is_first = true };
	size_t n = 0, at = 0;
	int from, to, done = 0;

	for (const char *c = marked; *c; c++)
		if (*c != '{' && *c != '}')
			line[n++] = *c;
	reader.end = line + n;
	while (pattern_next(&reader, &from, &to)) {
		assert_true(from >= done && to >= from && (size_t)to <= n);
		memcpy(found + at, line + done, (size_t)(from - done));
		at += (size_t)(from - done);
		found[at++] = '{';
		memcpy(found + at, line + from, (size_t)(to - from));
		at += (size_t)(to - from);
		found[at++] = '}';
		done = to;
	}
	memcpy(found + at, line + done, n - (size_t)done);
	found[at + n - (size_t)done] = '\0';
	assert_string_equal(found, marked);
}

TEST(patterns_are_found)
{
	check("  |{ [ x ] }-> f x");
	check("|{ A n }when n > 1 -> n");
	check("  |{ A }-> 1 |{ B }-> 2");
	check("  |{ A | B }-> 1");
	check("  |{ \"->\" | \"when\" }-> 1");
	check("  |{ '\"' | '\\n' }-> 1 |{ x' }-> 2");
	check("  |{ (A _ | B _)}");
	check("  with {Not_found }-> 0");
	check("  with |{ Not_found }-> 0");
	check("\t|{ _ }-> a || b");
	check("  |{ _ }-> [| 1 |] |> f");
	check("  |{ whenever }-> 1");
	check("|{}");
}

TEST(other_lines_have_none)
{
	check("");
	check("   ");
	check("let f = function A -> 1");
	check("  |> List.map (fun x -> x)");
	check("  || a -> b");
	check("  with x = 1");
	check("  with_lock (fun () -> 1)");
	check("  \"| a ->\"");
	check("  with \"unfinished ->");
}
