// SPDX-License-Identifier: MIT
/*
 * cost FILE COMMAND [ARG...]: run COMMAND and write its wall time in milliseconds and its peak
 * memory (resident set) in MB to FILE. The status is that of COMMAND.
 */
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

int main(int argc, char **argv)
{
	struct timespec start, end;
	struct rusage usage;
	int status;
	pid_t pid;
	FILE *f;

	if (argc < 3)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ) != 0 ||
	    wait4(pid, &status, 0, &usage) != pid)
		return 126;
	clock_gettime(CLOCK_MONOTONIC, &end);
	f = fopen(argv[1], "we");
	if (!f)
		return 126;
	fprintf(f, "%.3f %.2f\n",
		(double)(end.tv_sec - start.tv_sec) * 1e3 +
			(double)(end.tv_nsec - start.tv_nsec) / 1e6,
		(double)usage.ru_maxrss * 1024 / 1e6);
	fclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}
