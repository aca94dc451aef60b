/* SPDX-License-Identifier: MIT */
/* `info --sites`: every site, as a table or as JSON. */
#ifndef TOOL_SITES_OUTPUT_H
#define TOOL_SITES_OUTPUT_H

#include <json-c/json.h>
#include "ocaml_probes.h"

/* A header line, then a line a site. Columns are aligned unless a value is very long. */
void sites_print_table(const struct ocp_process *proc, const struct ocp_sites *sites);

/* A line on stderr for each probe with arguments whose places are not known: why. */
void sites_say_unknown_args(const struct ocp_process *proc, const struct ocp_sites *sites);

/* An array with an object a site. */
struct json_object *sites_json(const struct ocp_process *proc, const struct ocp_sites *sites);

#endif
