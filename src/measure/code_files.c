// SPDX-License-Identifier: MIT
#include "measure/code_files.h"

#include <unistd.h>

#include "base/file_rules.h"
#include "measure/meter.h"
#include "tracee/proc_file.h"

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool code_files_has(const struct code_files *files, const struct stat *st)
{
	for (size_t i = 0; i < CODE_FILES_REMEMBERED; i++) {
		const struct code_file_state *state = &files->states[i];

		if (state->ino == st->st_ino && state->dev == st->st_dev &&
		    state->bytes == st->st_size && same_time(&state->modified, &st->st_mtim) &&
		    same_time(&state->changed, &st->st_ctim))
			return true;
	}
	return false;
}

void code_files_remember(struct code_files *files, const struct stat *st)
{
	files->states[files->next] = (struct code_file_state){ st->st_dev, st->st_ino, st->st_size,
							       st->st_mtim, st->st_ctim };
	files->next = (files->next + 1) % CODE_FILES_REMEMBERED;
}

/*
 * Return true if user UID owns the file NAME of PID in /proc. NAME "" is the directory of PID,
 * whose owner is the user of the process.
 */
static bool is_owner(pid_t pid, const char *name, uid_t uid)
{
	char path[PROC_PATH_BYTES];
	struct stat st;

	proc_path(path, pid, name);
	return stat(path, &st) == 0 && st.st_uid == uid;
}

bool code_files_may_read(const struct ocp_meter *meter, const struct stat *st, pid_t pid)
{
	struct stat named;

	if (!file_rules_check_owners(meter->ctx) || st->st_uid == 0 || st->st_uid == geteuid())
		return true;
	if (meter->program)
		return fstat(meter->program->fd, &named) == 0 && named.st_uid == st->st_uid;
	return is_owner(pid, "exe", st->st_uid) || is_owner(pid, "", st->st_uid);
}
