// SPDX-License-Identifier: MIT
#include "args_hit.h"
#include "measured_child.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "args_test.skel.h"
#include "measure/args/filter.h"
#include "measure/hit_filter.h"
#include "measure/args/operand.h"
#include "measure/args/value.h"
#include "unit.h"

/*
 * args_hit_site(registers): set all of enum arg_register, the stack pointer too, and pass the nop.
 * With one byte only the kernel emulates it, without touching the stack.
 */
__asm__(".pushsection .text\n"
	"args_hit_site:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n"
	"	push %r14\n	push %r15\n"
	"	mov %rsp, args_hit_saved_rsp(%rip)\n"
	"	mov 0(%rdi), %r15\n	mov 8(%rdi), %r14\n	mov 16(%rdi), %r13\n"
	"	mov 24(%rdi), %r12\n	mov 32(%rdi), %rbp\n	mov 40(%rdi), %rbx\n"
	"	mov 48(%rdi), %r11\n	mov 56(%rdi), %r10\n	mov 64(%rdi), %r9\n"
	"	mov 72(%rdi), %r8\n	mov 80(%rdi), %rax\n	mov 88(%rdi), %rcx\n"
	"	mov 96(%rdi), %rdx\n	mov 104(%rdi), %rsi\n	mov 120(%rdi), %rsp\n"
	"	mov 112(%rdi), %rdi\n"
	".globl args_hit_nop\n"
	"args_hit_nop:\n"
	"	.byte 0x90\n"
	"	mov args_hit_saved_rsp(%rip), %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %rbx\n	pop %rbp\n"
	"	ret\n"
	".popsection\n"
	".pushsection .bss\n	.balign 8\n"
	"args_hit_saved_rsp:	.space 8\n"
	".popsection\n");

void args_hit_site(const uint64_t *registers);

enum { ATTACH_TYPE = 48 };

struct args_hit args_hit;

static struct {
	struct ocp_ctx *ctx;
	struct args_test_bpf *skel;
	struct ring_buffer *ring;
	int link;
	unsigned int n_records;
} bpf;

static int take_record(void *data, void *bytes, size_t n)
{
	(void)data;
	assert_true(n >= sizeof(args_hit.record));
	memcpy(&args_hit.record, bytes, sizeof(args_hit.record));
	bpf.n_records++;
	return 0;
}

int args_hit_set_up(void **state)
{
	unsigned long off = file_off(args_hit_nop);
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	int err;

	(void)state;
	bpf.ctx = ocp_ctx_new();
	bpf.skel = args_test_bpf__open();
	if (!bpf.ctx || !bpf.skel)
		return -1;
	err = args_test_bpf__load(bpf.skel);
	if (err == -EPERM) {
		/* Each test skips itself. */
		args_test_bpf__destroy(bpf.skel);
		bpf.skel = NULL;
		return 0;
	}
	opts.uprobe_multi.path = "/proc/self/exe";
	opts.uprobe_multi.offsets = &off;
	opts.uprobe_multi.cnt = 1;
	opts.uprobe_multi.pid = (__u32)getpid();
	bpf.link = err ? err
		       : bpf_link_create(bpf.skel->progs.args_hit.prog_fd, -1,
					 (enum bpf_attach_type)ATTACH_TYPE, &opts);
	bpf.ring = ring_buffer__new(bpf.skel->maps.records.map_fd, take_record, NULL, NULL);
	if (bpf.link < 0 || !bpf.ring)
		fprintf(stderr, "load %d, link %d\n", err, bpf.link);
	return bpf.link < 0 || !bpf.ring ? -1 : 0;
}

int args_hit_tear_down(void **state)
{
	(void)state;
	if (bpf.skel) {
		ring_buffer__free(bpf.ring);
		close(bpf.link);
		args_test_bpf__destroy(bpf.skel);
	}
	ocp_ctx_free(bpf.ctx);
	free(args_hit.text);
	return 0;
}

void hit_or_skip(void)
{
	if (bpf.skel)
		return;
	print_message("skipped: no right to load BPF programs\n");
	skip();
}

const struct args_test_results *hit_results(void)
{
	return (const struct args_test_results *)&bpf.skel->bss->results;
}

const char *hit_args(const struct site_args *args)
{
	uint64_t hits = hit_results()->n_hits;
	unsigned int records = bpf.n_records;
	size_t n_text;
	FILE *out;

	bpf.skel->bss->input.args = *args;
	bpf.skel->bss->input.filter = args_hit.filter;
	args_hit_site(args_hit.registers);
	assert_int_equal(hit_results()->n_hits, hits + 1);
	assert_true(ring_buffer__consume(bpf.ring) >= 0);
	assert_int_equal(bpf.n_records, records + 1);
	assert_true(value_record_is_sound(&args_hit.record, sizeof(args_hit.record)));
	free(args_hit.text);
	args_hit.text = NULL;
	out = open_memstream(&args_hit.text, &n_text);
	assert_non_null(out);
	value_write_args(out, &args_hit.record, "");
	assert_int_equal(fclose(out), 0);
	return args_hit.text;
}

const char *hit(const char *operands)
{
	struct site_args args;
	int err = operand_parse(bpf.ctx, operands, &args);

	if (err)
		print_message("%s\n", ocp_error(bpf.ctx));
	assert_int_equal(err, 0);
	return hit_args(&args);
}

const char *hit_value(uint64_t value)
{
	args_hit.registers[ARG_RAX] = value;
	return hit("8@%rax");
}

/* A filter that is evaluated for the record of the last hit must decide as the BPF program has. */
static void check_filter_of_record(const char *text)
{
	const struct ocp_hit recorded = { .n_args = args_hit.record.n_args,
					  .record = &args_hit.record,
					  .arg_names = "" };
	struct hit_filter *filter;
	bool is_unsure = false;

	assert_int_equal(hit_filter_parse(bpf.ctx, text, &filter), 0);
	assert_int_equal(hit_filter_matches(filter, &recorded, &is_unsure), hit_results()->matches);
	assert_int_equal(is_unsure, hit_results()->mismatch != 0);
	hit_filter_free(filter);
}

bool hit_matches(const char *operands, const char *filter)
{
	struct filter compiled;
	struct asked_names asked = { .n = 0 };
	__u32 used;
	int err = filter_parse(bpf.ctx, filter, &asked, &compiled, &used);

	if (err)
		print_message("%s\n", ocp_error(bpf.ctx));
	assert_int_equal(err, 0);
	args_hit.filter = compiled;
	hit(operands);
	check_filter_of_record(filter);
	return hit_results()->matches;
}
