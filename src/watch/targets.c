// SPDX-License-Identifier: MIT
#include "watch/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/ctx.h"

enum { SHORT_ID_BYTES = 12 }; /* the number of characters that container runtimes show */

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

struct target *targets_find(const struct targets *targets, const char *exe,
			    const struct container *container)
{
	for (size_t i = 0; i < targets->n; i++) {
		struct target *target = targets->list[i];

		if (strcmp(target->exe, exe) == 0 && container_equal(&target->container, container))
			return target;
	}
	return NULL;
}

static bool has_title(const struct targets *targets, const char *title)
{
	for (size_t i = 0; i < targets->n; i++)
		if (strcmp(targets->list[i]->title, title) == 0)
			return true;
	return false;
}

/*
 * Return the title "EXE [ID]" with the first SHORT_ID_BYTES of CONTAINER's id or, if another target
 * has this title, with the whole id. The caller frees the title.
 */
static char *make_title(const struct targets *targets, const char *exe,
			const struct container *container)
{
	const char *id = *container->id ? container->id : container->pod;
	char *title;

	if (!container_is_known(container))
		return strdup(exe);
	if (asprintf(&title, "%s [%.*s]", exe, SHORT_ID_BYTES, id) < 0)
		return NULL;
	if (!has_title(targets, title))
		return title;
	free(title);
	return asprintf(&title, "%s [%s]", exe, id) < 0 ? NULL : title;
}

int targets_get(struct targets *targets, const char *exe, const struct container *container,
		struct target **out)
{
	struct target **new;
	char *title;
	int err;

	*out = targets_find(targets, exe, container);
	if (*out)
		return 0;
	title = make_title(targets, exe, container);
	new = title ? array_add(targets->list, targets->n) : NULL;
	err = new ? target_new(targets->ctx, exe, title, container, out)
		  : ctx_no_memory(targets->ctx);
	if (!err)
		*new = *out;
	else if (new)
		targets->n--;
	free(title);
	return err;
}

void targets_remove(struct targets *targets, size_t number)
{
	target_free(targets->list[number]);
	memmove(targets->list + number, targets->list + number + 1,
		(--targets->n - number) * sizeof(void *));
}
