// SPDX-License-Identifier: MIT
/* C between frames of OCaml, for test_unwind_steps. */
#define CAML_NAME_SPACE
#include <caml/alloc.h>
#include <caml/callback.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <math.h>

value stepped_call(value f, value x)
{
	CAMLparam2(f, x);
	CAMLlocal1(result);

	result = caml_callback(f, x);
	CAMLreturn(result);
}

/* An exception counts as 0. */
value stepped_call_caught(value f, value x)
{
	const value result = caml_callback_exn(f, x);

	return Is_exception_result(result) ? Val_int(0) : result;
}

value stepped_sum(value f, value a, value b, value c, value d, value e, value g, value h)
{
	const long sum = Long_val(a) + Long_val(b) + Long_val(c) + Long_val(d) + Long_val(e) +
			 Long_val(g) + Long_val(h);

	return caml_callback(f, Val_long(sum));
}

value stepped_sum_byte(value *args, int n)
{
	(void)n;
	return stepped_sum(args[0], args[1], args[2], args[3], args[4], args[5], args[6], args[7]);
}

double stepped_root(double x)
{
	return sqrt(x);
}

value stepped_root_byte(value x)
{
	return caml_copy_double(stepped_root(Double_val(x)));
}
