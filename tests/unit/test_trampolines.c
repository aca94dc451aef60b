// SPDX-License-Identifier: MIT
/*
 * Sites that call trampolines: what they are taken for, and how they are switched. The target is a
 * child of the test, with the probes below. It builds the block itself, with the machine code
 * written out here, so the handlers that run while others write its gates are real ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "change/inside/block.h"
#include "change/inside/layout.h"
#include "change/inside/templates.h"
#include "process/process.h"
#include "process/site_form.h"
#include "unit.h"

/*
 * Two sites of `shared`, one each of `private` and `plain`; pad puts them on a page of their own.
 */
__asm__(".macro inside_site n, name, semaphore\n"
	"inside_site_\\n: nop\n"
	"1: .byte 0x3d\n .long inside_wrapper_\\name - 1b - 5\n"
	".pushsection .note.stapsdt, \"\", @note\n"
	" .long 8, 3f - 2f, 3\n .asciz \"stapsdt\"\n"
	"2: .quad inside_site_\\n, _.stapsdt.base, inside_semaphores + 4 * \\semaphore\n"
	" .asciz \"ocaml_1\", \"\\name\", \"\"\n"
	"3: .balign 4\n.popsection\n"
	".endm\n"
	".macro inside_handler n, name\n"
	"inside_wrapper_\\name: lock incq inside_handled + 8 * \\n(%rip)\n ret\n"
	".endm\n"
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"
	".pushsection .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat\n"
	"_.stapsdt.base: .space 1\n.popsection\n"
	".pushsection .probes, \"aw\", @progbits\n.balign 4\n"
	"inside_semaphores: .fill 3, 4, 0\n.popsection\n"
	".pushsection .text\n"
	"inside_handler 0, shared\ninside_handler 1, private\ninside_handler 2, plain\n"
	".balign 4096\n"
	"inside_round:\n"
	"inside_site 0, shared, 0\ninside_site 1, shared, 0\n"
	"inside_site 2, private, 1\ninside_site 3, plain, 2\n"
	"ret\n.balign 4096\n.popsection\n");

void inside_round(void);
extern uint8_t inside_site_0[], inside_site_1[], inside_site_2[], inside_site_3[];
extern uint16_t inside_semaphores[]; /* two halves a probe; the second one is OCaml's */
volatile uint64_t inside_handled[3]; /* runs of each probe's handler */

enum { SHARED, PRIVATE, PLAIN, N_PROBES };
enum { N_SITES = 3, ROUNDS = 1000, DATA_BYTES = 4096, CODE_BYTES = 16384 };

static uint8_t *const sites[] = { inside_site_0, inside_site_1, inside_site_2, inside_site_3 };

/* The block in the child, at one place for all tests. */
struct block {
	struct block_header header;
	_Alignas(64) struct block_site sites[N_SITES];
	uint16_t gates[N_SITES + 1];
	_Alignas(64) uint64_t counters[8];
};

static struct test {
	struct ocp_ctx *ctx;
	struct ocp_process *proc;
	pid_t pid;
	int orders[2], answers[2];
	struct block *block;
} t;

/* ---- the child ------------------------------------------------------------------------------ */

static uint8_t *put_relative(uint8_t *to, const void *opcode, size_t n, uint64_t from_code,
			     uint64_t target, size_t bytes_after)
{
	int32_t displacement = (int32_t)(target - (from_code + n + 4 + bytes_after));

	memcpy(to, opcode, n);
	memcpy(to + n, &displacement, sizeof(displacement));
	memset(to + n + 4, 0, bytes_after);
	return to + n + 4 + bytes_after;
}

/* lock incq counter; cmpw $0, gate; jne wrapper; ret */
static void put_trampoline(uint8_t *to, const struct block *block, size_t i, uint64_t wrapper)
{
	const struct block_site *site = &block->sites[i];
	uint8_t *at = to;

	at = put_relative(at, "\xf0\x48\xff\x05", 4, site->trampoline,
			  (uint64_t)(uintptr_t)&block->counters[i], 0);
	at = put_relative(at, "\x66\x83\x3d", 3, site->trampoline + (uint64_t)(at - to),
			  site->gate_addr, 1);
	at = put_relative(at, "\x0f\x85", 2, site->trampoline + (uint64_t)(at - to), wrapper, 0);
	*at = 0xc3;
}

