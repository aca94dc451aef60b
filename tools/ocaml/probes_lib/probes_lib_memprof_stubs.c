// SPDX-License-Identifier: MIT
/*
 * The stubs of Probes_lib.Memprof: a session is a recorder, which a C thread fills. The runtime
 * lock is released while a recorder works. A session that is collected ends its profile.
 *
 * A program that profiles itself starts and stops the profile in a handler of OCaml, which runs
 * when a thread enters or leaves a blocking section. So the waiting is in OCaml, in small steps.
 */
#define CAML_NAME_SPACE
#define CAML_INTERNALS
#include <caml/alloc.h>
#include <caml/custom.h>
#include <caml/fail.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/threads.h>
#include <caml/version.h>
#if OCAML_VERSION >= 50000
#include <caml/domain.h>
#endif

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memprof_recorder.h"
#include "probes_lib_stubs.h"

#define Recorder_val(v) (*(struct recorder **)Data_custom_val(v))

/* The size of a recorder for the GC: mostly the ring and the tables. */
enum { RECORDER_BYTES = 1 << 20 };

/* The numbers that Probes_lib.Memprof reads as a usage. */
enum { USAGE_LIFE = 10, USAGE_NUMBERS = USAGE_LIFE + LIFE_CLASSES };

static void finalize(value v)
{
	recorder_drop(Recorder_val(v));
}

static struct custom_operations operations = {
	.identifier = "probes_lib.memprof",
	.finalize = finalize,
	.compare = custom_compare_default,
	.hash = custom_hash_default,
	.serialize = custom_serialize_default,
	.deserialize = custom_deserialize_default,
	.compare_ext = custom_compare_ext_default,
	.fixed_length = custom_fixed_length_default,
};

static int64_t this_domain(void)
{
#if OCAML_VERSION >= 50000
	return Caml_state->unique_id;
#else
	return 0;
#endif
}

/* ---- start and stop -------------------------------------------------------------------------- */

STUB probes_lib_memprof_start(value v_pid, value v_rate, value v_depth, value v_events);
STUB probes_lib_memprof_start(value v_pid, value v_rate, value v_depth, value v_events)
{
	CAMLparam1(v_rate);
	CAMLlocal1(v_recorder);
	const struct recorder_spec spec = { .pid = Long_val(v_pid),
					    .rate = Double_val(v_rate),
					    .depth = Long_val(v_depth),
					    .max_events = Long_val(v_events) };
	struct recorder *recorder = NULL;
	char *why;

	v_recorder = caml_alloc_custom_mem(&operations, sizeof(void *), RECORDER_BYTES);
	Recorder_val(v_recorder) = NULL;
	caml_release_runtime_system();
	why = recorder_open(&spec, &recorder);
	caml_acquire_runtime_system();
	if (!recorder)
		probes_lib_raise(why);
	Recorder_val(v_recorder) = recorder;
	CAMLreturn(v_recorder);
}

/* Wait for news, at most MS milliseconds. IS_HERE: wait for a profile in this domain. */
STUB probes_lib_memprof_await(value v_recorder, value v_is_here, value v_ms);
STUB probes_lib_memprof_await(value v_recorder, value v_is_here, value v_ms)
{
	CAMLparam1(v_recorder);
	struct recorder *recorder = Recorder_val(v_recorder);
	const int64_t in_domain = Bool_val(v_is_here) ? this_domain() : -1;
	const int ms = Int_val(v_ms);
	enum recorder_state state;
	char *why;

	caml_release_runtime_system();
	state = recorder_await(recorder, in_domain, ms, &why);
	caml_acquire_runtime_system();
	if (state == RECORDER_FAILED)
		probes_lib_raise(why);
	CAMLreturn(Val_int(state));
}

