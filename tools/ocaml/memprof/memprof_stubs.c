// SPDX-License-Identifier: MIT
/*
 * The functions that OCaml's signal handler calls, to learn what to do in its domain. A profile
 * belongs to a domain (OCaml 4 has one), so a handler that runs in this domain starts and stops it.
 */
#define CAML_INTERNALS
#include <caml/alloc.h>
#include <caml/callback.h>
#include <caml/memory.h>
#include <caml/misc.h>
#include <caml/mlvalues.h>
#include <caml/signals.h>
#include <caml/version.h>
#if OCAML_VERSION >= 50000
#include <caml/domain.h>
#else
#include <caml/globroots.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "memprof_state.h"

#define EXPORT __attribute__((visibility("default")))

enum { MAX_ANSWERS = 64 };

enum entry_state {
	ENTRY_STARTING, /* the handler is starting the profile */
	ENTRY_STARTED,
	ENTRY_REFUSED,
	ENTRY_STOPPING, /* the handler is stopping the profile */
};

/* A domain that has answered in this session. */
struct entry {
	uint32_t domain;
	enum entry_state state;
	uint64_t round;
	bool is_unsaid; /* the refusal is not reported yet: see ocaml_probes_memprof_refused() */
	value profile;	/* a global root of the started profile (OCaml 4: of its tracker); else 0 */
};

static struct {
	pthread_mutex_t lock;
	enum memprof_phase phase;
	uint64_t epoch, round;
	uint64_t called_round; /* the last round in which all domains were called */
	double rate;
	uint32_t depth;
	struct entry **entries;
	size_t n;
	struct memprof_answer answers[MAX_ANSWERS];
	size_t n_answers;
	int signal;
	bool wants_server;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Gc.Memprof.discard exists in OCaml 5.3 and later. */
extern value caml_memprof_discard(value profile) __attribute__((weak));

/* Gc.Memprof.is_sampling exists in OCaml 5.5 and later. */
extern value caml_memprof_is_sampling(value unit) __attribute__((weak));

static uint32_t domain(void)
{
#if OCAML_VERSION >= 50000
	return (uint32_t)Caml_state->unique_id;
#else
	return 0;
#endif
}

/* ---- for the server -------------------------------------------------------------------------- */

void memprof_begin(double rate, uint32_t depth)
{
	pthread_mutex_lock(&state.lock);
	state.rate = rate;
	state.depth = depth;
	state.n_answers = 0;
	state.phase = PHASE_RUNNING;
	pthread_mutex_unlock(&state.lock);
}

uint64_t memprof_next_epoch(void)
{
	uint64_t epoch;

	pthread_mutex_lock(&state.lock);
	epoch = ++state.epoch;
	pthread_mutex_unlock(&state.lock);
	return epoch;
}

void memprof_end(void)
{
	pthread_mutex_lock(&state.lock);
	state.phase = PHASE_STOPPING;
	pthread_mutex_unlock(&state.lock);
}

void memprof_ring_bell(void)
{
	caml_record_signal(state.signal);
}

void memprof_want_server(void)
{
	__atomic_store_n(&state.wants_server, true, __ATOMIC_SEQ_CST);
}

bool memprof_wants_server(void)
{
	return __atomic_load_n(&state.wants_server, __ATOMIC_SEQ_CST);
}

void memprof_new_round(void)
{
	pthread_mutex_lock(&state.lock);
	state.round++;
	pthread_mutex_unlock(&state.lock);
}

static size_t running_domains(void)
{
#if OCAML_VERSION >= 50000
	return (size_t)atomic_load(&caml_num_domains_running);
#else
	return 1;
#endif
}

/* Under the lock. */
static bool all_are_seen(void)
{
	size_t seen = 0;

	for (size_t i = 0; i < state.n; i++)
		seen += state.entries[i]->round == state.round;
	return seen >= running_domains();
}

struct memprof_news memprof_news(void)
{
	struct memprof_news news = { .all_stopped = true };

	pthread_mutex_lock(&state.lock);
	for (size_t i = 0; i < state.n; i++)
		if (state.entries[i]->state != ENTRY_REFUSED)
			news.all_stopped = false;
	news.all_seen = all_are_seen();
	pthread_mutex_unlock(&state.lock);
	return news;
}

bool memprof_take_answer(struct memprof_answer *answer)
{
	bool is_there;

	pthread_mutex_lock(&state.lock);
	is_there = state.n_answers > 0;
	if (is_there) {
		*answer = state.answers[0];
		memmove(state.answers, state.answers + 1, --state.n_answers * sizeof(*answer));
	}
	pthread_mutex_unlock(&state.lock);
	return is_there;
}

/* ---- entries: under the lock ----------------------------------------------------------------- */

static struct entry *find_entry(void)
{
	const uint32_t id = domain();

