// SPDX-License-Identifier: MIT
/*
 * Notices when a file that has uprobes is overwritten, so that the caller can remove the uprobes.
 *
 * A uprobe belongs to an offset in a file, for all processes that run the file now or later. If the
 * file is overwritten in place (`cp new app`, while no process runs it: the same inode), the kernel
 * puts its int3 at the old offsets into the new program, perhaps into the middle of an instruction,
 * and executes the old instruction. This kills the program or makes it compute wrong results.
 * (Package managers and most build systems replace a file by rename(2). This does no harm: the new
 * file has another inode, and the old file does not change.)
 *
 * Therefore we hold a read lease (fcntl(2), F_SETLEASE) while there are uprobes. An open() for
 * writing then blocks until we give up the lease, for at most 45 s (/proc/sys/fs/lease-break-time).
 * Each ocp_meter_refresh() checks whether an open() is waiting. The kernel would also send a
 * signal, but we do not use it, because a library must not claim a signal.
 *
 * The kernel grants a lease only to the owner of the file or with CAP_LEASE, only on file systems
 * that support leases, and only while no process has the file open for writing. A file without a
 * lease is safe while it is running as an executable (ETXTBSY), and each refresh checks the times
 * and the size of the file. If only times or size have changed (chmod, touch, a new name), and the
 * file has the same sites as before, the file does not count as overwritten. Without a lease, two
 * cases remain unprotected: a file is overwritten and run between two refreshes, or a shared object
 * is overwritten while it is mapped.
 */
#include "measure/sites/site_table.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* A changed file counts as overwritten after this many failed attempts to read it. */
enum { MAX_UNREAD = 3 };

struct file_identity file_identity_of(const struct stat *st)
{
	return (struct file_identity){ st->st_mtim, st->st_ctim, st->st_size };
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same_identity(const struct file_identity *a, const struct file_identity *b)
{
	return a->bytes == b->bytes && is_same_time(&a->modified, &b->modified) &&
	       is_same_time(&a->changed, &b->changed);
}

/*
 * Take a read lease if possible. When another process opens the file for writing, the kernel sends
 * a signal to the owner of the descriptor. F_SETLEASE makes this process the owner, so remove the
 * owner afterwards. For the time until then, choose SIGURG, which is ignored unless a handler is
 * installed.
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

/*
 * Starting at index *AT, return the next site of PROG that does not belong to a probe of another
 * file (is_external), and set *AT to the index after this site. Return NULL if there is none.
 */
static const struct site *next_own(const struct ocp_program *prog, size_t *at)
{
	while (*at < prog->n_sites && prog->sites[*at].is_external)
		++*at;
	return *at < prog->n_sites ? &prog->sites[(*at)++] : NULL;
}

static bool is_same_site(const struct ocp_program *x, const struct site *a,
			 const struct ocp_program *y, const struct site *b)
{
	uint64_t off_a = 0, off_b = 0;

	return program_has_same_site(x, a, y, b) && a->va == b->va &&
	       elf_file_va_to_off(x->elf, a->va, &off_a) ==
		       elf_file_va_to_off(y->elf, b->va, &off_b) &&
	       off_a == off_b;
}

/*
 * SITE belongs to a probe of another file. Return true if NOW has the same code as before at the
 * address of SITE.
 */
static bool has_code_of(const struct ocp_program *now, const struct site *site)
{
	uint8_t code[UINT8_MAX];
	uint64_t off;

	return !site->has_code || (elf_file_va_to_off(now->elf, site->va, &off) &&
				   elf_file_read(now->elf, off, code, site->n_bytes) == 0 &&
				   memcmp(code, site->dormant->code, site->n_bytes) == 0);
}

/*
 * PROG is what the file contained before, NOW is what it contains now. Return true if both have the
 * same sites.
 */
static bool has_same_sites(const struct ocp_program *now, const struct ocp_program *prog)
{
	const struct site *a, *b;
	size_t at_a = 0, at_b = 0;
	bool same = true;

	do {
		a = next_own(now, &at_a);
		b = next_own(prog, &at_b);
		same = a && b ? is_same_site(now, a, prog, b) : a == b;
	} while (same && a);
	for (size_t i = 0; same && i < prog->n_sites; i++)
		if (prog->sites[i].is_external)
			same = has_code_of(now, &prog->sites[i]);
	return same;
}

/*
 * Return true if the sites of the file have changed. ST is its current status. If the file rules of
 * the ctx do not permit reading the file now (-EAGAIN), return false, but at most MAX_UNREAD times
 * in a row.
 */
static bool has_changed(struct ocp_ctx *ctx, struct file_guard *guard, const struct stat *st,
			const struct guarded *what)
{
	const struct file_origin origin = { .name = what->name,
					    .is_library = what->prog->is_library };
	const struct file_identity identity = file_identity_of(st);
	struct ocp_program *now;
	bool same;
	int copy, err;

	if (is_same_identity(&identity, &guard->identity)) {
		guard->n_unread = 0;
		return false;
	}
	copy = fcntl(guard->fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return true;
	err = program_open_from(ctx, copy, &origin, &now);
	if (err == -EAGAIN && guard->n_unread++ < MAX_UNREAD)
		return false;
	guard->n_unread = 0;
	guard->identity = identity;
	if (err)
		return true;
	same = has_same_sites(now, what->prog) && code_probes_are_in(what->code, what->prog, now);
	ocp_program_free(now);
	return !same;
}

int file_guard_take(struct ocp_ctx *ctx, struct file_guard *guard, const char *path,
		    const struct guarded *what)
{
	const char *name = what->name;
	struct stat st;

	guard->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (guard->fd < 0) {
		ctx_log(ctx, OCP_LOG_DEBUG, "%s: not guarded against writing: %s", name,
			strerror(errno));
		return 0;
	}
	take_lease(ctx, guard, name);
	if (fstat(guard->fd, &st)) {
		int err = ctx_error(ctx, -errno, "%s: %s", name, strerror(errno));

		file_guard_release(guard);
		return err;
	}
	if (!has_changed(ctx, guard, &st, what))
		return 0;
	file_guard_release(guard);
	return ctx_error(ctx, -ESTALE, "%s: overwritten since it was read", name);
}

bool file_guard_is_broken(struct ocp_ctx *ctx, struct file_guard *guard, const struct guarded *what)
{
	struct stat st;

	if (guard->fd < 0)
		return false;
	if (guard->has_lease)
		return fcntl(guard->fd, F_GETLEASE) != F_RDLCK;
	if (guard->may_retry)
		take_lease(ctx, guard, what->name);
	/* If the status of the file cannot be read, the file counts as changed. */
	return fstat(guard->fd, &st) != 0 || has_changed(ctx, guard, &st, what);
}

void file_guard_release(struct file_guard *guard)
{
	/*
	 * Release the lease explicitly. Closing our descriptor would not be enough, because a
	 * forked child of the caller may have a descriptor of the same open file.
	 */
	if (guard->has_lease)
		fcntl(guard->fd, F_SETLEASE, F_UNLCK);
	if (guard->fd >= 0)
		close(guard->fd);
	guard->fd = -1;
	guard->has_lease = false;
}
