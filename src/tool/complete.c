// SPDX-License-Identifier: MIT
/*
 * ocaml-probes complete WORD...: called by the completion of shells (tools/completion). It is not
 * listed as a command, since users do not run it.
 *
 * The words are those after "ocaml-probes"; the last one, which may be "", is being typed. The
 * output has one line for each candidate, with a description after a tab for shells that show one.
 * The line ":files" tells the shell to add file names. Errors are not printed, since the user is
 * still typing.
 *
 * Options and the kinds of their values come from the manual pages (base/help.h): the value of
 * "-pid PID" is a process id. So new options need no code here.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/code_images.h"
#include "process/process.h"
#include "program/item.h"
#include "program/program.h"
#include "tool/commands.h"

struct word_completion {
	struct ocp_ctx *ctx;
	const struct tool_command *command;
	int n; /* the number of words after the command */
	char **words;
	const char *word;   /* the last word */
	size_t n_kept;	    /* bytes at the start of the word that stay unchanged */
	const char *partly; /* the rest of the word, to be completed */
};

/* ---- candidates ----------------------------------------------------------------------------- */

static bool starts_with_text(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static void offer(const struct word_completion *request, const char *text, const char *description)
{
	if (starts_with_text(text, request->partly))
		printf("%.*s%s\t%s\n", (int)request->n_kept, request->word, text, description);
}

/* Keep the first N_KEPT bytes of the word, and complete the rest. */
static void keep_start(struct word_completion *request, size_t n_kept)
{
	request->n_kept = n_kept;
	request->partly = request->word + n_kept;
}

static void offer_commands(const struct word_completion *request)
{
	for (const struct tool_command *command = tool_commands; command->name; command++)
		offer(request, command->name, command->help->summary);
	offer(request, "help", "print the help of a command");
	offer(request, "version", "print the version");
}

/*
 * Offer the options that match the word. If the word is empty or "-", write them as the manual page
 * does. Otherwise write them with as many dashes as the user has typed, since the parser accepts
 * each option with one dash or two.
 */
static void offer_options(const struct word_completion *request, const struct help *help)
{
	const size_t dashes = strspn(request->word, "-");
	const bool is_typed = request->word[dashes] || dashes > 1;

	for (const char *line = help->options; *line; line = strchr(line, '\n') + 1) {
		const char *name = is_typed ? line + strspn(line, "-") : line;
		const size_t bytes = strcspn(name, " [\n"), all = strcspn(name, "\n");
		char option[64];

		snprintf(option, sizeof(option), "%.*s%.*s", is_typed ? (int)dashes : 0,
			 request->word, (int)bytes, name);
		if (!starts_with_text(option, request->word))
			continue;
		printf("%s\t%.*s\n", option, (int)(all - bytes), name + bytes);
		if (name[bytes] == '[')
			printf("%s=\t%.*s\n", option, (int)(all - bytes), name + bytes);
	}
}

static int offer_process(void *data, struct ocp_process *proc)
{
	const struct word_completion *request = data;
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)ocp_process_pid(proc));
	for (int i = 0; i < request->n - 1; i++)
		if (strcmp(request->words[i], pid) == 0)
			return 0;
	if (starts_with_text(pid, request->partly)) {
		printf("%.*s%s\t", (int)request->n_kept, request->word, pid);
		print_text(ocp_process_exe(proc));
		putchar('\n');
	}
	return 0;
}

static void offer_kept(const struct word_completion *request)
{
	char **names;
	size_t n;

	if (ocp_pinned_list(request->ctx, &names, &n))
		return;
	for (size_t i = 0; i < n; i++)
		offer(request, names[i], "");
	free(names);
}

/* ---- names of probes ------------------------------------------------------------------------ */

/* Return the value of option NAME in the words before the last; NULL: not given. */
static const char *option_value(const struct word_completion *request, const char *name)
{
	const size_t bytes = strlen(name);

	for (int i = 0; i < request->n - 1; i++) {
		const char *word = request->words[i] + strspn(request->words[i], "-");

		if (word == request->words[i] || strncmp(word, name, bytes) != 0)
			continue;
		if (word[bytes] == '=')
			return word + bytes + 1;
		if (!word[bytes] && i < request->n - 2)
			return request->words[i + 1];
	}
	return NULL;
}

