// SPDX-License-Identifier: MIT
/* Print the messages of the tool, and choose the exit codes for them. */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/sanitize.h"
#include "cli/progress.h"

static void say_line(const char *prefix, const char *fmt, va_list ap)
{
	char *text;

	if (vasprintf(&text, fmt, ap) < 0) {
		fprintf(stderr, "%sout of memory\n", prefix);
		return;
	}
	make_one_line(text);
	fprintf(stderr, "%s%s\n", prefix, text);
	free(text);
}

void say(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	progress_hide();
	va_start(ap, fmt);
	say_line("ocaml-probes: ", fmt, ap);
	va_end(ap);
}

void print_text(const char *text)
{
	put_one_line(stdout, text);
}

void print_columns(int *widths, const char *const *cells, size_t n, bool print)
{
	const int max_width = 48;

	for (size_t i = 0; i < n; i++) {
		const size_t bytes = strlen(cells[i]);
		const int width = bytes <= (size_t)max_width ? (int)bytes : 0;

		if (!print && width > widths[i])
			widths[i] = width;
		if (!print)
			continue;
		print_text(cells[i]);
		if (i < n - 1)
			printf("%*s", (bytes < (size_t)widths[i] ? widths[i] - (int)bytes : 0) + 2,
			       "");
	}
}

void say_no_probes(const struct options *options, const struct ocp_process *proc)
{
	if (ocp_process_probe_count(proc) == 0 && !options->quiet &&
	    (options->verbose || isatty(STDERR_FILENO)))
		say("pid %d (%s): has no OCaml probes", (int)ocp_process_pid(proc),
		    ocp_process_exe(proc));
}

void say_functions_hint(const struct options *options)
{
	fputs("hint: `ocaml-probes functions ", stderr);
	if (options->prog) {
		fputs("-prog ", stderr);
		put_one_line(stderr, options->prog);
	} else {
		fprintf(stderr, "-pid %d", (int)options->pid);
	}
	fputs("` lists what `attach --count=fn:NAME` counts without probes\n", stderr);
}

int say_usage(const struct command *command, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "ocaml-probes: %s: ", command->name);
	va_start(ap, fmt);
	say_line("", fmt, ap);
	va_end(ap);
	fprintf(stderr, "hint: ocaml-probes help %s\n", command->name);
	return EXIT_USAGE;
}

static int exit_code_of(int err)
{
	switch (err) {
	case 0:
		return EXIT_DONE;
	case -EINVAL:
	case -ENOENT:
		return EXIT_USAGE;
	case -EPERM:
	case -EACCES:
		return EXIT_PRIVILEGE;
	case -EOPNOTSUPP:
		return EXIT_KERNEL;
	case -ESRCH:
		return EXIT_GONE;
	case -EBUSY:
	case -ETIMEDOUT:
		return EXIT_BUSY;
	default:
		return EXIT_FAILED;
	}
}

int say_error(const struct ocp_ctx *ctx, int err)
{
	return say_error_of(NULL, ctx, err);
}

int say_error_of(const char *operand, const struct ocp_ctx *ctx, int err)
{
	progress_end();
	say("%s%s%s", operand ? operand : "", operand ? ": " : "", ocp_error(ctx));
	if (ocp_hint(ctx))
		fprintf(stderr, "hint: %s\n", ocp_hint(ctx));
	return exit_code_of(err);
}
