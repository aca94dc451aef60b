/* SPDX-License-Identifier: MIT */
/*
 * Room measure/sites: numbers for sites.
 * In: probes and their files, as they are found.
 * Out: numbered sites; a site keeps its number.
 * Callers: measure and measure/args.
 */
/*
 * The table of what a meter measures: the probes by name, the files that contain them, and their
 * sites, numbered as in the engine. The table grows when processes load more files. The number of a
 * site or probe does not change, except in site_table_drop_left_out().
 */
#ifndef MEASURE_SITE_TABLE_H
#define MEASURE_SITE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "program/code_probes.h"
#include "program/program.h"

enum { FD_PATH_BYTES = 32 };

/* ---- file_guard.c: guards a file that has uprobes against being overwritten ----------------- */

/* Properties of a file that change when its contents change. */
struct file_identity {
	struct timespec modified, changed;
	off_t bytes;
};

struct file_guard {
	int fd;		/* our own open file description, which has the lease; -1: not guarded */
	bool has_lease; /* an open() of the file for writing waits until we release the lease */
	bool may_retry; /* no lease yet, because the file is open for writing: try again */
	struct file_identity identity;
	unsigned int n_unread; /* failed attempts to read the file since it changed */
};

struct file_identity file_identity_of(const struct stat *st);

/*
 * What a guarded file contained when it was read: `prog` has its probes, `code` its measured
 * functions (NULL: none).
 */
struct guarded {
	const char *name; /* for messages */
	const struct ocp_program *prog;
	const struct code_probes *code;
};

/*
 * Guard the file PATH. WHAT was read from the file when its identity was guard->identity. Return
 * -ESTALE if the file has been overwritten since. Return 0 also if the file cannot be guarded.
 */
int file_guard_take(struct ocp_ctx *ctx, struct file_guard *guard, const char *path,
		    const struct guarded *what);

/*
 * Return true if a process waits to write to the file, or if the sites in it have changed. The
 * caller must then remove the uprobes and release the guard.
 */
bool file_guard_is_broken(struct ocp_ctx *ctx, struct file_guard *guard,
			  const struct guarded *what);

/* Release the lease and close the file. A second call does nothing. */
void file_guard_release(struct file_guard *guard);

/* ---- site_table.c --------------------------------------------------------------------------- */

/* All probes of one name, in any number of files. */
struct measured_probe {
	char *name;
	bool is_counted, is_printed;
	bool is_off;	      /* switched off: the engine is detached from the sites of the probe */
	bool is_left_out;     /* to be removed: see site_table_drop_left_out */
	bool is_told;	      /* a warning about left-out sites of this probe was logged */
	bool lacks_histogram; /* at least one site lacks the argument of the requested histogram */
	bool has_histogram;
	/*
	 * Like lacks_histogram and has_histogram, for groups of hits by the value of an argument.
	 */
	bool lacks_groups, is_grouped;
	bool has_by_type;
	/* type of the argument for grouping; OCP_ARG_ANY: unknown, or different between sites */
	enum ocp_arg_type by_type;
	bool is_warned_of_args; /* a warning about unknown argument locations was logged */
	uint32_t histogram;	/* if has_histogram: the number of the histogram */
	/* if has_histogram: measured_site.args of a site of the probe */
	uint32_t histogram_args;
	uint64_t past_hits;	    /* the hits of sites that were removed */
	size_t n_uses;		    /* uses in the source, according to notes */
	size_t n_uses_without_site; /* uses for which there is no site; not counted */
	/* roles in meter->roles: the pairs that the probe begins or ends */
	uint32_t first_role, n_roles;
	bool begins_pair;
	bool is_unfiltered;		  /* the filter does not apply to the probe */
	uint32_t key_args, compared_args; /* see struct meter_end */
	bool has_calls; /* the probe is a function whose calls are timed: see struct meter_end */
};

