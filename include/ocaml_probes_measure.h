/* SPDX-License-Identifier: MIT */
/*
 * ocaml_probes_measure.h - the part of ocaml_probes.h that measures: counts, times, histograms and
 * printed hits of probes, by the kernel
 *
 *	ocp_meter     a measurement of probes in any number of processes
 *	ocp_sample    the results of a meter at one moment
 *
 * Include ocaml_probes.h instead. The rules of ocaml_probes.h on errors, ownership and threads
 * apply here, too.
 */
#ifndef OCAML_PROBES_MEASURE_H
#define OCAML_PROBES_MEASURE_H

#include "ocaml_probes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- measuring ----------------------------------------------------------------------------- */

/*
 * Create a meter. A meter counts the hits of probes and times pairs of probes, in the kernel. It
 * runs no handlers and stops no process. Use it in this order: ocp_meter_add_process() or
 * ocp_meter_add_program(), the functions that choose what to measure, ocp_meter_open(),
 * ocp_meter_attach(), any number of ocp_meter_read(), ocp_meter_detach(), ocp_meter_free(). Returns
 * NULL if memory is short.
 *
 * Measuring needs Linux 6.6, CAP_BPF and CAP_PERFMON. On Linux 5.15, a caller with CAP_SYS_ADMIN
 * can count and time the probes of single processes, at a higher cost per hit; programs, children
 * and arguments need 6.6.
 */
OCP_API struct ocp_meter *ocp_meter_new(struct ocp_ctx *ctx);
/*
 * Check that the caller has the privileges to measure (-EPERM) and that the kernel has the features
 * (-EOPNOTSUPP). The message names what is missing.
 */
OCP_API int ocp_meter_check(struct ocp_ctx *ctx);
/* Detach the meter if it is attached, and free it. Accepts NULL. */
OCP_API void ocp_meter_free(struct ocp_meter *meter);

/*
 * Measure in PROC, which must outlive the meter. If a later process gets the pid of PROC, it is not
 * measured. On kernels before 6.6 or without BTF, such a later process is measured until the next
 * ocp_meter_refresh().
 *
 * If PROC executes the same file again, it is still measured. There is one exception: if PROC is
 * the only process of the meter, and a thread other than its main thread calls exec, the kernel's
 * filter no longer matches, and nothing is counted from then on.
 */
OCP_API int ocp_meter_add_process(struct ocp_meter *meter, struct ocp_process *proc);

/*
 * Measure in every process that runs the file PATH now or later; a file of the same name elsewhere
 * is not PATH. Cannot be combined with ocp_meter_add_process().
 */
OCP_API int ocp_meter_add_program(struct ocp_meter *meter, const char *path);

/* Also measure in the child processes of the measured processes. */
OCP_API void ocp_meter_follow_children(struct ocp_meter *meter);

/*
 * Count the probe NAME, or the probes whose names match RE (see ocp_actions_enable_regexp()), or
 * all probes. Probes of files that are loaded later are included. ocp_meter_open() checks that the
 * probes exist.
 */
OCP_API int ocp_meter_count(struct ocp_meter *meter, const char *name);
OCP_API int ocp_meter_count_regexp(struct ocp_meter *meter, const char *re);
OCP_API int ocp_meter_count_all(struct ocp_meter *meter);

/* By what the counts are split. */
enum ocp_split {
	OCP_BY_PROBE,
	OCP_BY_SITE,
	OCP_BY_THREAD,
	OCP_BY_PROCESS,
};
/* Split the counts of each probe. The default is OCP_BY_PROBE. */
OCP_API void ocp_meter_split(struct ocp_meter *meter, enum ocp_split split);

