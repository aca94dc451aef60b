# SPDX-License-Identifier: MIT
#
# awk -f page.awk -v version=VERSION -v commands=PAGES -v headers=FILES PAGE: complete a page of this folder.
#
#   .so FILE       is replaced by FILE, a part that several pages share; its path is relative to PAGE
#   .so COMMANDS   is replaced by the list of the tool's commands, each with its page's summary
#   .so OVERVIEW   and
#   .so FUNCTIONS  are replaced by what functions.awk makes of the library's headers
#   @VERSION@      is replaced by VERSION
#
# `man` could follow .so by itself, but only within the folders of installed pages.

function fail(why)
{
	printf "%s:%d: %s\n", FILENAME, FNR, why >"/dev/stderr"
	failed = 1
	exit
}

function include(path,    line, n)
{
	for (; (getline line <path) > 0; n++)
		if (line !~ /^\.\\"/)
			print line
	close(path)
	if (!n)
		fail(path ": cannot be read, or is empty")
}

# The pages of commands are in `commands`, separated by spaces.
function list_commands(    pages, n, i, line, name)
{
	n = split(commands, pages, " ")
	for (i = 1; i <= n; i++) {
		name = pages[i]
		sub(/.*ocaml-probes-/, "", name)
		sub(/\.1$/, "", name)
		while ((getline line <pages[i]) > 0)
			if (sub(/^\.Nd /, "", line))
				print ".It Cm " name "\n" line
		close(pages[i])
	}
}

# awk gives the program's name no path: ours is that of the page.
function describe_library(part,    folder, command, line)
{
	folder = FILENAME
	sub(/[^\/]*$/, "", folder)
	command = "awk -v part=" part " -f " folder "functions.awk " headers
	while ((command | getline line) > 0)
		print line
	if (close(command))
		fail("functions.awk failed")
}

/^\.so (OVERVIEW|FUNCTIONS)$/ { describe_library($2); next }
/^\.so COMMANDS$/ { list_commands(); next }
/^\.so / { folder = FILENAME; sub(/[^\/]*$/, "", folder); include(folder $2); next }
{ gsub(/@VERSION@/, version); print }
END { exit failed }
