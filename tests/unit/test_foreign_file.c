// SPDX-License-Identifier: MIT
/*
 * Files that other processes name: what is opened, and what is not. An open that waits fails by the
 * alarm.
 */
#include "base/foreign_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proc_self.h"
#include "look/memfd_file.h"
#include "unit.h"

static char folder[] = "/tmp/test_foreign_file.XXXXXX";

static const char *in_folder(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static const char *link_of(int fd)
{
	static char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

static int make_files(void **state)
{
	(void)state;
	alarm(60);
	assert_non_null(mkdtemp(folder));
	assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
	assert_int_equal(close(open(in_folder("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600)), 0);
	assert_int_equal(symlink("file", in_folder("link")), 0);
	return 0;
}

static int remove_files(void **state)
{
	static const char *const names[] = { "pipe", "file", "link" };

	(void)state;
	for (size_t i = 0; i < 3; i++)
		unlink(in_folder(names[i]));
	return rmdir(folder);
}

ALL_TESTS(make_files, remove_files);

TEST(regular_files_are_read)
{
	struct stat st;
	int fd;

	fd = foreign_file_read(in_folder("link"), 0);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	fd = foreign_file_read(in_folder("file"), st.st_ino);
	assert_true(fd >= 0);
	close(fd);
}

TEST(other_files_are_not_opened)
{
	const int n_fds = count_entries("/proc/self/fd");

	assert_int_equal(foreign_file_read(in_folder("pipe"), 0), -ENOEXEC);
	assert_int_equal(foreign_file_read("/dev/null", 0), -ENOEXEC);
	assert_int_equal(foreign_file_read(folder, 0), -ENOEXEC);
	assert_int_equal(foreign_file_read(in_folder("none"), 0), -ENOENT);
	assert_int_equal(foreign_file_read(in_folder("file"), 1), -ENOENT);
	assert_int_equal(count_entries("/proc/self/fd"), n_fds);
}

/* Its owner gives a lease up when it wants to; an ordinary open(2) waits for that. */
TEST(a_lease_lets_nobody_wait)
{
	const int owner = open(in_folder("file"), O_RDWR | O_CLOEXEC);

	assert_true(owner >= 0);
	signal(SIGIO, SIG_IGN);
	assert_int_equal(fcntl(owner, F_SETLEASE, F_WRLCK), 0);
	assert_int_equal(foreign_file_read(in_folder("file"), 0), -EWOULDBLOCK);
	close(owner);
}

TEST(memfds_are_opened)
{
	const int theirs = memfd_create("theirs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;
	int fd;

	assert_int_equal(write(theirs, "text", 4), 4);
	fd = memfd_file_open(link_of(theirs), O_RDWR, &st);
	assert_true(fd >= 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
	assert_false(memfd_file_is_sealed(fd, F_SEAL_SHRINK));
	assert_int_equal(fcntl(theirs, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_true(memfd_file_is_sealed(fd, F_SEAL_SHRINK));
	assert_false(memfd_file_is_sealed(fd, F_SEAL_SHRINK | F_SEAL_SEAL));
	close(fd);
	/* Its owner lets others read only. */
	assert_int_equal(fchmod(theirs, 0444), 0);
	assert_int_equal(memfd_file_open(link_of(theirs), O_RDWR, &st), -EINVAL);
	fd = memfd_file_open(link_of(theirs), O_RDONLY, &st);
	assert_true(fd >= 0);
	close(fd);
	close(theirs);
}

/* FD is closed. */
static void check_refused(int fd)
{
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(memfd_file_open(link_of(fd), O_RDONLY, &st), -EINVAL);
	assert_int_equal(memfd_file_open(link_of(fd), O_RDWR, &st), -EINVAL);
	close(fd);
}

TEST(other_files_are_no_memfds)
{
	const int n_fds = count_entries("/proc/self/fd");
	struct stat st;
	int fd = open(in_folder("file"), O_RDWR | O_CLOEXEC);

	/* F_GET_SEALS fails, which is no set of all seals. */
	assert_false(memfd_file_is_sealed(fd, F_SEAL_SHRINK | F_SEAL_SEAL));
	check_refused(fd);
	/* Without a name, and in a tmpfs, as a memfd. */
	check_refused(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
	check_refused(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
	/* Found by path alone, as a process finds files that it may not open. */
	check_refused(open(in_folder("pipe"), O_PATH | O_CLOEXEC));
	check_refused(open("/dev/null", O_PATH | O_CLOEXEC));
	check_refused(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	assert_int_equal(memfd_file_open(link_of(1000), O_RDWR, &st), -ENOENT);
	assert_int_equal(count_entries("/proc/self/fd"), n_fds);
}