struct measured_file {
	dev_t dev;
	ino_t ino;
	char *name;		  /* as the process sees it */
	char path[FD_PATH_BYTES]; /* for the kernel: /proc/self/fd/N */
	const struct ocp_program *prog;
	struct ocp_program *own; /* equals prog if this struct owns the program, else NULL */
	/* The measured functions of the file, which owns CODE; NULL: none. */
	struct code_probes *code;
	pid_t *pids; /* the processes that map the file, if single processes are measured */
	size_t n_pids;
	size_t first_site, n_sites; /* the measured sites */
	/* number of its sites, if no numbers were left for them; n_sites is then 0 */
	size_t n_left_out;
	bool is_attached;
	struct file_guard guard; /* in use while the file is attached */
	bool is_lost;		 /* the file was overwritten and is no longer measured */
	bool has_uses;		 /* measured_probe.n_uses includes the uses in this file */
	/* the file was removed; this struct can be reused if name is NULL */
	bool is_gone;
	bool is_idle;	    /* no process mapped it at the last check */
	unsigned int round; /* the round in which the file was added */
};

enum { NO_FILE = UINT32_MAX };

struct measured_site {
	const struct site *site; /* NULL: the file of the site was removed */
	uint64_t va;
	uint32_t file, probe_index; /* file is NO_FILE if the number is free */
	const char *symbol;	    /* NULL: unknown, or not requested */
	uint64_t symbol_off;
	const char *source; /* source file of the probe; NULL: unknown, or not requested */
	int line, source_column;
	/* number of the entry for the site's arguments in the meter's arg_table */
	uint32_t args;
	bool is_left_out; /* the engine does not attach to it */
	bool is_stepped;  /* the kernel single-steps its instruction */
	bool counts;	  /* a hit of the site counts as a hit of its probe */
};

struct site_table {
	struct ocp_ctx *ctx;
	struct measured_probe *probes;
	size_t n_probes;
	uint32_t *by_name; /* the indexes of all probes, sorted by name */
	struct measured_file *files;
	size_t n_files;
	unsigned int round; /* the current round, stored in new files */
	struct measured_site *sites;
	size_t n_sites;	  /* including free numbers */
	size_t max_sites; /* 0: no limit */
	void **kept;	  /* memory with strings of sites, freed with the table */
	size_t n_kept;
};

void site_table_free(struct site_table *table);

/* Return the index of the probe NAME, or -1. */
ptrdiff_t site_table_find(const struct site_table *table, const char *name);

/* A file to add. PROG must outlive the table, unless the caller sets measured_file.own to PROG. */
struct new_file {
	const struct ocp_program *prog;
	const char *name;
	pid_t pid; /* 0: none */
};

/*
 * If the table has the file of FROM, add from->pid to the processes of that file. Otherwise return
 * -ENOENT, without a message.
 */
int site_table_know_file(struct site_table *table, const struct new_file *from);

/*
 * Add the file FROM, which must not be in the table, those of its probes for which WANTED(DATA,
 * name, probe) returns true, and the sites of these probes. Set *FILE to the new entry. CODE, which
 * may be NULL, then belongs to the table, even after an error.
 */
typedef bool (*probe_wanted_fn)(void *data, const char *name, struct measured_probe *probe);
int site_table_add_file(struct site_table *table, const struct new_file *from,
			struct code_probes *code, probe_wanted_fn wanted, void *data,
			struct measured_file **file);

/*
 * Remove FILE. If KEEPS is false, free the numbers of its sites. If KEEPS is true, these numbers
 * stay in use, and the entries of the sites remain, except for measured_site.site.
 */
void site_table_remove(struct site_table *table, struct measured_file *file, bool keeps);

/*
 * Remove the probes that are left out, and their sites, and give the remaining probes and sites new
 * numbers. Call this before other code uses the numbers.
 */
int site_table_drop_left_out(struct site_table *table);

/* Return the number of sites, without free numbers and sites of removed files. */
size_t site_table_count(const struct site_table *table);

/*
 * Make the table the owner of MEMORY, which is then freed with the table. On failure (-ENOMEM),
 * MEMORY is freed at once.
 */
int site_table_keep(struct site_table *table, void *memory);

/*
 * Find the functions that contain the sites of FILE, and the source positions of the sites' probes,
 * and store them in the sites.
 */
int site_table_read_source(struct site_table *table, const struct measured_file *file);

#endif
