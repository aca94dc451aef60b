// SPDX-License-Identifier: MIT
/*
 * Find the source of each row. A unit is compiled from a file with a name such as "src/service.ml",
 * relative to the folder in which the compiler runs. In the rows of a unit, the unit's own code has
 * this name, and the unit's folder is known. Code that was inlined from another unit has the name
 * with which the other unit was compiled, but the folder of the other unit is not known. So inlined
 * code is taken to belong to the unit whose own code has this name, if there is only one such unit.
 */
#include "code/line_sources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sanitize.h"
#include "base/suggest.h"

enum { MAX_SOURCES = 256 };

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Return PATH without "./" at its start. */
static const char *plain(const char *path)
{
	while (path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	return path;
}

/*
 * Return how many components at the ends of A and B are equal. Set *ALL_A if all components of A
 * are equal to those of B, and *ALL_B if all components of B are.
 */
static size_t count_equal(const char *a, const char *b, bool *all_a, bool *all_b)
{
	size_t i = strlen(a), k = strlen(b), n = 0;

	*all_a = *all_b = false;
	while (i && k && a[i - 1] == b[k - 1]) {
		i--;
		k--;
		if (a[i] == '/')
			n++;
	}
	*all_a = i == 0 && (k == 0 || b[k - 1] == '/');
	*all_b = k == 0 && (i == 0 || a[i - 1] == '/');
	return *all_a || *all_b ? n + 1 : n;
}

int line_sources_open(struct ocp_ctx *ctx, const char *file, enum line_match match,
		      struct line_sources *sources)
{
	*sources = (struct line_sources){
		.wanted = strdup(plain(file)), .match = match, .last_unit = SIZE_MAX, .last = -1
	};
	return sources->wanted ? 0 : ctx_no_memory(ctx);
}

void line_sources_close(struct line_sources *sources)
{
	for (size_t i = 0; i < sources->n; i++) {
		free(sources->list[i].path);
		free(sources->list[i].name);
	}
	free(sources->list);
	free(sources->wanted);
	free(sources->nearest);
	*sources = (struct line_sources){ 0 };
}

/* ---- the source of a row -------------------------------------------------------------------- */

/* Return what follows "FOLDER/" in FILE; FILE itself if it does not begin so. */
static const char *without_folder(const char *file, const char *folder)
{
	const size_t bytes = folder ? strlen(folder) : 0;

	if (bytes && strncmp(file, folder, bytes) == 0 && file[bytes] == '/')
		return plain(file + bytes + 1);
	return plain(file);
}

static char *with_folder(const char *name, const char *folder)
{
	char *path;

	if (*name == '/' || !folder || !*folder)
		return strdup(name);
	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/*
 * Keep the last component of PATH, if it is more similar to the requested name than the one kept so
 * far. It is suggested to the user if no source has the requested name.
 */
static int offer(struct ocp_ctx *ctx, struct line_sources *sources, const char *path)
{
	struct suggestion suggestion = suggestion_for(base_of(sources->wanted));
	char *copy;

	suggestion_offer(&suggestion, base_of(path));
	if (!suggestion.best ||
	    (sources->nearest && suggestion.distance >= sources->nearest_distance))
		return 0;
	copy = strdup(base_of(path));
	if (!copy)
		return ctx_no_memory(ctx);
	make_one_line(copy);
	free(sources->nearest);
	sources->nearest = copy;
	sources->nearest_distance = suggestion.distance;
	return 0;
}

static ptrdiff_t find_line_source(const struct line_sources *sources, const char *path,
				  const char *name, bool is_own)
{
	for (size_t i = 0; i < sources->n; i++) {
		const struct line_source *it = &sources->list[i];

		if (it->is_own == is_own &&
		    strcmp(is_own ? it->path : it->name, is_own ? path : name) == 0)
			return (ptrdiff_t)i;
	}
	return -1;
}

static int add_line_source(struct ocp_ctx *ctx, struct line_sources *sources, const char *path,
			   const char *name, bool is_own)
{
	struct line_source *it = array_add(sources->list, sources->n);
	bool all_wanted, all;

	if (!it)
		return ctx_no_memory(ctx);
	*it = (struct line_source){ strdup(path), strdup(name), is_own, 0 };
	if (!it->path || !it->name) {
		free(it->path);
		free(it->name);
		sources->n--;
		return ctx_no_memory(ctx);
	}
	it->n_equal = count_equal(sources->wanted, is_own ? path : name, &all_wanted, &all);
	/*
	 * The folder of an inlined source is not known, so it suffices that the whole name of the
	 * source equals the end of the requested name.
	 */
	if (sources->match == LINE_FILE && !all_wanted && !(all && !is_own))
		it->n_equal = 0;
	return 0;
}

static int know(struct ocp_ctx *ctx, struct line_sources *sources, const struct line_row *row,
		ptrdiff_t *number)
{
	const char *name = without_folder(row->file, row->folder);
	const bool is_own =
		row->unit_file && strcmp(name, without_folder(row->unit_file, row->folder)) == 0;
	char *path;
	int err = 0;

	*number = -1;
	if (strcmp(base_of(name), base_of(sources->wanted)) != 0)
		return 0;
	path = is_own ? with_folder(name, row->folder) : strdup(name);
	if (!path)
		return ctx_no_memory(ctx);
	*number = find_line_source(sources, path, name, is_own);
	if (*number < 0 && sources->n == MAX_SOURCES)
		err = ctx_error(ctx, -EBADMSG, "'%s': more than %d source files have this name",
				sources->wanted, MAX_SOURCES);
	else if (*number < 0)
		err = add_line_source(ctx, sources, path, name, is_own);
	if (!err && *number < 0)
		*number = (ptrdiff_t)sources->n - 1;
	free(path);
	return err;
}

int line_sources_of(struct ocp_ctx *ctx, struct line_sources *sources, const struct line_row *row,
		    ptrdiff_t *number)
{
	int err = 0;

	if (sources->last_unit != row->unit && row->unit_file)
		err = offer(ctx, sources, row->unit_file);
	if (!err && (sources->last_unit != row->unit || sources->last_file != row->file))
		err = know(ctx, sources, row, &sources->last);
	sources->last_unit = row->unit;
	sources->last_file = row->file;
	*number = sources->last;
	return err;
}

/* ---- the choice ----------------------------------------------------------------------------- */

/*
 * Choose the best source among the sources with this IS_OWN, and set `other` if another source is
 * as good. Return false if none of them fits the requested name.
 */
static bool choose_line_source(const struct line_sources *sources, bool is_own,
			       struct line_choice *choice)
{
	choice->chosen = choice->other = -1;
	for (size_t i = 0; i < sources->n; i++) {
		const struct line_source *it = &sources->list[i];
		const size_t best = choice->chosen < 0 ? 0 : sources->list[choice->chosen].n_equal;

		if (it->is_own != is_own || !it->n_equal)
			continue;
		if (choice->chosen < 0 || (sources->match == LINE_PATH && it->n_equal > best)) {
			choice->chosen = (ptrdiff_t)i;
			choice->other = -1;
		} else if (sources->match == LINE_FILE || it->n_equal == best) {
			choice->other = (ptrdiff_t)i;
		}
	}
	return choice->chosen >= 0;
}

void line_sources_choose(const struct line_sources *sources, struct line_choice *choice)
{
	const char *name;
	size_t n_own = 0;

	*choice = (struct line_choice){ 0 };
	if (!choose_line_source(sources, true, choice) &&
	    !choose_line_source(sources, false, choice))
		return;
	name = sources->list[choice->chosen].name;
	for (size_t i = 0; i < sources->n; i++) {
		if (strcmp(sources->list[i].name, name) != 0)
			continue;
		n_own += sources->list[i].is_own;
		choice->has_inlined |= !sources->list[i].is_own;
	}
	choice->takes_inlined = n_own < 2;
}

bool line_sources_takes(const struct line_sources *sources, const struct line_choice *choice,
			size_t i)
{
	if (choice->chosen < 0)
		return false;
	return (ptrdiff_t)i == choice->chosen ||
	       (!sources->list[i].is_own && choice->takes_inlined &&
		strcmp(sources->list[i].name, sources->list[choice->chosen].name) == 0);
}
