/* SPDX-License-Identifier: MIT */
/*
 * ocaml_probes_measure.h - the part of ocaml_probes.h that measures: counts, times, histograms and
 * prints of probes, by the kernel
 *
 *	ocp_meter     what is measured of probes in any number of processes
 *	ocp_sample    what a meter had measured at one moment
 *
 * To be had by including ocaml_probes.h, whose rules on errors, ownership and threads hold here.
 */
#ifndef OCAML_PROBES_MEASURE_H
#define OCAML_PROBES_MEASURE_H

#include "ocaml_probes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- measuring ----------------------------------------------------------------------------- */

/*
 * A meter counts the runs of probes, and times pairs of them, in the kernel: no handler runs for it
 * and no process is stopped. Say what is to be measured and where (ocp_meter_add_..., _count, _time
 * ...), then open, attach, read as often as you like, detach. Needs CAP_BPF and CAP_PERFMON, and
 * Linux 6.6. With CAP_SYS_ADMIN 5.15 will do for counts and times of single processes, slowly;
 * programs, children and arguments need 6.6.
 */
OCP_API struct ocp_meter *ocp_meter_new(struct ocp_ctx *ctx);
/* May the caller measure, and can this kernel? -EPERM or -EOPNOTSUPP say what is missing. */
OCP_API int ocp_meter_check(struct ocp_ctx *ctx);
/* Detaches first if need be. Takes NULL. */
OCP_API void ocp_meter_free(struct ocp_meter *meter);

/*
 * Measure in PROC, which must outlive the meter. Whoever has its number after its end is a stranger
 * and not counted; on kernels without BTF or before 6.6, from the next ocp_meter_refresh on. When
 * it execs the same file again it is measured on, unless it is the only process and a thread other
 * than its first one execs: that ends the kernel's filter, and nothing is counted any more.
 */
OCP_API int ocp_meter_add_process(struct ocp_meter *meter, struct ocp_process *proc);

/*
 * Measure in every process that runs the file PATH, which is that file and not another one of its
 * name, now or later. Excludes ocp_meter_add_process.
 */
OCP_API int ocp_meter_add_program(struct ocp_meter *meter, const char *path);

/* Measure in what the processes fork, too. */
OCP_API void ocp_meter_follow_children(struct ocp_meter *meter);

/*
 * Count a probe by NAME, or all whose names match RE (as ocp_actions_enable_regexp), or all. What
 * is loaded later is included. That there are such probes is checked by ocp_meter_open, unless
 * there are none at all yet.
 */
OCP_API int ocp_meter_count(struct ocp_meter *meter, const char *name);
OCP_API int ocp_meter_count_regexp(struct ocp_meter *meter, const char *re);
OCP_API int ocp_meter_count_all(struct ocp_meter *meter);

/* What counts are told apart by. */
enum ocp_split {
	OCP_BY_PROBE,
	OCP_BY_SITE,
	OCP_BY_THREAD,
	OCP_BY_PROCESS,
};
OCP_API void ocp_meter_split(struct ocp_meter *meter, enum ocp_split split);

/*
 * Time from a run of the probe START to one of STOP, in the same thread (but see
 * ocp_meter_set_key). A stop ends its thread's newest start that was made with the same stack
 * pointer, that is, by the same run of a function that passes both; the starts after that one have
 * lost their stops to an exception, and are orphans. Where no open start has the stop's stack
 * pointer, it ends the newest. -EINVAL for equal names, or too many pairs (64).
 */
OCP_API int ocp_meter_time(struct ocp_meter *meter, const char *start, const char *stop);

/*
 * How many starts of one pair a thread can have open, 1 to OCP_MAX_DEPTH, which is the default. One
 * more takes the place of the oldest, which is an orphan then. With 1 each start takes the place of
 * the one before, for pairs that are not nested and whose stops exceptions skip.
 */
enum { OCP_MAX_DEPTH = 32 };
OCP_API int ocp_meter_set_depth(struct ocp_meter *meter, unsigned int depth);

