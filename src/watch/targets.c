// SPDX-License-Identifier: MIT
#include "watch/targets.h"

#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"

int targets_init(struct targets *targets, struct ocp_ctx *ctx, bool by_process)
{
	*targets = (struct targets){ .ctx = ctx, .by_process = by_process };
	targets->verdicts = verdicts_new(ctx);
	return targets->verdicts ? 0 : -ENOMEM;
}

void targets_free(struct targets *targets)
{
	for (size_t i = 0; i < targets->n; i++)
		target_free(targets->list[i]);
	free(targets->list);
	find_memory_free(&targets->known);
	verdicts_free(targets->verdicts);
	*targets = (struct targets){ 0 };
}

ptrdiff_t targets_find(const struct targets *targets, const char *exe)
{
	for (size_t i = 0; i < targets->n; i++)
		if (strcmp(targets->list[i]->exe, exe) == 0)
			return (ptrdiff_t)i;
	return -1;
}

int targets_get(struct targets *targets, const char *exe, struct target **out)
{
	const ptrdiff_t found = targets_find(targets, exe);
	struct target **grown;
	int err;

	if (found >= 0) {
		*out = targets->list[found];
		return 0;
	}
	grown = realloc(targets->list, (targets->n + 1) * sizeof(void *));
	if (!grown)
		return ctx_no_memory(targets->ctx);
	targets->list = grown;
	err = target_new(targets->ctx, exe, out);
	if (!err)
		targets->list[targets->n++] = *out;
	return err;
}

void targets_remove(struct targets *targets, size_t number)
{
	target_free(targets->list[number]);
	memmove(targets->list + number, targets->list + number + 1,
		(--targets->n - number) * sizeof(void *));
}