/*
 * Measure the time from a hit of the probe START to a hit of the probe STOP in the same thread, or
 * with the same key (see ocp_meter_set_key()). An open start is a hit of START that no stop has
 * ended yet. A stop ends the newest open start of its thread that has the same stack pointer,
 * because then the same call of a function has passed both probes. Open starts that are newer than
 * the ended one have lost their stops to an exception; they become orphan starts. If no open start
 * has the stack pointer of the stop, the stop ends the newest open start. Returns -EINVAL if the
 * names are equal or there are more than 512 pairs.
 *
 * If STOP is NULL, START is a function ("fn:Service.find", "c:caml_alloc_shr"), and its calls are
 * timed, from the entry to any exit. The frame on the stack identifies the call. A call that an
 * exception ends has no exit; it becomes an orphan start when a later call has the same frame, or
 * when the thread ends. ocp_meter_set_depth() has no effect on calls of functions.
 *
 * START can also be a pattern ("fn:Service\\..*"): ocp_meter_open() then adds a pair for each
 * function that matches and whose calls can be timed, and logs a warning that says how many
 * functions cannot be timed. It returns -EINVAL if more pairs result than the engine can time: 512
 * by BPF.
 */
OCP_API int ocp_meter_time(struct ocp_meter *meter, const char *start, const char *stop);

/*
 * Set the number of starts of one pair that a thread can have open at the same time: 1 to
 * OCP_MAX_DEPTH, which is the default. If a thread with this number of open starts hits START once
 * more, its oldest open start becomes an orphan start. Use 1 for pairs that are not nested and
 * whose stops may be skipped by exceptions: each start then replaces the previous one.
 */
enum { OCP_MAX_DEPTH = 32 };
OCP_API int ocp_meter_set_depth(struct ocp_meter *meter, unsigned int depth);

/* ---- arguments ------------------------------------------------------------------------------ */

/*
 * The arguments of a probe are called arg0, arg1 ... arg15, or by the names that the program gives
 * them (see ocp_arg_name()). Reading arguments needs Linux 6.6. If a probe lacks a requested
 * argument, or has it in a location that cannot be read, ocp_meter_open() leaves out the probe and
 * logs a warning that names the probe. ocp_meter_open() fails with -EINVAL if no probe remains, or
 * if the probe is part of a pair that needs the argument.
 */

/*
 * Measure only hits for which EXPR is true. This applies to counts, histograms, printed hits and
 * the starts of pairs. A stop is ignored if its start was rejected. EXPR consists of comparisons:
 *
 *	arg0 > 100	arg0 != -3	arg1 == "GET"	path ^= "/api/"	(starts with)
 *	arg2 >= 1.5	price < 1e3	arg2 == -inf	cached == true	letter == 'x'
 *
 * with && || ! and parentheses. Numbers are compared exactly with ints and floats. A comparison is
 * false if its argument cannot be read, or has another type than the literal (number or string);
 * see `filter_mismatches` in struct ocp_losses. If EXPR refers to an argument by its name, and the
 * program declares a type for this argument that excludes the comparison, ocp_meter_open() leaves
 * out the probe. Returns -EINVAL if EXPR is invalid (the message gives the column), and -E2BIG if
 * EXPR has more than 32 comparisons and operators.
 */
OCP_API int ocp_meter_filter(struct ocp_meter *meter, const char *expr);

/*
 * Match the starts and stops of all pairs by the argument ARG (for example "arg0") of both probes
 * instead of by thread. The argument is an integer or a string. Starts and stops match only within
 * the same process. If a start has the same value as an open start, it replaces the open start,
 * which becomes an orphan start. Strings are compared by a hash of their length and first 64 bytes.
 */
OCP_API int ocp_meter_set_key(struct ocp_meter *meter, const char *arg);

/*
 * For each counted probe that has the argument ARG (for example "arg0"), make a histogram of the
 * integers among the values of the argument, and a histogram of the floats among them. A counted
 * probe without this argument has no histogram; a warning is logged for each such probe.
 */
OCP_API int ocp_meter_histogram(struct ocp_meter *meter, const char *arg);

/*
 * Record the hits of the probe NAME, or of the probes whose names match RE, with their arguments.
 * ocp_meter_take_hits() then passes the recorded hits to the caller.
 */
OCP_API int ocp_meter_print(struct ocp_meter *meter, const char *name);
OCP_API int ocp_meter_print_regexp(struct ocp_meter *meter, const char *re);
/*
 * Set the number of hits that are recorded for printing per second. The default is 1000; 0 means no
 * limit. Hits above the limit are counted in `prints_limited` of struct ocp_losses.
 */
OCP_API void ocp_meter_set_print_limit(struct ocp_meter *meter, uint64_t hits);

