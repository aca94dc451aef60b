// SPDX-License-Identifier: MIT
#include "base/abbreviation.h"

#include <stdio.h>
#include <string.h>

struct abbreviation abbreviation_of(const char *word, size_t bytes)
{
	return (struct abbreviation){ .word = word, .bytes = bytes };
}

static void list_name(struct abbreviation *a, const char *dashes, const char *name)
{
	static const char dots[] = ", ...";
	const size_t used = strlen(a->list);
	const size_t needed = strlen(", ") + strlen(dashes) + strlen(name);

	if (used + needed + sizeof(dots) <= sizeof(a->list))
		sprintf(a->list + used, "%s%s%s", used ? ", " : "", dashes, name);
	else if (used + sizeof(dots) <= sizeof(a->list))
		memcpy(a->list + used, dots, sizeof(dots));
}

void abbreviation_offer(struct abbreviation *a, const char *dashes, const char *name)
{
	if (!a->bytes || strncmp(name, a->word, a->bytes) != 0)
		return;
	if (!name[a->bytes])
		a->is_exact = true;
	if (!a->n++ || !name[a->bytes])
		a->name = name;
	list_name(a, dashes, name);
}

const char *abbreviation_name(const struct abbreviation *a)
{
	return a->is_exact || a->n == 1 ? a->name : NULL;
}

bool abbreviation_is_ambiguous(const struct abbreviation *a)
{
	return a->n > 1 && !a->is_exact;
}
