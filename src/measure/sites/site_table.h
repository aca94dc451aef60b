/* SPDX-License-Identifier: MIT */
/*
 * What a meter measures, and where: probes by name (probes), the files they are in, and their
 * sites, numbered as the engine numbers them. Grows when processes load more files; what is there
 * keeps its number.
 */
#ifndef MEASURE_SITE_TABLE_H
#define MEASURE_SITE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "program/program.h"
#include "measure/sites/file_guard.h"

enum { FD_PATH_BYTES = 32 };

/* A probe, by its name: one even if several files have it. */
struct measured_probe {
	char *name;
	bool is_counted, is_printed;
	bool is_off;	  /* for now nothing is attached to its sites */
	bool is_left_out; /* it shall be: see site_table_drop_left_out */
	bool is_told;	  /* that some of its sites are left out */
	bool lacks_histogram;
	bool has_histogram;
	bool is_warned_of_args;	      /* that the places of some are not known */
	uint32_t histogram;	      /* its number */
	uint64_t past_hits;	      /* of sites that are no more */
	size_t n_uses;		      /* in the source, as far as notes tell */
	size_t n_uses_without_site;   /* of these: their hits are not seen */
	uint32_t first_role, n_roles; /* the pairs it begins or ends */
	bool begins_pair;
};

struct measured_file {
	dev_t dev;
	ino_t ino;
	char *name;		  /* as the process sees it */
	char path[FD_PATH_BYTES]; /* for the kernel: of the open descriptor */
	const struct ocp_program *prog;
	struct ocp_program *own; /* the same, if it goes with the file */
	pid_t *pids; /* the processes that have it mapped, as far as they were asked for */
	size_t n_pids;
	size_t first_site, n_sites; /* those that are measured */
	size_t n_left_out;	    /* all of them, for want of numbers: then n_sites is 0 */
	bool is_attached;
	struct file_guard guard; /* while it is */
	bool is_lost;		 /* it was overwritten: nothing of it is measured any more */
	bool has_uses;		 /* they are in the probes */
	bool is_gone;		 /* it was taken out: another may have its place */
	bool is_idle;		 /* nobody had it mapped when that was last asked */
	unsigned int round;	 /* in which it was added */
};

enum { NO_FILE = UINT32_MAX };

struct measured_site {
	const struct site *site; /* NULL: its file is gone */
	uint64_t va;
	uint32_t file, probe_index; /* NO_FILE: nobody has this number */
	const char *symbol;	    /* NULL: unknown, or not asked for */
	uint64_t symbol_off;
	const char *source; /* of the probe; NULL: unknown, or not asked for */
	int line, source_column;
	uint32_t args;	  /* number of its arguments in the meter's args_table, if they are read */
	bool is_left_out; /* nothing is attached to it */
};

struct site_table {
	struct ocp_ctx *ctx;
	struct measured_probe *probes;
	size_t n_probes;
	uint32_t *by_name; /* the probes' numbers, sorted by name */
	struct measured_file *files;
	size_t n_files;
	unsigned int round; /* of those that are added */
	struct measured_site *sites;
	size_t n_sites;	  /* numbers, those that nobody has included */
	size_t max_sites; /* 0: any number */
	void **kept;	  /* memory that the sites' strings point into */
	size_t n_kept;
};

void site_table_free(struct site_table *table);

/* The number of the probe called NAME, or -1. */
ptrdiff_t site_table_find(const struct site_table *table, const char *name);

/*
 * Add every probe of PROG that WANTED(DATA, name, probe) wants, where there is none
 * yet, and its file's sites of all probes. A file that is there already only gets PID (0: nobody
 * in particular) as one more process. *FILE is a new one, else NULL: PROG must outlive it, but can
 * be made its own then.
 */
typedef bool (*probe_wanted_fn)(void *data, const char *name, struct measured_probe *probe);
int site_table_add_file(struct site_table *table, const struct ocp_program *prog, const char *name,
			pid_t pid, probe_wanted_fn wanted, void *data, struct measured_file **file);

/*
 * Take FILE out. Its sites' numbers can be others' then; or, if it KEEPS them, what is known of
 * them stays, but for `site`.
 */
void site_table_remove(struct site_table *table, struct measured_file *file, bool keeps);

/* Take the probes that are left out and their sites out, before others know the numbers. */
int site_table_drop_left_out(struct site_table *table);

/* How many sites there are. */
size_t site_table_count(const struct site_table *table);

/* Free MEMORY with the table, or now if that fails. */
int site_table_keep(struct site_table *table, void *memory);

/* Find out the functions that the sites of FILE are in, and where their probes stand. */
int site_table_read_source(struct site_table *table, const struct measured_file *file);

#endif
