// SPDX-License-Identifier: MIT
/*
 * What is found, and what is removed, of blocks that a child has mapped itself, whole or in parts.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "change/inside/blocks.h"
#include "change/inside/inside.h"
#include "change/inside/own_stores.h"
#include "change/inside/layout.h"
#include "change/inside/templates.h"
#include "unit.h"

enum { AREA_BYTES = 256 << 20, FAR = 1, N_PARTS = 2, NOWHERE = N_PARTS, N_SITES = 2 };

/* What a killed tool, or another one, has left. */
struct left {
	uint64_t magic;
	uint32_t version;
	bool has[N_PARTS];     /* the part */
	bool has_no_last_code; /* the last part lost its code only */
	size_t points_to;      /* a word on the stack: to the code of this part; NOWHERE */
};

struct child {
	struct ocp_ctx *ctx;
	pid_t pid;
};

static const struct left whole = { BLOCK_MAGIC, BLOCK_VERSION, { true, true }, false, NOWHERE };

/* Sites that are as they were. */
static const uint8_t site_bytes[] = { 0x90, 0x3d, 0, 0, 0, 0 };

static void lay_out(struct block_header *header)
{
	static const struct inside_site sites[] = { { .addr = 0 }, { .addr = FAR } };
	static const struct inside_spec spec = { .sites = sites, .n_sites = 2 };
	static const struct layout_parts parts = { .n = N_PARTS,
						   .parts = { { 0 }, { .first = FAR } } };
	struct ocp_ctx *ctx = ocp_ctx_new();

	assert_int_equal(layout_make(ctx, &spec, &parts, 1, header), 0);
	ocp_ctx_free(ctx);
}

