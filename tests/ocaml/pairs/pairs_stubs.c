// SPDX-License-Identifier: MIT
/* The clock that tools measure by, and the thread's id: pairs.ml. */
#include <caml/mlvalues.h>
#include <time.h>
#include <unistd.h>

intnat pairs_clock(value unit);
value pairs_clock_byte(value unit);
intnat pairs_gettid(value unit);
value pairs_gettid_byte(value unit);

intnat pairs_clock(value unit)
{
	struct timespec ts;

	(void)unit;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000 + ts.tv_nsec;
}

value pairs_clock_byte(value unit)
{
	return Val_long(pairs_clock(unit));
}

intnat pairs_gettid(value unit)
{
	(void)unit;
	return gettid();
}

value pairs_gettid_byte(value unit)
{
	return Val_long(pairs_gettid(unit));
}
