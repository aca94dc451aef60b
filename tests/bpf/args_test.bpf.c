// SPDX-License-Identifier: MIT
/*
 * What args.bpf.h offers, all of it on each hit, for tests/unit/test_args_bpf.c: argument 0 is read
 * in every way, the filter is applied, and a record goes to the ring buffer.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "args.bpf.h"
#include "filter.bpf.h"
#include "args_test.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct args_test input;
struct args_test_results results;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} records SEC(".maps");

SEC("uprobe.multi.s")
int args_hit(struct pt_regs *regs)
{
	const struct arg_spec *spec = &input.args.args[0];
	struct hit_record *record;

	results.read_ok = arg_read(regs, spec, &results.word);
	results.number_type = (__u32)arg_number(regs, spec, &results.number);
	results.key_ok = arg_key(regs, spec, &results.key);
	results.matches = filter_matches(regs, &input.args, &input.filter, &results.mismatch);
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (record) {
		record->ts_ns = 0;
		record->pid = record->tid = record->site = 0;
		bpf_get_current_comm(record->comm, sizeof(record->comm));
		record_values(regs, &input.args, record);
		bpf_ringbuf_submit(record, 0);
	}
	results.n_hits++;
	return 0;
}
