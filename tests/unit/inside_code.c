// SPDX-License-Identifier: MIT
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <ucontext.h>
#include <unistd.h>

#include "change/inside/blocks.h"
#include "change/inside/groups.h"
#include "change/inside/layout.h"
#include "change/inside/totals.h"
#include "inside_code.h"
#include "kernel/ticks.h"

/* MOST_SITE_BYTES: what templates_site_bytes() is less than. */
enum { MOST_SITE_BYTES = 8192, PAGE = 4096, GLIBC_TID_OFF = 0x2d0, N_REGS = 15, N_VECTORS = 16 };

__thread int32_t code_fake_tid;
__thread struct rseq code_fake_rseq;
uint64_t code_wrapper_runs;

/* Hidden: called within the program. */
extern const char code_wrapper[];
void code_regs(uint64_t regs[N_REGS], uint64_t trampoline, uint64_t below);
void code_ymm(uint64_t trampoline, const void *in, void *out);
void code_xmm(uint64_t trampoline, const void *in, void *out);

asm("	.text\n"
    "	.globl	code_wrapper, code_hit, code_regs, code_ymm, code_xmm, code_hit_stepped\n"
    "	.hidden	code_wrapper, code_hit, code_regs, code_ymm, code_xmm, code_wrapper_runs\n"

    "code_wrapper:\n"
    "	lock incq code_wrapper_runs(%rip)\n"
    "	ret\n"

    "code_hit:\n"
    "	call	*%rdi\n"
    "	ret\n"

    "code_hit_stepped:\n"
    "	pushf\n"
    "	orl	$0x100, (%rsp)\n" /* the trap flag */
    "	popf\n"
    "	call	*%rdi\n"
    "	pushf\n"
    "	andl	$~0x100, (%rsp)\n"
    "	popf\n"
    "	ret\n"

    "code_regs:\n"
    "	push	%rbx\n"
    "	push	%rbp\n"
    "	push	%r12\n"
    "	push	%r13\n"
    "	push	%r14\n"
    "	push	%r15\n"
    "	mov	%rsp, %rax\n"
    "	sub	%rdx, %rsp\n"
    "	push	%rax\n" /* 16: where the stack was */
    "	push	%rdi\n" /* 8: the registers */
    "	push	%rsi\n" /* 0: the trampoline */
    "	mov	%rdi, %rax\n"
    "	mov	8(%rax), %rbx\n"
    "	mov	16(%rax), %rcx\n"
    "	mov	24(%rax), %rdx\n"
    "	mov	32(%rax), %rsi\n"
    "	mov	40(%rax), %rdi\n"
    "	mov	48(%rax), %rbp\n"
    "	mov	56(%rax), %r8\n"
    "	mov	64(%rax), %r9\n"
    "	mov	72(%rax), %r10\n"
    "	mov	80(%rax), %r11\n"
    "	mov	88(%rax), %r12\n"
    "	mov	96(%rax), %r13\n"
    "	mov	104(%rax), %r14\n"
    "	mov	112(%rax), %r15\n"
    "	mov	(%rax), %rax\n"
    "	call	*(%rsp)\n"
    "	push	%rax\n"
    "	mov	16(%rsp), %rax\n"
    "	mov	%rbx, 8(%rax)\n"
    "	mov	%rcx, 16(%rax)\n"
    "	mov	%rdx, 24(%rax)\n"
    "	mov	%rsi, 32(%rax)\n"
    "	mov	%rdi, 40(%rax)\n"
    "	mov	%rbp, 48(%rax)\n"
    "	mov	%r8, 56(%rax)\n"
    "	mov	%r9, 64(%rax)\n"
    "	mov	%r10, 72(%rax)\n"
    "	mov	%r11, 80(%rax)\n"
    "	mov	%r12, 88(%rax)\n"
    "	mov	%r13, 96(%rax)\n"
    "	mov	%r14, 104(%rax)\n"
    "	mov	%r15, 112(%rax)\n"
    "	pop	%rbx\n"
    "	mov	%rbx, (%rax)\n"
    "	mov	16(%rsp), %rsp\n"
    "	pop	%r15\n"
    "	pop	%r14\n"
    "	pop	%r13\n"
    "	pop	%r12\n"
    "	pop	%rbp\n"
    "	pop	%rbx\n"
    "	ret\n"

    ".macro vectors move, reg, bytes\n"
    "	push	%rsi\n"
    "	push	%rdx\n"
    "	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
    "	\\move	\\bytes * \\n(%rsi), %\\reg\\n\n"
    "	.endr\n"
    "	call	*%rdi\n"
    "	pop	%rdx\n"
    "	pop	%rsi\n"
    "	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
    "	\\move	%\\reg\\n, \\bytes * \\n(%rdx)\n"
    "	.endr\n"
    ".endm\n"

    "code_ymm:\n"
    "	vectors	vmovdqu, ymm, 32\n"
    "	vzeroupper\n"
    "	ret\n"
    "code_xmm:\n"
    "	vectors	movdqu, xmm, 16\n"
    "	ret\n");

