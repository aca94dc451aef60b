# SPDX-License-Identifier: MIT
#
# awk -f help.awk PAGE >help.c: what --help prints, and which options a command takes, from its manual
# page. Nothing else says so: page and program cannot differ.
#
# The help is the page's NAME, SYNOPSIS, first paragraph of the DESCRIPTION, COMMANDS and OPTIONS. The
# page is in mdoc(7), and these sections may use the macros below; any other is an error. In the
# SYNOPSIS a line of the page is never broken.
#
# PAGE ocaml-probes-NAME.1 becomes `const struct help help_NAME` (src/base/help.h).

function fail(why)
{
	printf "%s:%d: %s\n", FILENAME, FNR, why >"/dev/stderr"
	failed = 1
	exit
}

# ---- macros ----------------------------------------------------------------------------------

# Fill `word` with the words of a macro's line; quotes hold one together.
function split_words(line,    n)
{
	split("", word)
	sub(/^\.[ \t]*/, "", line)
	while (line != "") {
		if (match(line, /^"[^"]*"/))
			word[++n] = substr(line, 2, RLENGTH - 2)
		else if (match(line, /^[^ \t]+/))
			word[++n] = substr(line, 1, RLENGTH)
		line = substr(line, RLENGTH + 1)
		sub(/^[ \t]+/, "", line)
	}
	return n
}

function unescape(text)
{
	gsub(/\\&/, "", text)
	gsub(/\\-/, "-", text)
	gsub(/\\\(aq/, "'", text)
	gsub(/\\\(dq/, "\"", text)
	gsub(/\\\(ha/, "^", text)
	gsub(/\\\(ti/, "~", text)
	gsub(/\\e/, "\\", text)
	return text
}

function emit(text)
{
	out = out (out == "" || joins ? "" : glue) unescape(text)
	joins = 0
}

# The words FIRST to LAST as one text.
function render(first, last,    i, w, mode, closers, end)
{
	out = ""
	joins = 0
	while (last > first && word[last] ~ /^[.,;:)]$/)
		end = word[last--] end
	for (i = first; i <= last; i++) {
		w = word[i]
		if (w ~ /^(Fl|Ar|Cm|Pa|Ev|Li|Em|Sy|No|Va|Dv)$/) {
			mode = w
		} else if (w == "Nm" && (i == last || word[i + 1] ~ /^([.,;:)]|[A-Z][a-z])$/)) {
			emit(name)
		} else if (w == "Nm") {
			mode = w
		} else if (w == "Ns") {
			joins = 1
		} else if (w == "Xr") {
			emit(word[i + 1] "(" word[i + 2] ")")
			i += 2
		} else if (w in opening) {
			emit(opening[w])
			joins = 1
			mode = ""
			closers = closing[w] closers
		} else if (w ~ /^[A-Z][a-z]$/) {
			fail("." w ": help.awk does not know this macro")
		} else if (w ~ /^[.,;:)]$/) {
			joins = 1
			emit(w)
		} else {
			emit(w == "|" ? w : mode == "Fl" ? "-" w : w)
			joins = w == "("
		}
	}
	return out closers end
}

# ---- paragraphs and lists --------------------------------------------------------------------

function add(text)
{
	paragraph = paragraph (paragraph == "" ? "" : " ") text
}

# Print the paragraph from column LEFT on, behind HEAD and a gap of GAP columns.
function flush(left, head, gap,    words, n, i, line, pad)
{
	n = split(paragraph, words, / +/)
	pad = sprintf("%" left "s", "")
	line = head
	if (n && head != "" && length(head) + gap > left) {
		say(head)
		line = ""
	}
	for (i = 1; i <= n; i++) {
		gsub("\001", " ", words[i])
		if (i > 1 && length(line) + 1 + length(words[i]) > 79) {
			say(line)
			line = ""
		}
		if (line == "" || (i == 1 && line == head))
			line = line substr(pad, length(line) + 1) words[i]
		else
			line = line " " words[i]
	}
	if (line != "")
		say(line)
	paragraph = ""
}

function flush_item()
{
	if (item != "")
		flush(body_left, "  " item, 2)
	else if (paragraph != "")
		flush(synopsis_left, synopsis_head, 1)
	item = synopsis_head = ""
	synopsis_left = 0
}

function say(line)
{
	gsub(/\\/, "\\\\", line)
	gsub(/"/, "\\\"", line)
	text = text "\n\t\t\"" line "\\n\""
}

function space()
{
	if (text != "" && text !~ /\n\t\t"\\n"$/)
		say("")
}

# ---- the page --------------------------------------------------------------------------------

BEGIN {
	glue = " "
	opening["Op"] = "["; closing["Op"] = "]"
	opening["Pq"] = "("; closing["Pq"] = ")"
	opening["Ql"] = closing["Ql"] = "'"
	opening["Dq"] = closing["Dq"] = "\""
}

/^\.\\"/ { next }

/^\.Sh / {
	flush_item()
	section = $2
	shown = section ~ /^(NAME|SYNOPSIS|DESCRIPTION|COMMANDS|OPTIONS)$/
	glue = section == "SYNOPSIS" ? "\001" : " "
	if (shown && section != "NAME")
		space()
	title = section == "OPTIONS" ? "Options:" : section == "COMMANDS" ? "Commands:" : ""
	next
}

!shown { next }

/^\.Nm/ && section == "NAME" { name = $2; next }
/^\.Nd / { summary = unescape(substr($0, 5)); next }

/^\.Nm/ && section == "SYNOPSIS" {
	n = split_words($0)
	flush_item()
	synopsis_head = (is_used ? "       " : "usage: ") (n > 1 ? word[2] : name)
	synopsis_left = length(synopsis_head) + 1
	is_used = 1
	next
}

section == "DESCRIPTION" && /^\.(Pp|Ss|Bl|Bd)/ { flush_item(); shown = 0; next }
/^\.Pp$/ { flush_item(); space(); next }
/^\.Bl -tag -width [0-9]+n -compact$/ {
	flush_item()
	body_left = $4 + 4
	if (title != "")
		say(title)
	title = ""
	next
}
/^\.El$/ { flush_item(); next }

/^\.It / {
	flush_item()
	item = render(2, split_words($0))
	if (section == "OPTIONS")
		options = options (options == "" ? "" : ", ") item
	next
}

/^\.so / { fail("apply page.awk first") }
/^\./ { add(render(1, split_words($0))); next }
{ title = ""; add(unescape($0)) }

END {
	if (failed)
		exit 1
	flush_item()
	if (summary == "" || !is_used || options == "")
		fail("NAME, SYNOPSIS or OPTIONS is missing")
	object = name
	sub(/^ocaml-probes-?/, "", object)
	gsub(/-/, "_", object)
	gsub(/, /, "\\n\"\n\t\t\"", options)
	gsub(/"/, "\\\"", summary)
	printf "/* Made by tools/man/help.awk from %s. */\n", name ".1"
	print "#include \"base/help.h\"\n"
	printf "const struct help help_%s = {\n", object == "" ? "tool" : object
	printf "\t.summary = \"%s\",\n\t.options =\n\t\t\"%s\\n\",\n", summary, options
	printf "\t.text =%s,\n};\n", text
}