/* ---- arguments ------------------------------------------------------------------------------ */

/*
 * Arguments are called arg0, arg1 ... arg15. A probe that does not have one that is asked for, or
 * has it in a place that cannot be read, is left out: ocp_meter_open logs a warning that names it.
 * It fails with -EINVAL if no probe is left, or if the probe is part of a pair that needs it. Needs
 * Linux 6.6.
 */

/*
 * Look at hits that satisfy EXPR only: in counts, histograms, printed hits, and starts of pairs; a
 * stop that ends a start that does not is passed over in silence. EXPR is made of comparisons like
 *
 *	arg0 > 100	arg0 != -3	arg1 == "GET"	arg1 ^= "/api/"	(starts with)
 *	arg2 >= 1.5	arg2 < 1e3	arg2 == -inf
 *
 * with && || ! and parentheses. Numbers compare with ints and with floats, exactly. A comparison
 * with what an argument is not (with a string if it is an int, or cannot be read) is false; see
 * `filter_mismatches` in struct ocp_losses. -EINVAL, naming the column, for what is no such expression;
 * -E2BIG for one of more than 32 operators.
 */
OCP_API int ocp_meter_filter(struct ocp_meter *meter, const char *expr);

/*
 * Match starts and stops of all pairs by the value of the argument ARG ("arg0") of both probes, an
 * integer or a string by its contents, instead of by thread, within a process. A start with the
 * same value replaces the one before. Strings are told apart by a hash of their length and first 64
 * bytes.
 */
OCP_API int ocp_meter_set_key(struct ocp_meter *meter, const char *arg);

/*
 * A histogram of the integer argument ARG ("arg0") of every probe that is counted and has it; the
 * others are counted without one, and warned of.
 */
OCP_API int ocp_meter_histogram(struct ocp_meter *meter, const char *arg);

/* Print hits, arguments included, of a probe by name, or of all whose names match. */
OCP_API int ocp_meter_print(struct ocp_meter *meter, const char *name);
OCP_API int ocp_meter_print_regexp(struct ocp_meter *meter, const char *re);
/* The most hits that are printed a second, 1000 unless set; 0: all. What is above is counted. */
OCP_API void ocp_meter_set_print_limit(struct ocp_meter *meter, uint64_t hits);

/* What a value in OCaml's memory shows of itself; that is less than its type. */
enum ocp_value_kind {
	OCP_INT,   /* a bool, a char or a constant constructor, too */
	OCP_C_INT, /* of a C probe, whose arguments are no OCaml values */
	OCP_INT64,
	OCP_INT32,
	OCP_NATIVEINT,
	OCP_FLOAT,
	OCP_STRING,
	OCP_BLOCK,  /* a tuple, record, array, constructor; items are its fields */
	OCP_LIST,   /* what looks like a list of at least one element */
	OCP_FLOATS, /* an array or record of unboxed floats */
	OCP_FORCED, /* a lazy value and, as its item, the result */
	OCP_LAZY,
	OCP_CLOSURE,
	OCP_OBJECT,
	OCP_CUSTOM, /* bytes are its identifier, empty if that is unknown */
	OCP_ABSTRACT,
	OCP_UNREADABLE,
	OCP_UNSUPPORTED, /* in a place that is not read */
};

/* Members may be added at the end. */
struct ocp_value {
	enum ocp_value_kind kind;
	unsigned int tag;  /* of a block */
	bool is_cut;	   /* not all bytes or items were recorded */
	size_t n_items;	   /* that were */
	int64_t number;	   /* of the integers */
	double real;	   /* of a float */
	const char *bytes; /* of a string, any bytes, no NUL behind them */
	size_t n_bytes;
	uint64_t size; /* in full: bytes, fields, elements; of a list 0 */
	const void *record;
	unsigned int node; /* these two are the library's */
};