static void fill_block(struct block *block, uint8_t *code)
{
	const uint64_t code_addr = (uint64_t)(uintptr_t)block + DATA_BYTES;
	const size_t first = templates_routines_bytes() + templates_entry_off(1);
	const size_t room = templates_site_bytes(1, NULL, 0);

	if (first + N_SITES * room > CODE_BYTES)
		_exit(1);
	for (size_t i = 0; i < N_SITES; i++) {
		const bool is_private = i == 2;
		struct block_site *site = &block->sites[i];
		int32_t displacement;

		memcpy(&displacement, sites[i] + 2, sizeof(displacement));
		*site = (struct block_site){
			.addr = (uint64_t)(uintptr_t)sites[i],
			.trampoline = code_addr + first + i * room,
			.gate_addr = is_private ? (uint64_t)(uintptr_t)&block->gates[i]
						: (uint64_t)(uintptr_t)&inside_semaphores[1],
			.displacement = (uint32_t)displacement,
			.opcode = SITE_OFF,
			.gate = is_private ? BLOCK_GATE_PRIVATE : BLOCK_GATE_SEMAPHORE,
			.is_patched = 1,
		};
		put_trampoline(code + first + i * room, block, i,
			       site->addr + SITE_BYTES + (uint64_t)(int64_t)displacement);
	}
	block->header = (struct block_header){
		.magic = BLOCK_MAGIC,
		.version = BLOCK_VERSION,
		.header_bytes = sizeof(block->header),
		.bytes = DATA_BYTES + CODE_BYTES,
		.addr = (uint64_t)(uintptr_t)block,
		.code_off = DATA_BYTES,
		.code_bytes = CODE_BYTES,
		.n_sites = N_SITES,
		.n_shards = 1,
		.n_parts = 1,
		.parts = { { (uint64_t)(uintptr_t)block, DATA_BYTES, CODE_BYTES } },
	};
	layout_offsets(&block->header);
}

static void patch_sites(const struct block *block)
{
	uint8_t *page = (uint8_t *)((uintptr_t)sites[0] & ~UINT64_C(4095));

	mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	for (size_t i = 0; i < N_SITES; i++) {
		int32_t displacement =
			(int32_t)(block->sites[i].trampoline - (block->sites[i].addr + SITE_BYTES));

		memcpy(sites[i] + 2, &displacement, sizeof(displacement));
		sites[i][SITE_OPCODE_OFF] = SITE_ON;
	}
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
}

static void build_block(struct block *block)
{
	const int fd = memfd_create(BLOCK_NAME, MFD_CLOEXEC);
	uint8_t *code;

	if (fd < 0 || ftruncate(fd, DATA_BYTES + CODE_BYTES) != 0)
		_exit(1);
	if (mmap(block, DATA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
		 0) != block ||
	    mmap((uint8_t *)block + DATA_BYTES, CODE_BYTES, PROT_READ | PROT_EXEC,
		 MAP_SHARED | MAP_FIXED_NOREPLACE, fd, DATA_BYTES) == MAP_FAILED)
		_exit(1);
	code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, DATA_BYTES);
	if (code == MAP_FAILED)
		_exit(1);
	fill_block(block, code);
	munmap(code, CODE_BYTES);
	close(fd);
	patch_sites(block);
}

static void child(void)
{
	char order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	build_block(t.block);
	do {
		if (write(t.answers[1], "", 1) != 1)
			_exit(1);
		if (read(t.orders[0], &order, 1) != 1)
			_exit(0);
		for (int i = 0; i < ROUNDS; i++)
			inside_round();
	} while (true);
}

/* ---- a block that goes ----------------------------------------------------------------------- */

static int n_gone;    /* so many headers cannot be read: a tool has removed the block */
static bool vanishes; /* a tool restores all sites when the header is read, and the block is none */

static void let_vanish(void);