/* Parts lie by address: each within the free memory of 256 MiB at AREA. False if that fails. */
static bool map_part(int fd, const struct block_header *header, struct block_part *part, char *area)
{
	char *at = mmap(area, header->code_off + part->code_bytes, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	part->addr = (uint64_t)(uintptr_t)at;
	return at != MAP_FAILED &&
	       mmap(at, header->code_off, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		       at &&
	       mmap(at + header->code_off, part->code_bytes, PROT_READ | PROT_EXEC,
		    MAP_SHARED | MAP_FIXED, fd, (off_t)part->code_off) == at + header->code_off;
}

static bool make(const struct left *left, struct block_header *header)
{
	const int fd = memfd_create(BLOCK_NAME, MFD_CLOEXEC);
	char *near = (char *)((uintptr_t)site_bytes & ~UINT64_C(4095));
	bool ok = fd >= 0 && ftruncate(fd, (off_t)header->bytes) == 0;

	header->magic = left->magic;
	header->version = left->version;
	for (size_t i = 0; ok && i < N_PARTS; i++)
		ok = map_part(fd, header, &header->parts[i], near - (N_PARTS - i) * AREA_BYTES);
	header->addr = header->parts[0].addr;
	ok = ok && pwrite(fd, header, sizeof(*header), 0) == sizeof(*header);
	for (size_t i = 0; ok && i < N_SITES; i++) {
		const struct block_site site = {
			.addr = (uint64_t)(uintptr_t)site_bytes,
			.trampoline = header->parts[i].addr + layout_trampolines_off(header) +
				      templates_entry_off(1),
			.gate_addr = header->addr + header->gates_off + i * sizeof(uint16_t),
			.opcode = site_bytes[1],
			.gate = BLOCK_GATE_PRIVATE,
		};

		ok = pwrite(fd, &site, sizeof(site),
			    (off_t)(header->sites_off + i * sizeof(site))) == sizeof(site);
	}
	for (size_t i = 0; ok && i < N_PARTS; i++)
		if (!left->has[i])
			munmap((void *)(uintptr_t)header->parts[i].addr,
			       header->code_off + header->parts[i].code_bytes);
	if (left->has_no_last_code)
		munmap((void *)(uintptr_t)(header->parts[1].addr + header->code_off),
		       header->parts[1].code_bytes);
	close(fd);
	return ok;
}

struct making {
	const struct left *left;
	struct block_header *header;
	bool ok;
};

static void *make_it(void *arg)
{
	struct making *making = arg;

	making->ok = make(making->left, making->header);
	return NULL;
}

/* In a thread that ends: no stack and no register keeps an address of the code. */
static bool make_in_thread(const struct left *left, struct block_header *header)
{
	struct making making = { .left = left, .header = header };
	pthread_t thread;

	return pthread_create(&thread, NULL, make_it, &making) == 0 &&
	       pthread_join(thread, NULL) == 0 && making.ok;
}

static void start(struct child *child, const struct left *left)
{
	struct block_header header;
	char answer = 0;
	int pipes[2];

	lay_out(&header);
	child->ctx = ocp_ctx_new();
	assert_int_equal(pipe(pipes), 0);
	child->pid = fork();
	if (child->pid == 0) {
		volatile uint64_t word = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		answer = make_in_thread(left, &header) ? 'y' : 'n';
		if (left->points_to != NOWHERE)
			word = header.parts[left->points_to].addr + header.code_off + 1;
		(void)word;
		if (write(pipes[1], &answer, 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &answer, 1), 1);
	assert_int_equal(answer, 'y');
	close(pipes[0]);
	close(pipes[1]);
}

static void end(struct child *child)
{
	int status;

	/* What was done to it did no harm. */
	assert_int_equal(waitpid(child->pid, &status, WNOHANG), 0);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, &status, 0);
	ocp_ctx_free(child->ctx);
}

static size_t count_mappings(const struct child *child)
{
	struct maps maps;
	size_t n = 0;

	assert_int_equal(maps_read(child->ctx, child->pid, &maps), 0);
	for (size_t i = 0; i < maps.n; i++)
		n += blocks_are_in(&maps.mappings[i]);
	maps_free(&maps);
	return n;
}

/* The one block that there is. */
static struct block_found look(const struct child *child)
{
	struct block_found *blocks, block;
	struct memory *memory;
	struct maps maps;
	size_t n;

	assert_int_equal(memory_open(child->ctx, child->pid, &memory), 0);
	assert_int_equal(maps_read(child->ctx, child->pid, &maps), 0);
	assert_int_equal(blocks_find(child->ctx, memory, &maps, &blocks, &n), 0);
	assert_int_equal(n, 1);
	block = blocks[0];
	free(blocks);
	maps_free(&maps);
	memory_close(memory);
	return block;
}

TEST(all_parts_are_one_block)
{
	struct inside *inside = NULL;
	struct block_found block;
	struct child child;

	start(&child, &whole);
	block = look(&child);
	assert_true(block.is_complete);
	assert_false(block.is_orphan);
	assert_int_equal(block.header.n_parts, N_PARTS);
	assert_int_equal(inside_find(child.ctx, child.pid, &inside), 1);
	assert_true(inside_is_in(inside, child.pid));
	inside_close(inside);
	/* It may be in use. */
	assert_int_equal(inside_clear(child.ctx, child.pid, true), 0);
	assert_int_equal(count_mappings(&child), 2 * N_PARTS);
	end(&child);
}

static void check_orphan(const struct left *left)
{
	struct inside *inside = NULL;
	struct block_found block;
	struct child child;

	start(&child, left);
	assert_true(count_mappings(&child) > 0);
	block = look(&child);
	assert_false(block.is_complete);
	assert_true(block.is_orphan);
	assert_int_equal(inside_find(child.ctx, child.pid, &inside), 0);
	if (inside_clear(child.ctx, child.pid, true) != 0)
		fail_msg("clear: %s", ocp_error(child.ctx));
	assert_int_equal(count_mappings(&child), 0);
	end(&child);
}

/* Killed before the magic number, or between the first part that was unmapped and the last one. */
TEST(what_killed_tools_left_is_removed)
{
	struct left left = whole;

	left.magic = 0;
	check_orphan(&left);
	left.has[1] = false;
	check_orphan(&left);
	left = whole;
	left.has[0] = false;
	check_orphan(&left);
	left = whole;
	left.has[1] = false;
	check_orphan(&left);
	left = whole;
	left.has_no_last_code = true;
	check_orphan(&left);
}

/* It may be in use, whatever it has of its parts. */
TEST(another_version_is_left_alone)
{
	struct inside *inside = NULL;
	struct left left = whole;
	struct block_found block;
	struct child child;

	left.version = BLOCK_VERSION + 1;
	for (int part = 0; part < 2; part++) {
		left.has[0] = !part;
		start(&child, &left);
		block = look(&child);
		assert_false(block.is_complete);
		assert_false(block.is_orphan);
		assert_int_equal(inside_find(child.ctx, child.pid, &inside), -EPROTO);
		assert_int_equal(inside_clear(child.ctx, child.pid, true), 0);
		assert_int_equal(count_mappings(&child), part ? 2 : 2 * N_PARTS);
		end(&child);
	}
}

/* A thread that may come back to one of the parts keeps them all. */
TEST(parts_go_when_no_thread_is_in_them)
{
	for (size_t part = 0; part <= NOWHERE; part++) {
		struct inside *inside = NULL;
		struct left left = whole;
		struct child child;

		left.points_to = part;
		start(&child, &left);
		assert_int_equal(inside_find(child.ctx, child.pid, &inside), 1);
		if (inside_detach(inside) != 0)
			fail_msg("detach: %s", ocp_error(child.ctx));
		inside_close(inside);
		assert_int_equal(count_mappings(&child), part == NOWHERE ? 0 : 2 * N_PARTS);
		end(&child);
	}
}