/* Members may be added at the end. */
struct ocp_hit {
	int64_t time_ns; /* since the attach */
	pid_t pid, tid;	 /* as in their pid namespace, if ours is not the initial one */
	const char *probe;
	const char *image; /* path of the file */
	uint64_t va;	   /* of the site, as linked */
	size_t n_args;
	size_t n_left_out;  /* arguments beyond the 16th */
	const void *record; /* the library's */
};

/* HIT is valid during the call only. */
typedef void (*ocp_hit_fn)(void *data, const struct ocp_hit *hit);

/*
 * Call FN(DATA, hit) for each hit that has come to be printed, in the order of time. To be called
 * every 20 ms or so: the buffer is bounded, what finds no room is counted as dropped. While
 * attached, hits since the last call are left for the next one, for the sake of the order.
 */
OCP_API int ocp_meter_take_hits(struct ocp_meter *meter, ocp_hit_fn fn, void *data);

/* Argument ARG, less than hit->n_args; item ITEM, less than value->n_items. */
OCP_API struct ocp_value ocp_hit_arg(const struct ocp_hit *hit, size_t arg);
OCP_API struct ocp_value ocp_value_item(const struct ocp_value *value, size_t item);

/* "int", "string" and so on. */
OCP_API const char *ocp_value_kind_name(enum ocp_value_kind kind);

/*
 * Write all arguments, a space before each, as OCaml would: 42 "abc" 3.14 7L (1, "x") [1; 2].
 * What was cut ends with "...". Only printable characters are written, whatever the strings hold.
 */
OCP_API void ocp_hit_write_args(FILE *out, const struct ocp_hit *hit);

/* ---- open, attach --------------------------------------------------------------------------- */

/*
 * Find out what is to be measured at which sites, and load the BPF programs; no process is touched.
 * -ENOENT for probes that do not exist, or if there is nothing to measure. Where there are no
 * probes at all yet, as in a program that has none and loads plugins, that is logged as a warning,
 * and what comes is measured after the next ocp_meter_refresh; only where the program has no
 * dynamic loader it is -ENOENT.
 */
OCP_API int ocp_meter_open(struct ocp_meter *meter);

/* Begin to measure, all probes at one moment. */
OCP_API int ocp_meter_attach(struct ocp_meter *meter);

/*
 * Look which processes there are and whether they have loaded files with probes since, and measure
 * these, too. *N_SITES says how many sites have been added. To be called every second or so, and in
 * less than 45 s (/proc/sys/fs/lease-break-time): whoever wants to overwrite a measured file in
 * place (`cp new app`) waits until it is noticed here. Nothing of that file is measured from then
 * on, its counts stay, and the answer is -ESTALE, now and later; all else goes on. A file that is
 * replaced (rename) is no affair of the meter, which measures those who run the old one; the caller
 * sees it by its path and stat().
 *
 * A loaded file that was deleted and that no process has mapped any more, such as a private copy of
 * a plugin, is given up some calls later: its counts stay. One that has more sites than there is
 * room for is not measured, all else is; it is tried again by the next call, and the answer is
 * -E2BIG as long as that is so.
 */
OCP_API int ocp_meter_refresh(struct ocp_meter *meter, size_t *n_sites);

/*
 * The processes that are measured, as the last refresh (before: the open) found them, each by an id
 * that ocp_process_open takes: *N at *PIDS, to be freed by the caller with free(). *COMPLETE is
 * false if there may be more that are measured, but may not be inspected, or are children of these.
 */
OCP_API int ocp_meter_processes(const struct ocp_meter *meter, pid_t **pids, size_t *n,
				bool *complete);

/*
 * Switch the counter of the probe NAME off or on while attached (or before: then it is attached
 * like that). Off, it costs nothing: its sites have no uprobe, unless somebody else's; its counts
 * stay as they are. What is counted of all other probes is exact all the while. Takes up to a tenth
 * of a second. -ENOENT for a probe that is not measured; -EINVAL for one that is a part of a pair
 * or printed.
 */