/* Return true if word number I stands alone: it is neither an option nor the value of an option. */
static bool is_plain_word(const struct word_completion *request, int i)
{
	const char *before = i > 0 ? request->words[i - 1] : "", *option = NULL;

	if (*before == '-' && !strchr(before, '='))
		option = find_help_option(request->command->help, before + strspn(before, "-"));
	return *request->words[i] != '-' && !(option && option[strcspn(option, " [\n")] == ' ');
}

/*
 * Return the process id in the words before the last: the value of -pid or -p, or a number that
 * stands alone.
 */
static const char *given_pid(const struct word_completion *request)
{
	const char *pid = option_value(request, "pid");

	if (!find_help_option(request->command->help, "pid"))
		return NULL;
	if (!pid)
		pid = option_value(request, "p");
	for (int i = 0; !pid && i < request->n - 1; i++)
		if (is_number(request->words[i]) && is_plain_word(request, i))
			pid = request->words[i];
	return pid;
}

static const char *given_file(const struct word_completion *request)
{
	const char *file = option_value(request, "prog");

	return file ? file : option_value(request, "exe");
}

/* Return true if NAME is in the comma-separated list that is the first BYTES of LIST. */
static bool is_listed(const char *list, size_t bytes, const char *name)
{
	for (const char *end = list + bytes; list < end; list += strcspn(list, ",") + 1)
		if (strcspn(list, ",") == strlen(name) && starts_with_text(list, name))
			return true;
	return false;
}

/*
 * Offer the probe NAME, unless the list that the user types has it already. Names consist of A-Z
 * a-z 0-9 _ (the library refuses others), so a shell needs no quoting.
 */
static void offer_probe(const struct word_completion *request, size_t n_option, const char *name)
{
	if (!is_listed(request->word + n_option, request->n_kept - n_option, name))
		offer(request, name, "");
}

/* Offer the OCaml functions of the given process or file. The shells quote the names. */
static void offer_functions(const struct word_completion *request)
{
	const char *pid = given_pid(request), *file = given_file(request);
	struct code_images images = { 0 };
	int err = -ENOENT;

	if (pid)
		err = code_images_read(request->ctx, (pid_t)atoi(pid), &images);
	else if (file)
		err = code_images_open(request->ctx, file, &images);
	for (size_t i = 0; !err && i < images.n; i++) {
		size_t n;
		const struct function *const *all =
			functions_by_name(images.images[i].functions, &n);

		for (size_t k = 0; k < n; k++)
			if (k == 0 || strcmp(all[k - 1]->name, all[k]->name) != 0)
				offer(request, all[k]->name, "");
	}
	code_images_free(&images);
}

/*
 * Offer the probes of the given process or file, except those already in the list. The first
 * N_OPTION bytes of the word are not part of the list.
 */
static void offer_probes(struct word_completion *request, size_t n_option)
{
	const char *comma = strrchr(request->word + n_option, ',');
	const char *pid = given_pid(request), *file = given_file(request);
	struct ocp_process *proc = NULL;
	struct ocp_program *prog = NULL;

	keep_start(request, comma ? (size_t)(comma + 1 - request->word) : n_option);
	if (starts_with_text(request->partly, ITEM_FUNCTION_PREFIX)) {
		keep_start(request, request->n_kept + strlen(ITEM_FUNCTION_PREFIX));
		offer_functions(request);
		return;
	}
	if (pid && ocp_process_open(request->ctx, (pid_t)atoi(pid), &proc) == 0)
		for (size_t i = 0; i < ocp_process_probe_count(proc); i++)
			offer_probe(request, n_option, ocp_process_probe_name(proc, i));
	else if (!pid && file && ocp_program_open(request->ctx, file, &prog) == 0)
		for (size_t i = 0; i < ocp_program_probe_count(prog); i++)
			offer_probe(request, n_option, ocp_program_probe_name(prog, i));
	ocp_process_free(proc);
	ocp_program_free(prog);
}

