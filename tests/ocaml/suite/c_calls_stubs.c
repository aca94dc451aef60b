// SPDX-License-Identifier: MIT
// What c_calls.ml calls.
#define CAML_NAME_SPACE
#include <caml/alloc.h>
#include <caml/callback.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/signals.h>
#include <unistd.h>

value sum7(value a, value b, value c, value d, value e, value f, value g);
value sum7_bytecode(value *args, int n);
double scale(double x, int64_t by);
value scale_bytecode(value x, value by);
value make_tuple(value a, value b);
value call_back(value f, value x);
value blocking(value unit);

value sum7(value a, value b, value c, value d, value e, value f, value g)
{
	return Val_long(Long_val(a) + Long_val(b) + Long_val(c) + Long_val(d) + Long_val(e) +
			Long_val(f) + Long_val(g));
}

value sum7_bytecode(value *args, int n)
{
	(void)n;
	return sum7(args[0], args[1], args[2], args[3], args[4], args[5], args[6]);
}

double scale(double x, int64_t by)
{
	return x * (double)by;
}

value scale_bytecode(value x, value by)
{
	return caml_copy_double(scale(Double_val(x), Int64_val(by)));
}

value make_tuple(value a, value b)
{
	CAMLparam2(a, b);
	CAMLlocal1(tuple);

	tuple = caml_alloc(2, 0);
	Store_field(tuple, 0, a);
	Store_field(tuple, 1, b);
	CAMLreturn(tuple);
}

value call_back(value f, value x)
{
	return caml_callback(f, x);
}

value blocking(value unit)
{
	caml_enter_blocking_section();
	usleep(1);
	caml_leave_blocking_section();
	return unit;
}