WRAP(int, memory_read_in_order,
     (const struct memory *memory, const struct iovec *remote, size_t n, void *buf, size_t bytes),
     (memory, remote, n, buf, bytes))
{
	if (n_gone && bytes == sizeof(struct block_header)) {
		n_gone--;
		return -EFAULT;
	}
	if (vanishes && bytes == sizeof(struct block_header))
		let_vanish();
	return __real_memory_read_in_order(memory, remote, n, buf, bytes);
}

/* ---- the test ------------------------------------------------------------------------------- */

static void await_child(void)
{
	char answer;

	assert_int_equal(read(t.answers[0], &answer, 1), 1);
}

static void peek(const volatile void *addr, void *to, size_t bytes)
{
	const struct iovec local = { to, bytes }, remote = { (void *)(uintptr_t)addr, bytes };

	assert_int_equal(process_vm_readv(t.pid, &local, 1, &remote, 1, 0), bytes);
}

static void poke(const volatile void *addr, const void *from, size_t bytes)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)t.pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, from, bytes, (off_t)(uintptr_t)addr), bytes);
	close(fd);
}

/* This process is the parent: its sites are as they were. */
static void let_vanish(void)
{
	const uint64_t no_magic = 0;

	vanishes = false;
	for (size_t i = 0; i < N_SITES; i++)
		poke(sites[i] + SITE_OPCODE_OFF, sites[i] + SITE_OPCODE_OFF, SITE_BYTES - 1);
	poke(&t.block->header.magic, &no_magic, sizeof(no_magic));
}

/* The block is no file with probes that is left out. */
static void no_warning(void *data, enum ocp_log_level level, const char *text)
{
	(void)data;
	(void)level;
	fail_msg("%s", text);
}

static int start(void **state)
{
	(void)state;
	t = (struct test){ .ctx = ocp_ctx_new() };
	ocp_ctx_set_log(t.ctx, no_warning, NULL, OCP_LOG_WARN);
	t.block = (struct block *)(((uintptr_t)sites[0] & ~UINT64_C(4095)) - (UINT64_C(1) << 28));
	assert_int_equal(pipe(t.orders), 0);
	assert_int_equal(pipe(t.answers), 0);
	t.pid = fork();
	if (t.pid == 0)
		child();
	/* A child that has ended answers nothing. */
	close(t.answers[1]);
	t.answers[1] = -1;
	await_child();
	assert_int_equal(ocp_process_open(t.ctx, t.pid, &t.proc), 0);
	assert_int_equal(ocp_process_probe_count(t.proc), N_PROBES);
	return 0;
}

static int end(void **state)
{
	(void)state;
	ocp_process_free(t.proc);
	ocp_ctx_free(t.ctx);
	kill(t.pid, SIGKILL);
	waitpid(t.pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(t.orders[i]);
		close(t.answers[i]);
	}
	return 0;
}

EACH_TEST(start, end);

static size_t probe_named(const char *name)
{
	for (size_t i = 0; i < N_PROBES; i++)
		if (strcmp(ocp_process_probe_name(t.proc, i), name) == 0)
			return i;
	fail_msg("no probe %s", name);
	return 0;
}

static enum ocp_state state_of(const char *name)
{
	enum ocp_state states[N_PROBES];

	assert_int_equal(ocp_process_read_states(t.proc, 0, states), 0);
	return states[probe_named(name)];
}

static void switch_to(const char *name, bool on)
{
	struct ocp_actions *actions = ocp_actions_new(t.ctx);
	int err;

	assert_int_equal(
		on ? ocp_actions_enable(actions, name) : ocp_actions_disable(actions, name), 0);
	err = ocp_process_update(t.proc, actions, 0);
	if (err)
		fail_msg("%s", ocp_error(t.ctx));
	ocp_actions_free(actions);
}

/*
 * Let the child run: the sites of the block count as often, and these handlers run so often a
 * round.
 */