/*
 * The kind of a value, as far as the bytes in OCaml's memory show it. Several OCaml types can have
 * the same kind.
 */
enum ocp_value_kind {
	OCP_INT,   /* also a bool, a char or a constant constructor */
	OCP_C_INT, /* an argument of a C probe, which is not an OCaml value */
	OCP_INT64,
	OCP_INT32,
	OCP_NATIVEINT,
	OCP_FLOAT,
	OCP_STRING,
	OCP_BLOCK,  /* a tuple, record, array or constructor; its fields are the items */
	OCP_LIST,   /* a value that looks like a list of at least one element */
	OCP_FLOATS, /* an array or record of unboxed floats */
	OCP_FORCED, /* a lazy value that was forced; its only item is the result */
	OCP_LAZY,
	OCP_CLOSURE,
	OCP_OBJECT,
	OCP_CUSTOM, /* a custom block; `bytes` is its identifier, or empty if unknown */
	OCP_ABSTRACT,
	OCP_UNREADABLE,
	OCP_UNSUPPORTED, /* the argument is in a location that the library does not read */
};

/* A value. Later versions may add members at the end. */
struct ocp_value {
	enum ocp_value_kind kind;
	unsigned int tag;  /* the tag of a block */
	bool is_cut;	   /* some bytes or items were not recorded */
	size_t n_items;	   /* items that were recorded */
	int64_t number;	   /* the value of an integer */
	double real;	   /* the value of a float */
	const char *bytes; /* the recorded bytes of a string; no NUL follows them */
	size_t n_bytes;
	uint64_t size; /* the full number of bytes, fields or elements; 0 for a list */
	const void *record;
	unsigned int node; /* `record` and `node` are private to the library */
};

/* A hit. Later versions may add members at the end. */
struct ocp_hit {
	int64_t time_ns; /* the time from ocp_meter_attach() to the hit */
	pid_t pid, tid;	 /* in the caller's pid namespace */
	const char *probe;
	const char *image; /* the path of the file that contains the site */
	uint64_t va;	   /* the link-time address of the site */
	size_t n_args;
	size_t n_left_out;     /* the number of arguments after the 16th, which are not recorded */
	const void *record;    /* private to the library */
	const void *stack;     /* private to the library */
	const char *arg_names; /* the names and types of the arguments: see ocp_arg_name() */
	const void *slow;      /* private to the library */
	const char *comm;      /* the name that the thread had at the hit */
};

/* A callback for hits. HIT is valid only during the call. */
typedef void (*ocp_hit_fn)(void *data, const struct ocp_hit *hit);

/*
 * Call FN(DATA, hit) for each recorded hit, in the order of time. Call this function about every 20
 * ms: the buffer for hits has a fixed size, and hits that find the buffer full are dropped and
 * counted. While the meter is attached, this function leaves the newest hits for the next call, so
 * that the order stays right.
 */
OCP_API int ocp_meter_take_hits(struct ocp_meter *meter, ocp_hit_fn fn, void *data);

/*
 * Return the argument number ARG of a hit, or the item number ITEM of a value. ARG must be less
 * than hit->n_args, and ITEM less than value->n_items.
 */
OCP_API struct ocp_value ocp_hit_arg(const struct ocp_hit *hit, size_t arg);
OCP_API struct ocp_value ocp_value_item(const struct ocp_value *value, size_t item);

/* Return the name of KIND: "int", "string" and so on. */
OCP_API const char *ocp_value_kind_name(enum ocp_value_kind kind);

/*
 * Write all arguments of HIT to OUT in the syntax of OCaml, with a space before each: 42 "abc" 3.14
 * 7L (1, "x") [1; 2]. If the name of an argument is known, it is written as name=value; if the type
 * is known, the value is written in the form for this type: id=7 ok=true. Values that were cut end
 * with "...". Characters that are not printable are escaped.
 */
OCP_API void ocp_hit_write_args(FILE *out, const struct ocp_hit *hit);

/* ---- open, attach --------------------------------------------------------------------------- */

