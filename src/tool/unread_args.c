// SPDX-License-Identifier: MIT
#include "tool/unread_args.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cli/cli.h"
#include "measure/meter.h"

static bool is_noted(const struct unread_args *args, const char *probe, size_t arg)
{
	for (size_t i = 0; i < args->n; i++)
		if (args->list[i].arg == arg && strcmp(args->list[i].probe, probe) == 0)
			return true;
	return false;
}

static int note(struct unread_args *args, const struct ocp_meter *meter, const struct ocp_hit *hit,
		size_t arg)
{
	struct unread_arg *new = array_add(args->list, args->n);

	if (!new)
		return -ENOMEM;
	*new = (struct unread_arg){ strdup(hit->probe), meter_why_unread(meter, hit, arg), arg };
	if (new->probe &&new->why)
		return 0;
	free(new->probe);
	free(new->why);
	args->n--;
	return -ENOMEM;
}

int unread_args_note(struct unread_args *args, const struct ocp_meter *meter,
		     const struct ocp_hit *hit)
{
	int err = 0;

	for (size_t i = 0; !err && i < hit->n_args; i++)
		if (ocp_hit_arg(hit, i).kind == OCP_UNSUPPORTED && !is_noted(args, hit->probe, i))
			err = note(args, meter, hit, i);
	return err;
}

void unread_args_say(const struct unread_args *args)
{
	for (size_t i = 0; i < args->n; i++)
		say("%s: ? is arg%zu, %s", args->list[i].probe, args->list[i].arg,
		    args->list[i].why);
}

void unread_args_free(struct unread_args *args)
{
	for (size_t i = 0; i < args->n; i++) {
		free(args->list[i].probe);
		free(args->list[i].why);
	}
	free(args->list);
	*args = (struct unread_args){ 0 };
}