#define START(n)                                                                                   \
	{                                                                                          \
		.pair = (n)                                                                        \
	}
#define STOP(n)                                                                                    \
	{                                                                                          \
		.pair = (n), .is_stop = true                                                       \
	}

struct code_spec code_pair_spec(uint32_t n_threads, uint32_t depth)
{
	return (struct code_spec){
		.n_sites = LEAP + 1,
		.n_pairs = 2,
		.n_shards = 2,
		.n_threads = n_threads,
		.depth = depth,
		.ns_per_tick = UINT64_C(1) << 32, /* nanoseconds are ticks */
		.may_call_kernel = true,
		.roles = { { START(0) }, { STOP(0) }, { START(1) }, { STOP(0), START(0) } },
		.n_roles = { 1, 1, 1, 2 },
	};
}

static void must(bool is_so, const char *what)
{
	if (is_so)
		return;
	perror(what);
	abort();
}

static uint64_t up(uint64_t bytes, uint64_t to)
{
	return (bytes + to - 1) / to * to;
}

static void lay_out(struct block_header *header, const struct code_spec *spec)
{
	*header = (struct block_header){
		.magic = BLOCK_MAGIC,
		.version = BLOCK_VERSION,
		.header_bytes = sizeof(*header),
		.n_sites = spec->n_sites,
		.n_pairs = spec->n_pairs,
		.n_groups = spec->n_groups,
		.n_times = spec->groups_times ? groups_n_times(spec->n_pairs) : 0,
		.n_shards = spec->n_shards,
		.n_threads = spec->n_threads,
		.depth = spec->depth,
		.n_rings = spec->n_rings,
		.ring_slots = spec->ring_slots,
		.slot_bytes = spec->slot_bytes,
		.start_ticks = ticks_now(),
		.ns_per_tick = spec->ns_per_tick,
		.pairs_are_keyed = spec->n_pairs > 0,
	};
	for (uint32_t i = 0; i < spec->n_sites; i++)
		if (!layout_roles_are_keyed(spec->roles[i], spec->n_roles[i]))
			header->pairs_are_keyed = 0;
	layout_offsets(header);
	header->code_bytes =
		up(templates_routines_bytes() + CODE_MAX_SITES * MOST_SITE_BYTES, PAGE);
	header->bytes = header->code_off + header->code_bytes;
	header->n_parts = 1;
	header->parts[0].code_off = header->code_off;
	header->parts[0].code_bytes = header->code_bytes;
}

/* Like the engine: a memfd, mapped rw- and r-x, and its code written through another mapping. */
static char *map_near(int fd, const struct block_header *header)
{
	const uint64_t text = (uint64_t)(uintptr_t)code_wrapper;

	for (uint64_t distance = 1 << 28; distance < 1 << 30; distance += 1 << 24) {
		char *at = (char *)(uintptr_t)((text - distance) / PAGE * PAGE);
		char *data = mmap(at, header->bytes, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);

		if (data == MAP_FAILED)
			continue;
		must(data == at, "MAP_FIXED_NOREPLACE");
		must(mmap(data + header->code_off, header->code_bytes, PROT_READ | PROT_EXEC,
			  MAP_SHARED | MAP_FIXED, fd, (off_t)header->code_off) != MAP_FAILED,
		     "mmap of code");
		return data;
	}
	must(false, "no gap near the code");
	return NULL;
}

static int32_t off_from_fs(const volatile void *address)
{
	const intptr_t off = (intptr_t)address - (intptr_t)pthread_self();

	must(off == (int32_t)off, "offset of a thread-local variable");
	return (int32_t)off;
}

