// SPDX-License-Identifier: MIT
/*
 * Convert probes to attach points of bpftrace. `usdt:FILE:PROVIDER:NAME` stands for all sites of a
 * name in a file, with arguments. This form is used unless one of these facts prevents it (seen
 * with bpftrace 0.17):
 *
 *   - bpftrace raises the 16-bit counter at the address in the note. In provider `ocaml` of the
 *     oldest compilers, this counter is OCaml's own semaphore: the program would behave as if the
 *     probe were on.
 *   - bpftrace has no syntax for an empty name.
 *   - The program was not post-linked: its probes have no notes.
 *
 * If `usdt:` cannot be used, each site is a separate `uprobe:FILE:PLACE`, and its arguments are
 * read from registers. bpftrace takes the number PLACE for a link-time address if the symbol of a
 * function contains that address. For an address, bpftrace needs to disassemble the function, which
 * Debian's build cannot do. If no symbol contains the address, bpftrace takes PLACE for an offset
 * in the file, and requires --unsafe. So PLACE is the file offset of the site if no symbol contains
 * this number taken as an address, and otherwise the address of the site.
 *
 * With -p, bpftrace searches the mapped files for notes. It finds them only if the path of a file
 * leads to the same file for bpftrace and for the process. That is not the case if the process is
 * in a chroot or container, or if the file was deleted or replaced. And if N files contain a name,
 * bpftrace attaches N times to the sites in the first file, and not to the sites in the other
 * files. In all these cases the script has no -p, and names files by their paths in our root
 * directory or by their entries in /proc. With or without -p, a predicate selects the process: with
 * -p alone, a uprobe also counts other processes that run the file.
 *
 * bpftrace 0.26 uses `-p PID usdt:PATH` for every file whose name ends with PATH, and knows the
 * file as PATH and as /proc/PID/root/PATH, so that each hit counts twice. These forms count once:
 *
 *	-p PID usdt:/proc/PID/exe
 *	-p PID usdt:/proc/PID/root/LIBRARY
 *	usdt:FILE, with or without a predicate
 *
 * `make check` runs these forms with 0.17. They were also run once with 0.23.2, 0.26.1 (the first
 * form) and 0.27.0. Debian's 0.27.1 gets EINVAL from Linux 6.18 for sites with a semaphore
 * (tools/matrix/bpftrace).
 *
 * bpftrace 0.27 puts /proc/PID/root before a path that does not begin with it, so /proc/PID/exe
 * must also exist in the /proc of the process.
 */
#include "bpftrace/bpftrace_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "elf/symbols.h"
#include "process/image.h"
#include "process/mapped_files.h"
#include "process/process.h"
#include "program/item.h"
#include "program/program.h"
#include "program/selection.h"
#include "look/maps.h"
#include "look/proc_file.h"

/* ---- functions and phases -------------------------------------------------------------------- */

/*
 * Choose the attach points for functions and phases of the collector. These are the addresses at
 * which `attach` measures (program/code_sites.c), unless bpftrace cannot attach there.
 *
 * bpftrace 0.17 takes a number for a link-time address if a symbol contains this address, and
 * otherwise for an offset in the file. If it takes the number for an address, it checks that an
 * instruction begins at this address, unless the symbol begins there. Debian's build cannot check
 * instructions. So the attach point of a site is the first of these that is possible:
 *
 *   - the offset of the site in the file, if no symbol contains this number taken as an address
 *     (files that are not position-independent, or have no symbols);
 *   - the address of the site, if a function begins there;
 *   - the address of the function's first instruction, if its calls can be counted there;
 *   - the address of the site, for builds of bpftrace that can check the instruction.
 */

/* What is known while a plan is made: the ELF files of a process, or one ELF file. */
struct planner {
	struct ocp_ctx *ctx;
	const char *owner; /* the file that has the probes, for messages */
	enum ocp_bpftrace what;
	struct items items; /* the names to trace */
	const struct ocp_program **progs;
	size_t n_progs;
	const char **all; /* the names of all probes, sorted */
	size_t n_all;
	struct bpftrace_plan *plan;
};

/*
 * The files of a process that have code to trace. The plan owns the programs of the images;
 * bpftrace_images_free() frees the rest.
 */