OCP_API int ocp_meter_switch(struct ocp_meter *meter, const char *name, bool on);

/*
 * If hits are told apart by process or thread: forget the rows of those that have ended (with
 * others' numbers one day), for which there is no room without end. Their hits are in a row of
 * their probe whose pid and tid are 0, so that the sums stay what they were.
 */
OCP_API int ocp_meter_forget_ended(struct ocp_meter *meter);

/* How many probes and sites are measured, and in how many processes (0: any that comes). */
OCP_API size_t ocp_meter_probe_count(const struct ocp_meter *meter);
OCP_API size_t ocp_meter_site_count(const struct ocp_meter *meter);
OCP_API size_t ocp_meter_process_count(const struct ocp_meter *meter);

/* What measuring costs on this machine, now. Members may be added at the end. */
struct ocp_costs {
	double cost_per_hit_ns; /* a hit, to the process */
	double empty_pair_ns;	/* what a pair measures with nothing in between; 0 without pairs */
};

/*
 * Measured from the attach on, on sites of our own, in a thread; waits for it, some 40 ms for each
 * meter of this process that was attached at the same time. -ENODATA, and all 0, if it could not be
 * found out.
 */
OCP_API int ocp_meter_costs(struct ocp_meter *meter, struct ocp_costs *costs);
/* The same without waiting: -EAGAIN, and all 0, while it is not known yet. */
OCP_API int ocp_meter_costs_now(struct ocp_meter *meter, struct ocp_costs *costs);

/* Stop measuring. Every hit up to now is in the next sample, and none comes after. */
OCP_API int ocp_meter_detach(struct ocp_meter *meter);

/* ---- samples ------------------------------------------------------------------------------- */

/*
 * A probe that is measured, whatever its hits are told apart by. Members may be added at the end.
 */
struct ocp_probe_hits {
	const char *probe;
	uint64_t hits;	 /* of all its sites, those of files that were given up included */
	size_t n_sites;	 /* that there are now */
	bool is_counted; /* was asked for by ocp_meter_count, _count_regexp or _count_all */
	bool is_in_pair; /* by ocp_meter_time */
	/*
	 * Its uses in the source, as the notes of the files that are measured tell, and those of
	 * them that the compiler (provider ocaml_2) left without a site, whose hits are not
	 * counted.
	 */
	size_t n_uses, n_uses_without_site;
};

/*
 * Hits of one probe, or of a part of it as ocp_meter_split said. Members may be added at the end.
 */
struct ocp_hits {
	const char *probe;
	uint64_t hits;
	/* OCP_BY_SITE */
	const char *image;  /* path of the file; NULL: not told apart */
	uint64_t va;	    /* of the site, as linked */
	const char *symbol; /* the function it is in, NULL if unknown */
	uint64_t symbol_off;
	/*
	 * Where the probe stands in the source: file, as the compiler was given it, and line; NULL
	 * and 0 if that is not known for certain. Of a site that was inlined, too, it is the
	 * probe's own place.
	 */
	const char *source;
	int line;
	/* OCP_BY_THREAD, OCP_BY_PROCESS; 0: not told apart */
	pid_t pid, tid;
	const char *comm; /* of the thread, at its first hit */
	int column;	  /* of the probe in its line, from 0, in bytes */
};

/*
 * What is known of a pair. Of its starts, each is in exactly one of: count, orphan_starts,
 * map_full, not_keyed, open. Members may be added at the end.
 */
struct ocp_pair {
	const char *start, *stop;
	uint64_t count;		 /* of pairs */
	uint64_t sum_ns;	 /* of their times */
	uint64_t min_ns, max_ns; /* 0 if count is 0 */
	uint64_t starts;
	uint64_t orphan_starts;	 /* one before them stopped, too many were open, or their thread
				    ended; with a key: one of the same key came, or their process
				    ended */
	uint64_t orphan_stops;	 /* without a start before, or without a key */
	uint64_t map_full;	 /* starts for which there was no room */
	uint64_t not_keyed;	 /* starts whose argument is nothing to match by */
	uint64_t open;		 /* starts that have not stopped yet */
	const uint64_t *buckets; /* OCP_BUCKETS of them */
	bool by_key;		 /* matched by an argument, not by thread */
};