static void expect_run(uint64_t hits, int shared, int private, int plain)
{
	const uint64_t wanted[] = { (uint64_t)shared * ROUNDS, (uint64_t) private * ROUNDS,
				    (uint64_t)plain * ROUNDS };
	uint64_t before[N_PROBES], after[N_PROBES], counted[2][N_SITES];

	peek(inside_handled, before, sizeof(before));
	peek(t.block->counters, counted[0], sizeof(counted[0]));
	assert_int_equal(write(t.orders[1], "", 1), 1);
	await_child();
	peek(inside_handled, after, sizeof(after));
	peek(t.block->counters, counted[1], sizeof(counted[1]));
	for (size_t i = 0; i < N_PROBES; i++)
		assert_int_equal(after[i] - before[i], wanted[i]);
	for (size_t i = 0; i < N_SITES; i++)
		assert_int_equal(counted[1][i] - counted[0][i], hits);
}

static void expect_text_untouched(void)
{
	for (size_t i = 0; i < N_SITES; i++) {
		uint8_t code[SITE_BYTES];

		peek(sites[i], code, sizeof(code));
		assert_int_equal(code[0], SITE_NOP);
		assert_int_equal(code[SITE_OPCODE_OFF], SITE_ON);
	}
}

TEST(handlers_are_switched_by_their_gates)
{
	assert_int_equal(state_of("shared"), OCP_DISABLED);
	assert_int_equal(state_of("private"), OCP_DISABLED);
	expect_run(ROUNDS, 0, 0, 0);
	switch_to("shared", true);
	switch_to("plain", true);
	assert_int_equal(state_of("shared"), OCP_ENABLED);
	expect_run(ROUNDS, 2, 0, 1);
	switch_to("shared", true);
	switch_to("private", true);
	assert_int_equal(state_of("private"), OCP_ENABLED);
	expect_run(ROUNDS, 2, 1, 1);
	expect_text_untouched();
	switch_to("shared", false);
	switch_to("plain", false);
	assert_int_equal(state_of("shared"), OCP_ENABLED);
	expect_run(ROUNDS, 2, 1, 0);
	switch_to("shared", false);
	switch_to("private", false);
	assert_int_equal(state_of("shared"), OCP_DISABLED);
	assert_int_equal(state_of("private"), OCP_DISABLED);
	expect_run(ROUNDS, 0, 0, 0);
	expect_text_untouched();
}

static const struct ocp_finding *finding_of(const struct ocp_findings *findings,
					    enum ocp_finding_kind kind)
{
	for (size_t i = 0; i < ocp_findings_count(findings); i++)
		if (ocp_findings_get(findings, i)->kind == kind)
			return ocp_findings_get(findings, i);
	return NULL;
}

/* Another tool that knows nothing of trampolines writes the opcode of one site. */
TEST(a_foreign_write_is_found_and_repaired)
{
	const uint8_t off = SITE_OFF;
	struct ocp_findings *findings;
	struct ocp_repaired repaired;
	uint64_t before[N_SITES], after[N_SITES];

	assert_int_equal(ocp_process_diagnose(t.proc, &findings), 0);
	assert_int_equal(ocp_findings_count(findings), 1);
	assert_string_equal(finding_of(findings, OCP_COUNTED_INSIDE)->what,
			    "3 sites of 2 probes are counted inside the process");
	ocp_findings_free(findings);
	poke(sites[1] + SITE_OPCODE_OFF, &off, 1);
	assert_int_equal(ocp_process_diagnose(t.proc, &findings), 0);
	assert_string_equal(finding_of(findings, OCP_UNCOUNTED)->what,
			    "1 of 2 sites do not call their trampolines");
	assert_string_equal(finding_of(findings, OCP_UNCOUNTED)->probe, "shared");
	assert_true(finding_of(findings, OCP_UNCOUNTED)->is_disagreement);
	ocp_findings_free(findings);
	peek(t.block->counters, before, sizeof(before));
	assert_int_equal(write(t.orders[1], "", 1), 1);
	await_child();
	peek(t.block->counters, after, sizeof(after));
	assert_int_equal(after[1], before[1]);
	assert_int_equal(ocp_process_repair(t.proc, 0, &repaired), 0);
	assert_int_equal(repaired.probes, 1);
	expect_run(ROUNDS, 0, 0, 0);
	expect_text_untouched();
}

