// SPDX-License-Identifier: MIT
/*
 * The page faults of the thread that were not read from a disk. A program that touches N new pages
 * has N of them, and some more: the kernel takes pages that were not used for a second, such as
 * those of its code, and gives them back at the next use.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <caml/mlvalues.h>
#include <sys/resource.h>

value page_faults(value unit);

value page_faults(value unit)
{
	struct rusage usage;

	(void)unit;
	getrusage(RUSAGE_THREAD, &usage);
	return Val_long(usage.ru_minflt);
}