/* Histograms are log-linear: 8 buckets an octave, below 16 one for each value. */
enum { OCP_BUCKETS = 496 };
/* The smallest value of bucket number BUCKET. */
OCP_API uint64_t ocp_bucket_start(size_t bucket);
/*
 * The value below which the part QUANTILE (0 to 1) of what BUCKETS counted lies, interpolated
 * within its bucket; 0 if they are empty.
 */
OCP_API uint64_t ocp_bucket_quantile(const uint64_t *buckets, double quantile);

/* Of PAIR's times; as above, but never beyond its extremes, which are exact. */
OCP_API uint64_t ocp_pair_quantile_ns(const struct ocp_pair *pair, double quantile);

/*
 * Histograms of numbers that can be negative have the same buckets on both sides of 0, in the order
 * of their values: the one that begins with 0 is number OCP_BUCKETS.
 */
enum { OCP_SIGNED_BUCKETS = 2 * OCP_BUCKETS };
/* The smallest value of bucket number BUCKET; INT64_MAX behind the last. */
OCP_API int64_t ocp_signed_bucket_start(size_t bucket);

/* The values of an argument. Members may be added at the end. */
struct ocp_histogram {
	const char *probe;
	unsigned int arg;
	uint64_t count;	  /* of integers */
	uint64_t not_int; /* hits whose argument was something else */
	int64_t sum;	  /* exact; INT64_MIN or INT64_MAX if it is beyond */
	double mean;
	int64_t min, max;	 /* 0 if count is 0 */
	const uint64_t *buckets; /* OCP_SIGNED_BUCKETS of them */
};

/* What was not measured, and what it was that cost time all the same. */
struct ocp_losses {
	uint64_t passed_over;	 /* hits that were none of those asked for (of other processes) */
	uint64_t rows_full;	 /* hits in no row by thread or process, for want of room */
	uint64_t children_full;	 /* children that were not followed, for want of room */
	uint64_t filtered;	 /* hits that the filter rejected */
	uint64_t prints_dropped; /* hits that were not printed: the buffer was full */
	uint64_t prints_limited; /* hits that were not printed: above the limit */
	/*
	 * `filter_mismatches` counts hits with an argument of another type than the filter compares it
	 * with, where that comparison may have decided. Such a comparison is false, != too.
	 * `filter_mismatch` describes one of these hits, such as "arg0 of probe 'work' is an int and is
	 * compared with a string". It is NULL if `filter_mismatches` is 0, and belongs to the sample.
	 */
	uint64_t filter_mismatches;
	const char *filter_mismatch;
};

/* Everything measured since the attach. *OUT is freed by the caller and must not outlive METER. */
OCP_API int ocp_meter_read(struct ocp_meter *meter, struct ocp_sample **out);
OCP_API void ocp_sample_free(struct ocp_sample *sample);
/* Nanoseconds since the attach, till the detach at the most. */
OCP_API int64_t ocp_sample_time_ns(const struct ocp_sample *sample);
/* Of all probes; what cost time. */
OCP_API uint64_t ocp_sample_all_hits(const struct ocp_sample *sample);
OCP_API const struct ocp_losses *ocp_sample_losses(const struct ocp_sample *sample);
/* By name. */
OCP_API size_t ocp_sample_probe_count(const struct ocp_sample *sample);
OCP_API const struct ocp_probe_hits *ocp_sample_probe(const struct ocp_sample *sample, size_t i);
/* By probe name, then as they are told apart. */
OCP_API size_t ocp_sample_hits_count(const struct ocp_sample *sample);
OCP_API const struct ocp_hits *ocp_sample_hits(const struct ocp_sample *sample, size_t i);
/* In the order of ocp_meter_time. */
OCP_API size_t ocp_sample_pair_count(const struct ocp_sample *sample);
OCP_API const struct ocp_pair *ocp_sample_pair(const struct ocp_sample *sample, size_t i);

