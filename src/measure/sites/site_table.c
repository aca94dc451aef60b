// SPDX-License-Identifier: MIT
#include "measure/sites/site_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/by_name.h"
#include "base/populate.h"
#include "program/places.h"
#include "elf/symbols.h"

/*
 * If HAS is true, include the uses of FILE's probes in measured_probe.n_uses of the table's probes;
 * otherwise exclude them. Do nothing if they already are included (or excluded). INDEX_OF has the
 * indexes of FILE's probes in the table; if it is NULL, look them up.
 */
static void count_uses(struct site_table *table, struct measured_file *file,
		       const ptrdiff_t *index_of, bool has)
{
	const struct ocp_program *prog = file->prog;

	for (size_t i = 0; file->has_uses != has && i < prog->n_probes; i++) {
		const struct probe *probe = &prog->probes[i];
		ptrdiff_t number = index_of ? index_of[i] : site_table_find(table, probe->name);
		size_t n_without = program_uses_without_site(prog, probe);
		struct measured_probe *measured;

		if (number < 0)
			continue;
		measured = &table->probes[number];
		measured->n_uses += has ? probe->n_sites : -probe->n_sites;
		measured->n_uses_without_site += has ? n_without : -n_without;
	}
	file->has_uses = has;
}

void site_table_remove(struct site_table *table, struct measured_file *file, bool keeps)
{
	if (file->prog)
		count_uses(table, file, NULL, false);
	file_guard_release(&file->guard);
	ocp_program_free(file->own);
	code_probes_free(file->code);
	free(file->pids);
	file->own = NULL;
	file->code = NULL;
	file->prog = NULL;
	file->pids = NULL;
	file->n_pids = 0;
	file->is_attached = false;
	file->is_gone = true;
	for (size_t i = 0; i < file->n_sites; i++) {
		struct measured_site *site = &table->sites[file->first_site + i];

		site->site = NULL;
		if (!keeps)
			site->file = NO_FILE;
	}
	if (keeps)
		return;
	free(file->name);
	file->name = NULL;
	file->n_sites = 0;
}

void site_table_free(struct site_table *table)
{
	/*
	 * Remove the files before freeing the probes, because site_table_remove() looks up probes
	 * by name.
	 */
	for (size_t i = 0; i < table->n_files; i++)
		site_table_remove(table, &table->files[i], false);
	for (size_t i = 0; i < table->n_probes; i++)
		free(table->probes[i].name);
	for (size_t i = 0; i < table->n_kept; i++)
		free(table->kept[i]);
	free(table->kept);
	free(table->probes);
	free(table->by_name);
	free(table->files);
	free(table->sites);
	*table = (struct site_table){ 0 };
}

/* ---- probes -------------------------------------------------------------------------------- */

static const char *probe_name_of(const void *table, uint32_t number)
{
	return ((const struct site_table *)table)->probes[number].name;
}

/*
 * Return the index of NAME in by_name and set *FOUND to true, or return the index at which NAME
 * must be inserted.
 */
static size_t find_name_position(const struct site_table *table, const char *name, bool *found)
{
	return by_name_place(table->by_name, table->n_probes, probe_name_of, table, name, found);
}

ptrdiff_t site_table_find(const struct site_table *table, const char *name)
{
	bool found;
	size_t place = find_name_position(table, name, &found);

	return found ? (ptrdiff_t)table->by_name[place] : -1;
}

static int insert_new_probe(struct site_table *table, size_t place,
			    const struct measured_probe *probe)
{
	char *name = strdup(probe->name);

	if (!name)
		return ctx_no_memory(table->ctx);
	by_name_insert(table->by_name, table->n_probes, place, (uint32_t)table->n_probes);
	table->probes[table->n_probes] = *probe;
	table->probes[table->n_probes++].name = name;
	return 0;
}

/*
 * Add those probes of SET to the table for which WANTED returns true. Set OF[i] to the index that
 * probe i of SET has in the table, or to -1.
 */
static int add_wanted_probes(struct site_table *table, const struct probe_set *set,
			     probe_wanted_fn wanted, void *data, ptrdiff_t *of)
{
	size_t room = table->n_probes + set->n_probes + 1;
	struct measured_probe *probes = realloc(table->probes, room * sizeof(*probes));
	uint32_t *by_name = realloc(table->by_name, room * sizeof(*by_name));
	int err = 0;

	table->probes = probes ? probes : table->probes;
	table->by_name = by_name ? by_name : table->by_name;
	if (!probes || !by_name)
		return ctx_no_memory(table->ctx);
	for (size_t i = 0; !err && i < set->n_probes; i++) {
		struct measured_probe probe = { .name = (char *)set->probes[i].name };
		bool found;
		size_t place = find_name_position(table, probe.name, &found);

		of[i] = -1;
		if (!found && !wanted(data, probe.name, &probe))
			continue;
		if (!found)
			err = insert_new_probe(table, place, &probe);
		if (!err)
			of[i] = (ptrdiff_t)table->by_name[place];
	}
	return err;
}

