// SPDX-License-Identifier: MIT
/*
 * /proc/PID/maps (proc(5)):
 *
 *	start-end perms offset major:minor inode [spaces path]
 *
 * All numbers are hexadecimal, except the inode. The path is the rest of the line. The kernel
 * writes a newline in a path as \012, so each line is one mapping.
 */
#include "look/maps.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/foreign_file.h"
#include "base/search.h"
#include "look/proc_file.h"

/*
 * Parse a number in BASE that is followed by the character AFTER. Return the text behind this
 * character, or NULL if TEXT is NULL or does not match.
 */
static const char *parse_field(const char *text, int base, char after, uint64_t *value)
{
	char *end;

	/* Check the first character: strtoull(3) would accept white space and a sign. */
	if (!text || !((*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'f')))
		return NULL;
	errno = 0;
	*value = strtoull(text, &end, base);
	if (errno || *end != after)
		return NULL;
	return end + 1;
}

static bool parse_line(char *line, struct mapping *m)
{
	uint64_t dev_major, dev_minor;
	const char *pos = parse_field(line, 16, '-', &m->start);

	pos = parse_field(pos, 16, ' ', &m->end);
	if (!pos || strlen(pos) < 5 || pos[4] != ' ' || m->end <= m->start)
		return false;
	m->readable = pos[0] == 'r';
	m->writable = pos[1] == 'w';
	m->executable = pos[2] == 'x';
	m->shared = pos[3] == 's';
	pos = parse_field(pos + 5, 16, ' ', &m->off);
	pos = parse_field(pos, 16, ':', &dev_major);
	pos = parse_field(pos, 16, ' ', &dev_minor);
	if (!pos)
		return false;
	m->dev_major = (unsigned int)dev_major;
	m->dev_minor = (unsigned int)dev_minor;
	/* If the mapping has no path, the line may end right after the inode. */
	m->path = strchr(pos, ' ');
	if (m->path)
		pos = parse_field(pos, 10, ' ', &m->inode);
	else
		pos = parse_field(pos, 10, '\0', &m->inode);
	if (!pos)
		return false;
	if (!m->path)
		m->path = "";
	else
		m->path += strspn(m->path, " ");
	return true;
}

int maps_parse(struct ocp_ctx *ctx, char *text, struct maps *maps)
{
	size_t lines = 0;
	char *line, *next;

	*maps = (struct maps){ .text = text };
	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	maps->mappings = calloc(lines + 1, sizeof(*maps->mappings));
	if (!maps->mappings) {
		maps_free(maps);
		return ctx_no_memory(ctx);
	}
	for (line = text; *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (!parse_line(line, &maps->mappings[maps->n])) {
			int err = ctx_error(ctx, -EBADMSG, "not a line of /proc/PID/maps: '%s'",
					    line);

			maps_free(maps);
			return err;
		}
		maps->n++;
	}
	return 0;
}

int maps_read(struct ocp_ctx *ctx, pid_t pid, struct maps *maps)
{
	char *text;
	int err = proc_memory_file_read(ctx, pid, "maps", &text, NULL);

	*maps = (struct maps){ 0 };
	return err ? err : maps_parse(ctx, text, maps);
}

void maps_free(struct maps *maps)
{
	free(maps->mappings);
	free(maps->text);
	*maps = (struct maps){ 0 };
}

void maps_drop(struct maps *maps, uint64_t start, uint64_t end)
{
	size_t left = 0;

	for (size_t i = 0; i < maps->n; i++)
		if (maps->mappings[i].start < start || maps->mappings[i].end > end)
			maps->mappings[left++] = maps->mappings[i];
	maps->n = left;
}

const struct mapping *maps_find(const struct maps *maps, uint64_t addr)
{
	const size_t at = SEARCH(i, maps->n, maps->mappings[i].end <= addr);

	return at < maps->n && maps->mappings[at].start <= addr ? &maps->mappings[at] : NULL;
}

int maps_open_file(pid_t pid, const struct mapping *m)
{
	char name[64], path[PATH_MAX];
	size_t root;
	int fd;

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, m->start, m->end);
	proc_path(path, pid, name);
	fd = foreign_file_read(path, 0);
	if (fd >= 0)
		return fd;
	proc_path(path, pid, "root");
	root = strlen(path);
	if (snprintf(path + root, sizeof(path) - root, "%s", m->path) >= (int)(sizeof(path) - root))
		return -ENAMETOOLONG;
	return foreign_file_read(path, m->inode);
}
