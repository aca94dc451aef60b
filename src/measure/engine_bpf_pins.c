// SPDX-License-Identifier: MIT
/*
 * Engines that outlive the process that made them: their maps and links get names in bpffs, and
 * whoever opens these has an engine again, for reading and for taking away.
 *
 * Links are closed, not only unlinked: the kernel takes the uprobes of a link away at once when its
 * last descriptor is closed, but later, by a worker, when its last name goes.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "measure/engine_bpf.h"

enum { PIN_PATH_BYTES = 256 };

static const struct {
	const char *name;
	size_t offset; /* of its descriptor in struct bpf_object */
} maps[] = {
	{ "hits", offsetof(struct bpf_object, hits) },
	{ "site_table", offsetof(struct bpf_object, site_table) },
	{ "roles", offsetof(struct bpf_object, roles) },
	{ "pair_stats", offsetof(struct bpf_object, pair_stats) },
	{ "pair_open", offsetof(struct bpf_object, pair_open) },
	{ "key_open", offsetof(struct bpf_object, key_open) },
	{ "keyed", offsetof(struct bpf_object, keyed) },
	{ "tgids", offsetof(struct bpf_object, tgids) },
	{ "losses", offsetof(struct bpf_object, losses) },
	{ "gate", offsetof(struct bpf_object, bss) },
};

enum { N_MAPS = sizeof(maps) / sizeof(maps[0]) };

static int *map_of(struct bpf_object *object, size_t i)
{
	return (int *)((char *)object + maps[i].offset);
}

static int pin(struct engine *engine, int fd, const char *path)
{
	int err = bpf_obj_pin(fd, path);

	return err ? ctx_error(engine->ctx, err, "%s: %s", path, strerror(-err)) : 0;
}

int engine_bpf_keep(struct engine *engine, const char *folder)
{
	char path[PIN_PATH_BYTES];
	int err = 0;

	for (size_t i = 0; !err && i < N_MAPS; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, maps[i].name);
		err = pin(engine, *map_of(&engine->object, i), path);
	}
	for (size_t i = 0; !err && i < engine->n_links; i++) {
		snprintf(path, sizeof(path), "%s/link_%zu", folder, i);
		err = pin(engine, engine->links[i].fd, path);
	}
	engine->is_kept = err == 0;
	return err;
}

static int open_maps(struct engine *engine, const char *folder)
{
	char path[PIN_PATH_BYTES];
	void *gate;

	for (size_t i = 0; i < N_MAPS; i++) {
		int *fd = map_of(&engine->object, i);

		snprintf(path, sizeof(path), "%s/%s", folder, maps[i].name);
		*fd = bpf_obj_get(path);
		if (*fd < 0)
			return ctx_error(engine->ctx, *fd, "%s: %s", path, strerror(-*fd));
	}
	gate = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED,
		    engine->object.bss, 0);
	if (gate == MAP_FAILED)
		return ctx_error(engine->ctx, -errno, "%s: %s", path, strerror(errno));
	engine->object.gate = gate;
	return engine_bpf_map_hits(engine);
}

static int open_links(struct engine *engine, const char *folder)
{
	char path[PIN_PATH_BYTES];
	int fd;

	for (;;) {
		snprintf(path, sizeof(path), "%s/link_%zu", folder, engine->n_links);
		fd = bpf_obj_get(path);
		if (fd == -ENOENT)
			return 0;
		if (fd < 0)
			return ctx_error(engine->ctx, fd, "%s: %s", path, strerror(-fd));
		if (engine_bpf_room_for_links(engine, 1)) {
			close(fd);
			return -ENOMEM;
		}
		engine->links[engine->n_links++] = (struct engine_link){ .fd = fd };
	}
}

/* bpf_object_unload, for what open_maps has opened. */
static void close_maps(void *skel)
{
	struct bpf_object *object = skel;

	if (object->gate)
		munmap((void *)object->gate, (size_t)sysconf(_SC_PAGESIZE));
	for (size_t i = 0; i < N_MAPS; i++)
		if (*map_of(object, i) >= 0)
			close(*map_of(object, i));
}

int engine_bpf_open_kept(struct ocp_ctx *ctx, const char *folder, const struct engine_spec *spec,
			 struct engine **out)
{
	struct engine *engine;
	int err = engine_bpf_new(ctx, &engine);

	if (err)
		return err;
	engine->n_sites = engine->max_sites = spec->max_sites;
	engine->n_pairs = spec->n_pairs;
	engine->config.split = (__u32)spec->split;
	engine->is_kept = true;
	for (size_t i = 0; i < N_MAPS; i++)
		*map_of(&engine->object, i) = -1;
	engine->object.skel = &engine->object;
	engine->object.destroy = close_maps;
	err = open_maps(engine, folder);
	if (!err)
		err = open_links(engine, folder);
	if (err) {
		engine_bpf.close(engine);
		return err;
	}
	*out = engine;
	return 0;
}