static void assemble(struct code_block *block, const struct code_spec *spec, uint8_t *code)
{
	static const uint8_t ret[] = { 0xc3 };
	struct ocp_ctx *ctx = ocp_ctx_new();
	uint64_t at = templates_routines_bytes();

	must(!templates_routines(ctx, &block->header, &block->process, code), ocp_error(ctx));
	for (uint32_t i = 0; i < spec->n_sites; i++) {
		const struct inside_site window = { .roles = spec->roles[i],
						    .n_roles = spec->n_roles[i],
						    .filter = spec->filters[i],
						    .window = spec->is_window[i] ? ret : NULL };
		struct templates_site site = {
			.trampoline = block->header.addr + block->header.code_off + at,
			.counter = block->header.addr + block->header.counters_off +
				   i * sizeof(uint64_t),
			.gate = (uint64_t)(uintptr_t)code_gate(block, i),
			.wrapper = (uint64_t)(uintptr_t)code_wrapper,
			.roles = spec->roles[i],
			.n_roles = spec->n_roles[i],
			.filter = { .filter = spec->filters[i],
				    .number = i,
				    .rejected = block->header.addr + block->header.counters_off +
						spec->n_sites * sizeof(uint64_t),
				    .mismatches = block->header.addr +
						  block_mismatches_off(&block->header) },
		};
		const struct templates_window of_window = { .trampoline = site.trampoline,
							    .counter = site.counter,
							    .site = &window,
							    .rest = { ret, sizeof(ret) },
							    .filter = site.filter };

		if (spec->gates)
			site.gate = (uint64_t)(uintptr_t)&spec->gates[i];
		must(!(window.window ? templates_window(ctx, &block->header, &block->process,
							&of_window, code + at)
				     : templates_site(ctx, &block->header, &block->process, &site,
						      code + at)),
		     ocp_error(ctx));
		block->trampolines[i] =
			site.trampoline + (window.filter
						   ? templates_filter_off(spec->n_shards, &window)
						   : templates_entry_off(spec->n_shards));
		at += layout_trampoline_bytes(spec->n_shards, &window);
	}
	ocp_ctx_free(ctx);
}

static struct pairs_shared *shared_of(struct code_block *block, uint32_t pair)
{
	return (struct pairs_shared *)(block->block + pairs_area_off(&block->header, pair));
}

/* As build_block() does. */
static void mark_keyed(struct code_block *block, const struct code_spec *spec)
{
	for (uint32_t i = 0; i < spec->n_sites; i++)
		for (size_t role = 0; role < spec->n_roles[i]; role++)
			if (spec->roles[i][role].is_keyed) {
				struct pairs_shared *shared =
					shared_of(block, spec->roles[i][role].pair);

				shared->is_keyed = shared->used[0] = 1;
				code_slot(block, spec->roles[i][role].pair, 0)->tid = PAIRS_SHARED;
			}
}

struct code_block *code_block_new(const struct code_spec *spec)
{
	struct code_block *block = calloc(1, sizeof(*block));
	const int32_t tid = *(const int32_t *)((const char *)pthread_self() + GLIBC_TID_OFF);
	struct block_header *header;
	uint8_t *code;
	int fd;

	must(block != NULL, "calloc");
	must(tid == gettid(), "the C library keeps the id of the thread elsewhere");
	header = &block->header;
	lay_out(header, spec);
	fd = memfd_create(BLOCK_NAME, MFD_CLOEXEC);
	must(fd >= 0 && !ftruncate(fd, (off_t)header->bytes), "memfd");
	block->block = map_near(fd, header);
	header->addr = header->parts[0].addr = (uint64_t)(uintptr_t)block->block;
	*(struct block_header *)block->block = *header;
	block->process = (struct templates_process){
		.rseq_off =
			spec->fakes_rseq ? off_from_fs(&code_fake_rseq) : (int32_t)__rseq_offset,
		.tid_off = spec->fakes_tids ? off_from_fs(&code_fake_tid) : GLIBC_TID_OFF,
		.may_call_kernel = spec->may_call_kernel,
	};
	code = mmap(NULL, header->code_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    (off_t)header->code_off);
	must(code != MAP_FAILED, "mmap of code to write");
	assemble(block, spec, code);
	munmap(code, header->code_bytes);
	close(fd);
	must(!block_check(header, header->bytes), "block_check");
	mark_keyed(block, spec);
	return block;
}

void code_block_free(struct code_block *block)
{
	munmap(block->block, block->header.bytes);
	free(block);
}

uint16_t *code_gate(struct code_block *block, uint32_t site)
{
	return (uint16_t *)(block->block + block->header.gates_off) + site;
}

struct pairs_slot *code_slot(struct code_block *block, uint32_t pair, uint32_t place)
{
	char *area = block->block + pairs_area_off(&block->header, pair);

