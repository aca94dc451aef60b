// SPDX-License-Identifier: MIT
/*
 * deep FRAMES: call a function by itself that often, and work there until a signal ends the
 * program.
 */
#include <stdbool.h>
#include <stdlib.h>

static volatile unsigned int total;
static volatile bool is_over; /* never */

__attribute__((noinline)) static void dive(unsigned long frames)
{
	while (frames == 0 && !is_over)
		total++;
	if (frames)
		dive(frames - 1);
	total++; /* the call is not the last instruction */
}

int main(int argc, char **argv)
{
	dive(argc == 2 ? strtoul(argv[1], NULL, 10) : 0);
	return 0;
}
