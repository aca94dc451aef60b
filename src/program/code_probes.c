// SPDX-License-Identifier: MIT
/*
 * From names to sites, in three steps: find the functions that are asked for, group them by the
 * name of their probe, decode each function to find its sites.
 */
#include "program/code_probes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str_regexp.h"
#include "base/suggest.h"
#include "code/functions.h"
#include "code/runtime.h"
#include "code/x86_function.h"
#include "program/item.h"

/* A function, and what is asked of it. */
struct chosen {
	const struct function *function;
	char *name; /* of its probe */
	bool is_timed, has_args;
	bool is_named; /* by its own name, not by a regular expression */
};

struct code_probes {
	struct probe *probes;
	size_t n_probes;
	struct site *sites;
	size_t n_sites, site_room;
	struct chosen *chosen;
	size_t n_chosen, room;
	struct functions *functions;
};

struct finder {
	struct ocp_ctx *ctx;
	const struct ocp_program *prog;
	struct code_probes *code;
	struct code_file *file;
	uint64_t *entries;
	bool has_ocaml_stacks;
	const char *why_left_out, *left_out; /* of the first function that is left out */
	size_t n_left_out;
};

void code_probes_free(struct code_probes *code)
{
	if (!code)
		return;
	for (size_t i = 0; i < code->n_chosen; i++)
		free(code->chosen[i].name);
	for (size_t i = 0; i < code->n_probes; i++)
		free((char *)code->probes[i].name);
	free(code->probes);
	free(code->sites);
	free(code->chosen);
	functions_free(code->functions);
	free(code);
}

struct probe_set code_probes_set(const struct code_probes *code)
{
	return code ? (struct probe_set){ code->probes, code->n_probes, code->sites, code->n_sites }
		    : (struct probe_set){ 0 };
}

/* ---- finding functions ---------------------------------------------------------------------- */

static int choose(struct finder *f, const struct function *function, struct code_wish *wish,
		  const char *name, bool is_named)
{
	struct code_probes *code = f->code;
	struct chosen *chosen;

	if (code->n_chosen == code->room) {
		const size_t room = code->room ? 2 * code->room : 64;

		chosen = reallocarray(code->chosen, room, sizeof(*chosen));
		if (!chosen)
			return ctx_no_memory(f->ctx);
		code->chosen = chosen;
		code->room = room;
	}
	chosen = &code->chosen[code->n_chosen];
	*chosen =
		(struct chosen){ function, strdup(name), wish->is_timed, wish->has_args, is_named };
	if (!chosen->name)
		return ctx_no_memory(f->ctx);
	code->n_chosen++;
	wish->was_found = true;
	return 0;
}

static int choose_named(struct finder *f, struct code_wish *wish)
{
	size_t n;
	const struct function *const *found =
		functions_find(f->code->functions, item_body(wish->text), &n);
	int err = 0;

	for (size_t i = 0; !err && found && i < n; i++)
		err = choose(f, found[i], wish, wish->text, true);
	return err;
}

static int choose_matching(struct finder *f, struct code_wish *wish)
{
	char name[FUNCTION_TEXT_BYTES + sizeof(ITEM_FUNCTION_PREFIX)];
	const struct function *const *all;
	struct str_regexp *re;
	size_t n;
	int err = str_regexp_new(f->ctx, item_body(wish->text), &re);

	if (err)
		return err;
	all = functions_by_name(f->code->functions, &n);
	for (size_t i = 0; !err && i < n; i++) {
		if (!str_regexp_match(re, all[i]->name))
			continue;
		snprintf(name, sizeof(name), ITEM_FUNCTION_PREFIX "%s", all[i]->name);
		err = choose(f, all[i], wish, name, false);
	}
	str_regexp_free(re);
	return err;
}

/* c:NAME is a function of the program, c:LIBRARY:NAME one of the file called LIBRARY. */
static int choose_c(struct finder *f, struct code_wish *wish)
{
	const char *body = item_body(wish->text), *colon = strchr(body, ':');
	const char *path = elf_file_name(f->prog->elf), *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	const struct function *found;

	if (colon ? strncmp(base, body, (size_t)(colon - body)) != 0 || base[colon - body]
		  : f->prog->is_library)
		return 0;
	found = functions_find_c(f->code->functions, colon ? colon + 1 : body);
	return found ? choose(f, found, wish, wish->text, true) : 0;
}

static int choose_all(struct finder *f, struct code_wish *wishes, size_t n)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		switch (item_kind_of(wishes[i].text)) {
		case ITEM_FUNCTION:
			err = choose_named(f, &wishes[i]);
			break;
		case ITEM_FUNCTION_REGEXP:
			err = choose_matching(f, &wishes[i]);
			break;
		default:
			err = choose_c(f, &wishes[i]);
		}
	return err;
}

