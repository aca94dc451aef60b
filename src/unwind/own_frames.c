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
struct library_module {
	const char *name;
	/* which of folded_frames stands for the module; 0: none, it is of OCaml's distribution */
	int folded;
};

enum { LIBRARY_LWT = 1, LIBRARY_ASYNC, LIBRARY_EIO, LIBRARY_MIOU, LIBRARY_DOMAINSLIB };

static const struct library_module library_modules[] = {
	{ "Camlinternal*", 0 },
	{ "Std_exit", 0 },
	{ "Unix", 0 },
	{ "UnixLabels", 0 },
	{ "Thread", 0 },
	{ "Mutex", 0 },
	{ "Condition", 0 },
	{ "Lwt", LIBRARY_LWT },
	{ "Lwt_*", LIBRARY_LWT },
	{ "Async", LIBRARY_ASYNC },
	{ "Async_*", LIBRARY_ASYNC },
	{ "Eio", LIBRARY_EIO },
	{ "Eio_*", LIBRARY_EIO },
	{ "Miou", LIBRARY_MIOU },
	{ "Miou_*", LIBRARY_MIOU },
	{ "Domainslib", LIBRARY_DOMAINSLIB },
};

static const struct named_frame folded_frames[] = {
	[LIBRARY_LWT] = { .function = "[Lwt]", .kind = FRAME_OCAML },
	[LIBRARY_ASYNC] = { .function = "[Async]", .kind = FRAME_OCAML },
	[LIBRARY_EIO] = { .function = "[Eio]", .kind = FRAME_OCAML },
	[LIBRARY_MIOU] = { .function = "[Miou]", .kind = FRAME_OCAML },
	[LIBRARY_DOMAINSLIB] = { .function = "[Domainslib]", .kind = FRAME_OCAML },
};

/* Return true if the module at the start of FUNCTION is NAME, which may end with '*'. */
static bool is_of_module(const char *function, const char *name)
{
	const size_t bytes = strlen(name);

	if (name[bytes - 1] == '*')
		return strncmp(function, name, bytes - 1) == 0;
	return strncmp(function, name, bytes) == 0 && (!function[bytes] || function[bytes] == '.');
}

/* Return the library of the OCaml function FRAME; NULL if it is of none of them. */
static const struct library_module *find_library(const struct named_frame *frame)
{
	for (size_t i = 0; i < sizeof(library_modules) / sizeof(library_modules[0]); i++)
		if (is_of_module(frame->function, library_modules[i].name))
			return &library_modules[i];
	return NULL;
}

/* A frame that stands for a library is in brackets. */
static bool is_folded(const struct named_frame *frame)
{
	return frame >= folded_frames &&
	       frame < folded_frames + sizeof(folded_frames) / sizeof(folded_frames[0]);
}

bool is_own_function(const struct named_frame *frame)
{
	return frame->kind == FRAME_OCAML && !frame->is_stdlib && !is_folded(frame) &&
	       !find_library(frame);
}

const struct named_frame *frame_of_library(const struct named_frame *frame)
{
	const struct library_module *library =
		frame->kind == FRAME_OCAML && !frame->is_stdlib ? find_library(frame) : NULL;

	return library && library->folded ? &folded_frames[library->folded] : NULL;
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
