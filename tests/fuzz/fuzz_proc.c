// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: any bytes as the files below /proc/PID that are read: maps, status, auxv,
 * cgroup. The kernel writes them, but names and paths in them are other people's. And as a journal,
 * which may be in a folder for all. The first byte says which.
 */
#include <stdlib.h>
#include <string.h>

#include "look/container.h"
#include "change/switch/journal.h"
#include "look/maps.h"
#include "look/proc_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void parse_maps(char *text)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	size_t bytes = strlen(text);
	struct maps maps;
	int err;

	require(ctx != NULL);
	err = maps_parse(ctx, text, &maps);
	require(err ? *ocp_error(ctx) && !maps.mappings : maps.text == text);
	for (size_t i = 0; i < maps.n; i++) {
		const struct mapping *m = &maps.mappings[i];
		bool in_order = i == 0 || maps.mappings[i - 1].end <= m->start;

		require(m->start < m->end && strlen(m->path) <= bytes);
		require(!strchr(m->path, '\n'));
		/* The kernel's are in order; of others the search need not find all. */
		if (maps.n == 1)
			require(maps_find(&maps, m->start) == m &&
				maps_find(&maps, m->end - 1) == m);
		if (!in_order)
			maps_find(&maps, m->start);
	}
	maps_free(&maps);
	ocp_ctx_free(ctx);
}

static void parse_status(char *text)
{
	struct proc_status status;

	proc_status_parse(text, &status);
	require(memchr(status.name, '\0', sizeof(status.name)) != NULL);
	require(!strchr(status.name, '\n'));
	require(status.state != '\0' && status.state != '\n');
	free(text);
}

static void parse_auxv(char *bytes, size_t n)
{
	for (uint64_t type = 0; type < 64; type++) {
		uint64_t value = auxv_find(bytes, n, type);

		/* What is found is there. */
		require(!value || memmem(bytes, n, &value, sizeof(value)));
	}
	free(bytes);
}

static void parse_cgroup(char *text)
{
	struct container container;
	size_t n;

	container_parse(text, &container);
	n = strspn(container.id, "0123456789abcdef");
	require(!container.id[n] && (n == 0 || n == CONTAINER_ID_BYTES));
	/* What is found is there. */
	require(strstr(text, container.id) != NULL);
	n = strspn(container.pod, "0123456789abcdef-");
	require(!container.pod[n] && (n == 0 || n == 32 || n == 36 || n == CONTAINER_ID_BYTES));
	free(text);
}

static void parse_journal(char *text)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct stale_journal *journal = calloc(1, sizeof(*journal));
	struct stale_journals all = { .list = journal, .n = 1 };
	struct journal_text about;
	int err;

	require(ctx && journal);
	err = journal_parse(ctx, "fuzz", text, &about, journal);
	require(err ? *ocp_error(ctx) != '\0' : about.process > 0 && about.tool > 0);
	for (size_t i = 0; i < journal->n; i++)
		require(journal->entries[i].name != NULL);
	journal_free_stale(&all);
	ocp_ctx_free(ctx);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char *text;

	if (n == 0)
		return 0;
	/* A buffer of exactly that size, so that the sanitizer sees a step beyond it. */
	text = malloc(n);
	require(text != NULL);
	memcpy(text, bytes + 1, n - 1);
	text[n - 1] = '\0';
	if (*bytes == 'm')
		parse_maps(text);
	else if (*bytes == 's')
		parse_status(text);
	else if (*bytes == 'c')
		parse_cgroup(text);
	else if (*bytes == 'j')
		parse_journal(text);
	else
		parse_auxv(text, n - 1);
	return 0;
}
