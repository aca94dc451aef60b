// SPDX-License-Identifier: MIT
/*
 * Make the list of all sites of a process: each note, joined with the state of its site in memory.
 *
 * Unlike the live sites (process_probes.h), which are switched, this list has all notes: also the
 * notes of a probe whose sites were all optimised away, and the tracers' semaphore of each site.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program/places.h"
#include "elf/symbols.h"
#include "program/wrapper_args.h"
#include "look/proc_file.h"
#include "process/process.h"
#include "process/site_form.h"

struct ocp_sites {
	struct ocp_site *sites;
	const struct site **from; /* for each element of `sites`: the same site in its program */
	uint8_t *bytes;		  /* the memory that was read */
	size_t n;
	bool leads_out; /* some site calls code outside of its program */
	char **names;	/* the names of symbols: one buffer per image */
	char **sources; /* the names of source files: one buffer per image */
	size_t n_images;
};

static const char *abi_name(enum site_abi abi)
{
	switch (abi) {
	case SITE_ABI_V0:
		return "v0";
	case SITE_ABI_TRANSITIONAL:
		return "transitional";
	case SITE_ABI_V1:
		return "v1";
	case SITE_ABI_V2:
		return "v2";
	case SITE_ABI_DORMANT:
		return "dormant";
	case SITE_ABI_CODE:
		break; /* only the tool makes such sites: they are in no program */
	}
	return "?";
}

static void describe_site(const struct image *image, size_t image_index, size_t probe,
			  const struct site *site, struct ocp_site *out)
{
	*out = (struct ocp_site){
		.probe = probe,
		.image = image->path,
		.image_index = image_index,
		.abi = abi_name(site->abi),
		.args = site->args,
		.arg_names = site->arg_names,
		.args_fault = site->corrected ? site->corrected->fault : NULL,
		.has_code = site->has_code,
		.state = OCP_SITE_ABSENT,
		.semaphore = -1,
		.tracer_semaphore = -1,
	};
	if (site->has_code) {
		out->n_code = site->n_bytes;
		out->opcode_at = site->opcode_at;
		out->va = site->va;
		out->addr = image->bias + site->va;
	}
	if (site->semaphore_va)
		out->semaphore_addr = image->bias + site->semaphore_va;
	if (site->tracer_semaphore_va)
		out->tracer_semaphore_addr = image->bias + site->tracer_semaphore_va;
}

/*
 * Collect all sites, ordered by probe, image and address. Sites without code follow the sites with
 * code.
 */
static int list_process_sites(const struct ocp_process *proc, struct ocp_sites *sites)
{
	size_t n = 0;

	for (size_t i = 0; i < proc->images.n; i++)
		n += proc->images.images[i].prog->n_sites;
	sites->sites = calloc(n + 1, sizeof(*sites->sites));
	sites->from = calloc(n + 1, sizeof(const struct site *));
	sites->names = calloc(proc->images.n + 1, sizeof(*sites->names));
	sites->sources = calloc(proc->images.n + 1, sizeof(*sites->sources));
	if (!sites->sites || !sites->from || !sites->names || !sites->sources)
		return ctx_no_memory(proc->ctx);
	sites->n_images = proc->images.n;
	for (size_t p = 0; p < proc->live.n_probes; p++) {
		for (size_t i = 0; i < proc->images.n; i++) {
			const struct image *image = &proc->images.images[i];
			ptrdiff_t at = program_find_probe(image->prog, proc->live.probes[p].name);
			const struct probe *probe;

			if (at < 0)
				continue;
			probe = &image->prog->probes[at];
			for (size_t j = 0; j < probe->n_sites && sites->n < n; j++) {
				const struct site *site =
					&image->prog->sites[probe->first_site + j];

				sites->from[sites->n] = site;
				describe_site(image, i, p, site, &sites->sites[sites->n++]);
			}
		}
	}
	return 0;
}

static void set_state(struct ocp_site *site, enum site_form form)
{
	site->state = form == SITE_FORM_ON    ? OCP_SITE_ON
		      : form == SITE_FORM_OFF ? OCP_SITE_OFF
					      : OCP_SITE_DAMAGED;
	site->fault = site_form_is_sound(form) ? NULL : site_form_fault(form);
}

static enum site_form set_form(const struct ocp_process *proc, const struct site *from,
			       struct ocp_site *site)
{
	const struct elf_file *elf = proc->images.images[site->image_index].prog->elf;
	enum site_form form = site_form(elf, from, site->code);

	set_state(site, form);
	site->has_int3 = site->code[0] == SITE_INT3;
	return form;
}

/*
 * If SITE calls a trampoline, the trampoline's gate decides whether the site is on. The process may
 * write anything into the block, so trust a gate only if it is private or the semaphore of the
 * site.
 */