struct bpftrace_images {
	struct image *images;
	size_t n;
};

enum { ADDRESSES_A_SITE = 3 };

/* ---- finding code --------------------------------------------------------------------------- */

/*
 * Make a list of wishes from the items of P. With OCP_BPFTRACE_TIME, a single item means that the
 * calls of this function are timed; two items are START and STOP. The caller frees the list.
 */
static int make_wishes(struct planner *p, struct code_wish **wishes)
{
	const struct items *items = &p->items;
	const bool times_calls = p->what == OCP_BPFTRACE_TIME && items->n == 1;

	*wishes = calloc(items->n + 1, sizeof(**wishes));
	if (!*wishes)
		return ctx_no_memory(p->ctx);
	if (times_calls && items->list[0].kind == ITEM_FUNCTION_REGEXP)
		return ctx_error(p->ctx, -EINVAL,
				 "'%s': is a pattern; only single functions can be timed",
				 items->list[0].text);
	p->plan->times_calls = times_calls;
	for (size_t i = 0; i < items->n; i++)
		(*wishes)[i] = (struct code_wish){ .text = items->list[i].text,
						   .is_timed = times_calls,
						   .has_args = p->what == OCP_BPFTRACE_ARGS,
						   .has_bounds = true };
	return 0;
}

static int check_found(struct planner *p, const struct ocp_program *prog,
		       const struct code_wish *wishes)
{
	for (size_t i = 0; i < p->items.n; i++)
		if (!wishes[i].was_found)
			return code_probes_unknown(p->ctx, prog, wishes[i].text, p->owner);
	return 0;
}

/* Like bpftrace_code_find(), for the file PROG only. */
static int bpftrace_code_find_in(struct planner *p, const struct ocp_program *prog)
{
	struct bpftrace_plan *plan = p->plan;
	struct code_wish *wishes;
	int err = make_wishes(p, &wishes);

	plan->code = calloc(1, sizeof(*plan->code));
	if (!err && !plan->code)
		err = ctx_no_memory(p->ctx);
	if (!err)
		err = code_probes_find(p->ctx, prog, wishes, p->items.n, &plan->code[0].probes);
	plan->n_code = plan->code != NULL;
	if (!err)
		err = check_found(p, prog, wishes);
	free(wishes);
	return err;
}

/*
 * Add PROG, the program of the mapping M, and CODE, the code found in PROG, to the plan. Add PROG
 * to IMAGES.
 */
static int keep_image(struct planner *p, struct bpftrace_images *images, const struct mapping *m,
		      struct ocp_program *prog, struct code_probes *code)
{
	struct image *image = &images->images[images->n];
	uint64_t bias;
	int err;

	p->plan->code[p->plan->n_code++] = (struct bpftrace_code){ prog, code };
	err = mapped_files_need_bias(p->ctx, prog->elf, m, &bias);
	if (err)
		return err;
	*image = (struct image){ .prog = prog, .bias = bias, .path = strdup(m->path) };
	images->n++;
	return image->path ? 0 : ctx_no_memory(p->ctx);
}

/*
 * Search the file of M, and add the code found to the plan and to IMAGES. A library that cannot be
 * read is left out, since the user did not name it.
 */
static int find_mapped(struct planner *p, pid_t pid, const struct mapping *m,
		       struct code_wish *wishes, struct bpftrace_images *images)
{
	struct file_origin origin = { .name = m->path, .pid = pid };
	struct ocp_program *prog;
	struct code_probes *code = NULL;
	const int fd = maps_open_file(pid, m);
	int err;

	if (fd < 0)
		return 0;
	origin.is_library = !image_is_exe(pid, fd);
	err = program_open_from(p->ctx, fd, &origin, &prog);
	if (err)
		return err == -ENOMEM || !origin.is_library ? err : 0;
	err = code_probes_find(p->ctx, prog, wishes, p->items.n, &code);
	if (!err && code)
		return keep_image(p, images, m, prog, code);
	ocp_program_free(prog);
	return err == -ENOMEM || err == -EOPNOTSUPP || !origin.is_library ? err : 0;
}

