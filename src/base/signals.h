/* SPDX-License-Identifier: MIT */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <signal.h>

/*
 * Add SIGNAL to SET unless the process ignores SIGNAL, as after nohup: sigwait(2) would return even
 * a signal that is ignored.
 */
static inline void signals_add_unless_ignored(sigset_t *set, int signal)
{
	struct sigaction action;

	if (sigaction(signal, NULL, &action) != 0 || action.sa_handler != SIG_IGN)
		sigaddset(set, signal);
}

#endif
