/* SPDX-License-Identifier: MIT */
/*
 * The program's own functions in a stack: on whose account a sample is, if the standard library,
 * the runtime, C code and libraries for concurrency only work for others.
 */
#ifndef UNWIND_OWN_FRAMES_H
#define UNWIND_OWN_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include "unwind/frame_names.h"

/*
 * Return true if FRAME is of an own function: OCaml code outside of the standard library and of
 * libraries for concurrency.
 */
bool is_own_function(const struct named_frame *frame);

/*
 * If FRAME is of a library for concurrency, return the frame that stands for all of its functions:
 * "[Lwt]". Otherwise return NULL.
 */
const struct named_frame *frame_of_library(const struct named_frame *frame);

/* Return the index of the innermost own function in FRAMES, outermost first. N: no frame is own. */
size_t find_own_function(const struct named_frame *const *frames, size_t n);

/*
 * Return true if FRAME is of a function that starts a program, a thread or OCaml code, or that
 * enters the kernel: a caller of much that says nothing about the program. DEPTH is the number of
 * its callers.
 */
bool is_entry_function(const struct named_frame *frame, size_t depth);

#endif