/*
 * Find the sites to measure and load the BPF programs. No process is changed. Returns -ENOENT if a
 * probe does not exist or there is nothing to measure.
 *
 * If a program has no probes yet, because it loads them with plugins, a warning is logged, and the
 * probes are measured from the first ocp_meter_refresh() after they are loaded. If the program has
 * neither probes nor a dynamic loader, the error is -ENOENT.
 */
OCP_API int ocp_meter_open(struct ocp_meter *meter);

/* Start measuring all probes, at the same moment. */
OCP_API int ocp_meter_attach(struct ocp_meter *meter);

/*
 * Find new processes and newly loaded files with probes, and measure them too. *N_SITES is set to
 * the number of sites added. Call this function about every second, and at least every 45 s
 * (/proc/sys/fs/lease-break-time): a program that overwrites a measured file in place (`cp new
 * app`) is blocked until this function notices it. From then on the overwritten file is no longer
 * measured. Its counts remain, and all other files are still measured, but this and all later calls
 * return -ESTALE. If a file is replaced (rename), the meter continues to measure the processes that
 * run the old file; the caller can detect the replacement with stat(2).
 *
 * A loaded file that was deleted and that no process maps any more, such as a private copy of a
 * plugin, is dropped after some calls; its counts remain. A file with more sites than there is room
 * for is not measured. Each call tries to add such a file again, and returns -E2BIG while there is
 * no room.
 */
OCP_API int ocp_meter_refresh(struct ocp_meter *meter, size_t *n_sites);

/*
 * List the measured processes as of the last ocp_meter_refresh(), or as of ocp_meter_open() if
 * there was no refresh yet. *PIDS is set to an array of *N ids that ocp_process_open() accepts; the
 * caller frees it with free(). *COMPLETE is false if other processes may be measured too: processes
 * that the caller may not inspect, and children.
 */
OCP_API int ocp_meter_processes(const struct ocp_meter *meter, pid_t **pids, size_t *n,
				bool *complete);

/*
 * Stop (ON is false) or resume counting the probe NAME. If called before ocp_meter_attach(), this
 * function decides whether the probe is attached at all. A probe that is not counted costs nothing:
 * the meter has no uprobe on its sites. The hits counted so far are kept. The counts of all other
 * probes stay exact. The call takes up to 0.1 s. Returns -ENOENT if the probe is not measured, and
 * -EINVAL if it is part of a pair or printed.
 */
OCP_API int ocp_meter_switch(struct ocp_meter *meter, const char *name, bool on);

/*
 * If hits are split by process or thread, remove the rows of processes and threads that have ended,
 * to make room for new ones. The hits of a removed row are added to a row of the same probe with
 * pid and tid 0, so that the sums remain the same.
 */
OCP_API int ocp_meter_forget_ended(struct ocp_meter *meter);

/* The number of probes, sites and processes that are measured; 0 processes means any number. */
OCP_API size_t ocp_meter_probe_count(const struct ocp_meter *meter);
OCP_API size_t ocp_meter_site_count(const struct ocp_meter *meter);
OCP_API size_t ocp_meter_process_count(const struct ocp_meter *meter);

/*
 * The estimated cost of the sites of an open meter. Later versions may add members at the end. The
 * costs per hit come from a first, rough measurement; they are 0 if no site is single-stepped, or
 * if the measurement failed.
 */
struct ocp_estimate {
	size_t n_sites;
	/*
	 * The number of sites whose instruction the kernel single-steps, included in n_sites. A hit
	 * of such a site costs ten times as much as a hit of another site.
	 */
	size_t n_stepped;
	double cost_per_hit_ns, cost_per_stepped_hit_ns;
};

/*
 * Estimate the cost of the hits of METER, which must be open but need not be attached. This takes
 * up to 30 ms if sites are single-stepped, and less if ocp_meter_expect_estimate() was called
 * before the meter was opened.
 */
OCP_API int ocp_meter_estimate(struct ocp_meter *meter, struct ocp_estimate *estimate);
OCP_API void ocp_meter_expect_estimate(struct ocp_meter *meter);
/* Write ESTIMATE to TEXT in words. Returns false if no site is single-stepped. */
enum { OCP_ESTIMATE_BYTES = 160 };
OCP_API bool ocp_estimate_text(const struct ocp_estimate *estimate, char text[OCP_ESTIMATE_BYTES]);

