// SPDX-License-Identifier: MIT
/*
 * Find out whether a process counts in a block: whether it is the process for which the block was
 * made, or a child forked from that process.
 */
#include <string.h>
#include "inside/held.h"

bool inside_is_in(const struct inside *inside, pid_t pid)
{
	struct block_header header;
	const struct iovec remote = { (void *)(uintptr_t)inside->header.addr, sizeof(header) };
	struct memory *memory;
	bool is_in;

	if (memory_open(inside->ctx, pid, &memory) != 0)
		return false;
	is_in = memory_read_in_order(memory, &remote, 1, &header, sizeof(header)) == 0 &&
		memory_is_alive(memory) && memcmp(&header, &inside->header, sizeof(header)) == 0;
	memory_close(memory);
	return is_in;
}
