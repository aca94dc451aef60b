// SPDX-License-Identifier: MIT
/*
 * Choose the attach points for functions and phases of the collector. They are the addresses that
 * `attach` uses (program/code_sites.c), unless bpftrace cannot attach there.
 *
 * bpftrace 0.17 takes a number for a link-time address if a symbol contains this address, and
 * otherwise for an offset in the file. If it takes the number for an address, it checks that an
 * instruction begins there, unless it is the first address of the symbol. Debian's build cannot
 * check instructions. So the attach point of a site is the first of these that is possible:
 *
 *   - the offset of the site in the file, if no symbol contains this number taken as an address
 *     (files that are not position-independent, or have no symbols);
 *   - the address of the site, if a function begins there;
 *   - the address of the function's first instruction, if its calls can be counted there;
 *   - the address of the site, for builds of bpftrace that can check the instruction.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bpftrace/bpftrace_planner.h"
#include "elf/symbols.h"
#include "process/mapped_files.h"
#include "tracee/maps.h"
#include "tracee/proc_file.h"

enum { ADDRESSES_A_SITE = 3 };

/* ---- finding code --------------------------------------------------------------------------- */

/*
 * Make a list of wishes from the items. With OCP_BPFTRACE_TIME, one item means the calls of this
 * function; several items mean START,STOP. The caller frees the list.
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
				 "'%s': a pattern of functions; the time is that of one function",
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

int bpftrace_code_find_in(struct planner *p, const struct ocp_program *prog)
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

int bpftrace_code_find(struct planner *p, pid_t pid, struct bpftrace_images *images)
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

void bpftrace_images_free(struct bpftrace_images *images)
{
	for (size_t i = 0; i < images->n; i++)
		free(images->images[i].path);
	free(images->images);
	*images = (struct bpftrace_images){ 0 };
}

/* ---- places --------------------------------------------------------------------------------- */

/*
 * The symbols at the sites of one file: for each site, the symbol that contains its address, and
 * the symbol that contains its file offset if this number is taken as an address.
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
 * Return an error if the symbol at VA shares its name with another one: bpftrace converts the
 * address to the name of the symbol, and this name back to an address. Only C functions can share a
 * name.
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
 * Return true if SITE begins or ends a timed call. Its attach point must then not be moved to the
 * entry of the function: the call is found by its frame, which is computed from the stack pointer
 * at the site.
 */
static bool has_frame(const struct bpftrace_plan *plan, const struct site *site)
{
	return plan->times_calls && (site->events & (SITE_BEGINS | SITE_ENDS));
}

static int place_site(struct placer *placer, const char *text, const struct site *site,
		      struct bpftrace_site *to)
{
	struct bpftrace_plan *plan = placer->p->plan;
	uint64_t off;

	*to = (struct bpftrace_site){ .site = site, .at = site->va, .depth = site->frame_depth };
	if (!elf_file_va_to_off(placer->prog->elf, site->va, &off))
		return ctx_error(placer->p->ctx, -EBADMSG, "%s: a site has no byte in the file",
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
			err = place_site(placer, probe->name, site,
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

/* Put START and STOP in the order that the user gave. */
static void order_pair(struct planner *p)
{
	struct bpftrace_plan *plan = p->plan;

	if (p->what == OCP_BPFTRACE_TIME && plan->n_names == 2 &&
	    strcmp(plan->names[0], p->items.list[0].text) != 0) {
		const char *first = plan->names[0];

		plan->names[0] = plan->names[1];
		plan->names[1] = first;
	}
}

int bpftrace_code_groups(struct planner *p)
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
