// SPDX-License-Identifier: MIT
#include "unit.h"

#include <stdio.h>

/* What a test prints on stderr stands before its own result, also in a file. */
__attribute__((constructor)) static void unbuffer_stdout(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
}
