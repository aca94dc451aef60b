# SPDX-License-Identifier: MIT
#
# awk -f functions.awk -v part=OVERVIEW|FUNCTIONS HEADER...: what ocaml_probes(3) says of the library,
# from the comments of its headers.
#
# The overview is the first header's first comment. The functions are all declarations that begin with
# OCP_API, and the types of functions; each group of them is described by the comment before it.

# mdoc wants each sentence to begin a line.
function print_text(line)
{
	while (match(line, /[^. ][.!?]\)? [-A-Z*]/)) {
		print_line(substr(line, 1, RSTART + RLENGTH - 3))
		line = substr(line, RSTART + RLENGTH - 1)
	}
	print_line(line)
}

function print_line(line)
{
	gsub(/\\/, "\\e", line)
	print (line ~ /^['.]/ ? "\\&" : "") line
}

# A comment's lines as mdoc: lines that begin with a tab are a table, blank lines separate paragraphs.
function print_comment(n, first,    i, line, is_table, wants_break)
{
	for (i = first; i <= n; i++) {
		line = comment[i]
		if (line == "") {
			wants_break = 1
			continue
		}
		if (line ~ /^\t/ && !is_table) {
			print ".Bd -literal -offset indent"
			is_table = 1
		} else if (line !~ /^\t/ && is_table) {
			print ".Ed"
			is_table = 0
			if (line !~ heading)
				print ".Pp"
		} else if (wants_break && !is_table && line !~ heading) {
			print ".Pp"
		}
		wants_break = 0
		if (line ~ /^\t/)
			sub(/^\t/, "", line)
		# "Errors. Functions return ..." is a section of its own.
		else if (match(line, heading) && comment[i - 1] == "") {
			print ".Ss " substr(line, 1, RLENGTH - 2)
			line = substr(line, RLENGTH + 1)
		}
		print_text(line)
	}
	if (is_table)
		print ".Ed"
}

function end_group()
{
	if (in_list && n_comment)
		print_comment(n_comment, 1)
	n_comment = 0
	has_function = 0
}

function declare(text,    type, name, args, n, parts, i)
{
	gsub(/[ \t]+/, " ", text)
	if (!in_list)
		print ".Bl -tag -width Ds"
	in_list = 1
	has_function = 1
	if (text ~ /^typedef/) {
		sub(/;.*/, "", text)
		print ".It Vt \"" text "\""
		return
	}
	sub(/^OCP_API /, "", text)
	sub(/ ?__attribute__.*/, "", text)
	sub(/\);.*/, "", text)
	args = text
	sub(/^[^(]*\(/, "", args)
	sub(/\(.*/, "", text)
	match(text, /[a-z_0-9]+$/)
	name = substr(text, RSTART)
	type = substr(text, 1, RSTART - 1)
	sub(/ $/, "", type)
	n = split(args, parts, /, /)
	printf ".It Xo\n.Ft \"%s\"\n.Fo %s\n", type, name
	for (i = 1; i <= n; i++)
		print ".Fa \"" parts[i] "\""
	print ".Fc\n.Xc"
}

BEGIN { heading = "^[A-Z][a-z]+[.] " }

# ---- reading ---------------------------------------------------------------------------------

/^\/\* SPDX/ { next }

# A title.
/^\/\* ----/ {
	if (part == "FUNCTIONS") {
		end_group()
		if (in_list)
			print ".El"
		in_list = 0
		gsub(/^\/\* -* *| *-* *\*\/$/, "")
		print ".Ss " toupper(substr($0, 1, 1)) substr($0, 2)
	}
	n_comment = 0
	after_title = 1
	next
}

/^\/\*/ {
	if (has_function)
		end_group()
	n_comment = 0
	line = $0
	sub(/^\/\* ?/, "", line)
	is_open = !sub(/ *\*\/$/, "", line)
	if (line != "")
		comment[++n_comment] = line
	next
}

is_open {
	line = $0
	is_open = !sub(/ *\*\/$/, "", line)
	sub(/^ \* ?/, "", line)
	if (is_open || line !~ /^ *$/)
		comment[++n_comment] = line
	if (!is_open && part == "OVERVIEW") {
		print_comment(n_comment, 3)
		exit
	}
	next
}

part == "OVERVIEW" { next }

/^$/ && has_function { end_group() }
# The first comment of a section, if an empty line follows it, introduces the section.
/^$/ && after_title && n_comment {
	print_comment(n_comment, 1)
	n_comment = 0
	after_title = 0
}
/^[^\/ ]/ { after_title = 0 }

# Types and constants are in the header.
/^(enum|struct)[^;(]*\{/ { in_braces = !/\}/; if (has_function) end_group(); n_comment = 0; next }
in_braces { in_braces = !/^\}/; next }

/^OCP_API|^typedef .*\(\*/ { declaration = ""; is_declaration = 1 }
is_declaration {
	declaration = declaration " " $0
	if (/;/) {
		sub(/^ /, "", declaration)
		declare(declaration)
		is_declaration = 0
	}
	next
}

END {
	if (part == "FUNCTIONS") {
		end_group()
		if (in_list)
			print ".El"
	}
}
