/* SPDX-License-Identifier: MIT */
/*
 * What a meter measures, and where: probes by name (columns), the files they are in, and their
 * sites, numbered as the engine numbers them. Grows when processes load more files; what is there
 * keeps its number.
 */
#ifndef MEASURE_SITE_TABLE_H
#define MEASURE_SITE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "elf/program.h"
#include "measure/file_guard.h"

enum { FD_PATH_BYTES = 32 };

/* A probe, by its name: one even if several files have it. */
struct column {
	char *name;
	bool is_counted, is_printed;
	bool is_off; /* for now nothing is attached to its sites */
	bool has_histogram;
	uint32_t histogram;	      /* its number */
	uint32_t first_role, n_roles; /* the pairs it begins or ends */
};

struct measured_file {
	dev_t dev;
	ino_t ino;
	char *name;		  /* as the process sees it */
	char path[FD_PATH_BYTES]; /* for the kernel: of the open descriptor */
	const struct ocp_program *prog;
	pid_t *pids; /* the processes that have it mapped, as far as they were asked for */
	size_t n_pids;
	size_t first_site, n_sites; /* those that are measured */
	bool is_attached;
	struct file_guard guard; /* while it is */
	bool is_lost;		 /* it was overwritten: nothing of it is measured any more */
};

struct measured_site {
	const struct site *site;
	uint32_t file, column;
	const char *symbol; /* NULL: unknown, or not asked for */
	uint64_t symbol_off;
	const char *source;
	int line;
	uint32_t args; /* number of its arguments in the meter's args_table, if they are read */
};

struct site_table {
	struct ocp_ctx *ctx;
	struct column *columns;
	size_t n_columns;
	uint32_t *by_name; /* the columns' numbers, sorted by name */
	struct measured_file *files;
	size_t n_files;
	struct measured_site *sites;
	size_t n_sites;
	void **kept; /* memory that the sites' strings point into */
	size_t n_kept;
};

void site_table_free(struct site_table *table);

/* The number of the column called NAME, or -1. */
ptrdiff_t site_table_find(const struct site_table *table, const char *name);

/*
 * Make a column for every probe of PROG that WANTED(DATA, name, column) wants, where there is none
 * yet, and the file FD's sites of all columns; PROG must outlive the table. A file that is there
 * already only gets PID (0: nobody in
 * particular) as one more process. Sets *N_NEW to the number of sites added.
 */
typedef bool (*column_wanted_fn)(void *data, const char *name, struct column *column);
int site_table_add_file(struct site_table *table, const struct ocp_program *prog, const char *name,
			pid_t pid, column_wanted_fn wanted, void *data, size_t *n_new);

/* Forget the files and sites beyond the first ones. */
void site_table_truncate(struct site_table *table, size_t n_files, size_t n_sites);

/* Is there already a file with this identity? */
bool site_table_has_file(const struct site_table *table, dev_t dev, ino_t ino);

/* Free MEMORY with the table, or now if that fails. */
int site_table_keep(struct site_table *table, void *memory);

/* Find out the functions and lines of source that the sites from FIRST on are in. */
int site_table_read_source(struct site_table *table, size_t first);

#endif