/* The cost of measuring on this machine. Later versions may add members at the end. */
struct ocp_costs {
	double cost_per_hit_ns; /* the time by which a hit delays the process */
	/* the time measured for a pair with nothing in between; 0 without pairs */
	double empty_pair_ns;
	/*
	 * The same as cost_per_hit_ns and empty_pair_ns, but for sites whose instruction the kernel
	 * single-steps (dormant probes, most exits of functions) instead of emulating it. 0 if
	 * there was no such site at the attach.
	 */
	double cost_per_stepped_hit_ns, empty_stepped_pair_ns;
	/*
	 * Like cost_per_hit_ns, for a hit that begins or ends a pair. 0: equal to cost_per_hit_ns.
	 */
	double cost_per_paired_hit_ns;
};

/*
 * Read the cost of measuring. After the attach, a thread of the library measures the cost on sites
 * in the library itself. This function waits until that thread has finished: about 40 ms for each
 * meter that the caller attached at the same time. Returns -ENODATA and sets all members to 0 if
 * the cost could not be measured.
 */
OCP_API int ocp_meter_costs(struct ocp_meter *meter, struct ocp_costs *costs);
/*
 * Like ocp_meter_costs(), but do not wait. Returns -EAGAIN and sets all members to 0 while the cost
 * is unknown.
 */
OCP_API int ocp_meter_costs_now(struct ocp_meter *meter, struct ocp_costs *costs);

/* Stop measuring. The next sample contains all hits up to now, and no later ones. */
OCP_API int ocp_meter_detach(struct ocp_meter *meter);

/* ---- samples ------------------------------------------------------------------------------- */

/*
 * The hits of a measured probe: the sum of its rows (struct ocp_hits), over the threads, processes
 * or sites by which hits are split. Later versions may add members at the end.
 */
struct ocp_probe_hits {
	const char *probe;
	uint64_t hits;	 /* hits of all sites of the probe, including sites of dropped files */
	size_t n_sites;	 /* the number of sites that the probe has now */
	bool is_counted; /* the probe was chosen by ocp_meter_count, _count_regexp or _count_all */
	bool is_in_pair; /* the probe was chosen by ocp_meter_time */
	/*
	 * n_uses is the number of uses of the probe in the source, according to the notes of the
	 * measured files. n_uses_without_site is the number of those for which the compiler
	 * (provider ocaml_2) made no site; their executions are not counted.
	 */
	size_t n_uses, n_uses_without_site;
};

/*
 * A row of counts: the hits of one probe or, if ocp_meter_split() has split the hits, of one site,
 * process or thread of this probe. Later versions may add members at the end.
 */
struct ocp_hits {
	const char *probe;
	uint64_t hits;
	/* For OCP_BY_SITE: */
	const char *image;  /* the path of the file; NULL if not split by site */
	uint64_t va;	    /* the link-time address of the site */
	const char *symbol; /* the function that contains the site; NULL if unknown */
	uint64_t symbol_off;
	/*
	 * The position of the probe in the source: the file as it was given to the compiler, and
	 * the line; NULL and 0 if the position is uncertain. If the site was inlined, this is still
	 * the position of the probe itself.
	 */
	const char *source;
	int line;
	/* For OCP_BY_THREAD and OCP_BY_PROCESS; 0 if not split by thread or process. */
	pid_t pid, tid;
	/* the name that the thread had at its last hit, or the name of the process */
	const char *comm;
	int column; /* the column of the probe in its line, in bytes from 0 */
};

/*
 * The results of a pair. Each start is counted in exactly one of count, orphan_starts, map_full,
 * not_keyed and open. Later versions may add members at the end.
 *
 * If pairs are matched by thread, an open start becomes an orphan start in three cases: a stop ends
 * an older open start of the same thread, the thread has too many open starts, or the thread ends.
 * If pairs are matched by a key, an open start becomes an orphan start if a later start has the
 * same key, or if the process of the open start ends.
 */