static void set_trampoline(const struct trampolines *trampolines, const struct site *from,
			   struct ocp_site *site)
{
	const struct trampoline *t = trampolines_find(trampolines, from, site->addr, site->code);

	if (!t || (!t->has_private_gate && t->gate_addr != site->semaphore_addr))
		return;
	set_state(site,
		  trampoline_site_form(from, site->code,
				       t->has_private_gate ? t->gate : (uint16_t)site->semaphore));
	site->has_trampoline = true;
}

static int set_trampolines(const struct ocp_process *proc, struct ocp_sites *sites)
{
	struct trampolines trampolines = { 0 };
	int err = sites->leads_out ? trampolines_read(proc->ctx, proc->memory, &trampolines) : 0;
	for (size_t i = 0; !err && trampolines.n && i < sites->n; i++)
		if (sites->sites[i].has_code)
			set_trampoline(&trampolines, sites->from[i], &sites->sites[i]);
	trampolines_free(&trampolines);
	return err;
}

static uint16_t take_counter(const uint8_t **from)
{
	uint16_t value;

	memcpy(&value, *from, sizeof(value));
	*from += sizeof(value);
	return value;
}

static void take_site_bytes(const struct ocp_process *proc, struct ocp_sites *sites)
{
	const uint8_t *from = sites->bytes;

	for (size_t i = 0; i < sites->n; i++) {
		struct ocp_site *site = &sites->sites[i];

		site->code = from;
		site->has_trampoline = false;
		from += site->n_code;
		if (site->has_code)
			sites->leads_out |=
				set_form(proc, sites->from[i], site) == SITE_FORM_WRAPPER;
		if (site->semaphore_addr)
			site->semaphore = take_counter(&from);
		if (site->tracer_semaphore_addr)
			site->tracer_semaphore = take_counter(&from);
	}
}

static void add_piece(struct memory_piece *pieces, size_t *n, uint32_t *n_bytes, uint64_t addr,
		      uint16_t bytes)
{
	pieces[(*n)++] = (struct memory_piece){ .addr = addr, .bytes = bytes, .to = *n_bytes };
	*n_bytes += bytes;
}

/* Plan to read the code, the semaphore and the tracers' semaphore of each site, if it has them. */
static int plan_reading(const struct ocp_process *proc, struct ocp_sites *sites,
			struct memory_plan **plan)
{
	struct memory_piece *pieces = calloc(3 * sites->n + 1, sizeof(*pieces));
	uint32_t n_bytes = 0;
	size_t n = 0;

	*plan = NULL;
	if (!pieces)
		return ctx_no_memory(proc->ctx);
	for (size_t i = 0; i < sites->n; i++) {
		const struct ocp_site *site = &sites->sites[i];

		if (site->has_code)
			add_piece(pieces, &n, &n_bytes, site->addr, site->n_code);
		if (site->semaphore_addr)
			add_piece(pieces, &n, &n_bytes, site->semaphore_addr, sizeof(uint16_t));
		if (site->tracer_semaphore_addr)
			add_piece(pieces, &n, &n_bytes, site->tracer_semaphore_addr,
				  sizeof(uint16_t));
	}
	sites->bytes = malloc(n_bytes + 1);
	if (!sites->bytes) {
		free(pieces);
		return ctx_no_memory(proc->ctx);
	}
	return memory_plan_make(proc->memory, pieces, n, plan);
}

static bool has_lost_site(const struct ocp_sites *sites)
{
	for (size_t i = 0; sites->leads_out && i < sites->n; i++)
		if (sites->sites[i].fault == site_form_fault(SITE_FORM_WRAPPER))
			return true;
	return false;
}

static int read_sites_once(const struct ocp_process *proc, struct ocp_sites *sites,
			   struct memory_plan *plan)
{
	int err = memory_plan_read(proc->memory, plan, sites->bytes);

	if (err)
		return err;
	sites->leads_out = false;
	take_site_bytes(proc, sites);
	return set_trampolines(proc, sites);
}

/*
 * Read the memory of all sites. If the process runs, a tool may restore the sites and remove the
 * trampolines during the reading: see snapshot_read().
 */
static int read_memory(const struct ocp_process *proc, struct ocp_sites *sites)
{
	const int tries = proc->held ? 1 : 10;
	struct memory_plan *plan;
	int err = plan_reading(proc, sites, &plan);

	if (!err)
		err = read_sites_once(proc, sites, plan);
	for (int i = 1; !err && i < tries && has_lost_site(sites); i++) {
		usleep(1000);
		err = read_sites_once(proc, sites, plan);
	}
	memory_plan_free(plan);
	return err;
}

/* The sites of one image that have code. */
struct of_image {
	size_t image;
	size_t *sites; /* the indexes of these sites in struct ocp_sites */
	size_t n;
};

/*
 * Find the symbols at the sites of OF. If the symbol table is damaged, only log a warning, because
 * nothing depends on symbols.
 */
