/* SPDX-License-Identifier: MIT */
/*
 * Names of threads. A program can give its threads any name (prctl(2), PR_SET_NAME): a name may
 * contain control characters, and the kernel may have cut it in the middle of a character.
 */
#ifndef BASE_THREAD_NAME_H
#define BASE_THREAD_NAME_H

#include <stddef.h>
#include <sys/types.h>

enum {
	THREAD_NAME_BYTES = 16, /* the kernel's TASK_COMM_LEN */
	/* room for thread_line_text() and thread_frame_text() */
	THREAD_TEXT_BYTES = THREAD_NAME_BYTES + 32,
};

/*
 * Copy the name FROM, as the kernel stores it, to TO, and end TO with a zero byte. Bytes that are
 * not valid UTF-8 become '?', so that formats that require UTF-8 can contain the name.
 */
void thread_name_copy(char to[THREAD_NAME_BYTES], const char from[THREAD_NAME_BYTES]);

/*
 * Write to TEXT how tables and lines of hits show a thread: "PID/TID NAME". The text is safe for a
 * terminal. Return TEXT.
 */
const char *thread_line_text(char text[THREAD_TEXT_BYTES], pid_t pid, pid_t tid, const char *name);
/*
 * Write to TEXT how profiles show a thread, which is the outermost frame there: "NAME (TID)". The
 * text is safe for a terminal. Return TEXT.
 */
const char *thread_frame_text(char text[THREAD_TEXT_BYTES], pid_t tid, const char *name);

#endif