/* Check that all wishes were found. If not, record an error that names the executable. */
static int check_found_in_process(struct planner *p, pid_t pid, const struct code_wish *wishes)
{
	struct ocp_program *prog;
	int fd, err = mapped_files_open_exe(p->ctx, pid, &fd);

	if (!err)
		err = program_open_fd(p->ctx, fd, p->owner, &prog);
	if (err)
		return err;
	err = check_found(p, prog, wishes);
	ocp_program_free(prog);
	return err;
}

/*
 * Find the functions and phases in p->items in the files that PID has mapped, and fill in
 * plan->code. The caller frees IMAGES, also after an error.
 */
static int bpftrace_code_find(struct planner *p, pid_t pid, struct bpftrace_images *images)
{
	struct code_wish *wishes;
	struct maps maps = { 0 };
	int err = make_wishes(p, &wishes);

	if (!err)
		err = maps_read(p->ctx, pid, &maps);
	p->plan->code = calloc(maps.n + 1, sizeof(*p->plan->code));
	images->images = calloc(maps.n + 1, sizeof(*images->images));
	if (!err && (!p->plan->code || !images->images))
		err = ctx_no_memory(p->ctx);
	for (size_t i = 0; !err && i < maps.n; i++)
		if (mapped_files_is_first(&maps, i))
			err = find_mapped(p, pid, &maps.mappings[i], wishes, images);
	if (!err)
		err = check_found_in_process(p, pid, wishes);
	maps_free(&maps);
	free(wishes);
	return err;
}

static void bpftrace_images_free(struct bpftrace_images *images)
{
	for (size_t i = 0; i < images->n; i++)
		free(images->images[i].path);
	free(images->images);
	*images = (struct bpftrace_images){ 0 };
}

/* ---- places --------------------------------------------------------------------------------- */

/*
 * The symbols that contain the addresses of the sites of one file, the entries of the sites'
 * functions (if known), and the file offsets of the sites, taken as addresses.
 */
struct placer {
	struct planner *p;
	const struct ocp_program *prog;
	struct symbol_of *asked; /* sorted by va */
	size_t n;
	char *names;
};

/* Return the symbol that contains the address VA. NULL: no symbol contains it. */
static const struct symbol_of *symbol_at(const struct placer *placer, uint64_t va)
{
	const struct symbol_of *found = symbols_answer(placer->asked, placer->n, va);

	return found && found->name ? found : NULL;
}

static int open_placer(struct placer *placer, const struct probe_set *set)
{
	struct ocp_ctx *ctx = placer->p->ctx;
	uint64_t off;

	placer->asked = calloc(ADDRESSES_A_SITE * set->n_sites + 1, sizeof(*placer->asked));
	if (!placer->asked)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < set->n_sites; i++) {
		const struct site *site = &set->sites[i];

		placer->asked[placer->n++].va = site->va;
		if (elf_file_va_to_off(placer->prog->elf, site->va, &off))
			placer->asked[placer->n++].va = off;
		if (site->entry_va)
			placer->asked[placer->n++].va = site->entry_va;
	}
	return symbols_find(ctx, placer->prog->elf, placer->asked, placer->n, &placer->names);
}

static void close_placer(struct placer *placer)
{
	free(placer->names);
	free(placer->asked);
}

/* Return true if a function begins at VA. */
static bool is_first(const struct placer *placer, uint64_t va)
{
	const struct symbol_of *symbol = symbol_at(placer, va);

	return symbol && symbol->off == 0;
}

/*
 * Return an error if the symbol at VA shares its name with another symbol: bpftrace converts the
 * address to the name of the symbol, and the name back to an address, which may be that of the
 * other symbol. Only C functions can share a name.
 */
static int check_name(const struct placer *placer, const char *text, uint64_t va)
{
	const struct symbol_of *at = symbol_at(placer, va);
	struct named_symbol symbol = { .name = at ? at->name : "" };
	bool is_stripped;
	int err;

	if (!at || strlen(at->name) > NAMED_SYMBOL_BYTES ||
	    strncmp(text, ITEM_FUNCTION_PREFIX, strlen(ITEM_FUNCTION_PREFIX)) == 0)
		return 0;
	err = named_symbols_find(placer->p->ctx, placer->prog->elf, &symbol, 1, &is_stripped);
	if (!err && (symbol.is_ambiguous || symbol.va != va - at->off))
		err = ctx_error(
			placer->p->ctx, -EOPNOTSUPP,
			"'%s': bpftrace finds code by its symbol, and several functions are "
			"called %s",
			text, at->name);
	return err;
}

