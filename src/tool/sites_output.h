/* SPDX-License-Identifier: MIT */
/* `info --sites`: print all sites, as a table or as JSON. */
#ifndef TOOL_SITES_OUTPUT_H
#define TOOL_SITES_OUTPUT_H

#include <json-c/json.h>
#include "ocaml_probes.h"

/* Print a header, then a line per site. Columns are aligned unless a value is very long. */
void sites_print_table(const struct ocp_process *proc, const struct ocp_sites *sites);

/* For each probe with arguments in unknown places, print the reason to stderr. */
void sites_say_unknown_args(const struct ocp_process *proc, const struct ocp_sites *sites);

/* Return an array with one object per site. */
struct json_object *sites_json(const struct ocp_process *proc, const struct ocp_sites *sites);

#endif