/* By probe, then by address. */
static int compare_chosen(const void *a, const void *b)
{
	const struct chosen *x = a, *y = b;
	const int order = strcmp(x->name, y->name);

	if (order)
		return order;
	return (x->function->va > y->function->va) - (x->function->va < y->function->va);
}

/* Several wishes may choose one function for one probe: join them. */
static void join_chosen(struct code_probes *code)
{
	size_t n = 0;

	qsort(code->chosen, code->n_chosen, sizeof(*code->chosen), compare_chosen);
	for (size_t i = 0; i < code->n_chosen; i++) {
		struct chosen *last = n ? &code->chosen[n - 1] : NULL, *next = &code->chosen[i];

		if (!last || compare_chosen(last, next) != 0) {
			code->chosen[n++] = *next;
			continue;
		}
		last->is_timed |= next->is_timed;
		last->has_args |= next->has_args;
		last->is_named |= next->is_named;
		free(next->name);
	}
	code->n_chosen = n;
}

/* An instruction of a function. */
struct spot {
	uint32_t off;
	int32_t depth; /* rsp at the entry of the function minus rsp here */
	enum code_cost cost;
};

/* ---- sites ---------------------------------------------------------------------------------- */

/*
 * The arguments at the first instruction, as the note of a probe would have them: OCaml values in
 * the registers of loc_parameters in asmcomp/amd64/proc.ml. "" if the arity is unknown.
 */
static const char *arguments_of(const struct function *function)
{
	static const char registers[] = "8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx 8@%rcx "
					"8@%r8 8@%r9 8@%r12 8@%r13";
	static const char *const first_n[] = {
		"",
		"8@%rax",
		"8@%rax 8@%rbx",
		"8@%rax 8@%rbx 8@%rdi",
		"8@%rax 8@%rbx 8@%rdi 8@%rsi",
		"8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx",
		"8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx 8@%rcx",
		"8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8",
		"8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9",
		"8@%rax 8@%rbx 8@%rdi 8@%rsi 8@%rdx 8@%rcx 8@%r8 8@%r9 8@%r12",
	};
	const size_t n = (size_t)(function->arity < 0 ? -function->arity : function->arity);

	if (function->language != FUNCTION_OCAML || function->arity == ARITY_UNKNOWN)
		return "";
	return n < sizeof(first_n) / sizeof(first_n[0]) ? first_n[n] : registers;
}

static int add_site(struct finder *f, const struct chosen *chosen, const struct spot *spot,
		    enum site_event event)
{
	struct code_probes *code = f->code;
	const bool is_ocaml = chosen->function->language != FUNCTION_C;
	struct site *sites;

	if (code->n_sites == code->site_room) {
		const size_t room = code->site_room ? 2 * code->site_room : 256;

		sites = reallocarray(code->sites, room, sizeof(*sites));
		if (!sites)
			return ctx_no_memory(f->ctx);
		code->sites = sites;
		code->site_room = room;
	}
	code->sites[code->n_sites++] = (struct site){
		.va = chosen->function->va + spot->off,
		.provider = "",
		.args = event == SITE_ENTERED && spot->off == 0 ? arguments_of(chosen->function)
								: "",
		.probe = (uint32_t)(code->n_probes - 1),
		.abi = SITE_ABI_CODE,
		.has_code = true,
		.event = event,
		.is_on_ocaml_stack = is_ocaml && f->has_ocaml_stacks,
		.is_stepped = spot->cost == CODE_STEPPED,
		.frame_depth = spot->depth,
	};
	code->probes[code->n_probes - 1].n_sites++;
	return 0;
}

/* Begin the probe NAME, unless it is the last one. */
static int begin_probe(struct finder *f, const char *name)
{
	struct code_probes *code = f->code;
	char *copy;

	if (code->n_probes && strcmp(code->probes[code->n_probes - 1].name, name) == 0)
		return 0;
	copy = strdup(name);
	if (!copy)
		return ctx_no_memory(f->ctx);
	code->probes[code->n_probes++] =
		(struct probe){ .name = copy, .first_site = code->n_sites };
	return 0;
}

/* A function that was named cannot be measured, or one more that matches is left out. */
static int refuse(struct finder *f, const struct chosen *chosen, const char *what, const char *why)
{
	if (chosen->is_named)
		return ctx_error(f->ctx, -EOPNOTSUPP, "'%s': cannot be %s: %s", chosen->name, what,
				 why);
	if (!f->n_left_out++) {
		f->left_out = chosen->function->name;
		f->why_left_out = why;
	}
	return 0;
}

