// SPDX-License-Identifier: MIT
/*
 * `help` and `version`, with the words and the flags that programs of OCaml's Core.Command take.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tool/commands.h"

static bool is_any_of(const char *word, const char *const *words)
{
	while (*words && strcmp(*words, word) != 0)
		words++;
	return *words;
}

bool asks_for_help(const char *word)
{
	return is_any_of(word,
			 (const char *const[]){ "help", "-help", "--help", "-h", "-?", NULL });
}

static bool asks_for_build(const char *word)
{
	return is_any_of(word, (const char *const[]){ "-build-info", "--build-info", NULL });
}

bool asks_for_version(const char *word)
{
	return asks_for_build(word) ||
	       is_any_of(word,
			 (const char *const[]){ "version", "-version", "--version", "-V", NULL });
}

static int say_unexpected(const char *command, const char *word)
{
	say("%s: '%s': unexpected", command, word);
	fputs("hint: ocaml-probes help\n", stderr);
	return EXIT_USAGE;
}

/* ---- version -------------------------------------------------------------------------------- */

static void print_build(void)
{
#ifdef __clang__
	static const char compiler[] = __VERSION__;
#else
	static const char compiler[] = "gcc " __VERSION__;
#endif

	printf("version: %s\ncompiler: %s\nC library: glibc %d.%d\n", ocp_version(), compiler,
	       __GLIBC__, __GLIBC_MINOR__);
}

int print_version(int n, char **words)
{
	bool is_build = false;

	/* `version -build-info` and `-build-info` mean the same. */
	for (int i = 0; i < n && i < 2; i++) {
		if (i && asks_for_help(words[i]))
			return print_help(0, NULL);
		if (i && !asks_for_version(words[i]))
			return say_unexpected("version", words[i]);
		is_build |= asks_for_build(words[i]);
	}
	if (n > 2)
		return say_unexpected("version", words[2]);
	if (is_build)
		print_build();
	else
		puts(ocp_version());
	return EXIT_DONE;
}

/* ---- help ----------------------------------------------------------------------------------- */

struct help_flags {
	bool recursive, flags, expand_dots;
};

/* Print NAME and its SUMMARY, broken into lines of at most 79 columns. */
static void print_summary(const char *name, const char *summary)
{
	enum { LEFT = 14, RIGHT = 79 };
	size_t column = LEFT;

	printf("  %-10s ", name);
	while (*summary) {
		const size_t bytes = strcspn(summary, " ");

		if (column + bytes > RIGHT) {
			printf("\n%*s", LEFT - 1, "");
			column = LEFT;
		}
		printf(" %.*s", (int)bytes, summary);
		column += bytes + 1;
		summary += bytes + (summary[bytes] == ' ');
	}
	putchar('\n');
}

/* Print the options of `help` or `version`: FLAGS, which ends with NULL, without the dashes. */
static void list_flags(const char *command, bool expand_dots, const char *const *flags)
{
	for (; *flags; flags++)
		printf("  %s -%s\n", expand_dots ? command : ".", *flags);
}

/*
 * Print the options of COMMAND, one a line, after ". " or, with EXPAND_DOTS, after the name of the
 * command.
 */
static void list_options(const struct tool_command *command, bool expand_dots)
{
	const char *line = command->help->options;

	while (*line) {
		const int bytes = (int)strcspn(line, "\n");

		printf("  %s %.*s\n", expand_dots ? command->name : ".", bytes, line);
		line += bytes + 1;
	}
}

/* Print the list of the commands, and their options if FLAGS say so. */
static void list_commands(const struct help_flags *flags)
{
	printf("ocaml-probes: %s\n\n", help_tool.summary);
	for (const struct tool_command *command = tool_commands; command->name; command++) {
		print_summary(command->name, command->help->summary);
		if (flags->flags)
			list_options(command, flags->expand_dots);
	}
	print_summary("version", "print the version");
	if (flags->flags)
		list_flags("version", flags->expand_dots,
			   (const char *const[]){ "build-info", "version", NULL });
	print_summary("help", "print the list of commands, or the help of a command");
	if (flags->flags)
		list_flags("help", flags->expand_dots,
			   (const char *const[]){ "expand-dots", "flags", "recursive", NULL });
}

/*
 * Take WORD, a flag of `help`, as FLAGS. The flags "help" and "h" change nothing. Return an exit
 * code.
 */
static int take_flag(const char *word, struct help_flags *flags)
{
	const char *written = word + strspn(word, "-"), *name;
	struct abbreviation found = abbreviation_of(written, strlen(written));

	if (asks_for_help(word))
		return EXIT_DONE;
	abbreviation_offer(&found, "-", "expand-dots");
	abbreviation_offer(&found, "-", "flags");
	abbreviation_offer(&found, "-", "help");
	abbreviation_offer(&found, "-", "recursive");
	name = abbreviation_name(&found);
	if (!name) {
		say("help: '%s': no such option", word);
		fputs("hint: ocaml-probes help\n", stderr);
		return EXIT_USAGE;
	}
	flags->expand_dots |= strcmp(name, "expand-dots") == 0;
	flags->flags |= strcmp(name, "flags") == 0;
	flags->recursive |= strcmp(name, "recursive") == 0;
	return EXIT_DONE;
}

/* Print the help of the command WORD. The page of the tool describes `help` and `version`. */
static int print_page(const char *word)
{
	const struct abbreviation found = abbreviated_command(word);
	const char *name = asks_for_version(word) ? "version" : abbreviation_name(&found);
	const struct tool_command *command;

	if (!name)
		return unknown_command(word);
	command = find_command(name);
	fputs(command ? command->help->text : help_tool.text, stdout);
	return EXIT_DONE;
}

int print_help(int n, char **words)
{
	struct help_flags flags = { 0 };
	const char *page = NULL;

	for (int i = 0; i < n; i++) {
		int code = EXIT_DONE;

		if (*words[i] == '-' && !asks_for_version(words[i]))
			code = take_flag(words[i], &flags);
		else if (page)
			code = say_unexpected("help", words[i]);
		else
			page = words[i];
		if (code != EXIT_DONE)
			return code;
	}
	if (page)
		return print_page(page);
	if (flags.recursive || flags.flags)
		list_commands(&flags);
	else
		fputs(help_tool.text, stdout);
	return EXIT_DONE;
}
