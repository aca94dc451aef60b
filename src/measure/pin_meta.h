/* SPDX-License-Identifier: MIT */
/* The text that describes the maps of a pinned meter. */
#ifndef MEASURE_PIN_META_H
#define MEASURE_PIN_META_H

#include "measure/meter.h"

/* Free it. NULL: there is no memory; the caller makes the message. */
char *pin_meta_text(const struct ocp_meter *meter, const struct ocp_costs *costs);

/*
 * Read TEXT, from `meta` in FOLDER, into METER, which is new. The text is overwritten and must
 * outlive the meter. -EBADMSG if it is not what pin_meta_text() makes, -EPROTO if another version
 * wrote it.
 */
int pin_meta_parse(struct ocp_meter *meter, const char *folder, char *text);

/*
 * The same for a TEXT that anybody can have written: what would control a terminal is replaced by '?'. The
 * errors have no message.
 */
int pin_meta_parse_untrusted(struct ocp_meter *meter, char *text);

/*
 * Is everything that the meter of text A was asked for, in its processes, asked for in text B, too? B may have
 * more probes, of files that were loaded since.
 */
bool pin_meta_is_part(const char *a, const char *b);

#endif