	for (size_t i = 0; i < state.n; i++)
		if (state.entries[i]->domain == id)
			return state.entries[i];
	return NULL;
}

static struct entry *add_entry(void)
{
	struct entry **entries =
		realloc(state.entries, (state.n + 1) * sizeof(*entries)); /* NOLINT */
	struct entry *entry = calloc(1, sizeof(*entry));

	if (entries)
		state.entries = entries;
	if (!entries || !entry) {
		free(entry);
		return NULL;
	}
	entry->domain = domain();
	entry->state = ENTRY_STARTING;
	entry->round = state.round;
	state.entries[state.n++] = entry;
	return entry;
}

/* Remove ENTRY from the list and return it. The caller frees it. */
static struct entry *remove_entry(struct entry *entry)
{
	for (size_t i = 0; i < state.n; i++)
		if (state.entries[i] == entry)
			state.entries[i--] = state.entries[--state.n];
	return entry;
}

static bool has_started(void)
{
	for (size_t i = 0; i < state.n; i++)
		if (state.entries[i]->state == ENTRY_STARTED)
			return true;
	return false;
}

static void add_answer(enum memprof_answer_kind kind, const char *text)
{
	struct memprof_answer *answer;

	if (state.n_answers == MAX_ANSWERS)
		return;
	answer = &state.answers[state.n_answers++];
	*answer = (struct memprof_answer){ .kind = kind, .domain = domain() };
	strncpy(answer->text, text, sizeof(answer->text) - 1);
}

/* ---- for OCaml ------------------------------------------------------------------------------- */

enum what_to_do { DO_NOTHING, DO_START, DO_STOP, DO_SERVE, DO_CALL };

/*
 * Note that the handler runs in the domain of ENTRY. Report a refusal once the domain has existed
 * for a whole round: the refusal of a short-lived domain is of no interest.
 */
static void visit(struct entry *entry)
{
	if (entry->is_unsaid && entry->round < state.round) {
		add_answer(MEMPROF_REFUSED, "it has a profile already");
		entry->is_unsaid = false;
	}
	entry->round = state.round;
}

/* Return what the handler has to do in this domain. */
EXPORT value ocaml_probes_memprof_poll(value unit)
{
	enum what_to_do what = DO_NOTHING;
	struct entry *entry;
	bool others_are_missing;

	(void)unit;
	pthread_mutex_lock(&state.lock);
	entry = find_entry();
	if (entry)
		visit(entry);
	if (state.phase == PHASE_RUNNING && !entry && add_entry()) {
		what = DO_START;
	} else if (state.phase != PHASE_RUNNING && entry && entry->state == ENTRY_STARTED) {
		entry->state = ENTRY_STOPPING;
		what = DO_STOP;
	} else if (state.phase != PHASE_RUNNING && entry && entry->state == ENTRY_REFUSED) {
		free(remove_entry(entry));
	}
	others_are_missing = state.called_round != state.round && !all_are_seen();
	pthread_mutex_unlock(&state.lock);
	if (what == DO_NOTHING && __atomic_exchange_n(&state.wants_server, false, __ATOMIC_SEQ_CST))
		what = DO_SERVE;
	if (what == DO_NOTHING && others_are_missing)
		what = DO_CALL;
	return Val_int(what);
}

EXPORT value ocaml_probes_memprof_epoch(value unit)
{
	(void)unit;
	return Val_long(__atomic_load_n(&state.epoch, __ATOMIC_SEQ_CST));
}

EXPORT value ocaml_probes_memprof_rate(value unit)
{
	(void)unit;
	return caml_copy_double(state.rate);
}

EXPORT value ocaml_probes_memprof_depth(value unit)
{
	(void)unit;
	return Val_long(state.depth);
}

/* Keep PROFILE, which the handler has started in this domain, until it is stopped. */
EXPORT value ocaml_probes_memprof_started(value profile)
{
	struct entry *entry;

	pthread_mutex_lock(&state.lock);
	entry = find_entry();
	if (entry) {
		entry->state = ENTRY_STARTED;
		entry->profile = profile;
		add_answer(MEMPROF_STARTED, "");
	}
	pthread_mutex_unlock(&state.lock);
	if (entry)
		caml_register_generational_global_root(&entry->profile);
	return Val_unit;
}

/*
 * A profile could not start in this domain. If profiles run in other domains, this domain may have
 * inherited one of these: the refusal is then reported in the next round, by visit().
 */
EXPORT value ocaml_probes_memprof_refused(value reason)
{
	struct entry *entry;

	pthread_mutex_lock(&state.lock);
	entry = find_entry();
	if (entry) {
		entry->state = ENTRY_REFUSED;
		entry->is_unsaid = has_started();
		if (!entry->is_unsaid)
			add_answer(MEMPROF_REFUSED, String_val(reason));
	}
	pthread_mutex_unlock(&state.lock);
	return Val_unit;
}

/* Return true if a profile runs in this domain that Gc.Memprof.start would replace. */
EXPORT value ocaml_probes_memprof_is_sampling(value unit)
{
	return caml_memprof_is_sampling ? caml_memprof_is_sampling(unit) : Val_false;
}

#if OCAML_VERSION >= 50500
/*
 * The program can replace a profile in this domain, without stopping the profile. The runtime's
 * struct memprof_domain_s, which no header describes, begins with the domain, the table of sampled
 * blocks, whose last member is the domain's profile (word 8), and the tables of older profiles.
 */
static bool is_in_domain(value profile)
{
	enum { WORDS = 12 };
	const value *words = (const value *)Caml_state->memprof;

	for (size_t i = 0; i < WORDS; i++)
		if (words[i] == profile)
			return true;
	return false;
}
#elif OCAML_VERSION >= 50000
static bool is_in_domain(value profile)
{
	(void)profile;
	return true;
}
#endif

#if OCAML_VERSION >= 50000
/* The first field of a profile is 0 while it samples; other values mean stopped or discarded. */
static bool is_running(const value *profile)
{
	return Field(*profile, 0) == Val_int(0) && is_in_domain(*profile);
}
#else
static struct {
	const value *ours;
	bool is_found;
} search;

static void look_at_root(value tracker, value *root)
{
	search.is_found |= root != search.ours && tracker == *search.ours;
}

/* The tracker of the running profile is among the roots of the runtime. */
static bool is_running(const value *tracker)
{
	search.ours = tracker;
	search.is_found = false;
	caml_scan_global_roots(look_at_root);
	return search.is_found;
}
#endif

/*
 * Does the profile of this domain belong to this library? The program may have stopped the
 * library's profile and started another. If there is no entry, the answer is yes, because the
 * caller is a callback of the library's profile.
 */
EXPORT value ocaml_probes_memprof_is_ours(value unit)
{
	const struct entry *entry;

	(void)unit;
	pthread_mutex_lock(&state.lock);
	entry = find_entry();
	pthread_mutex_unlock(&state.lock);
	return Val_bool(!entry || (entry->profile && is_running(&entry->profile)));
}

/* Return the profile of this domain and forget it. Returns unit if the domain has none. */
EXPORT value ocaml_probes_memprof_take(value unit)
{
	struct entry *entry;
	value profile = Val_unit;

	(void)unit;
	pthread_mutex_lock(&state.lock);
	entry = find_entry();
	if (entry)
		remove_entry(entry);
	pthread_mutex_unlock(&state.lock);
	if (entry) {
		if (entry->profile) {
			profile = entry->profile;
			caml_remove_generational_global_root(&entry->profile);
		}
		free(entry);
	}
	return profile;
}

/* ---- domains --------------------------------------------------------------------------------- */

#if OCAML_VERSION >= 50300
/*
 * The first domain that polls takes a signal, so a busy domain would take all signals. Therefore
 * this domain calls the others: each of them runs the handler when it handles pending actions.
 */
static void (*interrupted_before)(void);

static void when_interrupted(void)
{
	const value *handler = caml_named_value("ocaml_probes_memprof_handler");

	/* Without the threads library, only this file uses the flag. */
	interrupted_before();
	atomic_store_release(&Caml_state->requested_external_interrupt, 0);
	if (handler && !caml_bt_is_self())
		caml_callback(*handler, Val_int(state.signal));
}

/* Runs in each domain, or in the thread that stands in for a domain while the domain waits. */
static void stw_call(caml_domain_state *domain, void *data, int n, caml_domain_state **all)
{
	(void)data;
	(void)n;
	(void)all;
	atomic_store_release(&domain->requested_external_interrupt, 1);
	caml_set_action_pending(domain);
}

/*
 * The threads library, which may be initialised later, also sets the hook. OCaml 5.5 passes the
 * data of the call, too: see caml_try_run_on_all_domains() in domain.h.
 */
#if OCAML_VERSION >= 50500
static void set_hook(caml_domain_state *domain, void *data)
#else
static void set_hook(caml_domain_state *domain)
#endif
{
	(void)domain;
	if (caml_domain_external_interrupt_hook == when_interrupted)
		return;
	interrupted_before = caml_domain_external_interrupt_hook;
	caml_domain_external_interrupt_hook = when_interrupted;
}

/* Call all domains. If they are stopped for another reason, the next bell calls them. */
static void call_domains(uint64_t round)
{
	if (!caml_try_run_on_all_domains(stw_call, NULL, set_hook))
		return;
	pthread_mutex_lock(&state.lock);
	state.called_round = round;
	pthread_mutex_unlock(&state.lock);
}
#else
static void call_domains(uint64_t round)
{
	pthread_mutex_lock(&state.lock);
	state.called_round = round;
	pthread_mutex_unlock(&state.lock);
}
#endif

EXPORT value ocaml_probes_memprof_call(value unit)
{
	uint64_t round;

	pthread_mutex_lock(&state.lock);
	round = state.round;
	pthread_mutex_unlock(&state.lock);
	call_domains(round);
	return unit;
}

#if OCAML_VERSION >= 50000
static caml_timing_hook ended_before;

/* The calling domain ends. Other domains may share its profile, and stop it themselves. */
static void when_domain_ends(void)
{
	ocaml_probes_memprof_take(Val_unit);
	if (ended_before)
		ended_before();
}

static void watch_domains(void)
{
	ended_before = atomic_exchange(&caml_domain_terminated_hook, when_domain_ends);
}

/* A thread that OCaml does not know has no domain. */
static bool has_domain(void)
{
	return Caml_state_opt != NULL;
}
#else
static void watch_domains(void)
{
}

static bool has_domain(void)
{
	return true;
}
#endif

EXPORT value ocaml_probes_memprof_discard(value profile)
{
	if (caml_memprof_discard && Is_block(profile))
		return caml_memprof_discard(profile);
	return Val_unit;
}

/* ---- fork ------------------------------------------------------------------------------------ */

static void before_fork(void)
{
	pthread_mutex_lock(&state.lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&state.lock);
	memprof_events_count_fork();
}

/*
 * The child has neither the server nor other domains. Its handler stops the profile that it has
 * inherited from its parent, and makes a server. This function does not make a server, because most
 * children execute another program at once.
 */
static void in_child(void)
{
	const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
	struct entry *entry;

	state.lock = unlocked;
	memprof_events_forget();
	entry = has_domain() ? find_entry() : NULL;
	state.n = 0;
	if (entry) {
		state.entries[state.n++] = entry;
		if (entry->state != ENTRY_REFUSED)
			entry->state = ENTRY_STARTED;
	}
	if (state.phase == PHASE_RUNNING)
		state.phase = PHASE_STOPPING;
	memprof_want_server();
	memprof_ring_bell();
}

/* ---- the start of the program ---------------------------------------------------------------- */

/*
 * Return a real-time signal that is not in use, or 0. The signal is never sent: the library only
 * makes OCaml believe that it has arrived.
 */
EXPORT value ocaml_probes_memprof_signal(value unit)
{
	(void)unit;
	for (int number = SIGRTMAX - 5; number > SIGRTMIN + 5; number--) {
		struct sigaction action;

		if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
			return Val_int(number);
	}
	return Val_int(0);
}

/* OCaml has a handler for the signal NUMBER. Remove the kernel's handler, which is not needed. */
EXPORT value ocaml_probes_memprof_open(value number)
{
	struct sigaction action = { .sa_handler = SIG_DFL };

	state.signal = Int_val(number);
	sigaction(state.signal, &action, NULL);
	watch_domains();
	if (pthread_atfork(before_fork, in_parent, in_child) == 0)
		memprof_server_open(OCAML_VERSION);
	return Val_unit;
}

EXPORT value ocaml_probes_memprof_serve(value unit)
{
	(void)unit;
	memprof_server_close();
	memprof_server_open(OCAML_VERSION);
	return Val_unit;
}
