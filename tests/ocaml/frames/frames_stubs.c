// SPDX-License-Identifier: MIT
#include <stdint.h>
#include <stdio.h>
#include <caml/alloc.h>
#include <caml/mlvalues.h>

extern char caml_frametable[];

value frames_return_address(value entry);

/*
 * An entry is the address of a descriptor with bit 0 set, and a descriptor begins with the return
 * address.
 */
value frames_return_address(value entry)
{
	const uintptr_t *descr = (const uintptr_t *)(entry & ~(value)1);
	char text[64];

	snprintf(text, sizeof(text), "%lx %lx", *descr, (uintptr_t)caml_frametable);
	return caml_copy_string(text);
}
