// SPDX-License-Identifier: MIT
#include "proc_self.h"

#include <dirent.h>
#include <unistd.h>

#include "unit.h"

int count_entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2; /* . and .. */
}

int count_threads(void)
{
	return count_entries("/proc/self/task");
}

void await_threads(int n)
{
	for (int tries = 5000; count_threads() != n; tries--) {
		if (tries == 0)
			fail_msg("%d threads, not %d", count_threads(), n);
		usleep(1000);
	}
}
