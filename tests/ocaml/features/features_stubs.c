// SPDX-License-Identifier: MIT
/*
 * A call of OCaml from C, the clock by which tools measure, and a wait that keeps the lock of the
 * runtime.
 */
#include <caml/callback.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <time.h>

value features_call_back(value f, value x);
intnat features_clock(value unit);
value features_clock_byte(value unit);
value features_doze(value unit);

value features_call_back(value f, value x)
{
	CAMLparam2(f, x);

	CAMLreturn(caml_callback(f, x));
}

intnat features_clock(value unit)
{
	struct timespec ts;

	(void)unit;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000 + ts.tv_nsec;
}

value features_clock_byte(value unit)
{
	return Val_long(features_clock(unit));
}

value features_doze(value unit)
{
	struct timespec left = { .tv_nsec = 2000000 };

	(void)unit;
	while (nanosleep(&left, &left))
		;
	return Val_unit;
}
