// SPDX-License-Identifier: MIT
#include "unwind/own_frames.h"

#include <string.h>

/*
 * Modules of OCaml's distribution and of libraries for concurrency. Their functions run code of
 * others, or wait for others. A name that ends with '*' stands for all modules that begin so.
 *
 * Modules whose names are common in programs are missing, such as Event and Str: a function of the
 * program must not be taken for one of a library.
 */
static const char *const library_modules[] = {
	"Camlinternal*",	   /* formats, laziness, objects: code that the compiler calls */
	"Std_exit",		   /* the end of each program: runs the functions of at_exit */
	"Unix",			   /* system calls, which wait */
	"UnixLabels",	 "Thread", /* creates threads: outermost in each thread */
	"Mutex",		   /* waits for other threads */
	"Condition",	 "Lwt",	   /* runs callbacks of the program */
	"Lwt_*",	 "Async",  /* the same for Async; Async_kernel, Async_unix */
	"Async_*",	 "Eio",	   /* the same for Eio; Eio_linux, Eio_posix, Eio_utils */
	"Eio_*",	 "Miou",   /* the same for Miou */
	"Miou_*",	 "Domainslib", /* runs tasks of the program in its domains */
};

/* Return true if the module at the start of FUNCTION is NAME, which may end with '*'. */
static bool is_of_module(const char *function, const char *name)
{
	const size_t bytes = strlen(name);

	if (name[bytes - 1] == '*')
		return strncmp(function, name, bytes - 1) == 0;
	return strncmp(function, name, bytes) == 0 && (!function[bytes] || function[bytes] == '.');
}

bool is_own_function(const struct named_frame *frame)
{
	if (frame->kind != FRAME_OCAML || frame->is_stdlib)
		return false;
	for (size_t i = 0; i < sizeof(library_modules) / sizeof(*library_modules); i++)
		if (is_of_module(frame->function, library_modules[i]))
			return false;
	return true;
}

size_t find_own_function(const struct named_frame *const *frames, size_t n)
{
	for (size_t i = n; i-- > 0;)
		if (is_own_function(frames[i]))
			return i;
	return n;
}