/*
 * Return true if SITE begins or ends a timed call. The attach point of such a site must not be
 * moved to the entry of the function: the call is found by its frame, which is computed from the
 * stack pointer at the site.
 */
static bool has_frame(const struct bpftrace_plan *plan, const struct site *site)
{
	return plan->times_calls && (site->events & (SITE_BEGINS | SITE_ENDS));
}

static int place_code_site(struct placer *placer, const char *text, const struct site *site,
			   struct bpftrace_site *to)
{
	struct bpftrace_plan *plan = placer->p->plan;
	uint64_t off;

	*to = (struct bpftrace_site){ .site = site, .at = site->va, .depth = site->frame_depth };
	if (!elf_file_va_to_off(placer->prog->elf, site->va, &off))
		return ctx_error(placer->p->ctx, -EBADMSG, "%s: the file lacks the code of a site",
				 elf_file_name(placer->prog->elf));
	if (!symbol_at(placer, off)) {
		to->at = off;
		return 0;
	}
	if (!is_first(placer, site->va)) {
		if (!symbol_at(placer, site->va))
			return ctx_error(placer->p->ctx, -EOPNOTSUPP,
					 "'%s': bpftrace would mistake the file offset 0x%" PRIx64
					 " for an address in another function",
					 text, off);
		if (!has_frame(plan, site) && site->entry_va && is_first(placer, site->entry_va)) {
			to->at = site->entry_va;
			to->depth = 0;
			plan->n_at_entry++;
		} else {
			plan->needs_checks = true;
		}
	}
	return check_name(placer, text, to->at);
}

/* ---- groups --------------------------------------------------------------------------------- */

static int add_set_group(struct placer *placer, const char *file, const struct probe_set *set,
			 const struct probe *probe)
{
	struct bpftrace_plan *plan = placer->p->plan;
	struct bpftrace_group *group = &plan->groups[plan->n_groups++];
	int err = 0;

	*group = (struct bpftrace_group){ .name = probe->name,
					  .file = file,
					  .n_uses = probe->n_sites,
					  .sites = plan->sites + plan->n_sites };
	for (size_t i = 0; !err && i < probe->n_sites; i++) {
		const struct site *site = &set->sites[probe->first_site + i];

		if (!plan->times_calls ||
		    (site->events & (SITE_BEGINS | SITE_ENDS | SITE_CONFIRMS)))
			err = place_code_site(placer, probe->name, site,
					      &group->sites[group->n_sites++]);
	}
	plan->n_sites += group->n_sites;
	plan->n_uprobes += group->n_sites;
	return err;
}

static void add_plan_name(struct bpftrace_plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->n_names; i++)
		if (strcmp(plan->names[i], name) == 0)
			return;
	plan->names[plan->n_names++] = name;
}

static int add_file_groups(struct planner *p, size_t i, const struct probe_set *set)
{
	struct placer placer = { .p = p, .prog = p->progs[i] };
	int err = open_placer(&placer, set);

	for (size_t j = 0; !err && j < set->n_probes; j++) {
		err = add_set_group(&placer, p->plan->files[i], set, &set->probes[j]);
		if (i == 0)
			p->plan->names[p->plan->n_names++] = set->probes[j].name;
		else
			add_plan_name(p->plan, set->probes[j].name);
	}
	close_placer(&placer);
	return err;
}

/* Put the names START and STOP in the order in which the user gave them. */
static void order_pair(struct planner *p)
{
	struct bpftrace_plan *plan = p->plan;

	if (p->what == OCP_BPFTRACE_TIME && plan->n_names == 2 &&
	    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): no name is NULL */
	    strcmp(plan->names[0], p->items.list[0].text) != 0) {
		const char *first = plan->names[0];

		plan->names[0] = plan->names[1];
		plan->names[1] = first;
	}
}