/* In the order of the probes' names, if ocp_meter_histogram asked for them. */
OCP_API size_t ocp_sample_histogram_count(const struct ocp_sample *sample);
OCP_API const struct ocp_histogram *ocp_sample_histogram(const struct ocp_sample *sample, size_t i);

/*
 * The sample of what happened from EARLIER to LATER, of the same meter. The extremes of pairs and
 * histograms are then known to a bucket only.
 */
OCP_API int ocp_sample_difference(const struct ocp_sample *later, const struct ocp_sample *earlier,
				  struct ocp_sample **out);

/* ---- meters that are kept ------------------------------------------------------------------- */

/*
 * Let METER, which is attached, go on measuring when it is freed and the caller has ended: its maps
 * and links get names below OCP_PINNED_FOLDER/NAME (the layout of the maps is in bpf/measure.h). NAME
 * is of A-Z a-z 0-9 _ -. -EEXIST if it is taken. Nobody watches over the files then
 * (ocp_meter_refresh): do not overwrite them in place.
 */
#define OCP_PINNED_FOLDER "/sys/fs/bpf/ocaml-probes"
OCP_API int ocp_meter_pin(struct ocp_meter *meter, const char *name);
/* Could something be kept under NAME, as things are? Before there is a meter. */
OCP_API int ocp_pinned_check(struct ocp_ctx *ctx, const char *name);

/*
 * The kept meter called NAME, to be read. Freeing it lets it go on; ocp_meter_detach ends it, and
 * takes its name away. -ENOENT if nothing is kept under NAME, -EBADMSG if the kept meter is
 * incomplete or its maps have changed, -EPROTO if another version of this library kept it, -EPERM
 * if a user other than root and the caller's could have changed it.
 */
OCP_API int ocp_pinned_open(struct ocp_ctx *ctx, const char *name, struct ocp_meter **out);

/* End and remove what is called NAME, complete or not. */
OCP_API int ocp_pinned_remove(struct ocp_ctx *ctx, const char *name);

/*
 * The names of all kept meters, sorted; the array and its N strings are one block, to be freed with
 * free().
 */
OCP_API int ocp_pinned_list(struct ocp_ctx *ctx, char ***names, size_t *n);

/* What is measured: the path of the program, or NULL if METER has single processes. */
OCP_API const char *ocp_meter_program(const struct ocp_meter *meter);
/* The process number I of ocp_meter_process_count(). */
OCP_API pid_t ocp_meter_process(const struct ocp_meter *meter, size_t i);
/* What ocp_meter_split has set. */
OCP_API enum ocp_split ocp_meter_get_split(const struct ocp_meter *meter);

/* ---- the same by bpftrace ------------------------------------------------------------------ */

enum ocp_bpftrace {
	OCP_BPFTRACE_COUNT, /* hits by probe */
	OCP_BPFTRACE_TIME,  /* two probes, START,STOP: what is between them in a thread */
	OCP_BPFTRACE_ARGS,  /* a line a hit, with the probe's arguments */
};

/*
 * A command for a shell that has bpftrace do WHAT with probes of PROC. NAMES is names between
 * commas, or a regular expression as in ocp_actions_enable_regexp if it has any other characters.
 * *SCRIPT is freed by the caller with free().
 */
OCP_API int ocp_process_bpftrace(struct ocp_process *proc, enum ocp_bpftrace what,
				 const char *names, char **script);
/* The same for every process that runs the file PATH, from which PROG was read. */
OCP_API int ocp_program_bpftrace(struct ocp_program *prog, const char *path, enum ocp_bpftrace what,
				 const char *names, char **script);

#ifdef __cplusplus
}
#endif

#endif /* OCAML_PROBES_MEASURE_H */
