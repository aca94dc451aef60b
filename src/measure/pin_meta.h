/* SPDX-License-Identifier: MIT */
/* The text that is kept beside a kept meter's maps: what is measured there. */
#ifndef MEASURE_KEPT_META_H
#define MEASURE_KEPT_META_H

#include <stdio.h>

#include "measure/meter.h"

void pin_meta_write(FILE *out, const struct ocp_meter *meter, const struct ocp_costs *costs);

/*
 * Read TEXT, which was in FOLDER's `meta`, into METER, which is new. The text is overwritten and
 * must outlive the meter. -EBADMSG for anything but what pin_meta_write writes, -EPROTO for what
 * another version's does.
 */
int pin_meta_parse(struct ocp_meter *meter, const char *folder, char *text);

#endif