/* Fill the groups and names of the plan from plan->code. */
static int bpftrace_code_groups(struct planner *p)
{
	struct bpftrace_plan *plan = p->plan;
	size_t n_sites = 0, n_probes = 0;
	int err = 0;

	for (size_t i = 0; i < plan->n_code; i++) {
		const struct probe_set set = code_probes_set(plan->code[i].probes);

		n_sites += set.n_sites;
		n_probes += set.n_probes;
	}
	plan->groups = calloc(n_probes + 1, sizeof(*plan->groups));
	plan->sites = calloc(n_sites + 1, sizeof(*plan->sites));
	plan->names = calloc(n_probes + 1, sizeof(*plan->names));
	plan->absent = calloc(1, sizeof(*plan->absent));
	if (!plan->groups || !plan->sites || !plan->names || !plan->absent)
		return ctx_no_memory(p->ctx);
	for (size_t i = 0; !err && i < plan->n_code; i++) {
		const struct probe_set set = code_probes_set(plan->code[i].probes);

		err = add_file_groups(p, i, &set);
	}
	order_pair(p);
	if (!err && plan->n_names == 0)
		err = ctx_error(p->ctx, -EOPNOTSUPP, "%s: none of these can be measured", p->owner);
	return err;
}

/* ---- probes ---------------------------------------------------------------------------------- */

/* ---- names --------------------------------------------------------------------------------- */

static int compare_plan_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int collect_names(struct planner *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_progs; i++)
		n += p->progs[i]->n_probes;
	p->all = calloc(n + 1, sizeof(*p->all));
	p->plan->names = calloc(n + 1, sizeof(*p->plan->names));
	if (!p->all || !p->plan->names)
		return ctx_no_memory(p->ctx);
	for (size_t i = 0; i < p->n_progs; i++)
		for (size_t j = 0; j < p->progs[i]->n_probes; j++)
			p->all[p->n_all++] = p->progs[i]->probes[j].name;
	qsort(p->all, p->n_all, sizeof(*p->all), compare_plan_names);
	n = p->n_all;
	p->n_all = 0;
	for (size_t i = 0; i < n; i++)
		if (p->n_all == 0 || strcmp(p->all[p->n_all - 1], p->all[i]) != 0)
			p->all[p->n_all++] = p->all[i];
	return n ? 0 : ctx_error(p->ctx, -ENOENT, "%s: has no OCaml probes", p->owner);
}

static int take_probe(void *data, size_t probe)
{
	struct planner *p = data;

	p->plan->names[p->plan->n_names++] = p->all[probe];
	return 0;
}

static int choose_planned(struct planner *p)
{
	const struct probe_names among = { p->all, p->n_all, p->owner };
	struct selection selection = { 0 };
	int err = 0;

	for (size_t i = 0; !err && i < p->items.n; i++)
		err = selection_add(p->ctx, &selection, &p->items.list[i]);
	if (!err)
		err = selection_choose(p->ctx, &selection, &among, take_probe, p);
	selection_free(&selection);
	return err;
}

/* Parse NAMES into p->items. Set plan->is_code if NAMES are places in code, not probes. */
static int read_items(struct planner *p, const char *names)
{
	size_t n_code = 0;

	if (items_add_text(&p->items, names))
		return ctx_no_memory(p->ctx);
	for (size_t i = 0; i < p->items.n; i++)
		n_code += p->items.list[i].text && item_is_code(p->items.list[i].text);
	if (n_code && n_code < p->items.n)
		return ctx_error(p->ctx, -EINVAL,
				 "'%s': probes and functions cannot be in one script", names);
	p->plan->is_code = n_code != 0;
	return 0;
}

/* ---- groups -------------------------------------------------------------------------------- */

