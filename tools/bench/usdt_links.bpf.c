// SPDX-License-Identifier: MIT
/* See usdt_links.c. */
#define BPF_USDT_MAX_SPEC_CNT 16384
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/usdt.bpf.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

unsigned long hits;

SEC("usdt")
int count(struct pt_regs *regs)
{
	(void)regs;
	__sync_fetch_and_add(&hits, 1);
	return 0;
}
