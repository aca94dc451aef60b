/* SPDX-License-Identifier: MIT */
/* The options for tables of counts and pairs: which rows are shown, and in which order. */
#ifndef CLI_TABLE_OPTIONS_H
#define CLI_TABLE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct command;
struct options;

enum row_order { ORDER_NAME, ORDER_HITS, ORDER_P99 };

struct table_view {
	size_t top; /* rows to show; 0: all of them */
	enum row_order order;
	bool has_order;
	bool shows_zeros;
};

/*
 * table_options_add() takes the option NAME with VALUE (NULL: none). table_options_check() checks
 * the options against each other. Both return EXIT_DONE, or EXIT_USAGE after printing the error.
 */
int table_options_add(const struct command *command, struct options *options, const char *name,
		      const char *value);
int table_options_check(const struct command *command, const struct options *options);

#endif
