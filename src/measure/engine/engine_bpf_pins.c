// SPDX-License-Identifier: MIT
/*
 * Engines that outlive their process: gives the maps and links of an engine names in bpffs. From
 * these names, a later process can open an engine that it can read and detach.
 *
 * A detach closes the descriptors of the links in addition to removing their names. If the last
 * reference to a link is a descriptor, closing it removes the uprobes at once. If the last
 * reference is a name, a worker of the kernel removes the uprobes some time later.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "measure/engine/engine_bpf.h"
#include "kernel/pinned.h"

enum { PIN_PATH_BYTES = 256, MANY = 1 << 24, BSS_BYTES = 4096 };

/* The maps of a pinned engine. Flags are those of bpf/measure_core.bpf.h. */
static const struct {
	const char *name;
	size_t offset; /* offset of the descriptor in struct bpf_object */
	struct map_shape shape;
} maps[] = {
#define MAP(NAME, MEMBER, TYPE, KEY, VALUE, FLAGS, MOST)                                           \
	{                                                                                          \
		.name = (NAME), .offset = offsetof(struct bpf_object, MEMBER),                     \
		.shape = {                                                                         \
			.type = BPF_MAP_TYPE_##TYPE,                                               \
			.key_bytes = sizeof(KEY),                                                  \
			.value_bytes = sizeof(VALUE),                                              \
			.flags = (FLAGS),                                                          \
			.least_entries = 1,                                                        \
			.most_entries = (MOST),                                                    \
		},                                                                                 \
	}
	MAP("hits", hits, ARRAY, __u32, __u64, BPF_F_MMAPABLE, UINT32_MAX),
	MAP("site_table", site_table, ARRAY, __u32, struct measure_site, 0, UINT32_MAX),
	MAP("roles", roles, ARRAY, __u32, struct measure_role, 0, 5 * MEASURE_MAX_PAIRS),
	MAP("pair_stats", pair_stats, PERCPU_ARRAY, __u32, struct measure_pair, 0,
	    MEASURE_MAX_PAIRS),
	MAP("pair_open", pair_open, HASH, struct measure_open_key, struct measure_open, 0, MANY),
	MAP("key_open", key_open, HASH, struct measure_start_key, __u64, 0, MANY),
	MAP("frame_open", frame_open, LRU_HASH, struct measure_frame_key, __u64, 0, MANY),
	MAP("keyed", keyed, HASH, struct measure_key, struct measure_keyed, 0, MANY),
	MAP("tgids", tgids, HASH, __u32, __u32, 0, MANY),
	MAP("losses", losses, PERCPU_ARRAY, __u32, struct measure_losses, 0, 1),
	MAP("gate", bss, ARRAY, __u32, struct measure_gate, BPF_F_MMAPABLE, 1),
#undef MAP
};

enum { N_MAPS = sizeof(maps) / sizeof(maps[0]) };

static int *map_of(struct bpf_object *object, size_t i)
{
	return (int *)((char *)object + maps[i].offset);
}

int engine_bpf_pin(struct engine *engine, const char *folder)
{
	char path[PIN_PATH_BYTES];
	int err = 0;

	for (size_t i = 0; !err && i < N_MAPS; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, maps[i].name);
		err = pin_object(engine->ctx, *map_of(&engine->object, i), path);
	}
	for (size_t i = 0; !err && i < engine->n_links; i++) {
		snprintf(path, sizeof(path), "%s/link_%zu", folder, i);
		err = pin_object(engine->ctx, engine->links[i].fd, path);
	}
	engine->is_pinned = err == 0;
	return err;
}

/* Return the shape that maps[I] must have, according to the text in `meta`. */
static struct map_shape shape_in(const struct engine *engine, size_t i)
{
	const __u32 n_pairs = engine->n_pairs ? (__u32)engine->n_pairs : 1;
	struct map_shape shape = maps[i].shape;

	if (maps[i].offset == offsetof(struct bpf_object, site_table) && engine->n_sites)
		shape.least_entries = (__u32)engine->n_sites;
	if (maps[i].offset == offsetof(struct bpf_object, pair_stats))
		shape.least_entries = shape.most_entries = n_pairs;
	/* In .bss, other variables may follow the gate. */
	if (maps[i].offset == offsetof(struct bpf_object, bss))
		shape.most_value_bytes = BSS_BYTES;
	return shape;
}

/* Check that `hits` has a slot for each CPU and each of the N_SITES in site_table. */
static int check_hits(const struct engine *engine, const char *folder, size_t n_sites)
{
	const size_t stride = engine_bpf_hits_stride(n_sites);

	if (engine->hits_bytes != stride * engine->n_cpus * sizeof(*engine->hits))
		return ctx_error(engine->ctx, -EBADMSG,
				 "%s/hits: has another number of entries than this version expects",
				 folder);
	return 0;
}

static int open_maps(struct engine *engine, const char *folder)
{
	char path[PIN_PATH_BYTES];
	size_t n_sites = 0;
	void *gate;
	int err;

	for (size_t i = 0; i < N_MAPS; i++) {
		const struct map_shape shape = shape_in(engine, i);
		struct bpf_map_info info;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", folder, maps[i].name);
		fd = pinned_map_open(engine->ctx, path, &shape, &info);
		if (fd < 0)
			return fd;
		*map_of(&engine->object, i) = fd;
		if (fd == engine->object.site_table)
			n_sites = info.max_entries;
	}
	gate = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED,
		    engine->object.bss, 0);
	if (gate == MAP_FAILED)
		return ctx_error(engine->ctx, -errno, "%s: %s", path, strerror(errno));
	engine->object.gate = gate;
	err = engine_bpf_map_hits(engine);
	return err ? err : check_hits(engine, folder, n_sites);
}

static int open_links(struct engine *engine, const char *folder)
{
	char path[PIN_PATH_BYTES];
	int fd;

	for (;;) {
		snprintf(path, sizeof(path), "%s/link_%zu", folder, engine->n_links);
		fd = pinned_link_open(engine->ctx, path);
		if (fd == -ENOENT)
			return 0;
		if (fd < 0)
			return fd;
		if (engine_bpf_room_for_links(engine, 1)) {
			close(fd);
			return -ENOMEM;
		}
		engine->links[engine->n_links++] = (struct engine_link){ .fd = fd };
	}
}

/* Close the maps that open_maps() has opened. For bpf_object.destroy. */
static void close_maps(void *skel)
{
	struct bpf_object *object = skel;

	if (object->gate)
		munmap((void *)object->gate, (size_t)sysconf(_SC_PAGESIZE));
	for (size_t i = 0; i < N_MAPS; i++)
		if (*map_of(object, i) >= 0)
			close(*map_of(object, i));
}

int engine_bpf_open_pinned(struct ocp_ctx *ctx, const char *folder, const struct engine_spec *spec,
			   struct engine **out)
{
	struct engine *engine;
	int err = engine_bpf_new(ctx, &engine);

	if (err)
		return err;
	engine->n_sites = engine->max_sites = spec->max_sites;
	engine->n_pairs = spec->request.n_pairs;
	engine->config.keyed_by = engine_bpf_keyed_by(spec->request.split);
	engine->is_pinned = true;
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
