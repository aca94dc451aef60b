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
	"Camlinternal*", "Std_exit", "Unix",   "UnixLabels", "Thread",	"Mutex",
	"Condition",	 "Lwt",	     "Lwt_*",  "Async",	     "Async_*", "Eio",
	"Eio_*",	 "Miou",     "Miou_*", "Domainslib",
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

/*
 * Functions of the C library and of the runtime from the start of a program or a thread to its
 * first OCaml function.
 */
static const char *const start_functions[] = {
	"_start",
	"__libc_start_main",
	"__libc_start_main_impl",
	"main",
	"caml_main",
	"__libc_start_call_main",
	"caml_startup",
	"caml_startup_common",
	"caml_startup_exn",
	"caml_start_program",
	"caml_program",
	"caml_thread_start",
	"start_thread",
	"clone3",
	"__clone3",
	"clone",
	"__clone",
};

/* The first functions of the kernel in system calls, interrupts, exceptions and new threads. */
static const char *const entries_of_kernel[] = {
	"entry_*", "do_syscall_64", "x64_sys_call", "asm_*", "ret_from_fork*",
};

/*
 * Stripped C libraries lack the names of the functions between _start and main, and between the
 * start of a thread and its own function.
 */
enum { UNNAMED_STARTS = 3 };

static bool is_in_names(const char *function, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const size_t bytes = strlen(names[i]);

		if (names[i][bytes - 1] == '*' ? strncmp(function, names[i], bytes - 1) == 0
					       : strcmp(function, names[i]) == 0)
			return true;
	}
	return false;
}

bool is_entry_function(const struct named_frame *frame, size_t depth)
{
	switch (frame->kind) {
	case FRAME_C:
		return is_in_names(frame->function, start_functions,
				   sizeof(start_functions) / sizeof(*start_functions));
	case FRAME_KERNEL:
		return is_in_names(frame->function, entries_of_kernel,
				   sizeof(entries_of_kernel) / sizeof(*entries_of_kernel));
	case FRAME_UNKNOWN:
		return depth < UNNAMED_STARTS;
	default:
		return false;
	}
}
