// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "change/inside/block.h"
#include "look/maps.h"
#include "counted_program.h"
#include "fixture.h"
#include "unit.h"

static void read_expectations(struct program *p, const char *fixture)
{
	char command[4200], line[1024];
	FILE *pipe;

	snprintf(command, sizeof(command), "%s --expect", fixture_path(fixture));
	pipe = popen(command, "re");
	assert_non_null(pipe);
	p->n = 0;
	while (fgets(line, sizeof(line), pipe)) {
		struct inside_site *site = &p->sites[p->n];
		char *name = p->names[p->n];

		*site = (struct inside_site){ 0 };
		name[0] = '\0';
		if (sscanf(line, "site 0x%lx semaphore 0x%lx name %255[^ ]", &site->addr,
			   &site->semaphore, name) < 2)
			continue;
		if (strncmp(strstr(line, " name ") + 6, " args", 5) == 0)
			name[0] = '\0';
		assert_true(++p->n < MAX_SITES);
	}
	pclose(pipe);
	assert_true(p->n > 10);
}

static void add_bias(struct program *p, const char *fixture)
{
	struct maps maps;
	uint64_t bias = 0;

	assert_int_equal(maps_read(p->ctx, p->pid, &maps), 0);
	if (!strstr(fixture, "nopie"))
		for (size_t i = maps.n; i-- > 0;)
			if (strstr(maps.mappings[i].path, "tests/fixtures/") &&
			    !maps.mappings[i].off)
				bias = maps.mappings[i].start;
	maps_free(&maps);
	for (size_t i = 0; i < p->n; i++) {
		p->sites[i].addr += bias;
		p->sites[i].semaphore += bias;
	}
}

void counted_read(const struct program *p, uint64_t addr, void *buf, size_t bytes)
{
	const struct iovec local = { buf, bytes }, remote = { (void *)(uintptr_t)addr, bytes };

	assert_int_equal(process_vm_readv(p->pid, &local, 1, &remote, 1, 0), bytes);
}

void counted_wait_for(struct program *p, const char *wanted)
{
	char line[512];

	while (fgets(line, sizeof(line), p->out))
		if (strcmp(line, wanted) == 0)
			return;
	fail_msg("the fixture did not print %s", wanted);
}

void counted_start(struct program *p, const char *fixture, const char *wait)
{
	int in[2], out[2];

	memset(p, 0, sizeof(*p));
	p->ctx = ocp_ctx_new();
	assert_non_null(p->ctx);
	read_expectations(p, fixture);
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	p->pid = fork();
	if (p->pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		execl(fixture_path(fixture), fixture, "--threads", "8", wait, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	p->in = fdopen(in[1], "we");
	p->out = fdopen(out[0], "re");
	setvbuf(p->in, NULL, _IOLBF, 0);
	counted_wait_for(p, "ready\n");
	add_bias(p, fixture);
	for (size_t i = 0; i < p->n; i++) {
		counted_read(p, p->sites[i].addr, p->text[i], 6);
		counted_read(p, p->sites[i].semaphore, &p->semaphores[i], 2);
	}
}

void counted_go(struct program *p, long rounds)
{
	fprintf(p->in, "go %ld\n", rounds);
	counted_wait_for(p, "done\n");
}

void counted_books(struct program *p, const char *name, uint64_t *hits, uint64_t *handler)
{
	char line[512];
	const size_t n = strlen(name);
	bool found = false;

	fprintf(p->in, "report\n");
	while (fgets(line, sizeof(line), p->out) && strcmp(line, "end\n") != 0)
		if (strncmp(line, name, n) == 0 && strncmp(line + n, " handler=", 9) == 0)
			found = sscanf(line + n, " handler=%lu hits=%lu", handler, hits) == 2;
	if (!found)
		fail_msg("the fixture has no books of '%s'", name);
}

void counted_end(struct program *p)
{
	int status;

	fprintf(p->in, "quit\n");
	fclose(p->in);
	counted_wait_for(p, "end\n");
	fclose(p->out);
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	assert_int_equal(status, 0);
	ocp_ctx_free(p->ctx);
}

void counted_assert_original(const struct program *p)
{
	for (size_t i = 0; i < p->n; i++) {
		uint8_t now[8] = { 0 };

		counted_read(p, p->sites[i].addr, now, 6);
		assert_memory_equal(now, p->text[i], 6);
	}
}

bool counted_is_unmapped(const struct program *p)
{
	struct maps maps;
	bool found = false;

	assert_int_equal(maps_read(p->ctx, p->pid, &maps), 0);
	for (size_t i = 0; i < maps.n; i++)
		if (strstr(maps.mappings[i].path, BLOCK_NAME))
			found = true;
	maps_free(&maps);
	return !found;
}