STUB probes_lib_memprof_stop(value v_recorder);
STUB probes_lib_memprof_stop(value v_recorder)
{
	CAMLparam1(v_recorder);
	struct recorder *recorder = Recorder_val(v_recorder);

	caml_release_runtime_system();
	recorder_stop(recorder);
	caml_acquire_runtime_system();
	CAMLreturn(Val_unit);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The offsets at which Probes_lib.Memprof reads the members. */
_Static_assert(offsetof(struct recorded_event, id) == 0 &&
		       offsetof(struct recorded_event, time_ns) == 8 &&
		       offsetof(struct recorded_event, n_samples) == 16 &&
		       offsetof(struct recorded_event, size) == 24 &&
		       offsetof(struct recorded_event, domain) == 32 &&
		       offsetof(struct recorded_event, minors) == 36 &&
		       offsetof(struct recorded_event, majors) == 40 &&
		       offsetof(struct recorded_event, stack) == 44 &&
		       offsetof(struct recorded_event, kind) == 48 &&
		       offsetof(struct recorded_event, source) == 52 &&
		       sizeof(struct recorded_event) == 56,
	       "the layout");

/* Return the events so far, as bytes. */
STUB probes_lib_memprof_take(value v_recorder);
STUB probes_lib_memprof_take(value v_recorder)
{
	CAMLparam1(v_recorder);
	CAMLlocal1(v_events);
	struct recorder *recorder = Recorder_val(v_recorder);
	struct recorded_event *events;
	char *why;
	size_t n;

	caml_release_runtime_system();
	events = recorder_take(recorder, &n, &why);
	caml_acquire_runtime_system();
	if (why)
		probes_lib_raise(why);
	v_events = caml_alloc_string(n * sizeof(*events));
	if (n)
		memcpy(Bytes_val(v_events), events, n * sizeof(*events));
	free(events);
	CAMLreturn(v_events);
}

/* Frames are multiples of 8 and never freed before the recorder. */
static value value_of_frame(const struct named_frame *frame)
{
	return Val_long((intnat)((uintnat)frame >> 3));
}

/* The frames of stack NUMBER, as numbers for probes_lib_memprof_frame. */
STUB probes_lib_memprof_stack(value v_recorder, value v_number);
STUB probes_lib_memprof_stack(value v_recorder, value v_number)
{
	CAMLparam1(v_recorder);
	CAMLlocal1(v_frames);
	struct recorder *recorder = Recorder_val(v_recorder);
	const size_t number = (size_t)Long_val(v_number);
	const struct named_frame **frames;
	char *why;
	size_t n;

	caml_release_runtime_system();
	frames = recorder_frames(recorder, number, &n, &why);
	caml_acquire_runtime_system();
	if (why)
		probes_lib_raise(why);
	v_frames = n ? caml_alloc(n, 0) : Atom(0);
	for (size_t i = 0; i < n; i++)
		Store_field(v_frames, i, value_of_frame(frames[i]));
	free(frames);
	CAMLreturn(v_frames);
}

/* A frame: its function, file (empty: unknown) and line. */
STUB probes_lib_memprof_frame(value v_recorder, value v_frame);
STUB probes_lib_memprof_frame(value v_recorder, value v_frame)
{
	CAMLparam1(v_recorder);
	CAMLlocal3(v_result, v_function, v_file);
	const struct named_frame *frame = (const void *)((uintnat)Long_val(v_frame) << 3);
	const bool has_line = frame->file && frame->line;

	v_function = caml_copy_string(frame->function);
	v_file = caml_copy_string(has_line ? frame->file : "");
	v_result = caml_alloc_tuple(3);
	Store_field(v_result, 0, v_function);
	Store_field(v_result, 1, v_file);
	Store_field(v_result, 2, Val_long(has_line ? frame->line : 0));
	CAMLreturn(v_result);
}

/* ---- reports --------------------------------------------------------------------------------- */

static value copy_usage(const struct heap_stack *from)
{
	const double numbers[USAGE_LIFE] = {
		(double)from->samples,
		(double)from->live_samples,
		(double)from->blocks,
		(double)from->live_blocks,
		from->objects,
		from->live_objects,
		(double)from->major_samples,
		(double)from->promoted_samples,
		(double)from->minor_deaths,
		from->life_ns,
	};
	const value v = caml_alloc(USAGE_NUMBERS * Double_wosize, Double_array_tag);

	for (size_t i = 0; i < USAGE_LIFE; i++)
		Store_double_flat_field(v, i, numbers[i]);
	for (size_t i = 0; i < LIFE_CLASSES; i++)
		Store_double_flat_field(v, USAGE_LIFE + i, (double)from->major_deaths[i]);
	return v;
}

/* Return the time, ten numbers, and the domains that have refused. */
static value copy_summary(const struct recorder_summary *from)
{
	CAMLparam0();
	CAMLlocal4(v_summary, v_seconds, v_numbers, v_refused);
	const struct memprof_losses *losses = &from->losses;
	const uint64_t *events = losses->events;
	const uint64_t numbers[] = {
		events[MEMPROF_ALLOC_MINOR] + events[MEMPROF_ALLOC_MAJOR],
		losses->samples,
		events[MEMPROF_PROMOTE],
		events[MEMPROF_DEALLOC_MINOR] + events[MEMPROF_DEALLOC_MAJOR],
		from->unread,
		from->left_out,
		losses->forks,
		losses->is_cut,
		losses->is_damaged,
		from->has_stopped,
	};
	const size_t n = sizeof(numbers) / sizeof(numbers[0]);

	v_seconds = caml_copy_double(from->seconds);
	v_numbers = caml_alloc_tuple(n);
	for (size_t i = 0; i < n; i++)
		Store_field(v_numbers, i, Val_long((intnat)numbers[i]));
	v_refused = from->n_refused ? caml_alloc_tuple(from->n_refused) : Atom(0);
	for (size_t i = 0; i < from->n_refused; i++)
		Store_field(v_refused, i, Val_long(from->refused[i]));
	v_summary = caml_alloc_tuple(3);
	Store_field(v_summary, 0, v_seconds);
	Store_field(v_summary, 1, v_numbers);
	Store_field(v_summary, 2, v_refused);
	CAMLreturn(v_summary);
}

STUB probes_lib_memprof_summary(value v_recorder);
STUB probes_lib_memprof_summary(value v_recorder)
{
	CAMLparam1(v_recorder);
	struct recorder *recorder = Recorder_val(v_recorder);
	struct recorder_summary summary;

	caml_release_runtime_system();
	summary = recorder_summary(recorder);
	caml_acquire_runtime_system();
	CAMLreturn(copy_summary(&summary));
}

static value copy_sites(const struct recorder_report *report)
{
	CAMLparam0();
	CAMLlocal3(v_sites, v_site, v_usage);

	v_sites = report->n_sites ? caml_alloc(report->n_sites, 0) : Atom(0);
	for (size_t i = 0; i < report->n_sites; i++) {
		v_usage = copy_usage(&report->sites[i].sum);
		v_site = caml_alloc_tuple(2);
		Store_field(v_site, 0, value_of_frame(report->sites[i].frame));
		Store_field(v_site, 1, v_usage);
		Store_field(v_sites, i, v_site);
	}
	CAMLreturn(v_sites);
}

static value copy_stacks(const struct recorder_report *report)
{
	CAMLparam0();
	CAMLlocal2(v_stacks, v_usage);

	v_stacks = report->n_stacks ? caml_alloc(report->n_stacks, 0) : Atom(0);
	for (size_t i = 0; i < report->n_stacks; i++) {
		v_usage = copy_usage(&report->stacks[i]);
		Store_field(v_stacks, i, v_usage);
	}
	CAMLreturn(v_stacks);
}

/* Return the sites, the stacks by number, and the summary, all of one moment. */
STUB probes_lib_memprof_report(value v_recorder, value v_by_live);
STUB probes_lib_memprof_report(value v_recorder, value v_by_live)
{
	CAMLparam1(v_recorder);
	CAMLlocal4(v_report, v_sites, v_stacks, v_summary);
	struct recorder *recorder = Recorder_val(v_recorder);
	const bool by_live = Bool_val(v_by_live);
	struct recorder_report report;
	char *why;

	caml_release_runtime_system();
	why = recorder_report(recorder, by_live, &report);
	caml_acquire_runtime_system();
	if (!report.stacks)
		probes_lib_raise(why);
	v_sites = copy_sites(&report);
	v_stacks = copy_stacks(&report);
	v_summary = copy_summary(&report.summary);
	free(report.sites);
	free(report.stacks);
	v_report = caml_alloc_tuple(3);
	Store_field(v_report, 0, v_sites);
	Store_field(v_report, 1, v_stacks);
	Store_field(v_report, 2, v_summary);
	CAMLreturn(v_report);
}
