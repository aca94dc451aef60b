/* SPDX-License-Identifier: MIT */
/* What this process has: threads, descriptors. */
#ifndef TESTS_UNIT_PROC_SELF_H
#define TESTS_UNIT_PROC_SELF_H

/* How many entries a folder has; 0 if there is none. */
int count_entries(const char *path);

int count_threads(void);
/* Wait until there are N: the kernel shows a thread for a moment after it was joined. */
void await_threads(int n);

#endif
