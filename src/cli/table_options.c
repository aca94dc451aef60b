// SPDX-License-Identifier: MIT
#include "cli/table_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/operands.h"

static int set_top(const struct command *command, struct table_view *view, const char *value)
{
	unsigned long long n;

	errno = 0;
	n = strtoull(value, NULL, 10);
	if (errno || !is_number(value) || n == 0)
		return say_usage(command, "--top '%s': not a number of rows", value);
	view->top = (size_t)n;
	/* Without --sort, --top shows the rows with the most hits. */
	if (!view->has_order)
		view->order = ORDER_HITS;
	return EXIT_DONE;
}

static int set_order(const struct command *command, struct table_view *view, const char *value)
{
	static const char *const names[] = {
		[ORDER_NAME] = "name",
		[ORDER_HITS] = "hits",
		[ORDER_P99] = "p99",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) != 0)
			continue;
		view->order = (enum row_order)i;
		view->has_order = true;
		return EXIT_DONE;
	}
	return say_usage(command, "--sort '%s': not hits, name or p99", value);
}

int table_options_add(const struct command *command, struct options *options, const char *name,
		      const char *value)
{
	if (strcmp(name, "top") == 0)
		return set_top(command, &options->view, value);
	if (strcmp(name, "sort") == 0)
		return set_order(command, &options->view, value);
	if (strcmp(name, "all") == 0)
		options->view.shows_zeros = true;
	else
		options->time_of_day = true;
	return EXIT_DONE;
}

int table_options_check(const struct command *command, const struct options *options)
{
	const struct table_view *view = &options->view;

	if ((view->top || view->has_order) && (options->json || options->csv))
		return say_usage(command, "--top and --sort are for tables; --json and --csv have "
					  "all rows, by name");
	return EXIT_DONE;
}
