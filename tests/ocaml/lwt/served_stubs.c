// SPDX-License-Identifier: MIT
#include <caml/mlvalues.h>
#include <time.h>

value served_now(value unit);

/* CLOCK_MONOTONIC in nanoseconds, as the kernel takes the times of probes. */
value served_now(value unit)
{
	struct timespec now;

	(void)unit;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return Val_long(now.tv_sec * 1000000000L + now.tv_nsec);
}