/* ---- arguments of probes -------------------------------------------------------------------- */

enum { MAX_ARGS_OFFERED = 64 };

/* The argument names offered so far, each once. */
struct arg_offers {
	const struct word_completion *request;
	const char *lists[3]; /* values of options that name probes; NULL: not given */
	char names[MAX_ARGS_OFFERED][OCP_ARG_NAME_BYTES];
	size_t n;
};

static void offer_arg(struct arg_offers *offers, const char *name)
{
	for (size_t i = 0; i < offers->n; i++)
		if (strcmp(offers->names[i], name) == 0)
			return;
	if (offers->n == MAX_ARGS_OFFERED)
		return;
	snprintf(offers->names[offers->n++], OCP_ARG_NAME_BYTES, "%s", name);
	offer(offers->request, name, "");
}

/*
 * Return true if PROBE is named in the words before the last, or if these words name no probe at
 * all.
 */
static bool is_asked_for(const struct arg_offers *offers, const char *probe)
{
	bool has_any = false;

	for (size_t i = 0; i < sizeof(offers->lists) / sizeof(offers->lists[0]); i++) {
		const char *list = offers->lists[i];

		if (list && is_listed(list, strlen(list), probe))
			return true;
		has_any |= list != NULL;
	}
	return !has_any;
}

/* Offer the names of the arguments of SITE; for arguments without a name, their positions. */
static void offer_args_of(struct arg_offers *offers, const struct site *site)
{
	const char *operand = site->args + strspn(site->args, " ");

	for (size_t i = 0; *operand && i < MAX_ARGS_OFFERED; i++) {
		char name[OCP_ARG_NAME_BYTES];

		ocp_arg_name(site->arg_names, i, name);
		if (!*name)
			snprintf(name, sizeof(name), "arg%zu", i);
		offer_arg(offers, name);
		operand += strcspn(operand, " ");
		operand += strspn(operand, " ");
	}
}

static void offer_args_in(struct arg_offers *offers, const struct ocp_program *prog)
{
	for (size_t i = 0; i < prog->n_sites; i++)
		if (is_asked_for(offers, prog->probes[prog->sites[i].probe].name))
			offer_args_of(offers, &prog->sites[i]);
}

/*
 * Offer the arguments of probes of the given process or file: of the probes named in the words
 * before the last, or of all probes if these words name none.
 */
static void offer_args(const struct word_completion *request)
{
	const char *pid = given_pid(request), *file = given_file(request);
	struct arg_offers offers = { .request = request,
				     .lists = { option_value(request, "count"),
						option_value(request, "time"),
						option_value(request, "print") } };
	struct ocp_process *proc = NULL;
	struct ocp_program *prog = NULL;

	if (pid && ocp_process_open(request->ctx, (pid_t)atoi(pid), &proc) == 0)
		for (size_t i = 0; i < proc->images.n; i++)
			offer_args_in(&offers, proc->images.images[i].prog);
	else if (!pid && file && ocp_program_open(request->ctx, file, &prog) == 0)
		offer_args_in(&offers, prog);
	ocp_process_free(proc);
	ocp_program_free(prog);
}

/* ---- values --------------------------------------------------------------------------------- */

static void offer_pids(struct word_completion *request)
{
	struct ocp_scan_summary summary;

	ocp_scan(request->ctx, offer_process, request, &summary);
}

/* Offer each of the words in the first BYTES of WORDS, separated by "|". */
static void offer_words(const struct word_completion *request, const char *words, size_t bytes)
{
	for (const char *end = words + bytes; words < end; words += strcspn(words, "|") + 1) {
		char text[32];
		size_t n = strcspn(words, "|]\n");

		snprintf(text, sizeof(text), "%.*s", (int)n, words);
		offer(request, text, "");
	}
}