/* ---- files and their sites ------------------------------------------------------------------ */

static struct measured_file *find_table_file(const struct site_table *table, dev_t dev, ino_t ino)
{
	for (size_t i = 0; i < table->n_files; i++)
		if (!table->files[i].is_gone && table->files[i].dev == dev &&
		    table->files[i].ino == ino)
			return &table->files[i];
	return NULL;
}

size_t site_table_count(const struct site_table *table)
{
	size_t n = 0;

	for (size_t i = 0; i < table->n_sites; i++)
		n += table->sites[i].site != NULL;
	return n;
}

static int add_mapping_pid(struct site_table *table, struct measured_file *file, pid_t pid)
{
	pid_t *new;

	for (size_t i = 0; i < file->n_pids; i++)
		if (file->pids[i] == pid)
			return 0;
	if (!pid)
		return 0;
	new = array_add(file->pids, file->n_pids);
	if (!new)
		return ctx_no_memory(table->ctx);
	*new = pid;
	return 0;
}

static size_t count_sites(const struct probe_set *set, const ptrdiff_t *index_of)
{
	size_t n = 0;

	for (size_t i = 0; i < set->n_sites; i++)
		n += set->sites[i].has_code && index_of[set->sites[i].probe] >= 0;
	return n;
}

/*
 * Find N consecutive free site numbers, making more numbers if necessary, and set *FIRST to the
 * first of them. Return -E2BIG, without a message, if there is no room.
 */
static int find_numbers(struct site_table *table, size_t n, size_t *first)
{
	struct measured_site *sites;
	size_t run = 0;

	*first = table->n_sites;
	for (size_t i = 0; n && i < table->n_sites; i++) {
		run = table->sites[i].file == NO_FILE ? run + 1 : 0;
		if (run == n) {
			*first = i + 1 - n;
			return 0;
		}
	}
	*first -= run;
	if (table->max_sites && n > table->max_sites - *first)
		return -E2BIG;
	sites = realloc(table->sites, (*first + n + 1) * sizeof(*sites));
	if (!sites)
		return ctx_no_memory(table->ctx);
	table->sites = sites;
	populate_if_large(sites + *first, n * sizeof(*sites));
	if (*first + n > table->n_sites)
		table->n_sites = *first + n;
	return 0;
}

/*
 * Give numbers from NEXT on to the sites of SET, and fill in the table's entries. Returns the
 * number after the last one used.
 */
static size_t add_sites_of(struct site_table *table, const struct measured_file *file,
			   const struct probe_set *set, const ptrdiff_t *index_of, size_t next)
{
	for (size_t i = 0; i < set->n_probes; i++) {
		const struct probe *probe = &set->probes[i];
		const size_t n_before = next;

		for (size_t j = 0; index_of[i] >= 0 && j < probe->n_sites; j++) {
			const struct site *site = &set->sites[probe->first_site + j];

			if (site->has_code)
				table->sites[next++] = (struct measured_site){
					.site = site,
					.va = site->va,
					.file = (uint32_t)(file - table->files),
					.probe_index = (uint32_t)index_of[i],
					.counts = site_counts(site),
					.is_stepped =
						site->is_stepped || site->abi == SITE_ABI_DORMANT,
				};
		}
		if (index_of[i] >= 0 && next == n_before)
			ctx_log(table->ctx, OCP_LOG_WARN,
				"probe '%s': the compiler left its sites out, it cannot be "
				"measured",
				probe->name);
	}
	return next;
}

/*
 * Add the sites of FILE. INDEX_OF has the table's index (or -1) of each probe in the notes of FILE,
 * and after these, of each probe in the code of FILE.
 */
static int add_sites_of_file(struct site_table *table, struct measured_file *file,
			     const ptrdiff_t *index_of)
{
	const struct probe_set noted = program_probe_set(file->prog),
			       code = code_probes_set(file->code);
	const ptrdiff_t *index_of_code = index_of + noted.n_probes;
	const size_t n = count_sites(&noted, index_of) + count_sites(&code, index_of_code);
	size_t next;
	int err = find_numbers(table, n, &next);

	/* No numbers are left: keep the file in the table, but do not measure its sites. */
	if (err == -E2BIG)
		file->n_left_out = n;
	if (err)
		return err == -E2BIG ? 0 : err;
	file->first_site = next;
	next = add_sites_of(table, file, &noted, index_of, next);
	add_sites_of(table, file, &code, index_of_code, next);
	file->n_sites = n;
	count_uses(table, file, index_of, true);
	return 0;
}