struct ocp_pair {
	const char *start, *stop; /* `stop` is "" if `start` is a function whose calls are timed */
	uint64_t count;		  /* completed pairs */
	uint64_t sum_ns;	  /* the sum of the times of completed pairs */
	uint64_t min_ns, max_ns;  /* 0 if count is 0 */
	uint64_t starts;
	uint64_t orphan_starts;	 /* starts that will have no stop; see above */
	uint64_t orphan_stops;	 /* stops without a start, or without a key */
	uint64_t map_full;	 /* starts for which there was no room */
	uint64_t not_keyed;	 /* starts whose argument cannot be a key */
	uint64_t open;		 /* starts that no stop has ended yet */
	const uint64_t *buckets; /* a histogram of the times, OCP_BUCKETS entries */
	bool by_key;		 /* starts and stops are matched by an argument, not by thread */
	/*
	 * The number of pairs, included in `count`, whose start and stop have different values of
	 * an argument that both probes have: the stop then belongs to another request, and the time
	 * is wrong. Counted only for pairs matched by thread, if the caller has requested this
	 * comparison.
	 */
	uint64_t mismatched;
};

/*
 * Histograms are log-linear: values below 16 have a bucket each, and each power of 2 above has 8
 * buckets.
 */
enum { OCP_BUCKETS = 496 };
/* Return the smallest value that belongs to bucket number BUCKET. */
OCP_API uint64_t ocp_bucket_start(size_t bucket);
/*
 * Return the quantile QUANTILE (0 to 1) of a histogram with OCP_BUCKETS entries, interpolated
 * within the bucket that contains it; 0 if the histogram is empty.
 */
OCP_API uint64_t ocp_bucket_quantile(const uint64_t *buckets, double quantile);

/*
 * Return the quantile QUANTILE (0 to 1) of the times of PAIR in nanoseconds, at least min_ns and at
 * most max_ns.
 */
OCP_API uint64_t ocp_pair_quantile_ns(const struct ocp_pair *pair, double quantile);

/*
 * Histograms of signed numbers have the same buckets on both sides of 0, sorted by value. Bucket
 * number OCP_BUCKETS begins at 0.
 */
enum { OCP_SIGNED_BUCKETS = 2 * OCP_BUCKETS };
/*
 * Return the smallest value that belongs to bucket number BUCKET; INT64_MAX if BUCKET is the number
 * of buckets.
 */
OCP_API int64_t ocp_signed_bucket_start(size_t bucket);

/*
 * Histograms of floats have 8 buckets of equal width per power of 2 from 2^-32 to 2^64, both for
 * positive and for negative floats. There is one bucket for 0.0 and -0.0, a bucket on each side for
 * floats closer to 0 than 2^-32, and a bucket on each side for all floats beyond 2^64. Buckets are
 * sorted by value.
 */
enum { OCP_FLOAT_BUCKETS = 1541, OCP_FLOAT_ZERO_BUCKET = OCP_FLOAT_BUCKETS / 2 };
/*
 * Return the smallest value that belongs to bucket number BUCKET; infinity if BUCKET is the number
 * of buckets.
 */
OCP_API double ocp_float_bucket_start(size_t bucket);

/* The floats among the values of an argument. Later versions may add members at the end. */
struct ocp_float_histogram {
	uint64_t count; /* the number of finite floats; `sum` to `buckets` cover only these */
	uint64_t nan, inf, minus_inf; /* the numbers of all other floats */
	double sum, mean;	 /* of all finite floats, rounded once; infinite if too large */
	double min, max;	 /* 0 if count is 0 */
	const uint64_t *buckets; /* OCP_FLOAT_BUCKETS entries */
};

/* The values of an argument. Later versions may add members at the end. */
struct ocp_histogram {
	const char *probe;
	unsigned int arg; /* the number of the argument at the first site that has it */
	uint64_t count;	  /* hits with an integer argument; `sum` to `buckets` cover only these */
	uint64_t not_int; /* hits whose argument was not an integer; includes floats */
	int64_t sum;	  /* the exact sum; INT64_MIN or INT64_MAX if it is out of range */
	double mean;
	int64_t min, max;	 /* 0 if count is 0 */
	const uint64_t *buckets; /* OCP_SIGNED_BUCKETS entries */
	const char *arg_name;	 /* the name of the argument at that site; "" if it has no name */
	uint64_t not_number;	 /* hits whose argument was neither an integer nor a float */
	/*
	 * The floats among the values; NULL if no value has been a float so far. Belongs to the
	 * sample.
	 */
	const struct ocp_float_histogram *floats;
};

