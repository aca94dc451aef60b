// SPDX-License-Identifier: MIT
/* ocaml-probes-link: the command line of the post-linker. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/help.h"
#include "base/plural.h"
#include "link/convert.h"
#include "link/image.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct link_options {
	const char *input, *output;
	bool quiet, verbose;
	struct convert_options convert;
};

static void print_log_line(void *data, enum ocp_log_level level, const char *line)
{
	const struct link_options *options = data;

	if (level == OCP_LOG_WARN)
		fprintf(stderr, "ocaml-probes-link: %s: warning: %s\n", options->input, line);
	else
		printf("%s: %s\n", options->input, line);
}

/*
 * Print a warning about the place FILE:LINE; FILE is NULL if the place is unknown. The first line
 * has the format of OCaml's compilers, so that editors find the place.
 */
static void warn(void *data, const char *file, int line, const char *text)
{
	if (file)
		fprintf(stderr, "File \"%s\", line %d:\n", file, line);
	print_log_line(data, OCP_LOG_WARN, text);
}

/* Parse the command line. Return the exit status if the program must exit now, else -1. */
static int parse_options(int argc, char **argv, struct link_options *options)
{
	enum { OPT_CHECK = 256, OPT_STRICT };
	static const struct option longs[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "check", no_argument, NULL, OPT_CHECK },
		{ "strict", no_argument, NULL, OPT_STRICT },
		{ "verbose", no_argument, NULL, 'v' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "o:vqhV", longs, NULL)) != -1) {
		switch (opt) {
		case 'o':
			options->output = optarg;
			break;
		case OPT_CHECK:
			options->convert.check = true;
			break;
		case OPT_STRICT:
			options->convert.strict = true;
			break;
		case 'v':
			options->verbose = true;
			break;
		case 'q':
			options->quiet = true;
			break;
		case 'h':
			fputs(help_link.text, stdout);
			return EXIT_SUCCESS;
		case 'V':
			printf("ocaml-probes-link %s\n", OCP_VERSION);
			return EXIT_SUCCESS;
		default:
			fprintf(stderr, "Try 'ocaml-probes-link --help'.\n");
			return EXIT_USAGE;
		}
	}
	if (argc - optind != 1) {
		fprintf(stderr, "ocaml-probes-link: %s\nTry 'ocaml-probes-link --help'.\n",
			argc == optind ? "a file is missing" : "give one file at a time");
		return EXIT_USAGE;
	}
	if (options->verbose && options->quiet) {
		fprintf(stderr, "ocaml-probes-link: --verbose and --quiet contradict each other\n");
		return EXIT_USAGE;
	}
	options->input = argv[optind];
	options->convert.show_all = options->verbose;
	options->convert.warn = warn;
	options->convert.data = options;
	return -1;
}

static void say_result(const struct link_options *options, const struct convert_result *result)
{
	const char *file = options->input;

	if (result->was_converted)
		printf("%s: was converted before, nothing to do\n", file);
	else if (!result->n_markers && result->n_external)
		printf("%s: no probes of its own, %zu site%s of other files' probes\n", file,
		       result->n_external, plural(result->n_external));
	else if (!result->n_markers)
		printf("%s: no probes, nothing to do\n", file);
	else if (options->convert.check || options->verbose)
		printf("%s: %zu site%s of %zu probe%s %sconverted, %zu probe_is_enabled\n", file,
		       result->n_sites, plural(result->n_sites), result->n_probes,
		       plural(result->n_probes), options->convert.check ? "can be " : "",
		       result->n_queries);
}

/* Read, convert and write the file. */
static int convert_input(struct ocp_ctx *ctx, const struct link_options *options)
{
	struct convert_result result;
	struct linked_file image;
	int err;

	err = image_read(ctx, options->input, &image);
	if (err)
		return err;
	err = convert(&image, &options->convert, &result);
	/*
	 * With --output, write the file even if nothing was converted, since build rules expect the
	 * output file.
	 */
	if (!err && !options->convert.check && (options->output || result.n_sites))
		err = image_write(&image, options->output ? options->output : options->input);
	if (!err && !options->quiet)
		say_result(options, &result);
	image_release(&image);
	return err;
}

int main(int argc, char **argv)
{
	struct link_options options = { 0 };
	struct ocp_ctx *ctx;
	int status;

	status = parse_options(argc, argv, &options);
	if (status >= 0)
		return status;
	ctx = ocp_ctx_new();
	if (!ctx) {
		fprintf(stderr, "ocaml-probes-link: out of memory\n");
		return EXIT_FAILED;
	}
	ocp_ctx_set_log(ctx, print_log_line, &options, OCP_LOG_INFO);
	if (convert_input(ctx, &options)) {
		fprintf(stderr, "ocaml-probes-link: %s: %s\n", options.input, ocp_error(ctx));
		status = EXIT_FAILED;
	} else {
		status = EXIT_SUCCESS;
	}
	ocp_ctx_free(ctx);
	if (fflush(stdout) && status == EXIT_SUCCESS) {
		fprintf(stderr, "ocaml-probes-link: standard output: %s\n", strerror(errno));
		status = EXIT_FAILED;
	}
	return status;
}
