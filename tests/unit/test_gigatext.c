// SPDX-License-Identifier: MIT
/* Finding 1 GiB pages in what /proc/PID/smaps says. */
#include "change/switch/plan.h"
#include "unit.h"

static const char smaps[] = "400000-401000 r-xp 00000000 fd:01 3148 /bin/x\n"
			    "Size:                  4 kB\n"
			    "KernelPageSize:        4 kB\n"
			    "MMUPageSize:           4 kB\n"
			    "VmFlags: rd ex mr mw me\n"
			    "40000000-80000000 r-xp 00000000 00:0f 1052 /anon_hugepage (deleted)\n"
			    "Size:            1048576 kB\n"
			    "KernelPageSize:  1048576 kB\n"
			    "MMUPageSize:     1048576 kB\n"
			    "80000000-80200000 r-xp 00000000 00:0f 1052 /anon_hugepage (deleted)\n"
			    "KernelPageSize:     2048 kB\n"
			    "c0000000-100000000 rw-p 00000000 00:0f 1052 /anon_hugepage (deleted)\n"
			    "KernelPageSize:  1048576 kB\n";

static bool found(uint64_t addr, uint8_t bytes, const char *text)
{
	const struct patch_write writes[] = {
		{ .addr = 0x400123, .bytes = 1 },
		{ .addr = addr, .bytes = bytes },
	};
	uint64_t where = 0;
	bool is_found = gigatext_in_smaps(text, writes, 2, &where);

	assert_true(!is_found || where == addr);
	return is_found;
}

TEST(only_code_on_such_pages_counts)
{
	assert_true(found(0x40000000, 1, smaps));
	assert_true(found(0x7fffffff, 1, smaps));
	assert_false(found(0x3fffffff, 1, smaps));
	assert_false(found(0x80000000, 1, smaps)); /* 2 MiB pages */
	assert_false(found(0x400800, 1, smaps));
	/* A semaphore is data: it is written all the time. */
	assert_false(found(0xc0000010, 2, smaps));
}

TEST(odd_text_is_passed_over)
{
	assert_false(found(0x40000000, 1, ""));
	assert_false(found(0x40000000, 1, "\n\nKernelPageSize:  1048576 kB"));
	assert_false(found(0x40000000, 1, "40000000-80000000 r-xp\nKernelPageSize:"));
	assert_true(found(0x40000000, 1, "40000000-80000000 r-xp\nKernelPageSize: 1048576 kB"));
}