/* The numbers of hits that were not measured, or only in part. These hits cost time, too. */
struct ocp_losses {
	uint64_t passed_over;	/* hits in processes that are not measured */
	uint64_t rows_full;	/* hits whose thread or process got no row: no room for more rows */
	uint64_t children_full; /* child processes that were not followed: no room for more */
	/* hits that the filter rejected, or calls that are not outermost */
	uint64_t filtered;
	uint64_t prints_dropped; /* hits that were not printed because the buffer was full */
	/* hits that were not printed because of ocp_meter_set_print_limit() */
	uint64_t prints_limited;
	/*
	 * `filter_mismatches` counts the hits for which the filter compared an argument with a
	 * literal of another type, in a comparison that may have decided the result. Such a
	 * comparison is false, even with !=. `filter_mismatch` describes one of these hits, for
	 * example "arg0 of probe 'work' is an int and is compared with a string". It is NULL if
	 * `filter_mismatches` is 0, and belongs to the sample.
	 */
	uint64_t filter_mismatches;
	const char *filter_mismatch;
	/*
	 * The numbers of slow pairs, if slow pairs are reported one by one. `slow` counts all of
	 * them, including slow_limited and slow_dropped, which were not reported, and slow_unkept,
	 * which were reported without the arguments of their start.
	 */
	uint64_t slow;
	uint64_t slow_limited; /* not reported: more than the limit per second */
	uint64_t slow_dropped; /* not reported: the buffer was full */
	/* reported without the arguments of the start: no room to keep these */
	uint64_t slow_unkept;
};

/*
 * Read everything measured since the attach. Free *OUT with ocp_sample_free() before METER. The
 * results that the following functions return belong to the sample.
 */
OCP_API int ocp_meter_read(struct ocp_meter *meter, struct ocp_sample **out);
OCP_API void ocp_sample_free(struct ocp_sample *sample);
/*
 * The time from the attach to the sample (or to the detach, if the meter was detached before), in
 * nanoseconds.
 */
OCP_API int64_t ocp_sample_time_ns(const struct ocp_sample *sample);
/* The hits of all probes, including hits that cost time but were not measured. */
OCP_API uint64_t ocp_sample_all_hits(const struct ocp_sample *sample);
/*
 * The hits at sites that the kernel single-steps. Each costs ocp_costs.cost_per_stepped_hit_ns. The
 * sites of hits that a filter rejected, and of hits in processes that are not measured, are not
 * known: the function assumes the same share of single-stepped hits as among the other hits.
 */
OCP_API uint64_t ocp_sample_stepped_hits(const struct ocp_sample *sample);
/*
 * Return the average cost of a hit in nanoseconds, over all hits of the sample. If the sample has 0
 * hits, return COSTS->cost_per_hit_ns.
 */
OCP_API double ocp_sample_cost_per_hit_ns(const struct ocp_sample *sample,
					  const struct ocp_costs *costs);
/* The numbers of hits that were not measured, or only in part. */
OCP_API const struct ocp_losses *ocp_sample_losses(const struct ocp_sample *sample);
/* The measured probes, sorted by name. */
OCP_API size_t ocp_sample_probe_count(const struct ocp_sample *sample);
OCP_API const struct ocp_probe_hits *ocp_sample_probe(const struct ocp_sample *sample, size_t i);
/* The rows of counts, sorted by the name of the probe and then by thread, process or site. */
OCP_API size_t ocp_sample_hits_count(const struct ocp_sample *sample);
OCP_API const struct ocp_hits *ocp_sample_hits(const struct ocp_sample *sample, size_t i);
/* The pairs, in the order of the calls of ocp_meter_time(). */
OCP_API size_t ocp_sample_pair_count(const struct ocp_sample *sample);
OCP_API const struct ocp_pair *ocp_sample_pair(const struct ocp_sample *sample, size_t i);

/* The histograms that ocp_meter_histogram() requested, sorted by the name of the probe. */
OCP_API size_t ocp_sample_histogram_count(const struct ocp_sample *sample);
OCP_API const struct ocp_histogram *ocp_sample_histogram(const struct ocp_sample *sample, size_t i);