/* Set *AT to the offset or address at which bpftrace attaches a uprobe to the site at VA. */
static int place_site(struct planner *p, const struct ocp_program *prog, uint64_t va, uint64_t *at)
{
	struct symbol_of asked[2] = { { .va = va } };
	bool shadowed = false, spanned = false;
	char *names = NULL;
	uint64_t off;
	int err;

	if (!elf_file_va_to_off(prog->elf, va, &off))
		return ctx_error(p->ctx, -EBADMSG, "%s: the file lacks the code of a site",
				 elf_file_name(prog->elf));
	asked[1].va = off;
	err = symbols_find(p->ctx, prog->elf, asked, 2, &names);
	for (size_t i = 0; !err && i < 2; i++) {
		shadowed |= asked[i].va == off && asked[i].name;
		spanned |= asked[i].va == va && asked[i].name;
	}
	free(names);
	*at = shadowed ? va : off;
	p->plan->needs_checks |= shadowed;
	if (!err && shadowed && !spanned)
		err = ctx_error(p->ctx, -EOPNOTSUPP,
				"%s: bpftrace would mistake the file offset 0x%" PRIx64
				" of a site for an address in another function",
				elf_file_name(prog->elf), off);
	return err;
}

/* Return the reason why `usdt:` cannot be used for a probe of PROG; NULL if it can be used. */
static const char *why_no_usdt(const struct ocp_program *prog, const struct probe *probe)
{
	const struct site *sites = prog->sites + probe->first_site;

	if (!probe->name[0])
		return "bpftrace has no usdt: probe with an empty name";
	if (sites[0].abi == SITE_ABI_DORMANT)
		return "the file was not post-linked and has no notes";
	for (size_t i = 0; i < probe->n_sites; i++) {
		if (sites[i].semaphore_va && !sites[i].tracer_semaphore_va)
			return "usdt: would raise OCaml's own semaphore, as if the probe were enabled";
		if (strcmp(sites[i].provider, sites[0].provider) != 0)
			return "its sites are of several providers";
	}
	return NULL;
}

static int add_probe_group(struct planner *p, const struct ocp_program *prog, const char *file,
			   const struct probe *probe)
{
	struct bpftrace_plan *plan = p->plan;
	const struct site *sites = prog->sites + probe->first_site;
	struct bpftrace_group *group = &plan->groups[plan->n_groups];
	int err = 0;

	*group = (struct bpftrace_group){
		.name = probe->name,
		.file = file,
		.why = why_no_usdt(prog, probe),
		.n_uses = probe->n_sites,
		.n_absent = program_uses_without_site(prog, probe),
		.sites = plan->sites + plan->n_sites,
	};
	if (!group->why)
		group->provider = sites[0].provider;
	for (size_t i = 0; !err && i < probe->n_sites; i++) {
		struct bpftrace_site *to = &group->sites[group->n_sites];

		if (!sites[i].has_code)
			continue;
		to->site = &sites[i];
		if (group->why)
			err = place_site(p, prog, sites[i].va, &to->at);
		group->n_sites++;
	}
	plan->n_sites += group->n_sites;
	plan->n_uprobes += group->why ? group->n_sites : 0;
	plan->n_groups += group->n_sites > 0;
	return err;
}

static int add_groups_of(struct planner *p, const char *name)
{
	size_t before = p->plan->n_groups;
	int err = 0;

	for (size_t i = 0; !err && i < p->n_progs; i++) {
		ptrdiff_t at = program_find_probe(p->progs[i], name);

		if (at >= 0)
			err = add_probe_group(p, p->progs[i], p->plan->files[i],
					      &p->progs[i]->probes[at]);
	}
	if (!err && p->plan->n_groups == before)
		p->plan->absent[p->plan->n_absent++] = name;
	else
		p->plan->names[p->plan->n_names++] = name;
	return err;
}

static int add_groups(struct planner *p)
{
	struct bpftrace_plan *plan = p->plan;
	size_t n_sites = 0, n_names = plan->n_names;
	int err = 0;

	for (size_t i = 0; i < p->n_progs; i++)
		n_sites += p->progs[i]->n_sites;
	plan->groups = calloc(p->n_progs * plan->n_names + 1, sizeof(*plan->groups));
	plan->sites = calloc(n_sites + 1, sizeof(*plan->sites));
	plan->absent = calloc(n_names + 1, sizeof(*plan->absent));
	if (!plan->groups || !plan->sites || !plan->absent)
		return ctx_no_memory(p->ctx);
	/* Remove the names without sites from plan->names. The other names keep their order. */
	plan->n_names = 0;
	for (size_t i = 0; !err && i < n_names; i++)
		err = add_groups_of(p, plan->names[i]);
	if (!err && plan->n_names == 0)
		err = ctx_error(p->ctx, -ENOENT,
				"probe '%s': the compiler left its sites out, it cannot be traced",
				plan->absent[0]);
	return err;
}

