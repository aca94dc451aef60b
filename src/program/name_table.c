// SPDX-License-Identifier: MIT
#include "program/name_table.h"
#include "base/array.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };

static uint64_t hash_name(const char *name, size_t length)
{
	uint64_t hash = HASH_START, word;

	for (; length >= sizeof(word); name += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, name, sizeof(word));
		hash = hash_word(hash, word);
	}
	for (word = 0; length; length--)
		word = word << 8 | (unsigned char)*name++;
	return hash_word(hash, word);
}

/* Return the slot with the probe called NAME; if there is none, the free slot for it. */
static uint32_t *find_name_slot(const struct name_table *table, const struct ocp_program *prog,
				const char *name, size_t length)
{
	size_t slot = hash_name(name, length) & (table->n_slots - 1);

	while (table->slots[slot] && strcmp(prog->probes[table->slots[slot] - 1].name, name) != 0)
		slot = (slot + 1) & (table->n_slots - 1);
	return &table->slots[slot];
}

/* Enlarge the table if necessary, so that at most half of its slots are used. */
static int make_slots(struct name_table *table, const struct ocp_program *prog)
{
	size_t n = table->n_slots ? 2 * table->n_slots : FIRST_SLOTS;

	if (2 * prog->n_probes < table->n_slots)
		return 0;
	while (n <= 2 * prog->n_probes)
		n *= 2;
	free(table->slots);
	table->slots = calloc(n, sizeof(*table->slots));
	table->n_slots = table->slots ? n : 0;
	if (!table->slots)
		return ctx_no_memory(prog->ctx);
	for (size_t i = 0; i < prog->n_probes; i++) {
		const char *name = prog->probes[i].name;

		*find_name_slot(table, prog, name, strlen(name)) = (uint32_t)(i + 1);
	}
	return 0;
}

static int append_probe(struct ocp_program *prog, const char *name)
{
	struct probe *new = array_add(prog->probes, prog->n_probes);

	if (!new)
		return ctx_no_memory(prog->ctx);
	*new = (struct probe){ .name = name };
	return 0;
}

int name_table_number(struct name_table *table, struct ocp_program *prog, const char *name,
		      size_t length, uint32_t *number)
{
	int err = make_slots(table, prog);
	uint32_t *slot = err ? NULL : find_name_slot(table, prog, name, length);

	if (!err && !*slot) {
		err = append_probe(prog, name);
		*slot = err ? 0 : (uint32_t)prog->n_probes;
	}
	*number = err ? 0 : *slot - 1;
	return err;
}

void name_table_free(struct name_table *table)
{
	free(table->slots);
	*table = (struct name_table){ 0 };
}
