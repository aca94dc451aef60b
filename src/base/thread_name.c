// SPDX-License-Identifier: MIT
#include "base/thread_name.h"

#include <stdio.h>
#include <string.h>

#include "base/sanitize.h"
#include "base/strbuf.h"

void thread_name_copy(char to[THREAD_NAME_BYTES], const char from[THREAD_NAME_BYTES])
{
	const size_t bytes = strnlen(from, THREAD_NAME_BYTES - 1);

	memcpy(to, from, bytes);
	memset(to + bytes, 0, THREAD_NAME_BYTES - bytes);
	for (size_t i = 0, n; i < bytes; i += n ? n : 1) {
		n = utf8_character_bytes(to + i);
		if (!n)
			to[i] = '?';
	}
}

const char *thread_line_text(char text[THREAD_TEXT_BYTES], pid_t pid, pid_t tid, const char *name)
{
	snprintf(text, THREAD_TEXT_BYTES, "%d/%d %s", (int)pid, (int)tid, name);
	make_one_line(text);
	return text;
}

const char *thread_frame_text(char text[THREAD_TEXT_BYTES], pid_t tid, const char *name)
{
	snprintf(text, THREAD_TEXT_BYTES, "%s%s(%d)", name, *name ? " " : "", (int)tid);
	make_one_line(text);
	return text;
}
