/* SPDX-License-Identifier: MIT */
/*
 * Room measure/sites: numbers for sites.
 * In: probes and their files, as they are found.
 * Out: sites with numbers that stay.
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

/* What changes when the contents of a file change. */
struct file_identity {
	struct timespec modified, changed;
	off_t bytes;
};

struct file_guard {
	int fd;		/* our own open file description, which has the lease; -1: not guarded */
	bool has_lease; /* an open() of the file for writing waits until we release it */
	bool may_retry; /* no lease yet: the file is open for writing */
	struct file_identity identity;
	unsigned int n_unread; /* failed attempts to read the file since it changed */
};

struct file_identity file_identity_of(const struct stat *st);

/*
 * What a guarded file contained when it was read: its probes, and its measured functions or NULL.
 */
struct guarded {
	const char *name; /* for messages */
	const struct ocp_program *prog;
	const struct code_probes *code;
};

/*
 * Guard the file PATH. WHAT was read when the file had the identity guard->identity. Return -ESTALE
 * if the file has been overwritten since. Return 0 also if the file cannot be guarded.
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
	bool is_off;	      /* currently detached from its sites */
	bool is_left_out;     /* to be removed: see site_table_drop_left_out */
	bool is_told;	      /* a warning about its left-out sites was logged */
	bool lacks_histogram; /* a site lacks the argument of the requested histogram */
	bool has_histogram;
	/*
	 * Like lacks_histogram and has_histogram, for groups of hits by the value of an argument.
	 */
	bool lacks_groups, is_grouped;
	bool has_by_type;
	/* type of that argument; OCP_ARG_ANY: unknown, or sites differ */
	enum ocp_arg_type by_type;
	bool is_warned_of_args;	      /* a warning about unknown argument locations was logged */
	uint32_t histogram;	      /* the number of its histogram */
	uint32_t histogram_args;      /* measured_site.args of a site with the histogram */
	uint64_t past_hits;	      /* the hits of sites that were removed */
	size_t n_uses;		      /* uses in the source, according to notes */
	size_t n_uses_without_site;   /* uses for which there is no site; not counted */
	uint32_t first_role, n_roles; /* in meter->roles: the pairs it begins or ends */
	bool begins_pair;
	uint32_t key_args, compared_args; /* see struct meter_end */
	bool has_calls; /* its last role is the beginning of a call: see struct meter_end */
};

struct measured_file {
	dev_t dev;
	ino_t ino;
	char *name;		  /* as the process sees it */
	char path[FD_PATH_BYTES]; /* for the kernel: /proc/self/fd/N */
	const struct ocp_program *prog;
	struct ocp_program *own; /* prog if the file owns it, else NULL */
	/* The measured functions of the file, which owns CODE; NULL: none. */
	struct code_probes *code;
	pid_t *pids; /* processes that map it, if single processes are measured */
	size_t n_pids;
	size_t first_site, n_sites; /* the measured sites */
	/* number of its sites, if no numbers were left for them; n_sites is then 0 */
	size_t n_left_out;
	bool is_attached;
	struct file_guard guard; /* in use while the file is attached */
	bool is_lost;		 /* the file was overwritten and is no longer measured */
	bool has_uses;		 /* its uses are included in measured_probe.n_uses */
	bool is_gone;		 /* removed; the slot can be reused if name is NULL */
	bool is_idle;		 /* no process mapped it at the last check */
	unsigned int round;	 /* the round in which it was added */
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
	uint32_t args;	  /* number of its arguments in the meter's arg_table */
	bool is_left_out; /* the engine does not attach to it */
	bool is_stepped;  /* the kernel single-steps its instruction */
	bool counts;	  /* a hit of the site counts as a hit of its probe */
};

struct site_table {
	struct ocp_ctx *ctx;
	struct measured_probe *probes;
	size_t n_probes;
	uint32_t *by_name; /* the probes' numbers, sorted by name */
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
 * Add a file that is not in the table, the probes in it for which WANTED(DATA, name, probe) is
 * true, and their sites. CODE, which may be NULL, now belongs to the table, also after an error.
 */
typedef bool (*probe_wanted_fn)(void *data, const char *name, struct measured_probe *probe);
int site_table_add_file(struct site_table *table, const struct new_file *from,
			struct code_probes *code, probe_wanted_fn wanted, void *data,
			struct measured_file **file);

/*
 * Remove FILE and free the numbers of its sites. If KEEPS is true, the numbers stay in use, and the
 * data of the sites remains, except `site`.
 */
void site_table_remove(struct site_table *table, struct measured_file *file, bool keeps);

/*
 * Remove the probes that are left out, and their sites, and renumber the others. Call this before
 * numbers are used elsewhere.
 */
int site_table_drop_left_out(struct site_table *table);

/* Return the number of sites, without free numbers and sites of removed files. */
size_t site_table_count(const struct site_table *table);

/*
 * Make the table the owner of MEMORY, which it frees at its end. On failure (-ENOMEM), free MEMORY
 * at once.
 */
int site_table_keep(struct site_table *table, void *memory);

/*
 * Find the functions that contain the sites of FILE, and the source positions of the sites' probes,
 * and store them in the sites.
 */
int site_table_read_source(struct site_table *table, const struct measured_file *file);

#endif
