// SPDX-License-Identifier: MIT
/*
 * Meters that outlive their process. The engine pins its maps and links in a directory of bpffs.
 * Another map in this directory, `meta`, has one element: a text that says what the numbers in the
 * other maps mean (pin_meta.c). `meta` is written last, so a directory without it was left by a
 * process that was killed while pinning.
 *
 * A user who can write to the directory could replace the maps. Therefore directories of other
 * users are rejected, and each map is checked before it is read.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "kernel/maps.h"
#include "kernel/pinned.h"
#include "measure/found.h"
#include "measure/meter.h"
#include "measure/pin_meta.h"

/* ---- directories ---------------------------------------------------------------------------- */

#define BPFFS "/sys/fs/bpf"

/*
 * Write the path of the directory for NAME to FOLDER, which has room for PIN_PATH_BYTES. Return
 * -EINVAL if NAME is invalid.
 */
static int pin_folder_of(struct ocp_ctx *ctx, const char *name, char *folder)
{
	if (!pin_name_is_valid(name))
		return ctx_error(ctx, -EINVAL,
				 "'%s': invalid name (allowed are 1 to %d of A-Z a-z 0-9 _ -)",
				 name, PIN_MAX_NAME_BYTES);
	snprintf(folder, PIN_PATH_BYTES, "%s/%s", OCP_PINNED_FOLDER, name);
	return 0;
}

/* Make sure that bpffs is mounted, as on most systems: mount it if necessary and permitted. */
static int pin_need_bpffs(struct ocp_ctx *ctx)
{
	struct statfs fs;

	if (statfs(BPFFS, &fs) == 0 && fs.f_type == BPF_FS_MAGIC)
		return 0;
	if (mount("bpf", BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") == 0) {
		ctx_log(ctx, OCP_LOG_INFO, "%s: mounted", BPFFS);
		return 0;
	}
	ctx_error(ctx, -errno, "%s: no BPF file system is mounted there, and mounting one: %s",
		  BPFFS, strerror(errno));
	/* Give a mode: with the default mode, 1777, all users could write to bpffs. */
	ctx_hint(ctx, "sudo mount -t bpf -o mode=0700 bpf %s", BPFFS);
	return -errno;
}

/*
 * Check that PATH is a directory that only root and we can change. If SHARED is true, also accept a
 * directory with the sticky bit, in which other users can make files, but not change ours. Return 0
 * or a negative errno; -ENOENT has no message.
 */
static int check_folder(struct ocp_ctx *ctx, const char *path, bool shared)
{
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT ? -ENOENT
				       : ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return ctx_error(ctx, -EPERM, "%s: not a directory", path);
	if (st.st_uid != 0 && st.st_uid != geteuid()) {
		ctx_error(ctx, -EPERM,
			  "%s: belongs to user %u, who could have changed its contents", path,
			  (unsigned int)st.st_uid);
		ctx_hint(ctx, "sudo rm -r %s", path);
		return -EPERM;
	}
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(shared && (st.st_mode & S_ISVTX))) {
		ctx_error(ctx, -EPERM, "%s: other users can write to it (mode %04o)", path,
			  st.st_mode & 07777);
		ctx_hint(ctx, "sudo chmod go-w %s", path);
		return -EPERM;
	}
	return 0;
}

/* Check the directory that contains the directories of all pinned meters, and its parent. */
static int check_top(struct ocp_ctx *ctx)
{
	int err = check_folder(ctx, BPFFS, true);

	return err ? err : check_folder(ctx, OCP_PINNED_FOLDER, false);
}

/*
 * Check that FOLDER, the directory of the pinned meter NAME, exists, and that only root and we can
 * write to FOLDER and to the directories above it. Return 0, -ENOENT, -EACCES or -EPERM.
 */
static int pin_check_folder(struct ocp_ctx *ctx, const char *name, const char *folder)
{
	int err = check_top(ctx);

	if (!err)
		err = check_folder(ctx, folder, false);
	return err == -ENOENT ? ctx_error(ctx, err, "'%s': no kept measurement of this name", name)
			      : err;
}

