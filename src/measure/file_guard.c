// SPDX-License-Identifier: MIT
/*
 * A uprobe belongs to a place in a file, whoever runs it and whenever. When the file is overwritten
 * in place (`cp new app`, while nobody runs it: the same inode), the kernel puts its int3 at the
 * old places into the new program, in the middle of an instruction maybe, and has the old
 * instruction run: that kills the program, or has it compute nonsense. (A file that is replaced by
 * rename(2), as package managers and most build systems do, is another one, and the old one stays
 * what it was.)
 *
 * So, while there are uprobes, we hold a read lease (fcntl(2), F_SETLEASE): the open() of whoever
 * wants to write waits until we have given the lease up, for which we have 45 s
 * (/proc/sys/fs/lease-break-time). That it does is asked for at every ocp_meter_refresh. The signal
 * that goes with leases is nobody's: a library has none to spare.
 *
 * A lease is granted to the file's owner and to CAP_LEASE, by file systems that know it, and while
 * nobody has the file open for writing. Without one a file is still safe while it runs as
 * somebody's executable (ETXTBSY), and its times and size are looked at on every refresh; a change
 * of these alone (chmod, touch, a new name) is none if the file has the same sites as before. What
 * remains then is a file overwritten and run between two refreshes, or a shared object that is
 * overwritten while it is mapped.
 */
#include "measure/file_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct file_identity file_identity_of(const struct stat *st)
{
	return (struct file_identity){ st->st_mtim, st->st_ctim, st->st_size };
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same(const struct file_identity *a, const struct file_identity *b)
{
	return a->bytes == b->bytes && is_same_time(&a->modified, &b->modified) &&
	       is_same_time(&a->changed, &b->changed);
}

/*
 * Until the owner is taken away from the lease, whoever breaks it sends a signal: one that is
 * ignored unless somebody wants it.
 */
static void take_lease(struct ocp_ctx *ctx, struct file_guard *guard, const char *name)
{
	fcntl(guard->fd, F_SETSIG, SIGURG);
	guard->has_lease = fcntl(guard->fd, F_SETLEASE, F_RDLCK) == 0;
	guard->may_retry = !guard->has_lease && errno == EAGAIN;
	if (!guard->has_lease)
		ctx_log(ctx, OCP_LOG_DEBUG, "%s: no lease: %s", name, strerror(errno));
	fcntl(guard->fd, F_SETOWN, 0);
}

/* Does the file still have the sites that PROG has? */
static bool has_same_sites(struct ocp_ctx *ctx, int fd, const struct ocp_program *prog)
{
	struct ocp_program *now;
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	bool same;

	if (copy < 0 || program_open_fd(ctx, copy, "", &now))
		return false;
	same = now->n_probes == prog->n_probes && now->n_sites == prog->n_sites;
	for (size_t i = 0; same && i < prog->n_probes; i++)
		same = strcmp(now->probes[i].name, prog->probes[i].name) == 0 &&
		       now->probes[i].first_site == prog->probes[i].first_site &&
		       now->probes[i].n_sites == prog->probes[i].n_sites;
	for (size_t i = 0; same && i < prog->n_sites; i++) {
		const struct site *a = &now->sites[i], *b = &prog->sites[i];
		uint64_t off_a = 0, off_b = 0;

		same = a->va == b->va && a->has_code == b->has_code && a->abi == b->abi &&
		       a->tracer_semaphore_va == b->tracer_semaphore_va &&
		       elf_file_va_to_off(now->elf, a->va, &off_a) ==
			       elf_file_va_to_off(prog->elf, b->va, &off_b) &&
		       off_a == off_b;
	}
	ocp_program_free(now);
	return same;
}

/* Its identity may be another one now. */
static bool has_changed(struct ocp_ctx *ctx, struct file_guard *guard,
			const struct ocp_program *prog)
{
	struct file_identity now;
	struct stat st;

	if (fstat(guard->fd, &st))
		return true;
	now = file_identity_of(&st);
	if (is_same(&now, &guard->identity))
		return false;
	guard->identity = now;
	return !has_same_sites(ctx, guard->fd, prog);
}

int file_guard_take(struct ocp_ctx *ctx, struct file_guard *guard, const char *path,
		    const char *name, const struct ocp_program *prog)
{
	guard->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (guard->fd < 0) {
		ctx_log(ctx, OCP_LOG_DEBUG, "%s: not guarded against writing: %s", name,
			strerror(errno));
		return 0;
	}
	take_lease(ctx, guard, name);
	if (!has_changed(ctx, guard, prog))
		return 0;
	file_guard_release(guard);
	return ctx_error(ctx, -ESTALE, "%s: it has been overwritten since it was read", name);
}

bool file_guard_is_broken(struct ocp_ctx *ctx, struct file_guard *guard, const char *name,
			  const struct ocp_program *prog)
{
	if (guard->fd < 0)
		return false;
	if (guard->has_lease)
		return fcntl(guard->fd, F_GETLEASE) != F_RDLCK;
	if (guard->may_retry)
		take_lease(ctx, guard, name);
	return has_changed(ctx, guard, prog);
}

void file_guard_release(struct file_guard *guard)
{
	/* Closing is not enough: a process that the caller has forked has the description, too. */
	if (guard->has_lease)
		fcntl(guard->fd, F_SETLEASE, F_UNLCK);
	if (guard->fd >= 0)
		close(guard->fd);
	guard->fd = -1;
	guard->has_lease = false;
}
