/* SPDX-License-Identifier: MIT */
/*
 * Room measure/args: what to measure, as a user writes it.
 * In: names, filters, keys, arguments.
 * Out: a checked request; places of arguments for the engines.
 * Callers: cli and serve fill it; watch, measure and the engines read it.
 */
/*
 * A measuring request: what to measure, but not in which processes. The command line and the
 * configuration of `serve` fill it in, a watch carries it, a meter keeps it, and an engine opens
 * with it.
 */
#ifndef MEASURE_REQUEST_H
#define MEASURE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"
#include "program/item.h"

struct line_spans;

/*
 * A pair to time: from a hit of START to a hit of STOP. If STOP has no text, START is a function,
 * and its calls are timed.
 */
struct request_pair {
	struct item start, stop;
	/*
	 * How the pair is matched. Only a meter sets these members: see meter_keys.c. Arguments are
	 * numbered as in filter.h; -1: none.
	 */
	int key_arg; /* the argument that must be equal in start and stop; -1: matched by thread */
	/*
	 * If the pair is matched by thread: an argument that is compared. Pairs in which it differs
	 * between start and stop are also counted in `mismatched`.
	 */
	int compared_arg;
	bool is_chosen; /* meter_find_keys() chose key_arg */
};

/* Return true if the calls of function pair->start are timed. */
static inline bool request_pair_is_calls(const struct request_pair *pair)
{
	return !pair->stop.text;
}

/* Return the name of the probe that stops PAIR, or "" if calls are timed. */
static inline const char *request_pair_stop(const struct request_pair *pair)
{
	return pair->stop.text ? pair->stop.text : "";
}

/*
 * Which engine measures: BPF programs in the kernel, code inside of the process, or the better of
 * these two (ENGINE_AUTO). If the user has not chosen (ENGINE_DEFAULT), BPF measures; but if BPF is
 * not permitted and the engine `inside` supports the request, `inside` measures.
 */
enum engine_choice { ENGINE_DEFAULT, ENGINE_BPF, ENGINE_INSIDE, ENGINE_AUTO };
/* Read `bpf`, `inside` or `auto` from TEXT. Returns false for any other text. */
bool engine_choice_read(const char *text, enum engine_choice *choice);

/* A request with all members 0 is empty. */
struct measure_request {
	struct items counted, printed;
	/* The calls of each function that matches one of these patterns (fn:RE) are timed. */
	struct items timed;
	struct request_pair *pairs;
	size_t n_pairs;
	enum ocp_split split;		/* how counts are split */
	unsigned int depth;		/* 0: not given */
	unsigned int stack_depth;	/* 0: no stacks */
	char *key, *filter, *hist, *by; /* NULL: not given */
	uint64_t print_limit;
	bool has_print_limit, has_slower;
	bool is_outermost;  /* calls of a function inside of another call of it do not count */
	uint64_t slower_ns; /* report the pairs that take this time or longer */
	/*
	 * The parts of source lines that are not counted, see code/line_places.h. Belongs to the
	 * caller; NULL: none.
	 */
	const struct line_spans *spans;
	/*
	 * Each hit and pair is reported by the engine `inside`, too: the memory for events that it
	 * may use in each process. 0: only the BPF engine reports them.
	 */
	size_t event_bytes;
	/* The filter does not apply to phases of the collector, which have no arguments. */
	bool spares_phases;
	bool children;
	double budget;	    /* the limit of the cost, as a share of one core; 0: not given */
	bool has_no_budget; /* the user has given `none` as the limit */
};

void measure_request_free(struct measure_request *request);
/* Return true if the request names no probe to count, print or time. */
bool measure_request_is_empty(const struct measure_request *request);
/*
 * Return true if the request names an argument by which pairs are matched. The key "none" is not an
 * argument; it stands for matching by thread.
 */
bool measure_request_has_key(const struct measure_request *request);
/* Return true if pairs, or calls of functions, are timed. */
bool measure_request_has_pairs(const struct measure_request *request);
/* Return true if the request names a function, or other code without probes. */
bool measure_request_has_code(const struct measure_request *request);
/* Return true if the request only counts, and names no probe. */
bool measure_request_counts_only_code(const struct measure_request *request);

/*
 * measure_request_add_pair(): STOP is NULL if START is a function, or a pattern of functions, whose
 * calls are timed. measure_request_set_text() replaces *TO by a copy of TEXT, which may be NULL.
 * Both return 0 or -ENOMEM.
 */
int measure_request_add_pair(struct measure_request *request, const char *start, const char *stop);
int measure_request_set_text(char **to, const char *text);

/*
 * Copy REQUEST. Return NULL if memory is short. Free the copy with measure_request_drop(), which
 * accepts NULL.
 */
struct measure_request *measure_request_copy(const struct measure_request *request);
void measure_request_drop(struct measure_request *copy);
bool measure_request_equal(const struct measure_request *a, const struct measure_request *b);

/*
 * Invalid combinations of settings. The command line, `serve` and meters each have their own
 * messages for these faults.
 */
enum request_fault {
	REQUEST_FINE,
	REQUEST_SPLIT_WITHOUT_COUNT,
	REQUEST_DEPTH_WITHOUT_PAIR,
	REQUEST_KEY_WITHOUT_PAIR,
	REQUEST_DEPTH_AND_KEY,
	REQUEST_HIST_WITHOUT_COUNT,
	REQUEST_SLOWER_WITHOUT_PAIR,
	REQUEST_SLOWER_AND_STACK,
	REQUEST_OUTERMOST_WITHOUT_FUNCTION,
	REQUEST_OUTERMOST_AND_OTHERS,
	REQUEST_LIMIT_WITHOUT_PRINT,
	REQUEST_STACK_WITHOUT_PROBE,
	REQUEST_STACK_AND_SPLIT,
	REQUEST_BY_WITHOUT_PROBE,
	REQUEST_BY_AND_SPLIT,
	REQUEST_BY_AND_STACK,
	REQUEST_BY_AND_SLOWER,
	REQUEST_BY_AND_CODE,
	REQUEST_FAULTS
};
bool measure_request_has_fault(const struct measure_request *request, enum request_fault fault);
/* Return the first fault of REQUEST, or REQUEST_FINE. */
enum request_fault measure_request_check(const struct measure_request *request);
/* Return true if the stacks of hits must be walked. */
bool measure_request_walks(const struct measure_request *request);
/* Return true if the calls of a function are timed. */
bool measure_request_times_calls(const struct measure_request *request);

/*
 * Return NULL if the engine `inside` supports all of REQUEST. Otherwise return the first feature in
 * REQUEST that only the BPF engine has: the name of an option, such as "--hist", or prefixes of
 * names: "note:, times of c: and pairs of lines or phases".
 */
const char *measure_request_needs_bpf(const struct measure_request *request);
/* Return true if calls of functions of C are counted. */
bool measure_request_counts_c(const struct measure_request *request);
/* Like measure_request_needs_bpf(), for measurements of processes that start later. */
const char *measure_request_watch_needs_bpf(const struct measure_request *request);

/*
 * measure/meter_request.c: add REQUEST to METER, which has not been opened. Return 0 or a negative
 * errno.
 */
int measure_request_apply(const struct measure_request *request, struct ocp_meter *meter);

#endif