/*
 * Log one warning for all probes that have uses without a site. It names the first MAX_NAMED of
 * these probes, and says how many more there are.
 */
static void warn_of_uses_without_site(const struct site_table *table,
				      const struct measured_file *file, const ptrdiff_t *index_of)
{
	enum { MAX_NAMED = 10 };
	const struct ocp_program *prog = file->prog;
	char *names = NULL;
	size_t bytes, n = 0;
	FILE *out = open_memstream(&names, &bytes);

	for (size_t i = 0; out && file->has_uses && i < prog->n_probes; i++) {
		const struct probe *probe = &prog->probes[i];
		const size_t n_without = program_uses_without_site(prog, probe);

		/* Skip a probe that has no site at all: another warning was logged for it. */
		if (index_of[i] < 0 || !n_without || n_without == probe->n_sites)
			continue;
		if (n++ < MAX_NAMED)
			fprintf(out, "%sprobe '%s': %zu of its %zu uses have no site",
				n > 1 ? "; " : "", probe->name, n_without, probe->n_sites);
	}
	if (out && n > MAX_NAMED)
		fprintf(out, "; the same holds for %zu other probes", n - MAX_NAMED);
	if (out && fclose(out) == 0 && n)
		ctx_log(table->ctx, OCP_LOG_WARN, "%s; their hits are not counted", names);
	free(names);
}

/*
 * Warn of dormant sites, whose hits are expensive: they have no nop, so the kernel must single-step
 * the instruction that a uprobe replaces.
 */
static void warn_of_dormant(const struct site_table *table, const struct measured_file *file)
{
	size_t n_dormant = 0, n_external = 0;

	for (size_t i = file->first_site; i < file->first_site + file->n_sites; i++) {
		const struct site *site = table->sites[i].site;

		n_external += site->is_external;
		n_dormant += site->abi == SITE_ABI_DORMANT && !site->is_external;
	}
	if (n_dormant)
		ctx_log(table->ctx, OCP_LOG_WARN,
			"%s: not post-linked: a measured hit costs about twenty times as much as "
			"after ocaml-probes-link",
			file->name);
	if (n_external)
		ctx_log(table->ctx, OCP_LOG_WARN,
			"%s: %zu inlined site%s of other files' probes %s not post-linked: a "
			"measured hit costs about twenty times as much",
			file->name, n_external, n_external == 1 ? "" : "s",
			n_external == 1 ? "is" : "are");
}

/* Return a slot for one more file; NULL: out of memory. */
static struct measured_file *find_file_slot(struct site_table *table)
{
	struct measured_file *new;

	for (size_t i = 0; i < table->n_files; i++)
		if (table->files[i].is_gone && !table->files[i].name)
			return &table->files[i];
	new = array_add(table->files, table->n_files);
	if (new)
		*new = (struct measured_file){ .guard.fd = -1, .is_gone = true };
	return new;
}

static int make_file(struct site_table *table, const struct new_file *from, const struct stat *st,
		     struct code_probes *code, struct measured_file **out)
{
	struct measured_file *file = find_file_slot(table);
	char *copy = strdup(from->name);

	if (!file || !copy) {
		free(copy);
		code_probes_free(code);
		return ctx_no_memory(table->ctx);
	}
	*file = (struct measured_file){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.name = copy,
		.prog = from->prog,
		.code = code,
		.guard = { .fd = -1, .identity = file_identity_of(st) },
		.round = table->round,
	};
	snprintf(file->path, FD_PATH_BYTES, "/proc/self/fd/%d", from->prog->fd);
	*out = file;
	return 0;
}

static int fill_file(struct site_table *table, pid_t pid, probe_wanted_fn wanted, void *data,
		     struct measured_file *file)
{
	const struct probe_set noted = program_probe_set(file->prog),
			       code = code_probes_set(file->code);
	ptrdiff_t *index_of = calloc(noted.n_probes + code.n_probes + 1, sizeof(*index_of));
	int err = index_of ? add_mapping_pid(table, file, pid) : ctx_no_memory(table->ctx);

	if (!err)
		err = add_wanted_probes(table, &noted, wanted, data, index_of);
	if (!err)
		err = add_wanted_probes(table, &code, wanted, data, index_of + noted.n_probes);
	if (!err)
		err = add_sites_of_file(table, file, index_of);
	if (!err)
		warn_of_uses_without_site(table, file, index_of);
	free(index_of);
	return err;
}