/*
 * Set *OUT to the difference of two samples of the same meter: what happened from EARLIER to LATER.
 * The minimum and maximum of pairs and histograms are then known only with the precision of a
 * bucket. Free *OUT with ocp_sample_free().
 */
OCP_API int ocp_sample_difference(const struct ocp_sample *later, const struct ocp_sample *earlier,
				  struct ocp_sample **out);

/* ---- pinned meters -------------------------------------------------------------------------- */

/*
 * Pin METER, which must be attached: it continues to measure after it is freed and after the caller
 * has ended. Its maps and links get names below OCP_PINNED_FOLDER/NAME; bpf/measure.h describes the
 * maps. NAME consists of A-Z a-z 0-9 _ -. Returns -EEXIST if NAME is taken. No process calls
 * ocp_meter_refresh() for a pinned meter, so do not overwrite the measured files in place.
 */
#define OCP_PINNED_FOLDER "/sys/fs/bpf/ocaml-probes"
OCP_API int ocp_meter_pin(struct ocp_meter *meter, const char *name);
/* Check whether a meter could be pinned as NAME. No meter is needed. */
OCP_API int ocp_pinned_check(struct ocp_ctx *ctx, const char *name);

/*
 * Open the pinned meter NAME to read its counts. ocp_meter_free() leaves the meter measuring;
 * ocp_meter_detach() ends it and removes its name. Also finds a meter that counts inside a process
 * (`attach --engine inside`): NAME is searched for in all processes that the caller may trace. Such
 * a meter ends with its process. The errors are:
 *
 *	-ENOENT   there is no pinned meter NAME
 *	-EBADMSG  the pinned meter is incomplete, or its maps have changed
 *	-EEXIST   different processes have different meters of this name
 *	-EPROTO   another version of this library pinned the meter
 *	-EPERM    a user other than root and the caller could have changed the meter
 */
OCP_API int ocp_pinned_open(struct ocp_ctx *ctx, const char *name, struct ocp_meter **out);

/* End and remove the pinned meter NAME, even if it is incomplete. */
OCP_API int ocp_pinned_remove(struct ocp_ctx *ctx, const char *name);

/*
 * List the names of all pinned meters, sorted. *NAMES is set to an array of *N strings. The array
 * and the strings are one block; the caller frees it with free(*NAMES).
 */
OCP_API int ocp_pinned_list(struct ocp_ctx *ctx, char ***names, size_t *n);

/* The path of the measured program, or NULL if METER measures single processes. */
OCP_API const char *ocp_meter_program(const struct ocp_meter *meter);
/* The pid of measured process number I, which must be less than ocp_meter_process_count(). */
OCP_API pid_t ocp_meter_process(const struct ocp_meter *meter, size_t i);
/* The split that ocp_meter_split() has set for METER. */
OCP_API enum ocp_split ocp_meter_get_split(const struct ocp_meter *meter);

/* ---- bpftrace ------------------------------------------------------------------------------- */

enum ocp_bpftrace {
	OCP_BPFTRACE_COUNT, /* count the hits of each probe */
	OCP_BPFTRACE_TIME,  /* measure the times between two probes, START,STOP, in a thread */
	OCP_BPFTRACE_ARGS,  /* print one line per hit, with the arguments */
};

/*
 * Write a shell command that makes bpftrace do WHAT with probes of PROC. NAMES is a list of probe
 * names separated by commas. If NAMES contains characters that are neither commas nor allowed in
 * probe names, it is a regular expression as in ocp_actions_enable_regexp(). The caller frees
 * *SCRIPT with free().
 */
OCP_API int ocp_process_bpftrace(struct ocp_process *proc, enum ocp_bpftrace what,
				 const char *names, char **script);
/*
 * Like ocp_process_bpftrace(), but for every process that runs the file PATH. PROG was read from
 * PATH.
 */
OCP_API int ocp_program_bpftrace(struct ocp_program *prog, const char *path, enum ocp_bpftrace what,
				 const char *names, char **script);

#ifdef __cplusplus
}
#endif

#endif /* OCAML_PROBES_MEASURE_H */
