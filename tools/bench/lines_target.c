// SPDX-License-Identifier: MIT
/* A process with many probes and line tables (sites.S with LINES), until its input ends. */
#include <unistd.h>

int main(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