TEST(sites_tell_that_they_are_counted)
{
	struct ocp_sites *found;

	switch_to("private", true);
	assert_int_equal(ocp_sites_read(t.proc, 0, &found), 0);
	assert_int_equal(ocp_sites_count(found), N_SITES + 1);
	for (size_t i = 0; i < N_SITES + 1; i++) {
		const struct ocp_site *site = ocp_sites_get(found, i);

		assert_int_equal(site->has_trampoline, site->probe != probe_named("plain"));
		assert_int_equal(site->state, site->probe == probe_named("private") ? OCP_SITE_ON
										    : OCP_SITE_OFF);
		assert_null(site->fault);
	}
	ocp_sites_free(found);
}

/* What a process says of itself is checked: a gate can be nothing but what it is said to be. */
TEST(what_cannot_be_true_is_a_defect)
{
	const struct block_header *header = &t.block->header;
	const struct {
		const void *at;
		uint64_t value;
		size_t bytes;
		size_t n_damaged;
	} lies[] = {
		{ &header->magic, 0, 8, 3 },
		{ &header->version, BLOCK_VERSION + 1, 4, 3 },
		{ &header->addr, 4096, 8, 3 },
		{ &header->n_sites, UINT32_MAX, 4, 3 },
		{ &header->sites_off, DATA_BYTES - 8, 8, 3 },
		{ &header->gates_off, UINT64_MAX - 1, 8, 3 },
		{ &header->code_bytes, CODE_BYTES + 1, 8, 3 },
		{ &header->n_parts, 0, 8, 3 },
		{ &header->n_parts, 2, 8, 3 },
		{ &header->n_parts, BLOCK_MAX_PARTS + 1, 8, 3 },
		{ &header->parts[0].addr, 4096, 8, 3 },
		{ &header->parts[0].code_bytes, 16, 8, 3 },
		{ &header->n_sites, 1, 4, 3 },
		{ &t.block->sites[0].gate_addr, (uint64_t)(uintptr_t)&inside_semaphores[5], 8, 1 },
		{ &t.block->sites[2].gate_addr, (uint64_t)(uintptr_t)&inside_handled[0], 8, 3 },
		{ &t.block->sites[1].gate, 7, 1, 3 },
		{ &t.block->sites[1].trampoline, 0x1000, 8, 3 },
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct ocp_sites *found;
		size_t n = 0;
		uint64_t truth;

		peek(lies[i].at, &truth, lies[i].bytes);
		poke(lies[i].at, &lies[i].value, lies[i].bytes);
		assert_int_equal(ocp_sites_read(t.proc, 0, &found), 0);
		for (size_t j = 0; j < ocp_sites_count(found); j++)
			n += ocp_sites_get(found, j)->state == OCP_SITE_DAMAGED;
		if (n != lies[i].n_damaged)
			fail_msg("lie %zu: %zu damaged sites", i, n);
		ocp_sites_free(found);
		poke(lies[i].at, &truth, lies[i].bytes);
	}
	poke(&t.block->sites[0].gate_addr, &(uint64_t){ (uint64_t)(uintptr_t)&inside_handled[0] },
	     8);
	{
		struct ocp_actions *actions = ocp_actions_new(t.ctx);

		assert_int_equal(ocp_actions_enable(actions, "shared"), 0);
		assert_int_equal(ocp_process_update(t.proc, actions, 0), -EILSEQ);
		ocp_actions_free(actions);
	}
	expect_run(ROUNDS, 0, 0, 0);
}

/* Between the mappings and the memory: the mappings are read again. */
TEST(a_block_that_goes_is_no_failure)
{
	n_gone = 3;
	assert_int_equal(state_of("shared"), OCP_DISABLED);
	assert_int_equal(n_gone, 0);
	n_gone = 1;
	switch_to("private", true);
	expect_run(ROUNDS, 0, 1, 0);
	switch_to("private", false);
	assert_int_equal(n_gone, 0);
}

/* The sites were read as calling trampolines, and then there are none: they are read again. */
TEST(sites_that_are_restored_are_no_defect)
{
	vanishes = true;
	switch_to("shared", true);
	assert_false(vanishes);
	assert_int_equal(state_of("shared"), OCP_ENABLED);
	switch_to("shared", false);
	assert_int_equal(state_of("shared"), OCP_DISABLED);
}
