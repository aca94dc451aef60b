// SPDX-License-Identifier: MIT
#include "elf/debug_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/symbols.h"

#define DEBUG_DIRECTORY "/usr/lib/debug/.build-id"

enum {
	MAX_ID_BYTES = 64, /* 20 as a rule; the linker's option --build-id allows any number */
	MAX_NOTE_BYTES = 4096,
};

struct debug_file {
	struct ocp_ctx *ctx;
	int fd;
	struct elf_file *elf;
	struct address_lines *lines;
};

struct build_id {
	uint8_t bytes[MAX_ID_BYTES];
	size_t n; /* 0: none */
};

/* ---- the build-id --------------------------------------------------------------------------- */

static int build_id_read(struct elf_file *elf, struct build_id *id)
{
	static const char owner[] = ELF_NOTE_GNU;
	struct elf_section section;
	Elf64_Nhdr header;
	uint8_t *note;
	int err;

	id->n = 0;
	if (elf_file_find_section(elf, ".note.gnu.build-id", SHT_NOTE, &section) <= 0)
		return 0;
	err = elf_file_read_section(elf, &section, MAX_NOTE_BYTES, &note);
	if (err)
		return err == -ENOMEM ? err : 0;
	if (section.bytes >= sizeof(header) + sizeof(owner)) {
		memcpy(&header, note, sizeof(header));
		if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == sizeof(owner) &&
		    memcmp(note + sizeof(header), owner, sizeof(owner)) == 0 &&
		    header.n_descsz <= MAX_ID_BYTES &&
		    header.n_descsz <= section.bytes - sizeof(header) - sizeof(owner)) {
			id->n = header.n_descsz;
			memcpy(id->bytes, note + sizeof(header) + sizeof(owner), id->n);
		}
	}
	free(note);
	return 0;
}

static bool has_build_id(struct elf_file *elf, const struct build_id *id)
{
	struct build_id its;

	return build_id_read(elf, &its) == 0 && its.n == id->n &&
	       memcmp(its.bytes, id->bytes, id->n) == 0;
}

/* ---- where the file is ---------------------------------------------------------------------- */

static int open_in_directory(const struct build_id *id)
{
	char path[sizeof(DEBUG_DIRECTORY "/") + sizeof("ab") * MAX_ID_BYTES + sizeof("/.debug")];
	int n = snprintf(path, sizeof(path), DEBUG_DIRECTORY "/%02x/", id->bytes[0]);

	for (size_t i = 1; i < id->n; i++)
		n += snprintf(path + n, sizeof(path) - (size_t)n, "%02x", id->bytes[i]);
	snprintf(path + n, sizeof(path) - (size_t)n, ".debug");
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/*
 * Get the file from the servers in DEBUGINFOD_URLS. Return a descriptor, or a negative number. The
 * library is loaded only here, since few machines have it.
 */
static int fetch(struct ocp_ctx *ctx, const char *name, const struct build_id *id)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *library = urls && *urls ? dlopen("libdebuginfod.so.1", RTLD_NOW) : NULL;
	void *(*begin)(void);
	int (*find)(void *client, const unsigned char *id, int n, char **path);
	void (*end)(void *client);
	void *client = NULL;
	int fd = -ENOENT;

	if (!library)
		return fd;
	*(void **)&begin = dlsym(library, "debuginfod_begin");
	*(void **)&find = dlsym(library, "debuginfod_find_debuginfo");
	*(void **)&end = dlsym(library, "debuginfod_end");
	if (begin && find && end)
		client = begin();
	if (client) {
		ctx_log(ctx, OCP_LOG_INFO, "%s: asking debuginfod for its debug file", name);
		fd = find(client, id->bytes, (int)id->n, NULL);
		end(client);
	}
	/* The library stays loaded: the libraries that it uses cannot be loaded twice. */
	return fd;
}

/* ---- open and close ------------------------------------------------------------------------- */

/* Open the file of FD, which belongs to FILE, if it is the debug file with the build-id ID. */
static bool is_debug_file(struct debug_file *file, const char *name, const struct build_id *id)
{
	struct stat st;

	return fstat(file->fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       elf_file_open(file->ctx, file->fd, name, &file->elf) == 0 &&
	       has_build_id(file->elf, id);
}

int debug_file_open(struct ocp_ctx *ctx, struct elf_file *elf, struct debug_file **out)
{
	struct debug_file *file;
	struct build_id id;
	int err = build_id_read(elf, &id), fd;

	*out = NULL;
	if (err || id.n < 2)
		return err;
	fd = open_in_directory(&id);
	if (fd < 0)
		fd = fetch(ctx, elf_file_name(elf), &id);
	if (fd < 0)
		return 0;
	file = calloc(1, sizeof(*file));
	if (!file) {
		close(fd);
		return ctx_no_memory(ctx);
	}
	file->ctx = ctx;
	file->fd = fd;
	if (is_debug_file(file, elf_file_name(elf), &id))
		err = address_lines_open(ctx, fd, elf_file_name(elf), &file->lines);
	if (err || !file->elf || !file->lines) {
		debug_file_close(file);
		return err == -ENOMEM ? err : 0;
	}
	*out = file;
	return 0;
}

void debug_file_close(struct debug_file *file)
{
	if (!file)
		return;
	address_lines_close(file->lines);
	elf_file_close(file->elf);
	close(file->fd);
	free(file);
}

/* ---- names and lines ------------------------------------------------------------------------ */

int debug_file_function(struct debug_file *file, uint64_t va, char **name)
{
	struct symbol_of asked = { .va = va };
	char *names = NULL;
	int err = symbols_find(file->ctx, file->elf, &asked, 1, &names);

	/* The C library's symbols have versions there: "pthread_cond_wait@@GLIBC_2.3.2". */
	*name = !err && asked.name ? strndup(asked.name, strcspn(asked.name, "@")) : NULL;
	free(names);
	if (err != -ENOMEM && !(asked.name && !*name && !err))
		return 0;
	return ctx_no_memory(file->ctx);
}

const struct address_lines *debug_file_lines(const struct debug_file *file)
{
	return file->lines;
}
