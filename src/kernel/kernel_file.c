// SPDX-License-Identifier: MIT
/*
 * Finds the device and inode numbers by which the kernel identifies a file. The numbers in stat(2)
 * may differ from those in the kernel's inode: in stat(2), btrfs has a device number for each
 * subvolume, and overlayfs one for each layer if the layers are on different file systems; the
 * kernel's inode always has the device number of its superblock. The only place that shows this
 * number for any file, in any mount namespace, is the fdinfo of an inotify instance that watches
 * the file:
 *
 *	inotify wd:1 ino:9e7e sdev:800013 mask:800afce ignored_mask:0 ...
 *
 * If no inotify instance can be made (each user has a limit), the numbers of stat(2) are used.
 *
 * A uprobe on a file of an overlayfs is a uprobe on the file in the lower layer. Other overlays
 * (the containers of one image) can run the same file of the lower layer. Mappings, too, have the
 * inode of the file in the lower layer. User space cannot see that inode in every version of Linux,
 * since /proc/PID/maps may show the inode of the overlay: bpf/mapped.bpf.c reads it.
 */
#include "kernel/kernel_file.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mapped.skel.h"

static bool ask_inotify(const char *path, struct kernel_file *file)
{
	const int instance = inotify_init1(IN_CLOEXEC);
	char name[64], line[512];
	bool found = false;
	FILE *f = NULL;

	if (instance >= 0 && inotify_add_watch(instance, path, IN_DELETE_SELF) >= 0) {
		snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", instance);
		f = fopen(name, "re");
	}
	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "inotify wd:%*x ino:%" SCNx64 " sdev:%" SCNx64, &file->ino,
			       &file->dev) == 2;
	if (f)
		fclose(f);
	if (instance >= 0)
		close(instance);
	return found;
}

uint64_t kernel_file_dev(dev_t dev)
{
	return (uint64_t)major(dev) << 20 | minor(dev);
}

int kernel_file_find(const char *path, struct kernel_file *file)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	if (!ask_inotify(path, file))
		*file = (struct kernel_file){
			.dev = kernel_file_dev(st.st_dev),
			.ino = st.st_ino,
		};
	return 0;
}

bool kernel_file_is_layered(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* Set *FILE to the file that this process has mapped at PAGE. */
static int ask_bpf(const void *page, struct kernel_file *file)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);
	struct mapped_bpf *skel = mapped_bpf__open();
	int err = skel ? mapped_bpf__load(skel) : -ENOMEM;

	if (!err) {
		skel->bss->address = (uint64_t)page;
		if (bpf_prog_test_run_opts(skel->progs.find_mapped.prog_fd, &run) != 0)
			err = -errno;
		else if (!skel->bss->ino)
			err = -ENOENT;
		*file = (struct kernel_file){ .dev = skel->bss->dev, .ino = skel->bss->ino };
	}
	if (skel)
		mapped_bpf__destroy(skel);
	return err;
}

int kernel_file_find_mapped(int fd, struct kernel_file *file)
{
	const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	int err;

	if (page == MAP_FAILED)
		return -errno;
	err = ask_bpf(page, file);
	munmap(page, bytes);
	return err;
}