/* Choose the place that each call passes once: with arguments, only the first instruction will do. */
static bool choose_place(const struct chosen *chosen, const struct code_function *decoded,
			 struct spot *spot, const char **why)
{
	const bool is_c = chosen->function->language == FUNCTION_C;
	bool wants_entry = chosen->has_args || (is_c && chosen->is_timed);

	*spot = (struct spot){ decoded->place, decoded->place_depth, decoded->place_cost };
	/* The kernel would run the program of the exit before that of the entry. */
	for (size_t i = 0; chosen->is_timed && i < decoded->n_exits; i++)
		wants_entry |= decoded->exits[i].off == decoded->place;
	if (!wants_entry || decoded->place == 0)
		return true;
	*spot = (struct spot){ .cost = decoded->entry_cost };
	if (decoded->entry_is_loop)
		*why = "a loop begins at its first instruction";
	return !decoded->entry_is_loop;
}

static int add_entry(struct finder *f, const struct chosen *chosen,
		     const struct code_function *decoded)
{
	const char *why = decoded->no_count;
	struct spot spot;

	if (!why && !choose_place(chosen, decoded, &spot, &why))
		return refuse(f, chosen, "measured", why);
	return why ? refuse(f, chosen, "counted", why) : add_site(f, chosen, &spot, SITE_ENTERED);
}

static int add_exits(struct finder *f, const struct chosen *chosen,
		     const struct code_function *decoded)
{
	int err = 0;

	if (decoded->no_time)
		return refuse(f, chosen, "timed", decoded->no_time);
	for (size_t i = 0; !err && i < decoded->n_exits; i++) {
		const struct code_exit *exit = &decoded->exits[i];

		if (exit->kind == CODE_RAISE)
			continue;
		if (exit->off == 0)
			return refuse(f, chosen, "timed", "its first instruction leaves it");
		err = add_site(f, chosen, &(struct spot){ exit->off, exit->depth, exit->cost },
			       SITE_LEFT);
	}
	return err;
}

/*
 * A function of C returns to its caller, so a return probe tells its end. Return probes are never
 * put on other functions: the collector of OCaml finds frames by their return addresses.
 */
static int add_return(struct finder *f, const struct chosen *chosen,
		      const struct code_function *decoded)
{
	const struct spot spot = { .depth = -8, /* the return address is popped */
				   .cost = decoded->entry_cost };

	if (chosen->function->is_chosen)
		return refuse(f, chosen, "timed", "the dynamic linker chooses its code");
	if (decoded->entry_is_loop)
		return refuse(f, chosen, "timed", "a loop begins at its first instruction");
	return add_site(f, chosen, &spot, SITE_RETURNED);
}

/* Add the entry of a function, or its exits. */
static int add_function(struct finder *f, const struct chosen *chosen, bool exits)
{
	const struct function *function = chosen->function;
	struct code_function decoded;
	struct code_bytes bytes;
	int err = code_file_bytes(f->file, true, function->va, function->bytes, &bytes);

	if (err)
		return err == -ENOMEM ? ctx_no_memory(f->ctx)
				      : refuse(f, chosen, "measured", "the file lacks its code");
	err = code_function_decode(f->ctx, &bytes, f->file, &decoded);
	if (err)
		return err;
	if (!exits)
		err = add_entry(f, chosen, &decoded);
	else if (function->language == FUNCTION_C)
		err = add_return(f, chosen, &decoded);
	else
		err = add_exits(f, chosen, &decoded);
	code_function_free(&decoded);
	return err;
}

/* Add the probe of CHOSEN[0..N), which have one name, and that of their exits. */
static int add_probe(struct finder *f, const struct chosen *chosen, size_t n)
{
	char *exit_name = NULL;
	bool is_timed = false;
	int err = begin_probe(f, chosen->name);

	for (size_t i = 0; !err && i < n; i++) {
		is_timed |= chosen[i].is_timed;
		err = add_function(f, &chosen[i], false);
	}
	if (err || !is_timed)
		return err;
	if (asprintf(&exit_name, "%s" CODE_EXIT_SUFFIX, chosen->name) < 0)
		return ctx_no_memory(f->ctx);
	err = begin_probe(f, exit_name);
	free(exit_name);
	for (size_t i = 0; !err && i < n; i++)
		if (chosen[i].is_timed)
			err = add_function(f, &chosen[i], true);
	return err;
}