static int name_image(const struct ocp_process *proc, struct ocp_sites *sites,
		      const struct of_image *of)
{
	struct symbol_of *asked = calloc(of->n + 1, sizeof(*asked));
	int err;

	if (!asked)
		return ctx_no_memory(proc->ctx);
	for (size_t i = 0; i < of->n; i++)
		asked[i].va = sites->sites[of->sites[i]].va;
	err = symbols_find(proc->ctx, proc->images.images[of->image].prog->elf, asked, of->n,
			   &sites->names[of->image]);
	if (err && err != -ENOMEM) {
		ctx_log(proc->ctx, OCP_LOG_WARN, "cannot read symbols: %s", ocp_error(proc->ctx));
		err = 0;
	}
	for (size_t i = 0; !err && i < of->n; i++) {
		struct ocp_site *site = &sites->sites[of->sites[i]];
		const struct symbol_of *found = symbols_answer(asked, of->n, site->va);

		site->symbol = found->name;
		site->symbol_off = found->off;
	}
	free(asked);
	return err;
}

/* Find the source lines of the probes at the sites of OF. */
static int place_image(const struct ocp_process *proc, struct ocp_sites *sites,
		       const struct of_image *of)
{
	struct probe_place *asked = calloc(of->n + 1, sizeof(*asked));
	int err;

	if (!asked)
		return ctx_no_memory(proc->ctx);
	for (size_t i = 0; i < of->n; i++)
		asked[i].site = sites->from[of->sites[i]];
	err = places_find(proc->images.images[of->image].prog, asked, of->n,
			  &sites->sources[of->image]);
	for (size_t i = 0; !err && i < of->n; i++) {
		struct ocp_site *site = &sites->sites[of->sites[i]];

		site->source = asked[i].file;
		site->line = asked[i].line;
		site->column = asked[i].column;
	}
	free(asked);
	return err;
}

static int each_image(const struct ocp_process *proc, struct ocp_sites *sites,
		      int (*do_it)(const struct ocp_process *proc, struct ocp_sites *sites,
				   const struct of_image *of))
{
	struct of_image of = { .sites = calloc(sites->n + 1, sizeof(*of.sites)) };
	int err = of.sites ? 0 : ctx_no_memory(proc->ctx);

	for (; !err && of.image < sites->n_images; of.image++) {
		of.n = 0;
		for (size_t i = 0; i < sites->n; i++)
			if (sites->sites[i].has_code && sites->sites[i].image_index == of.image)
				of.sites[of.n++] = i;
		err = do_it(proc, sites, &of);
	}
	free(of.sites);
	return err;
}

int sites_place(const struct ocp_process *proc, struct ocp_sites *sites)
{
	return each_image(proc, sites, place_image);
}

int ocp_sites_read(struct ocp_process *proc, unsigned int flags, struct ocp_sites **out)
{
	bool hold = (flags & OCP_ATOMICALLY) && !proc->held;
	struct ocp_sites *sites = calloc(1, sizeof(*sites));
	int err;

	*out = NULL;
	if (!sites)
		return ctx_no_memory(proc->ctx);
	err = list_process_sites(proc, sites);
	if (!err && hold)
		err = ocp_process_hold(proc);
	if (!err)
		err = read_memory(proc, sites);
	if (hold)
		ocp_process_release(proc);
	if (!err && (flags & OCP_SITES_SYMBOLS))
		err = each_image(proc, sites, name_image);
	if (!err && (flags & OCP_SITES_SOURCE))
		err = sites_place(proc, sites);
	if (err)
		ocp_sites_free(sites);
	else
		*out = sites;
	return err;
}

void ocp_sites_free(struct ocp_sites *sites)
{
	if (!sites)
		return;
	for (size_t i = 0; i < sites->n_images; i++) {
		free(sites->names[i]);
		free(sites->sources[i]);
	}
	free(sites->names);
	free(sites->sources);
	free(sites->from);
	free(sites->bytes);
	free(sites->sites);
	free(sites);
}

size_t ocp_sites_count(const struct ocp_sites *sites)
{
	return sites->n;
}

const struct ocp_site *ocp_sites_get(const struct ocp_sites *sites, size_t site)
{
	return &sites->sites[site];
}

int ocp_process_read_tracer(struct ocp_process *proc, pid_t *tracer, char *name, size_t name_bytes)
{
	struct proc_status status, of_tracer;
	int err = proc_status_read(proc->ctx, proc->pid, &status);

	if (err)
		return err;
	*tracer = status.tracer_pid;
	/* If the tracer has just ended, it has no name. */
	if (!status.tracer_pid || proc_status_read(proc->ctx, status.tracer_pid, &of_tracer) != 0)
		of_tracer.name[0] = '\0';
	if (name_bytes)
		snprintf(name, name_bytes, "%s", of_tracer.name);
	return 0;
}
