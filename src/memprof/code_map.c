// SPDX-License-Identifier: MIT
#include "memprof/code_map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "elf/elf_file.h"
#include "process/mapped_files.h"
#include "tracee/maps.h"

enum { REREAD_NS = 1000 * 1000 * 1000 };

struct mapped_code {
	struct walked_file file;
	char *path;
	unsigned int dev_major, dev_minor;
	uint64_t inode;
	uint64_t bias;
	uint64_t start, end; /* the range that contains all mappings of this file */
};

struct code_map {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct mapped_code **files;
	size_t n;
	int64_t read_ns;
};

static void free_file(struct mapped_code *file)
{
	elf_file_close(file->file.elf);
	if (file->file.fd >= 0)
		close(file->file.fd);
	free(file->path);
	free(file);
}

static struct mapped_code *find_mapped_code(const struct code_map *map, const struct mapping *m)
{
	for (size_t i = 0; i < map->n; i++) {
		struct mapped_code *file = map->files[i];

		if (file->inode == m->inode && file->dev_major == m->dev_major &&
		    file->dev_minor == m->dev_minor)
			return file;
	}
	return NULL;
}

/* Open the file that M maps. Return NULL if it cannot be read. */
static struct mapped_code *open_mapped_code(struct code_map *map, const struct mapping *m)
{
	struct mapped_code *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	*file = (struct mapped_code){ .file.fd = maps_open_file(map->pid, m),
				      .path = strdup(m->path),
				      .dev_major = m->dev_major,
				      .dev_minor = m->dev_minor,
				      .inode = m->inode,
				      .start = m->start,
				      .end = m->end };
	file->file.path = file->path;
	if (file->file.fd < 0 || !file->path ||
	    elf_file_open(map->ctx, file->file.fd, file->path, &file->file.elf) ||
	    !mapped_files_bias(file->file.elf, m, &file->bias)) {
		free_file(file);
		return NULL;
	}
	return file;
}

static int add_code(struct code_map *map, const struct mapping *m)
{
	struct mapped_code *file, **new;

	if (!m->executable || !m->inode || find_mapped_code(map, m))
		return 0;
	file = open_mapped_code(map, m);
	if (!file)
		return 0;
	new = array_add(map->files, map->n);
	if (!new) {
		free_file(file);
		return ctx_no_memory(map->ctx);
	}
	*new = file;
	return 0;
}

static int read_mappings(struct code_map *map)
{
	struct maps maps;
	int err = maps_read(map->ctx, map->pid, &maps);

	map->read_ns = clock_ns(CLOCK_MONOTONIC);
	if (err)
		return err;
	for (size_t i = 0; i < maps.n && !err; i++)
		err = add_code(map, &maps.mappings[i]);
	for (size_t i = 0; i < maps.n; i++) {
		const struct mapping *m = &maps.mappings[i];
		struct mapped_code *file = m->inode ? find_mapped_code(map, m) : NULL;

		if (file && m->start < file->start)
			file->start = m->start;
		if (file && m->end > file->end)
			file->end = m->end;
	}
	maps_free(&maps);
	return err;
}

static bool find_mapped_place(const struct code_map *map, uint64_t address,
			      struct walked_place *place)
{
	for (size_t i = 0; i < map->n; i++) {
		const struct mapped_code *file = map->files[i];

		if (address >= file->start && address < file->end) {
			*place = (struct walked_place){ &file->file, address - file->bias };
			return true;
		}
	}
	return false;
}

bool code_map_find(struct code_map *map, uint64_t address, struct walked_place *place)
{
	if (find_mapped_place(map, address, place))
		return true;
	if (clock_ns(CLOCK_MONOTONIC) < map->read_ns + REREAD_NS)
		return false;
	return read_mappings(map) == 0 && find_mapped_place(map, address, place);
}

int code_map_open(struct ocp_ctx *ctx, pid_t pid, struct code_map **out)
{
	struct code_map *map = calloc(1, sizeof(*map));
	int err;

	*out = map;
	if (!map)
		return ctx_no_memory(ctx);
	map->ctx = ctx;
	map->pid = pid;
	err = read_mappings(map);
	if (err) {
		code_map_close(map);
		*out = NULL;
	}
	return err;
}

void code_map_close(struct code_map *map)
{
	if (!map)
		return;
	for (size_t i = 0; i < map->n; i++)
		free_file(map->files[i]);
	free(map->files);
	free(map);
}
