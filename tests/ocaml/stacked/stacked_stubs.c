// SPDX-License-Identifier: MIT
/* Calls of OCaml from C, and from a function of the C library. */
#include <caml/callback.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <stdlib.h>

value stacked_call_back(value f, value x)
{
	CAMLparam2(f, x);

	CAMLreturn(caml_callback(f, x));
}

static value comparison;

static int compare(const void *a, const void *b)
{
	(void)b;
	return Int_val(caml_callback(comparison, Val_int(*(const int *)a)));
}

value stacked_call_by_qsort(value f, value x)
{
	int numbers[] = { 3, 1, 2, Int_val(x) };

	CAMLparam2(f, x);
	comparison = f;
	caml_register_generational_global_root(&comparison);
	qsort(numbers, sizeof(numbers) / sizeof(numbers[0]), sizeof(numbers[0]), compare);
	caml_remove_generational_global_root(&comparison);
	CAMLreturn(Val_int(numbers[0]));
}