int pin_remove_names(struct ocp_ctx *ctx, const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	int err = 0;

	if (!dir)
		return ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	while (!err && (errno = 0, entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    unlinkat(dirfd(dir), entry->d_name, 0))
			err = ctx_error(ctx, -errno, "%s/%s: %s", folder, entry->d_name,
					strerror(errno));
	if (!err && errno)
		err = ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	closedir(dir);
	if (!err && rmdir(folder))
		err = ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	return err;
}

/*
 * List the names of all pinned meters that have directories. *NAMES and the strings are one block,
 * which the caller frees.
 */
static int pin_list_folders(struct ocp_ctx *ctx, char ***names, size_t *n)
{
	struct dirent **entries = NULL;
	int found, err = check_top(ctx);
	size_t bytes = 0;
	char *text;

	*names = NULL;
	*n = 0;
	if (err && err != -ENOENT)
		return err;
	found = scandir(OCP_PINNED_FOLDER, &entries, NULL, alphasort);
	if (found < 0 && errno != ENOENT)
		return ctx_error(ctx, -errno, "%s: %s", OCP_PINNED_FOLDER, strerror(errno));
	for (int i = 0; i < found; i++)
		bytes += sizeof(char *) + strlen(entries[i]->d_name) + 1;
	*names = calloc(bytes + sizeof(char *), 1);
	text = *names ? (char *)(*names + (found > 0 ? found : 0)) : NULL;
	for (int i = 0; i < found; i++) {
		if (text && entries[i]->d_name[0] != '.') {
			(*names)[(*n)++] = text;
			text = stpcpy(text, entries[i]->d_name) + 1;
		}
		free(entries[i]);
	}
	free(entries);
	if (!*names)
		return ctx_no_memory(ctx);
	return 0;
}

int pin_is_taken(struct ocp_ctx *ctx, const char *name)
{
	ctx_error(ctx, -EEXIST, "'%s': a kept measurement of this name exists", name);
	ctx_hint(ctx, "ocaml-probes read %s, or ocaml-probes detach %s", name, name);
	return -EEXIST;
}

int ocp_pinned_check(struct ocp_ctx *ctx, const char *name)
{
	char folder[PIN_PATH_BYTES];
	struct stat st;
	int err = pin_folder_of(ctx, name, folder);

	if (!err)
		err = pin_need_bpffs(ctx);
	if (!err)
		err = check_top(ctx);
	if (err && err != -ENOENT)
		return err;
	if (stat(folder, &st) == 0)
		return pin_is_taken(ctx, name);
	return found_check_name_free(ctx, name);
}

int pin_check_name_free(struct ocp_ctx *ctx, const char *name)
{
	char folder[PIN_PATH_BYTES];
	struct stat st;
	int err = pin_folder_of(ctx, name, folder);

	return !err && stat(folder, &st) == 0 ? pin_is_taken(ctx, name) : err;
}

/*
 * Make the directory FOLDER for NAME. Return -EEXIST if NAME is in use, -EPERM as in
 * pin_check_folder().
 */
static int pin_make_folder(struct ocp_ctx *ctx, const char *name, const char *folder)
{
	int err;

	if (mkdir(OCP_PINNED_FOLDER, 0700) && errno != EEXIST)
		return ctx_error(ctx, -errno, "%s: %s", OCP_PINNED_FOLDER, strerror(errno));
	err = check_top(ctx);
	if (err)
		return err;
	if (mkdir(folder, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return ctx_error(ctx, -errno, "%s: %s", folder, strerror(errno));
	return pin_is_taken(ctx, name);
}

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
	 * A reader cannot tell which hits were single-stepped, so give it the higher cost for all
	 * hits.
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
				 "'%s': counters inside of a process are named before the meter "
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
	if (meter->spec.request.printed.n || meter->spec.request.has_slower ||
	    meter->spec.n_histograms)
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
	/* The kernel may write up to the next multiple of 8 bytes. One more byte ends the text. */
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
		.request = meter->request,
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
		ctx_hint(ctx, "counting inside of a process ends with the process, and only its "
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
	 * If bpffs cannot be read, as by ordinary users, list at least the meters that count inside
	 * of processes.
	 */
	if (folder_err && n_found)
		ctx_log(ctx, OCP_LOG_WARN, "measurements in the kernel are not listed: %s",
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
