/* SPDX-License-Identifier: MIT */
/* Calls of OCaml by C, for random call trees. */
#define CAML_NAME_SPACE
#include <caml/alloc.h>
#include <caml/callback.h>
#include <caml/fail.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>

value trees_callback(value f, value d);
value trees_callback3(value f, value d);
value trees_callback_exn(value f, value d);
value trees_large_block(value unit);

value trees_callback(value f, value d)
{
	CAMLparam2(f, d);
	const value result = caml_callback(f, d);

	CAMLreturn(result);
}

value trees_callback3(value f, value d)
{
	CAMLparam2(f, d);
	const value result = caml_callback3(f, d, Val_int(1), Val_int(2));

	CAMLreturn(result);
}

value trees_callback_exn(value f, value d)
{
	CAMLparam2(f, d);
	const value result = caml_callback_exn(f, d);

	if (Is_exception_result(result))
		caml_raise(Extract_exception(result));
	CAMLreturn(result);
}

value trees_large_block(value unit)
{
	CAMLparam1(unit);

	caml_alloc_shr(1 << 16, Double_array_tag);
	CAMLreturn(Val_unit);
}