	return (struct pairs_slot *)(area + pairs_slots_off(block->header.n_threads)) + place;
}

uint64_t code_hits(struct code_block *block, uint32_t site)
{
	uint64_t hits[CODE_MAX_SITES];

	totals_hits(&block->header, block->block, hits);
	return hits[site];
}

struct inside_filtered code_filtered(struct code_block *block)
{
	struct inside_filtered filtered;

	totals_filtered(&block->header, block->block, &filtered);
	return filtered;
}

const struct inside_filter code_rejects_all = {
	.n_ops = 1, .ops = { { .comparison = INSIDE_NE, .place = { INSIDE_CONSTANT, 1 } } }
};

struct inside_pair code_pair(struct code_block *block, uint32_t pair)
{
	struct inside_pair totals;

	totals_pair(&block->header, block->block, pair, &totals);
	return totals;
}

struct pairs_keyed_start *code_key(struct code_block *block, uint32_t pair, uint32_t place)
{
	char *keys = (char *)code_slot(block, pair, 0) + pairs_keys_off(block->header.n_threads);

	return (struct pairs_keyed_start *)keys + place;
}

uint64_t code_open(struct code_block *block, uint32_t pair)
{
	uint64_t n = 0;

	if (shared_of(block, pair)->is_keyed) {
		for (uint32_t i = 0; i < pairs_n_keys(block->header.n_threads); i++)
			n += code_key(block, pair, i)->key != 0;
		return n;
	}
	for (uint32_t i = 0; i < pairs_n_in_area(&block->header); i++)
		n += code_slot(block, pair, i)->n;
	return n;
}

struct pairs_slot *code_own_slot(struct code_block *block, uint32_t pair, uint32_t tid)
{
	for (uint32_t i = 0; i < pairs_n_in_area(&block->header); i++)
		if (code_slot(block, pair, i)->tid == tid)
			return code_slot(block, pair, i);
	return NULL;
}

bool code_is_at(const struct code_block *block, const void *context)
{
	const ucontext_t *interrupted = context;
	const uint64_t pc = (uint64_t)interrupted->uc_mcontext.gregs[REG_RIP];
	const uint64_t code = block->header.addr + block->header.code_off;

	return pc >= code && pc < code + block->header.code_bytes;
}

static void fill_random(void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)bytes)[i] = (uint8_t)rand();
}

bool code_hit_checked(uint64_t trampoline, uint64_t below)
{
	uint64_t before[N_REGS], after[N_REGS];

	fill_random(before, sizeof(before));
	memcpy(after, before, sizeof(before));
	code_regs(after, trampoline, below);
	return !memcmp(before, after, sizeof(before));
}

bool code_hit_window(uint64_t trampoline, uint64_t below)
{
	enum { PLACE_R11 = 10 };
	uint64_t before[N_REGS], after[N_REGS];

	fill_random(before, sizeof(before));
	memcpy(after, before, sizeof(before));
	code_regs(after, trampoline, below);
	after[PLACE_R11] = before[PLACE_R11];
	return !memcmp(before, after, sizeof(before));
}

bool code_hit_register(uint64_t trampoline, uint32_t reg, uint64_t value)
{
	/* By number: the place in what code_regs() takes. It does not set rsp. */
	static const uint8_t places[] = { 0, 2, 3, 1, 0, 6, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14 };
	uint64_t before[N_REGS], after[N_REGS];

	fill_random(before, sizeof(before));
	before[places[reg]] = value;
	memcpy(after, before, sizeof(before));
	code_regs(after, trampoline, 0);
	return !memcmp(before, after, sizeof(before));
}

/* code_hit_on() */
__asm__(".pushsection .text\n"
	".globl code_hit_on\n"
	"code_hit_on:\n"
	"	push	%rbp\n"
	"	mov	%rsp, %rbp\n"
	"	mov	%rsi, %rsp\n"
	"	call	*%rdi\n"
	"	mov	%rbp, %rsp\n"
	"	pop	%rbp\n"
	"	ret\n"
	".popsection\n");

bool code_hit_vectors(uint64_t trampoline)
{
	uint8_t before[N_VECTORS * 32], after[N_VECTORS * 32] = { 0 };

	fill_random(before, sizeof(before));
	if (__builtin_cpu_supports("avx")) {
		code_ymm(trampoline, before, after);
		return !memcmp(before, after, sizeof(before));
	}
	code_xmm(trampoline, before, after);
	return !memcmp(before, after, sizeof(before) / 2);
}
