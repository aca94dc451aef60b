// SPDX-License-Identifier: MIT
/*
 * Meters that outlive their process. The engine pins its maps and links in a directory of bpffs. A
 * further map there, called `meta`, has one element: a text that describes what the numbers in the
 * other maps mean (pin_meta.c). `meta` is written last: a directory without it was left by a
 * process that was killed while pinning.
 *
 * A user who can write to the directory could replace the maps. Therefore directories of other
 * users are rejected (pin_folder.c), and each map is checked before it is read.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/maps.h"
#include "kernel/pinned.h"
#include "measure/found.h"
#include "measure/pin_folder.h"
#include "measure/pin_meta.h"
#include "measure/meter.h"

enum { MAX_META_BYTES = 256 << 20, PATH_BYTES = PIN_PATH_BYTES + 300 };

/* ---- keeping -------------------------------------------------------------------------------- */

static int pin_meta(struct ocp_ctx *ctx, const char *folder, const char *text, size_t bytes)
{
	const __u32 zero = 0;
	char path[PATH_BYTES];
	int fd, err;

	if (bytes > MAX_META_BYTES)
		return ctx_error(ctx, -E2BIG, "%s: too many sites to pin", folder);
	snprintf(path, sizeof(path), "%s/meta", folder);
	fd = map_create_array("ocp_meta", bytes, 1, 0);
	if (fd < 0)
		return ctx_error(ctx, fd, "%s: %s", path, strerror(-fd));
	err = bpf_map_update_elem(fd, &zero, text, 0);
	err = err ? ctx_error(ctx, err, "%s: %s", path, strerror(-err)) : pin_object(ctx, fd, path);
	close(fd);
	return err;
}

static int keep_meta(struct ocp_meter *meter, const char *folder)
{
	struct ocp_costs costs;
	char *text;
	int err;

	/* The counts are valid without the costs. */
	if (ocp_meter_costs(meter, &costs))
		ctx_log(meter->ctx, OCP_LOG_WARN, "%s", ocp_error(meter->ctx));
	/*
	 * A reader cannot distinguish hits that are single-stepped from others: use the higher
	 * cost.
	 */
	if (costs.cost_per_stepped_hit_ns > costs.cost_per_hit_ns)
		costs = (struct ocp_costs){ .cost_per_hit_ns = costs.cost_per_stepped_hit_ns,
					    .empty_pair_ns = costs.empty_stepped_pair_ns };
	text = pin_meta_text(meter, &costs);
	err = text ? pin_meta(meter->ctx, folder, text, strlen(text) + 1)
		   : ctx_no_memory(meter->ctx);
	free(text);
	return err;
}

/*
 * Keep a meter that counts inside. Other tools can find it already, because the engine was given
 * its description before the attach.
 */
static int keep_inside(struct ocp_meter *meter, const char *name)
{
	int err;

	if (!meter->kept_name || strcmp(meter->kept_name, name) != 0)
		return ctx_error(meter->ctx, -EINVAL,
				 "'%s': what counts inside of a process gets its name before it "
				 "is attached",
				 name);
	err = meter->ops->keep(meter->engine, NULL);
	meter->is_pinned = err == 0;
	return err;
}

int ocp_meter_pin(struct ocp_meter *meter, const char *name)
{
	char folder[PIN_PATH_BYTES];
	int err;

	if (!meter->is_attached)
		return ctx_error(meter->ctx, -EINVAL, "measuring: not attached");
	if (meter->spec.prints || meter->spec.slower || meter->spec.n_histograms)
		return ctx_error(meter->ctx, -EINVAL,
				 "'%s': printed hits and histograms cannot be pinned", name);
	if (!site_table_count(&meter->table))
		return ctx_error(
			meter->ctx, -ENOENT,
			"'%s': %s has no probes yet, and a pinned meter does not measure files "
			"that are loaded later",
			name, meter_where(meter));
	if (meter_is_inside(meter))
		return keep_inside(meter, name);
	err = pin_folder_of(meter->ctx, name, folder);
	if (!err)
		err = pin_need_bpffs(meter->ctx);
	if (!err)
		err = pin_make_folder(meter->ctx, name, folder);
	if (err)
		return err;
	err = meter->ops->keep(meter->engine, folder);
	if (!err)
		err = keep_meta(meter, folder);
	if (err) {
		/* Keep the message of the first failure. */
		struct ocp_ctx *scratch = ocp_ctx_new();

		if (scratch)
			pin_remove_names(scratch, folder);
		ocp_ctx_free(scratch);
	}
	meter->is_pinned = err == 0;
	return err;
}

/* ---- opening -------------------------------------------------------------------------------- */

