// SPDX-License-Identifier: MIT
#include "swapped_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "look/maps.h"
#include "unit.h"

/* Above the descriptors that the fixtures close. */
enum { FILE_FD = 100 };

static const char text[] = "what others have written\n";

static struct {
	char path[64];
	struct stat st;
	enum swap_moment moment;
	int call, calls, swaps;
} file;

void swapped_file_make(void)
{
	int fd;

	snprintf(file.path, sizeof(file.path), "/tmp/swapped_file.XXXXXX");
	fd = mkstemp(file.path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	assert_int_equal(dup2(fd, FILE_FD), FILE_FD);
	assert_int_equal(fstat(fd, &file.st), 0);
	close(fd);
}

void swapped_file_at(enum swap_moment moment, int call)
{
	file.moment = moment;
	file.call = call;
	file.calls = file.swaps = 0;
}

int swapped_file_swaps(void)
{
	return file.swaps;
}

void swapped_file_assert_untouched(pid_t pid)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	char now[sizeof(text)] = "";
	struct maps maps;
	struct stat st;

	assert_int_equal(fstat(FILE_FD, &st), 0);
	assert_int_equal(st.st_size, file.st.st_size);
	assert_memory_equal(&st.st_mtim, &file.st.st_mtim, sizeof(st.st_mtim));
	assert_memory_equal(&st.st_ctim, &file.st.st_ctim, sizeof(st.st_ctim));
	assert_int_equal(pread(FILE_FD, now, sizeof(now), 0), sizeof(text) - 1);
	assert_string_equal(now, text);
	assert_int_equal(maps_read(ctx, pid, &maps), 0);
	for (size_t i = 0; i < maps.n; i++)
		assert_string_not_equal(maps.mappings[i].path, file.path);
	maps_free(&maps);
	ocp_ctx_free(ctx);
}

void swapped_file_remove(void)
{
	close(FILE_FD);
	unlink(file.path);
	memset(&file, 0, sizeof(file));
}

static int swap(remote_syscall_fn *real, struct remote *remote, uint64_t fd)
{
	const uint64_t args[6] = { FILE_FD, fd };
	int64_t result = -1;
	int err = real(remote, SYS_dup2, args, &result);

	file.swaps += !err && result == (int64_t)fd;
	return err;
}

int swapped_file_call(remote_syscall_fn *real, struct remote *remote, long number,
		      const uint64_t args[6], int64_t *result)
{
	const long moment = file.moment == SWAP_AFTER_CREATE ? SYS_memfd_create : SYS_mmap;
	const bool is_it = file.moment && number == moment && ++file.calls == file.call;
	int err = 0;

	if (is_it && number == SYS_mmap)
		err = swap(real, remote, args[4]);
	if (!err)
		err = real(remote, number, args, result);
	if (!err && is_it && number == SYS_memfd_create)
		err = swap(real, remote, (uint64_t)*result);
	return err;
}