/* Offer values for OPTION, a line of a manual page. Keep the first N_OPTION bytes of the word. */
static void offer_values(struct word_completion *request, const char *option, size_t n_option)
{
	const char *kind = option + strcspn(option, " [\n");
	size_t bytes;

	kind += strspn(kind, " [=");
	bytes = strcspn(kind, "]\n");
	keep_start(request, n_option);
	if (bytes == strlen("PID") && starts_with_text(kind, "PID"))
		offer_pids(request);
	else if (bytes == strlen("FILE") && starts_with_text(kind, "FILE"))
		puts(":files");
	else if (starts_with_text(kind, "NAME,") || starts_with_text(kind, "NAMES") ||
		 starts_with_text(kind, "START,") || starts_with_text(kind, "RE"))
		offer_probes(request, n_option);
	else if (starts_with_text(kind, "argN|NAME"))
		offer_args(request);
	else if (memchr(kind, '|', bytes))
		offer_words(request, kind, bytes);
}

/* ---- the line ------------------------------------------------------------------------------- */

/* Count the words before the last that are positional arguments of the command. */
static int count_plain_words(const struct word_completion *request)
{
	const char *pid = given_pid(request);
	int n = 0;

	for (int i = 0; i < request->n - 1; i++)
		n += request->words[i] != pid && is_plain_word(request, i);
	return n;
}

static void offer_plain_words(struct word_completion *request)
{
	const struct command *command = request->command->command;
	const int n = count_plain_words(request);

	if (is_number(request->word) && find_help_option(request->command->help, "pid") &&
	    !given_pid(request) && !given_file(request))
		offer_pids(request);
	if (command == &command_bpftrace && n == 0)
		offer_words(request, "count|time|args", strlen("count|time|args"));
	else if (command == &command_bpftrace && n == 1)
		offer_probes(request, 0);
	else if ((command == &command_read || command == &command_detach) && n == 0)
		offer_kept(request);
	else if ((command == &command_annotate ||
		  (command == &command_profile && option_value(request, "diff"))) &&
		 n == 0 && *request->word)
		puts(":files");
	else if (command == &command_functions && n == 0 && *request->word)
		offer_functions(request);
	else if (!*request->word)
		offer_options(request, request->command->help);
}

static void offer_arguments(struct word_completion *request)
{
	const struct help *help = request->command->help;
	const char *word = request->word, *option = NULL;
	const char *before = request->n > 1 ? request->words[request->n - 2] : "";
	const size_t n_name = strcspn(word, "=");
	char name[32];

	for (int i = 0; i < request->n - 1; i++) {
		if (strcmp(request->words[i], "--") == 0) {
			if (request->command->command && request->command->command->takes_program)
				puts(":files");
			return;
		}
	}
	if (*before == '-')
		option = find_help_option(help, before + strspn(before, "-"));
	if (option && option[strcspn(option, " [\n")] == ' ') {
		offer_values(request, option, 0);
	} else if (*word == '-' && word[n_name]) {
		snprintf(name, sizeof(name), "%.*s", (int)n_name, word);
		option = find_help_option(help, name + strspn(name, "-"));
		if (option)
			offer_values(request, option, n_name + 1);
	} else if (*word == '-') {
		offer_options(request, help);
	} else {
		/* "--count NAME" means "--count=NAME". */
		if (option && starts_with_text(option, "count["))
			offer_values(request, option, 0);
		offer_plain_words(request);
	}
}

int complete(int n, char **words)
{
	struct word_completion request = {
		.ctx = ocp_ctx_new(),
		.n = n - 1,
		.words = words + 1,
	};
	struct abbreviation found;

	if (!request.ctx || n < 1)
		goto done;
	request.word = request.partly = words[n - 1];
	found = abbreviated_command(words[0]);
	if (abbreviation_name(&found))
		request.command = find_command(abbreviation_name(&found));
	if (n == 1 && *request.word == '-')
		offer_options(&request, &help_tool);
	else if (n > 1 && strcmp(words[0], "help") == 0 && *request.word == '-')
		offer_words(&request, "-expand-dots|-flags|-recursive",
			    strlen("-expand-dots|-flags|-recursive"));
	else if (n == 1 || (n == 2 && strcmp(words[0], "help") == 0))
		offer_commands(&request);
	else if (request.command)
		offer_arguments(&request);
done:
	ocp_ctx_free(request.ctx);
	return EXIT_DONE;
}