static int read_meta(struct ocp_meter *meter, const char *folder)
{
	static const struct map_shape shape = {
		.type = BPF_MAP_TYPE_ARRAY,
		.key_bytes = sizeof(__u32),
		.value_bytes = 1,
		.most_value_bytes = MAX_META_BYTES,
		.least_entries = 1,
		.most_entries = 1,
	};
	struct bpf_map_info info;
	__u32 zero = 0;
	char path[PATH_BYTES], *text;
	int fd, err;

	snprintf(path, sizeof(path), "%s/meta", folder);
	fd = pinned_map_open(meter->ctx, path, &shape, &info);
	if (fd < 0)
		return fd;
	/* The kernel rounds the size up to 8 bytes. One more byte ends the text. */
	text = calloc((size_t)info.value_size + 8 + 1, 1);
	err = text ? bpf_map_lookup_elem(fd, &zero, text) : -ENOMEM;
	close(fd);
	if (err) {
		free(text);
		return ctx_error(meter->ctx, err, "%s: %s", path, strerror(-err));
	}
	/* The symbols of the sites point into the text. */
	err = site_table_keep(&meter->table, text);
	return err ? err : pin_meta_parse(meter, folder, text);
}

static int open_pinned(struct ocp_meter *meter, const char *name)
{
	struct engine_spec spec;
	int err = pin_folder_of(meter->ctx, name, meter->pin_folder);

	if (!err)
		err = pin_check_folder(meter->ctx, name, meter->pin_folder);
	if (!err)
		err = read_meta(meter, meter->pin_folder);
	if (err)
		return err;
	spec = (struct engine_spec){
		.max_sites = meter->table.n_sites,
		.n_pairs = meter->n_pairs,
		.split = meter->split,
	};
	meter->is_attached = true;
	meter->is_pinned = true;
	return meter->ops->open_pinned(meter->ctx, meter->pin_folder, &spec, &meter->engine);
}

static int open_folder(struct ocp_ctx *ctx, const char *name, struct ocp_meter **out)
{
	struct ocp_meter *meter = ocp_meter_new(ctx);
	int err = meter ? open_pinned(meter, name) : -ENOMEM;

	*out = NULL;
	if (err)
		ocp_meter_free(meter);
	else
		*out = meter;
	return err;
}

/*
 * Open the meter NAME, which is pinned in a directory of bpffs or counts inside of processes. Both
 * kinds of meters share one name space.
 */
int ocp_pinned_open(struct ocp_ctx *ctx, const char *name, struct ocp_meter **out)
{
	char *message;
	int found, err = open_folder(ctx, name, out);

	if (err != -ENOENT && err != -EACCES)
		return err;
	message = strdup(ocp_error(ctx));
	found = message ? found_open_name(ctx, name, out) : ctx_no_memory(ctx);
	if (found == -ENOENT) {
		ctx_error(ctx, err, "%s", message);
		ctx_hint(ctx, "what counts inside of a process ends with the process, and only its "
			      "owner finds it");
		found = err;
	}
	free(message);
	return found;
}

int ocp_pinned_remove(struct ocp_ctx *ctx, const char *name)
{
	struct ocp_meter *meter;
	char folder[PIN_PATH_BYTES];
	int err = ocp_pinned_open(ctx, name, &meter);

	if (!err) {
		err = ocp_meter_detach(meter);
		ocp_meter_free(meter);
		return err;
	}
	if (err == -ENOENT || err == -EINVAL || err == -EPERM)
		return err;
	err = pin_folder_of(ctx, name, folder);
	if (!err && access(folder, F_OK) != 0)
		return found_remove(ctx, name, 0);
	return err ? err : pin_remove_names(ctx, folder);
}

/* ---- listing -------------------------------------------------------------------------------- */

static int compare_pin_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Return the names of both lists in one block, sorted, each name once. NULL: out of memory. */
static char **merge_names(char **a, size_t n_a, char **b, size_t n_b, size_t *n)
{
	const size_t n_all = n_a + n_b;
	char **sorted = calloc(n_all + 1, sizeof(*sorted)), **names, *text;
	size_t bytes = (n_all + 1) * sizeof(*names);

	*n = 0;
	for (size_t i = 0; sorted && i < n_all; i++) {
		sorted[i] = i < n_a ? a[i] : b[i - n_a];
		bytes += strlen(sorted[i]) + 1;
	}
	names = sorted ? malloc(bytes) : NULL;
	if (!names) {
		free(sorted);
		return NULL;
	}
	qsort(sorted, n_all, sizeof(*sorted), compare_pin_names);
	text = (char *)(names + n_all + 1);
	for (size_t i = 0; i < n_all; i++) {
		if (i && strcmp(sorted[i], sorted[i - 1]) == 0)
			continue;
		names[(*n)++] = text;
		text = stpcpy(text, sorted[i]) + 1;
	}
	free(sorted);
	return names;
}

int ocp_pinned_list(struct ocp_ctx *ctx, char ***names, size_t *n)
{
	char **folders = NULL, **found = NULL;
	size_t n_folders = 0, n_found = 0;
	int err = found_list_names(ctx, &found, &n_found);
	int folder_err = err ? 0 : pin_list_folders(ctx, &folders, &n_folders);

	*names = NULL;
	*n = 0;
	/*
	 * If bpffs cannot be read, list at least the meters that count inside, which ordinary users
	 * can have.
	 */
	if (folder_err && n_found)
		ctx_log(ctx, OCP_LOG_WARN, "what counts in the kernel is not listed: %s",
			ocp_error(ctx));
	else if (!err)
		err = folder_err;
	if (!err) {
		*names = merge_names(folders, n_folders, found, n_found, n);
		err = *names ? 0 : ctx_no_memory(ctx);
	}
	free(folders);
	free(found);
	return err;
}