/* ---- files --------------------------------------------------------------------------------- */

/*
 * Return true if a script can contain PATH in quotes: for some characters, bpftrace has no syntax.
 */
static bool is_sayable(const char *path)
{
	for (; *path; path++)
		if ((unsigned char)*path < ' ' || *path == 0x7f || strchr("\"\\*?[$", *path))
			return false;
	return true;
}

static bool leads_to(const char *path, const struct ocp_program *prog)
{
	struct stat by_path, by_fd;

	return stat(path, &by_path) == 0 && fstat(prog->fd, &by_fd) == 0 &&
	       by_path.st_dev == by_fd.st_dev && by_path.st_ino == by_fd.st_ino;
}

/*
 * Return true if the process has our root directory. bpftrace -p resolves the paths of mappings in
 * the root directory of the process, but the kernel shows these paths as seen from our root
 * directory. So if the root directories differ, bpftrace does not find the files.
 */
static bool has_our_root(pid_t pid)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	return stat("/", &ours) == 0 && stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

static bool is_executable(const struct ocp_process *proc, const struct image *image)
{
	return strcmp(image->path, proc->images.exe_path) == 0;
}

/*
 * Return a path to the file of IMAGE, an image of PROC. For the executable, it is /proc/PID/exe.
 * For another file, it is the path below /proc/PID/root if a script can contain that path and it
 * leads to the file. Otherwise it is the entry in /proc/PID/map_files of the mapping that contains
 * ADDR, the address of a site in the file. If there is no such mapping (ADDR may be 0), it is
 * image->path. The caller frees the path. NULL: out of memory.
 */
static char *path_in_proc(struct ocp_process *proc, const struct maps *maps,
			  const struct image *image, uint64_t addr)
{
	const struct mapping *m;
	char *path = NULL;
	int n;

	if (is_executable(proc, image)) {
		n = asprintf(&path, "/proc/%d/exe", (int)proc->pid);
		return n < 0 ? NULL : path;
	}
	if (is_sayable(image->path)) {
		if (asprintf(&path, "/proc/%d/root%s", (int)proc->pid, image->path) < 0)
			return NULL;
		if (leads_to(path, image->prog))
			return path;
		free(path);
	}
	m = addr ? maps_find(maps, addr) : NULL;
	if (!m)
		return strdup(image->path);
	n = asprintf(&path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)proc->pid, m->start,
		     m->end);
	return n < 0 ? NULL : path;
}

/*
 * Return true if every version of bpftrace -p finds the file of IMAGE. The caller must have checked
 * that no other image of PROC has probes.
 */
static bool is_found_by_pid(const struct ocp_process *proc, const struct image *image)
{
	char path[64];

	if (!is_executable(proc, image))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/root/proc/%d/exe", (int)proc->pid, (int)proc->pid);
	return leads_to(path, image->prog);
}

/*
 * Return the address, in the process, of the first site of IMAGE that has code; 0: no site has
 * code. I is the index of IMAGE in the plan's files.
 */
static uint64_t site_address(const struct planner *p, const struct image *image, size_t i)
{
	const struct probe_set set =
		code_probes_set(p->plan->is_code ? p->plan->code[i].probes : NULL);
	const struct site *sites = p->plan->is_code ? set.sites : image->prog->sites;
	const size_t n = p->plan->is_code ? set.n_sites : image->prog->n_sites;

	for (size_t j = 0; j < n; j++)
		if (sites[j].has_code)
			return image->bias + sites[j].va;
	return 0;
}