static int add_probes(struct finder *f)
{
	struct code_probes *code = f->code;
	size_t next;
	int err = 0;

	code->probes = calloc(2 * code->n_chosen + 1, sizeof(*code->probes));
	if (!code->probes)
		return ctx_no_memory(f->ctx);
	for (size_t i = 0; !err && i < code->n_chosen; i = next) {
		for (next = i + 1; next < code->n_chosen; next++)
			if (strcmp(code->chosen[next].name, code->chosen[i].name) != 0)
				break;
		err = add_probe(f, &code->chosen[i], next - i);
	}
	return err;
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Has the program OCaml 5? A library or plugin has no runtime: its symbols tell ("camlM.f_1"). */
static bool has_ocaml_stacks(const struct finder *f)
{
	const struct function *all;
	struct runtime runtime;
	size_t n;

	if (runtime_recognise(f->ctx, f->prog->elf, &runtime) == 0)
		return runtime.layout.has_domains;
	all = functions_list(f->code->functions, &n);
	for (size_t i = 0; i < n; i++)
		if (all[i].language == FUNCTION_OCAML)
			return strchr(all[i].symbol, '.') != NULL;
	return false;
}

static int open_code(struct finder *f)
{
	const struct function *all;
	size_t n, n_entries = 0;

	all = functions_list(f->code->functions, &n);
	f->entries = calloc(n + 1, sizeof(*f->entries));
	if (!f->entries)
		return ctx_no_memory(f->ctx);
	for (size_t i = 0; i < n; i++)
		if (!n_entries || f->entries[n_entries - 1] != all[i].va)
			f->entries[n_entries++] = all[i].va;
	f->has_ocaml_stacks = has_ocaml_stacks(f);
	return code_file_open(f->ctx, f->prog->elf, f->entries, n_entries, &f->file);
}

static int find(struct finder *f, struct code_wish *wishes, size_t n)
{
	int err = functions_read(f->ctx, f->prog->elf, &f->code->functions);

	if (err == -ENODATA)
		return 0;
	if (!err)
		err = choose_all(f, wishes, n);
	if (err || !f->code->n_chosen)
		return err;
	join_chosen(f->code);
	err = open_code(f);
	return err ? err : add_probes(f);
}

static void tell_left_out(const struct finder *f)
{
	if (f->n_left_out)
		ctx_log(f->ctx, OCP_LOG_WARN,
			"%s: %zu functions that match cannot be measured; the first one is %s: %s",
			elf_file_name(f->prog->elf), f->n_left_out, f->left_out, f->why_left_out);
}

int code_probes_find(struct ocp_ctx *ctx, const struct ocp_program *prog, struct code_wish *wishes,
		     size_t n, struct code_probes **out)
{
	struct finder f = { .ctx = ctx, .prog = prog };
	int err;

	*out = NULL;
	f.code = calloc(1, sizeof(*f.code));
	err = f.code ? find(&f, wishes, n) : ctx_no_memory(ctx);
	code_file_close(f.file);
	free(f.entries);
	if (!err)
		tell_left_out(&f);
	if (err || !f.code->n_sites) {
		code_probes_free(f.code);
		return err;
	}
	*out = f.code;
	return 0;
}

/* ---- names that are not there --------------------------------------------------------------- */

static int suggest(struct ocp_ctx *ctx, const struct functions *functions, const char *text,
		   const char *where)
{
	const char *body = item_body(text);
	const bool is_c = item_kind_of(text) == ITEM_C_FUNCTION;
	struct suggestion suggestion = suggestion_for(body);
	const struct function *all;
	size_t n;

	all = functions_list(functions, &n);
	for (size_t i = 0; i < n; i++)
		if ((all[i].language == FUNCTION_OCAML) != is_c)
			suggestion_offer(&suggestion, all[i].name);
	ctx_set_error(ctx, "'%s': no such function in %s", text, where);
	if (suggestion.best)
		ctx_hint(ctx, "did you mean '%.*s%s'?", (int)(body - text), text, suggestion.best);
	else
		ctx_hint(ctx, "`ocaml-probes functions` lists them");
	return -ENOENT;
}

int code_probes_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog, const char *text,
			const char *where)
{
	struct functions *functions;
	int err = functions_read(ctx, prog->elf, &functions);

	if (err)
		return err;
	if (item_kind_of(text) != ITEM_C_FUNCTION)
		err = functions_require_ocaml(ctx, functions, where);
	if (!err && item_kind_of(text) == ITEM_FUNCTION_REGEXP)
		err = ctx_error(ctx, -ENOENT, "regular expression '%s': matches no function of %s",
				item_body(text), where);
	else if (!err)
		err = suggest(ctx, functions, text, where);
	functions_free(functions);
	return err;
}