static int stat_file(struct site_table *table, const struct new_file *from, struct stat *st)
{
	return fstat(from->prog->fd, st)
		       ? ctx_error(table->ctx, -errno, "%s: %s", from->name, strerror(errno))
		       : 0;
}

int site_table_know_file(struct site_table *table, const struct new_file *from)
{
	struct measured_file *known;
	struct stat st;
	int err = stat_file(table, from, &st);

	if (err)
		return err;
	known = find_table_file(table, st.st_dev, st.st_ino);
	return known ? add_mapping_pid(table, known, from->pid) : -ENOENT;
}

int site_table_add_file(struct site_table *table, const struct new_file *from,
			struct code_probes *code, probe_wanted_fn wanted, void *data,
			struct measured_file **file)
{
	struct stat st;
	int err = stat_file(table, from, &st);

	*file = NULL;
	if (err) {
		code_probes_free(code);
		return err;
	}
	err = make_file(table, from, &st, code, file);
	if (err)
		return err;
	err = fill_file(table, from->pid, wanted, data, *file);
	if (err) {
		site_table_remove(table, *file, false);
		*file = NULL;
		return err;
	}
	warn_of_dormant(table, *file);
	return 0;
}

/* ---- probes that are left out --------------------------------------------------------------- */

/* Remove the sites of probes that are left out. Probe i gets the index NUMBER[i]. */
static void drop_sites(struct site_table *table, const uint32_t *number)
{
	size_t n = 0;

	for (size_t i = 0; i < table->n_files; i++)
		table->files[i].n_sites = 0;
	for (size_t i = 0; i < table->n_sites; i++) {
		struct measured_site site = table->sites[i];
		struct measured_file *file;

		if (site.file == NO_FILE || table->probes[site.probe_index].is_left_out)
			continue;
		file = &table->files[site.file];
		if (file->n_sites++ == 0)
			file->first_site = n;
		site.probe_index = number[site.probe_index];
		table->sites[n++] = site;
	}
	table->n_sites = n;
}

int site_table_drop_left_out(struct site_table *table)
{
	uint32_t *number = calloc(table->n_probes + 1, sizeof(*number));
	uint32_t n = 0;
	size_t n_named = 0;

	if (!number)
		return ctx_no_memory(table->ctx);
	for (size_t i = 0; i < table->n_probes; i++) {
		number[i] = n;
		n += !table->probes[i].is_left_out;
	}
	drop_sites(table, number);
	for (size_t i = 0; i < table->n_probes; i++)
		if (!table->probes[table->by_name[i]].is_left_out)
			table->by_name[n_named++] = number[table->by_name[i]];
	for (size_t i = 0; i < table->n_probes; i++) {
		if (table->probes[i].is_left_out)
			free(table->probes[i].name);
		else
			table->probes[number[i]] = table->probes[i];
	}
	table->n_probes = n;
	free(number);
	return 0;
}

/* ---- where in the source --------------------------------------------------------------------- */

int site_table_keep(struct site_table *table, void *memory)
{
	void **new = array_add(table->kept, table->n_kept);

	if (!new) {
		free(memory);
		return ctx_no_memory(table->ctx);
	}
	*new = memory;
	return 0;
}

int site_table_read_source(struct site_table *table, const struct measured_file *file)
{
	const size_t n = file->n_sites;
	struct measured_site *sites = table->sites + file->first_site;
	struct symbol_of *symbols = calloc(n + 1, sizeof(*symbols));
	struct probe_place *places = calloc(n + 1, sizeof(*places));
	char *names = NULL, *sources = NULL;
	int err = symbols && places ? 0 : ctx_no_memory(table->ctx);

	for (size_t i = 0; !err && i < n; i++) {
		symbols[i].va = sites[i].site->va;
		places[i].site = sites[i].site;
	}
	if (!err)
		err = symbols_find(table->ctx, file->prog->elf, symbols, n, &names);
	/* Damaged symbols are only a warning, since nothing depends on them. */
	if (err == -EBADMSG) {
		ctx_log(table->ctx, OCP_LOG_WARN, "%s", ocp_error(table->ctx));
		err = 0;
	}
	if (!err && names)
		err = site_table_keep(table, names);
	if (!err)
		err = places_find(file->prog, places, n, &sources);
	if (!err && sources)
		err = site_table_keep(table, sources);
	for (size_t i = 0; !err && i < n; i++) {
		const struct symbol_of *symbol = symbols_answer(symbols, n, sites[i].site->va);

		sites[i].symbol = symbol->name;
		sites[i].symbol_off = symbol->name ? symbol->off : 0;
		sites[i].source = places[i].file;
		sites[i].line = places[i].line;
		sites[i].source_column = places[i].column;
	}
	free(symbols);
	free(places);
	return err;
}