static int name_images(struct planner *p, struct ocp_process *proc, const struct image *images,
		       size_t n)
{
	struct bpftrace_plan *plan = p->plan;
	bool same_root = has_our_root(proc->pid);
	struct maps maps = { 0 };
	int err = maps_read(p->ctx, proc->pid, &maps);

	for (size_t i = 0; !err && i < n; i++) {
		const struct image *image = &images[i];
		bool is_plain =
			same_root && is_sayable(image->path) && leads_to(image->path, image->prog);

		plan->omits_p = n > 1 || !is_plain || !is_found_by_pid(proc, image);
		plan->files[i] =
			is_plain && plan->omits_p
				? strdup(image->path)
				: path_in_proc(proc, &maps, image, site_address(p, image, i));
		plan->n_files++;
		p->progs[i] = image->prog;
		if (!plan->files[i])
			err = ctx_no_memory(p->ctx);
	}
	maps_free(&maps);
	return err;
}

/* Name the file of PROG by its absolute path, since bpftrace searches $PATH for a relative path. */
static int name_program(struct planner *p, const struct ocp_program *prog, const char *path)
{
	struct bpftrace_plan *plan = p->plan;

	plan->files[0] = realpath(path, NULL);
	plan->n_files = 1;
	p->progs[0] = prog;
	if (!plan->files[0])
		return ctx_error(p->ctx, -errno, "%s: %s", path, strerror(errno));
	if (!is_sayable(plan->files[0]))
		return ctx_error(p->ctx, -EINVAL, "%s: bpftrace has no syntax for such a path",
				 path);
	return 0;
}

static int start_plan(struct planner *p, size_t n_files)
{
	p->n_progs = n_files;
	p->progs = calloc(n_files + 1, sizeof(const struct ocp_program *));
	p->plan->files = calloc(n_files + 1, sizeof(*p->plan->files));
	return p->progs && p->plan->files ? 0 : ctx_no_memory(p->ctx);
}

static int finish_plan(struct planner *p, int err)
{
	if (!err && p->plan->is_code) {
		err = bpftrace_code_groups(p);
	} else if (!err) {
		err = collect_names(p);
		if (!err)
			err = choose_planned(p);
		if (!err)
			err = add_groups(p);
	}
	free(p->progs);
	free(p->all);
	items_free(&p->items);
	if (err)
		bpftrace_plan_free(p->plan);
	return err;
}

int bpftrace_plan_process(struct ocp_process *proc, enum ocp_bpftrace what, const char *names,
			  struct bpftrace_plan *plan)
{
	struct planner p = {
		.ctx = proc->ctx, .owner = proc->images.exe_path, .what = what, .plan = plan
	};
	struct bpftrace_images code = { 0 };
	const struct image *images = proc->images.images;
	size_t n = proc->images.n;
	int err;

	*plan = (struct bpftrace_plan){ .pid = proc->pid };
	err = read_items(&p, names);
	if (!err && plan->is_code) {
		err = bpftrace_code_find(&p, proc->pid, &code);
		images = code.images;
		n = code.n;
	}
	if (!err)
		err = start_plan(&p, n);
	if (!err)
		err = name_images(&p, proc, images, n);
	err = finish_plan(&p, err);
	bpftrace_images_free(&code);
	return err;
}

int bpftrace_plan_program(struct ocp_program *prog, const char *path, enum ocp_bpftrace what,
			  const char *names, struct bpftrace_plan *plan)
{
	struct planner p = { .ctx = prog->ctx, .owner = path, .what = what, .plan = plan };
	int err;

	*plan = (struct bpftrace_plan){ 0 };
	err = read_items(&p, names);
	if (!err && plan->is_code)
		err = bpftrace_code_find_in(&p, prog);
	if (!err)
		err = start_plan(&p, 1);
	if (!err)
		err = name_program(&p, prog, path);
	return finish_plan(&p, err);
}

void bpftrace_plan_free(struct bpftrace_plan *plan)
{
	for (size_t i = 0; plan->files && i < plan->n_files; i++)
		free(plan->files[i]);
	for (size_t i = 0; i < plan->n_code; i++) {
		code_probes_free(plan->code[i].probes);
		ocp_program_free(plan->code[i].own);
	}
	free(plan->code);
	free(plan->files);
	free(plan->groups);
	free(plan->sites);
	free(plan->names);
	free(plan->absent);
	*plan = (struct bpftrace_plan){ 0 };
}
