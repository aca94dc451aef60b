/* SPDX-License-Identifier: MIT */
/*
 * Fill a new block through our own mapping of it. Call build_private_gate() in a stop, the other
 * functions while the process runs.
 */
#ifndef CHANGE_INSIDE_BUILD_H
#define CHANGE_INSIDE_BUILD_H

#include <stddef.h>
#include <stdint.h>
#include "change/inside/held.h"
#include "change/inside/layout.h"
#include "change/inside/site_bytes.h"
#include "change/inside/templates.h"
#include "look/maps.h"

struct build {
	const struct inside_spec *spec;
	struct layout_parts parts;
	struct templates_process process;
};

/*
 * Set up the sites of INSIDE from SPEC and from the bytes of the sites in the process, and make
 * inside->reader. The gate_addr of a private gate becomes 0. Return -EINVAL with a message if a
 * site does not have the code of a probe, or -EBUSY if another tool has changed the site.
 */
int build_sites(struct inside *inside, const struct inside_spec *spec, const struct maps *maps);

/* Write the whole block except its header, and set the trampolines of the sites of INSIDE. */
int build_block(struct inside *inside, const struct build *build);

/* Give site I a private gate, and assemble the trampoline of the site again. */
int build_private_gate(struct inside *inside, const struct build *build, size_t i);

#endif
