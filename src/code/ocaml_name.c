// SPDX-License-Identifier: MIT
/*
 * The compiler's names of functions (asmcomp: Compilenv.make_symbol, X86_proc.string_of_symbol,
 * Closure, and Flambda's Internal_variable_names):
 *
 *	"caml" UNIT SEPARATOR IDENTIFIER "_" STAMP
 *
 * The separator is "__" in 4.x and in OxCaml, and "." from 5.1 on. Characters that an assembler
 * does not accept are written $xx. A dot in the unit's path is "__" in every version. OxCaml can
 * also write structured names, which are described below.
 *
 * In 4.x the separator is also legal in an identifier. If the caller does not know the unit, the
 * unit is taken to end after the last module name: a name between separators that begins with a
 * capital letter. The rest is the identifier, even if it begins with a capital letter, as the name
 * of a functor does (camlStdlib__Hashtbl__Make_951).
 *
 * A symbol may come from a hostile file. Bytes that could control a terminal, and bytes that are
 * not UTF-8, stay as the symbol writes them: $1b.
 */
#include "code/ocaml_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sanitize.h"
#include "base/strbuf.h"
#include "ocaml_probes.h"

#define DUNE	   "Dune__exe"
#define STRUCTURED "_Caml"

static bool is_capital(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_name_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter_of_name(char c)
{
	return is_capital(c) || is_name_digit(c) || (c >= 'a' && c <= 'z') || c == '_' ||
	       c == '\'' || (unsigned char)c >= 0x80;
}

static bool text_begins_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* ---- text ----------------------------------------------------------------------------------- */

struct name_writer {
	char *to;
	size_t at;
	bool is_full;
};

static void put_char(struct name_writer *w, char c)
{
	if (w->at + 1 < OCAML_NAME_BYTES)
		w->to[w->at++] = c;
	else
		w->is_full = true;
	w->to[w->at] = '\0';
}

static void put_plain(struct name_writer *w, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		put_char(w, text[i]);
}

static int hex_digit(char c)
{
	if (is_name_digit(c))
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Return the character that the $xx at TEXT stands for; -1 if TEXT does not begin with $xx. */
static int escaped(const char *text, size_t bytes)
{
	int high, low;

	if (bytes < 3 || text[0] != '$')
		return -1;
	high = hex_digit(text[1]);
	low = hex_digit(text[2]);
	return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/*
 * Return the length of the multi-byte UTF-8 character at TEXT; 0 if there is no such character, or
 * if it is unsafe to print.
 */
static size_t character_bytes(const char *text)
{
	const size_t n = utf8_character_bytes(text);

	return n > 1 && !unsafe_bytes(text) ? n : 0;
}

static bool is_harmless(const char *text)
{
	for (size_t at = 0, n; text[at]; at += n) {
		n = character_bytes(text + at);
		if (n == 0 && (text[at] <= ' ' || text[at] >= 0x7f))
			return false;
		n = n ? n : 1;
	}
	return true;
}

/* Return true if all escapes beyond ASCII in TEXT are characters of UTF-8. */
static bool escapes_are_utf8(const char *text, size_t bytes)
{
	char run[5] = { 0 }; /* ends with a zero byte */
	size_t n_run = 0, at = 0;

	while (at < bytes) {
		const int c = escaped(text + at, bytes - at);

		if (c < 0x80 && n_run)
			return false;
		if (c >= 0x80)
			run[n_run++] = (char)c;
		if (n_run && character_bytes(run) == n_run) {
			memset(run, 0, sizeof(run));
			n_run = 0;
		} else if (n_run == 4) {
			return false;
		}
		at += c >= 0 ? 3 : 1;
	}
	return n_run == 0;
}

/*
 * Write TEXT with its escapes decoded. Returns true if TEXT has a character that is not allowed in
 * identifiers.
 */
static bool put_decoded(struct name_writer *w, const char *text, size_t bytes)
{
	const bool is_utf8 = escapes_are_utf8(text, bytes);
	bool has_other = false;

	for (size_t at = 0; at < bytes; at++) {
		const int c = escaped(text + at, bytes - at);
		char plain = text[at];

		if ((c > ' ' && c < 0x7f) || (c >= 0x80 && is_utf8)) {
			plain = (char)c;
			at += 2;
		} else if (plain <= ' ' || plain >= 0x7f) { /* non-ASCII is negative */
			plain = '?';
		}
		put_char(w, plain);
		has_other |= !is_letter_of_name(plain);
	}
	return has_other;
}

/* Write the path of a unit: "Mylib__Service" becomes "Mylib.Service". */
static void put_path(struct name_writer *w, const char *unit, size_t bytes)
{
	size_t start = 0;

	for (size_t at = 1; at + 2 < bytes; at++) {
		if (unit[at] != '_' || unit[at + 1] != '_' || !is_capital(unit[at + 2]))
			continue;
		put_decoded(w, unit + start, at - start);
		put_char(w, '.');
		start = at + 2;
		at = start;
	}
	put_decoded(w, unit + start, bytes - start);
}

/* ---- symbols -------------------------------------------------------------------------------- */

/* Return true if REST can contain another module name and an identifier. */
static bool begins_with_module(const char *rest)
{
	const char *next = is_capital(rest[0]) ? strstr(rest, "__") : NULL;

	return next && next[2];
}

/*
 * Return true if the identifier after "__" at TEXT is an index operator of OxCaml: "__.$25$28$29"
 * is .%(). In stock OCaml "M__." is the end of the unit M__; but no operator is called %().
 */
static bool begins_index_operator(const char *text)
{
	return text_begins_with(text, "__.$") && !text_begins_with(text, "__.$28") &&
	       (strstr(text, "$28") || strstr(text, "$5b") || strstr(text, "$7b"));
}

/* Return the end of the unit in SYMBOL, from the symbol alone; NULL if SYMBOL has no separator. */
static const char *end_of_unit(const char *symbol)
{
	const char *at = symbol + strlen("caml"), *end = strchr(at, '.');
	const char *place = strstr(at, "fn$5b");
	const size_t bytes = strlen(at);

	/*
	 * If the dot is a part of a file's name in the identifier (see is_anonymous()), it does not
	 * end the unit.
	 */
	if (end && (!place || place > end))
		return end - at > 2 && begins_index_operator(end - 2) ? end - 2 : end;
	/* Each function but the initialiser has a stamp. */
	if (bytes > strlen("__entry") && strcmp(at + bytes - strlen("__entry"), "__entry") == 0)
		return at + bytes - strlen("__entry");
	while ((end = strstr(at + 1, "__"))) {
		if (text_begins_with(symbol, "camlDune__exe__") &&
		    end == symbol + strlen("camlDune") &&
		    begins_with_module(end + strlen("__exe__")))
			at = end + strlen("__exe__");
		else if (begins_with_module(end + 2))
			at = end + 2;
		else
			break;
	}
	return end;
}

/* Remove "_STAMP" from the end of NAME[0..*BYTES). Returns false if there is no stamp. */
static bool take_stamp(const char *name, size_t *bytes, uint32_t *stamp)
{
	size_t start = *bytes;
	uint64_t value;

	while (start > 0 && is_name_digit(name[start - 1]))
		start--;
	if (start == *bytes || *bytes - start > 10 || start < 2 || name[start - 1] != '_')
		return false;
	value = strtoull(name + start, NULL, 10);
	if (value > UINT32_MAX)
		return false;
	*stamp = (uint32_t)value;
	*bytes = start - 1;
	return true;
}

static bool equals_word(const char *text, size_t bytes, const char *word)
{
	return strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

/* Return true if SYMBOL is one that each unit has and that is not a function. */
static bool is_other_symbol(const char *symbol)
{
	static const char *const others[] = { "code_begin", "code_end",	  "data_begin",
					      "data_end",   "frametable", "gc_roots" };
	size_t bytes;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (ocaml_name_is_mark(symbol, others[i], &bytes))
			return true;
	return false;
}

/*
 * Return true if IDENTIFIER is that of an anonymous function. Flambda names anonymous functions by
 * their place in the source: anon_fn[service.ml:12,3--10].
 */
static bool is_anonymous(const char *identifier, size_t bytes)
{
	return equals_word(identifier, bytes, "fun") ||
	       text_begins_with(identifier, "anon_fn$5b") || text_begins_with(identifier, "fn$5b");
}

static void put_identifier(struct name_writer *w, const char *identifier, size_t bytes)
{
	const size_t at = w->at;

	if (!put_decoded(w, identifier, bytes))
		return;
	/* Write an operator in parentheses, as OCaml does: (@). */
	w->at = at;
	put_char(w, '(');
	put_decoded(w, identifier, bytes);
	put_char(w, ')');
}

/*
 * Write the function name for IDENTIFIER, which ends with its stamp, and set the kind and the stamp
 * of NAME.
 */
static void put_function(struct name_writer *w, const char *identifier, struct ocaml_name *name)
{
	size_t bytes = strlen(identifier);
	uint32_t first;
	char number[16];

	if (strcmp(identifier, "entry") == 0) {
		name->kind = OCAML_INITIALISER;
	} else if (bytes > 5 && strcmp(identifier + bytes - 5, "_code") == 0) {
		/* Flambda 2 appends two stamps: that of the function, and that of its code. */
		bytes -= 5;
		if (!take_stamp(identifier, &bytes, &name->stamp))
			bytes += 5;
		else
			take_stamp(identifier, &bytes, &first);
	} else {
		take_stamp(identifier, &bytes, &name->stamp);
	}
	if (!is_anonymous(identifier, bytes)) {
		put_identifier(w, identifier, bytes);
		return;
	}
	name->kind = OCAML_ANONYMOUS;
	snprintf(number, sizeof(number), "fun_%" PRIu32, name->stamp);
	put_identifier(w, number, strlen(number));
}

/* ---- structured names ----------------------------------------------------------------------- */

/*
 * OxCaml's structured names are described in utils/structured_mangling.ml and .mli of its source:
 *
 *	"_Caml" ITEM...
 *
 * The first item is the compilation unit. The others are what contains the function, from outside
 * in, and the function itself:
 *
 *	U NAME		a compilation unit, as in flat names: "Stdlib__List"
 *	M NAME		a module
 *	O NAME		a class
 *	F NAME		a function
 *	L NUMBER	an anonymous function: its number among those of what contains it
 *	S NUMBER	an anonymous module
 *	Z NUMBER	a lazy expression
 *	P NUMBER	a partial application; NUMBER items follow: the path of the applied function
 *	I		the rest is a path from its unit on: the function is a copy of that one
 *	D NUMBER	a stamp: that of the function or, at the end, that of its code
 *
 * A NUMBER is decimal and ends with "_". A NAME is its length in bytes (decimal), and letters,
 * digits and "_". If the name has other characters or begins with a digit, "u" precedes the length,
 * and the bytes are: for each run of other characters, the number of letters since the previous run
 * (base 26, A is 0) and the characters in hexadecimal; then "_"; then all letters.
 *
 * The items L, S, Z, P and D are those of oxcaml/oxcaml pull request 7150 (September 2026). Before,
 * L, S, Z and P have a NAME instead of a NUMBER: FILE_LINE_COL. Stamps are not items then: that of
 * the function is a part of its name ("F6find_3"), and that of its code is at the end of the
 * symbol: "_5_code", or "_5".
 */

struct structured_reader {
	const char *at, *end;
};

struct structured_item {
	char tag;
	char name[OCAML_NAME_BYTES]; /* "": none */
	size_t number;
};

static bool is_output_character(char c)
{
	return is_letter_of_name(c) && c != '\'' && (unsigned char)c < 0x80;
}

/* Read a decimal number without leading zeros; false if it is above UINT32_MAX. */
static bool read_decimal(struct structured_reader *r, size_t *value)
{
	const char *start = r->at;

	*value = 0;
	while (r->at < r->end && is_name_digit(*r->at)) {
		*value = 10 * *value + (size_t)(*r->at++ - '0');
		if (*value > UINT32_MAX)
			return false;
	}
	return r->at > start && (*start != '0' || r->at == start + 1);
}

/* Append N bytes at TEXT to NAME, whose length is *BYTES. Returns false if there is no room. */
static bool append_bytes(char name[OCAML_NAME_BYTES], size_t *bytes, const char *text, size_t n)
{
	if (n >= OCAML_NAME_BYTES - *bytes)
		return false;
	memcpy(name + *bytes, text, n);
	*bytes += n;
	name[*bytes] = '\0';
	return true;
}

/*
 * Read a run of other characters in [R->at, R->end): take letters from *LETTERS, which end at
 * LETTERS_END, and append them and the run to NAME.
 */
static bool read_run(struct structured_reader *r, const char **letters, const char *letters_end,
		     char name[OCAML_NAME_BYTES], size_t *bytes)
{
	const char *start = r->at;
	size_t n = 0;

	while (r->at < r->end && is_capital(*r->at)) {
		n = 26 * n + (size_t)(*r->at++ - 'A');
		if (n > (size_t)(letters_end - *letters))
			return false;
	}
	if (r->at == start || !append_bytes(name, bytes, *letters, n))
		return false;
	*letters += n;
	start = r->at;
	while (r->end - r->at >= 2 && hex_digit(r->at[0]) >= 0 && hex_digit(r->at[1]) >= 0) {
		const char c = (char)(16 * hex_digit(r->at[0]) + hex_digit(r->at[1]));

		if (!c || is_output_character(c) || !append_bytes(name, bytes, &c, 1))
			return false;
		r->at += 2;
	}
	return r->at > start;
}

/*
 * Decode into NAME the N bytes at TEXT: the bytes after the "u" and the length of a NAME item.
 * Return false if they are malformed or do not fit into NAME.
 */
static bool decode_runs(const char *text, size_t n, char name[OCAML_NAME_BYTES])
{
	const char *separator = memchr(text, '_', n), *letters = separator ? separator + 1 : text;
	struct structured_reader runs = { text, separator };
	size_t bytes = 0;

	if (!separator)
		return false;
	while (runs.at < runs.end)
		if (!read_run(&runs, &letters, text + n, name, &bytes))
			return false;
	return append_bytes(name, &bytes, letters, (size_t)(text + n - letters));
}

/* Read a NAME. Returns false if it is damaged, or has characters that are unsafe to print. */
static bool read_item_name(struct structured_reader *r, char name[OCAML_NAME_BYTES])
{
	const bool has_runs = r->at < r->end && *r->at == 'u';
	size_t n, bytes = 0;
	const char *text;

	r->at += has_runs;
	if (!read_decimal(r, &n) || n == 0 || n > (size_t)(r->end - r->at))
		return false;
	text = r->at;
	r->at += n;
	if (!has_runs && is_name_digit(*text))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_output_character(text[i]))
			return false;
	return (has_runs ? decode_runs(text, n, name) : append_bytes(name, &bytes, text, n)) &&
	       name[0] && is_harmless(name);
}

/* Return true if TEXT is FILE_LINE_COL. */
static bool is_location(const char *text)
{
	const char *at = text + strlen(text);

	for (int i = 0; i < 2; i++) {
		const char *end = at;

		while (at > text && is_name_digit(at[-1]))
			at--;
		if (at == end || at == text || *--at != '_')
			return false;
	}
	return true;
}

/* Return true if TAG begins an item. */
static bool is_tag(char tag)
{
	return tag && strchr("UMOFLSZPID", tag);
}

/*
 * Read the NUMBER of an item, or its FILE_LINE_COL instead; the number is then 0. After a NUMBER
 * the next item or the end of the symbol follows: "S5_" differs from "S5_42_7", which has no file.
 */
static bool read_number(struct structured_reader *r, struct structured_item *item)
{
	const char *start = r->at;

	if (read_decimal(r, &item->number) && r->at < r->end && *r->at++ == '_' &&
	    (r->at == r->end || is_tag(*r->at)))
		return true;
	r->at = start;
	item->number = 0;
	return item->tag != 'D' && read_item_name(r, item->name) && is_location(item->name);
}

/* Return true if NAME is that of a compilation unit. */
static bool is_unit_name(const char *name)
{
	size_t at = 0;

	while (is_letter_of_name(name[at]))
		at++;
	return !name[at] && (is_capital(name[0]) || (unsigned char)name[0] >= 0x80);
}

static bool read_item(struct structured_reader *r, struct structured_item *item)
{
	item->tag = r->at < r->end ? *r->at++ : '\0';
	item->name[0] = '\0';
	item->number = 0;
	switch (item->tag) {
	case 'U':
		return read_item_name(r, item->name) && is_unit_name(item->name);
	case 'M':
	case 'O':
	case 'F':
		return read_item_name(r, item->name);
	case 'L':
	case 'S':
	case 'Z':
	case 'P':
	case 'D':
		return read_number(r, item);
	default:
		return item->tag == 'I';
	}
}

/* Skip N items, and those that follow a partial application among them. */
static bool skip_items(struct structured_reader *r, size_t n)
{
	struct structured_item item;

	for (; n; n--) {
		if (n > (size_t)(r->end - r->at) || !read_item(r, &item))
			return false;
		if (item.tag == 'P')
			n += item.number;
	}
	return true;
}

/*
 * Read the stamps at the end of the symbol, and remove the stamp of the function from LAST, the
 * function's item.
 */
static bool read_stamps(struct structured_reader *r, struct structured_item *last, uint32_t *stamp)
{
	struct structured_item item;
	size_t bytes = strlen(last->name), number = 0;
	uint32_t first;

	if (r->at < r->end && *r->at == '_') {
		r->at++;
		if (!read_decimal(r, &number))
			return false;
		if (strcmp(r->at, "_code") == 0 && last->tag == 'F' &&
		    take_stamp(last->name, &bytes, &first))
			last->name[bytes] = '\0';
		r->at += strcmp(r->at, "_code") == 0 ? strlen("_code") : 0;
	}
	while (r->at < r->end) {
		if (!read_item(r, &item) || item.tag != 'D')
			return false;
		number = item.number;
	}
	*stamp = (uint32_t)number;
	return true;
}

/* Write the name of ITEM; an operator in parentheses, as OCaml does. Others have no name. */
static void put_item(struct name_writer *w, const struct structured_item *item)
{
	const size_t bytes = strlen(item->name);
	bool has_other = false;

	for (size_t i = 0; i < bytes; i++)
		has_other |= !is_letter_of_name(item->name[i]);
	if (has_other)
		put_char(w, '(');
	put_plain(w, item->name, bytes);
	if (has_other)
		put_char(w, ')');
}

/*
 * Write the path to the function, up to its own name, which becomes *LAST. Where other functions
 * and modules have no names, the path lacks them, as do the paths in debug information.
 */
static bool put_containing_items(struct name_writer *w, struct structured_reader *r,
				 struct structured_item *last)
{
	struct structured_item item;

	last->tag = 'U';
	while (r->at < r->end && *r->at != '_' && *r->at != 'D') {
		if (!read_item(r, &item) || !skip_items(r, item.tag == 'P' ? item.number : 0))
			return false;
		if (last->tag == 'M' || last->tag == 'O' || last->tag == 'F') {
			put_item(w, last);
			put_char(w, '.');
		}
		*last = item;
		if (item.tag == 'U')
			return false;
		if (item.tag != 'I')
			continue;
		put_plain(w, "(specialization_of).", strlen("(specialization_of)."));
		if (!read_item(r, last) || last->tag != 'U')
			return false;
		put_path(w, last->name, strlen(last->name));
		put_char(w, '.');
	}
	return last->tag != 'U';
}

/* Decode PATH, a structured name without "_Caml". */
static bool decode_structured(const char *path, struct ocaml_name *name)
{
	struct name_writer w = { .to = name->text };
	struct structured_reader r = { path, path + strlen(path) };
	struct structured_item item;
	char number[16];

	if (!read_item(&r, &item) || item.tag != 'U')
		return false;
	put_path(&w, item.name, strlen(item.name));
	name->path_bytes = w.at;
	put_char(&w, '.');
	if (!put_containing_items(&w, &r, &item) || !read_stamps(&r, &item, &name->stamp))
		return false;
	name->kind = strchr("LSZP", item.tag) ? OCAML_ANONYMOUS : OCAML_NAMED;
	if (name->kind == OCAML_ANONYMOUS) {
		snprintf(number, sizeof(number), "fun_%" PRIu32, name->stamp);
		put_plain(&w, number, strlen(number));
	} else {
		put_item(&w, &item);
	}
	name->short_at = ocaml_name_short_at(name->text);
	if (name->short_at > name->path_bytes)
		name->short_at = 0;
	return !w.is_full;
}

bool ocaml_name_unit(const char *symbol, char unit[OCAML_NAME_BYTES])
{
	struct name_writer w = { .to = unit };
	struct structured_reader r;
	struct structured_item item;
	char escape[4];

	if (!text_begins_with(symbol, STRUCTURED))
		return false;
	r = (struct structured_reader){ symbol + strlen(STRUCTURED), symbol + strlen(symbol) };
	if (!read_item(&r, &item) || item.tag != 'U')
		return false;
	put_plain(&w, "caml", 4);
	for (const char *at = item.name; *at; at++) {
		snprintf(escape, sizeof(escape), "$%02x", (unsigned char)*at);
		if (is_output_character(*at))
			put_char(&w, *at);
		else
			put_plain(&w, escape, 3);
	}
	return !w.is_full;
}

bool ocaml_name_decode(const char *symbol, const char *unit, struct ocaml_name *name)
{
	struct name_writer w = { .to = name->text };
	const char *end, *identifier;

	if (text_begins_with(symbol, STRUCTURED))
		return decode_structured(symbol + strlen(STRUCTURED), name);
	if (!text_begins_with(symbol, "caml") || !is_capital(symbol[4]))
		return false;
	if (unit && !text_begins_with(symbol, unit))
		return false;
	end = unit ? symbol + strlen(unit) : end_of_unit(symbol);
	if (!end || (*end != '.' && !text_begins_with(end, "__")))
		return false;
	identifier = end + (*end == '.' ? 1 : 2);
	if (!*identifier || is_other_symbol(symbol))
		return false;
	name->stamp = 0;
	name->kind = OCAML_NAMED;
	put_path(&w, symbol + strlen("caml"), (size_t)(end - symbol) - strlen("caml"));
	name->path_bytes = w.at;
	put_char(&w, '.');
	put_function(&w, identifier, name);
	name->short_at = ocaml_name_short_at(name->text);
	return !w.is_full;
}

/*
 * ---- paths inside of a file -------------------------------------------------------------------
 */

/* Return the length of the first part of PATH: a name, or an operator or "fun" in parentheses. */
static size_t part_bytes(const char *path)
{
	const char *end;

	if (path[0] != '(')
		return strcspn(path, ".#");
	for (end = strchr(path + 1, ')'); end; end = strchr(end + 1, ')'))
		if (!end[1] || end[1] == '.' || end[1] == '#')
			return (size_t)(end + 1 - path);
	return strlen(path);
}

/*
 * Return true if IDENTIFIER is the function PART, or the function "PART_inner" that the compiler
 * makes if PART has optional arguments.
 */
static bool is_identifier(const char *identifier, const char *part, size_t bytes)
{
	return strncmp(identifier, part, bytes) == 0 &&
	       (!identifier[bytes] || strcmp(identifier + bytes, "_inner") == 0);
}

/*
 * Return true if UNIT[0..BYTES) is PATH or the first part of PATH. "Mylib.Service" in UNIT is
 * "Mylib__Service" in PATH.
 */
static bool begins_with_unit(const char *unit, size_t bytes, const char *path)
{
	size_t at = 0;

	for (size_t i = 0; i < bytes; i++) {
		const bool is_dot = unit[i] == '.';

		if (is_dot ? !text_begins_with(path + at, "__") : path[at] != unit[i])
			return false;
		at += is_dot ? 2 : 1;
	}
	return path[at] == '.' || !path[at];
}

/* Like begins_with_unit(), but UNIT may begin with the names of packs, which PATH lacks. */
static bool is_of_unit(const char *unit, size_t bytes, const char *path)
{
	for (size_t start = 0; start < bytes; start++)
		if ((start == 0 || unit[start - 1] == '.') &&
		    begins_with_unit(unit + start, bytes - start, path))
			return true;
	return false;
}

int ocaml_name_add_path(const char *text, size_t path_bytes, const char *path,
			char longer[OCAML_NAME_BYTES])
{
	const char *identifier = text + path_bytes + 1, *at, *found = NULL;
	struct name_writer w = { .to = longer };
	size_t bytes;

	if (!is_of_unit(text, path_bytes, path) || !strchr(path, '.') || !is_harmless(path))
		return 0;
	path += strcspn(path, ".") + 1;
	for (at = path; *at; at += bytes + (at[bytes] != '\0')) {
		bytes = part_bytes(at);
		if (bytes == 0)
			return 0;
		if (is_identifier(identifier, at, bytes))
			found = at;
	}
	if (!found)
		return 0;
	put_plain(&w, text, path_bytes + 1);
	put_plain(&w, path, (size_t)(found - path));
	put_plain(&w, identifier, strlen(identifier));
	if (w.is_full)
		return 0;
	return found[part_bytes(found)] ? 1 : 2;
}

/*
 * Return the end of the last part of PATH that is an anonymous function or a method; NULL if PATH
 * has no such part. PATH begins with a unit.
 */
static const char *end_of_anonymous(const char *path)
{
	const char *end = NULL;
	size_t bytes;

	for (path += strcspn(path, "."); *path; path += bytes + 1) {
		bytes = part_bytes(path + 1);
		if (*path == '#' || equals_word(path + 1, bytes, "(fun)"))
			end = path + bytes + 1;
	}
	return end;
}

bool ocaml_name_of_anonymous(const char *text, size_t path_bytes, const char *path,
			     char longer[OCAML_NAME_BYTES])
{
	struct name_writer w = { .to = longer };
	const char *rest = path + strcspn(path, "."), *end = end_of_anonymous(path);

	if (!is_of_unit(text, path_bytes, path) || !is_harmless(path))
		return false;
	put_plain(&w, text, path_bytes);
	put_plain(&w, rest, end ? (size_t)(end - rest) : strlen(rest));
	if (!end)
		put_plain(&w, ".(fun)", strlen(".(fun)"));
	return !w.is_full;
}

bool ocaml_name_is_anonymous_inner(const char *identifier)
{
	return strcmp(identifier, "fun_inner") == 0;
}

bool ocaml_name_of_path(const char *path, enum ocaml_name_kind kind, uint32_t stamp,
			struct ocaml_name *name)
{
	struct name_writer w = { .to = name->text };
	const size_t unit_bytes = strcspn(path, ".");
	const char *rest = path + unit_bytes + 1;

	if (!is_capital(path[0]) || !is_harmless(path))
		return false;
	*name = (struct ocaml_name){ .kind = kind, .stamp = stamp };
	put_path(&w, path, unit_bytes);
	name->path_bytes = w.at;
	put_char(&w, '.');
	if (kind == OCAML_INITIALISER) {
		name->stamp = 0;
		put_plain(&w, "entry", 5);
	} else if (kind == OCAML_ANONYMOUS) {
		char number[16];

		snprintf(number, sizeof(number), "fun_%" PRIu32, stamp);
		put_plain(&w, number, strlen(number));
	} else if (!path[unit_bytes] || !*rest) {
		return false;
	} else {
		put_plain(&w, rest, strlen(rest));
	}
	name->short_at = ocaml_name_short_at(name->text);
	return !w.is_full;
}

size_t ocaml_name_common_path(const char *path, size_t bytes, const char *other)
{
	size_t common = 0, at = 0;

	while (at < bytes) {
		const size_t n = part_bytes(path + at);

		if (n > bytes - at || strncmp(path + at, other + at, n) != 0 ||
		    part_bytes(other + at) != n)
			break;
		common = at + n;
		at = common + 1;
		if (!other[common] || (at < bytes && other[common] != path[common]))
			break;
	}
	return common;
}

bool ocaml_name_is_mark(const char *symbol, const char *suffix, size_t *bytes)
{
	const size_t all = strlen(symbol), n = strlen(suffix);

	if (!text_begins_with(symbol, "caml") || all < n + 5 ||
	    strcmp(symbol + all - n, suffix) != 0)
		return false;
	if (symbol[all - n - 1] == '.')
		*bytes = all - n - 1;
	else if (all >= n + 6 && symbol[all - n - 1] == '_' && symbol[all - n - 2] == '_')
		*bytes = all - n - 2;
	else
		return false;
	return true;
}

/* ---- names that people write ---------------------------------------------------------------- */

/* Return the length of the module name at TEXT if a dot and more text follow it, else 0. */
static size_t module_bytes(const char *text)
{
	size_t n = 0;

	if (!is_capital(*text))
		return 0;
	while (is_letter_of_name(text[n]))
		n++;
	return text[n] == '.' && text[n + 1] ? n : 0;
}

/*
 * Return the length of the module, function or class name at TEXT if "." or "#" and more text
 * follow it, else 0.
 */
static size_t part_before_more(const char *text)
{
	size_t n = 0;

	if (text[0] == '(')
		n = part_bytes(text);
	else
		while (is_letter_of_name(text[n]))
			n++;
	return n && (text[n] == '.' || text[n] == '#') && text[n + 1] ? n : 0;
}

size_t ocaml_name_short_at(const char *text)
{
	static const char *const omitted[] = { "Stdlib.", DUNE "." };

	for (size_t i = 0; i < sizeof(omitted) / sizeof(omitted[0]); i++)
		if (text_begins_with(text, omitted[i]) && module_bytes(text + strlen(omitted[i])))
			return strlen(omitted[i]);
	return 0;
}

/*
 * Set *STAMP to the "/STAMP" at the end of TEXT; -1 if TEXT has no stamp. Returns the length of
 * TEXT without "/STAMP".
 */
static size_t without_stamp(const char *text, int64_t *stamp)
{
	const size_t all = strlen(text);
	size_t start = all;

	*stamp = -1;
	while (start > 0 && is_name_digit(text[start - 1]))
		start--;
	if (start == all || all - start > 10 || start < 2 || text[start - 1] != '/')
		return all;
	*stamp = strtoll(text + start, NULL, 10);
	return start - 1;
}

bool ocaml_name_normalise(const char *text, char name[OCAML_NAME_BYTES], int64_t *stamp)
{
	struct name_writer w = { .to = name };
	const size_t all = without_stamp(text, stamp);
	bool has_other = false;
	size_t at = 0, n;

	name[0] = '\0';
	while (at < all && (n = part_before_more(text + at)) && at + n + 1 < all) {
		if (is_capital(text[at]))
			put_path(&w, text + at, n);
		else
			put_plain(&w, text + at, n);
		put_char(&w, text[at + n]);
		at += n + 1;
	}
	for (size_t i = at; i < all; i++)
		has_other |= !is_letter_of_name(text[i]);
	/* Accept "(@)" and "( @ )", as OCaml writes operators, as well as "@". */
	if (has_other && text[at] != '(')
		put_char(&w, '(');
	for (size_t i = at; i < all; i++)
		if (text[i] != ' ')
			put_char(&w, text[i]);
	if (has_other && text[at] != '(')
		put_char(&w, ')');
	return !w.is_full;
}

bool ocaml_name_of_debuginfo(const char *path, char name[OCAML_NAME_BYTES], size_t *short_at)
{
	/* A part behind the unit, which makes the unit the first part of a path. */
	static const char part[] = ".x";
	const bool is_unit = !strchr(path, '.');
	char longer[OCAML_NAME_BYTES];
	int64_t stamp;

	if (strlen(path) + sizeof(part) > sizeof(longer))
		return false;
	snprintf(longer, sizeof(longer), "%s%s", path, is_unit ? part : "");
	if (!ocaml_name_normalise(longer, name, &stamp))
		return false;
	*short_at = ocaml_name_short_at(name);
	if (is_unit)
		name[strlen(name) - strlen(part)] = '\0';
	return true;
}

/* ---- the public interface ------------------------------------------------------------------- */

size_t ocp_demangle(const char *symbol, char *name, size_t name_bytes)
{
	struct ocaml_name decoded = { .kind = OCAML_NAMED };
	const bool is_function = ocaml_name_decode(symbol, NULL, &decoded);
	const char *text = is_function ? decoded.text + decoded.short_at : "";
	size_t n = strlen(text);

	if (name_bytes && n >= name_bytes)
		/* Do not cut a multi-byte character. */
		for (n = name_bytes - 1; n && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
			;
	if (name_bytes) {
		memcpy(name, text, n);
		name[n] = '\0';
	}
	return strlen(text);
}
