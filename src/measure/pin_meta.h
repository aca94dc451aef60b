/* SPDX-License-Identifier: MIT */
/*
 * The text that describes a kept meter. A later tool that reads the meter needs it to know what the
 * numbers mean.
 */
#ifndef MEASURE_PIN_META_H
#define MEASURE_PIN_META_H

#include "measure/meter.h"

/*
 * Return the text that describes METER and COSTS. The caller frees it. NULL, without a message: out
 * of memory.
 */
char *pin_meta_text(const struct ocp_meter *meter, const struct ocp_costs *costs);

/*
 * Read TEXT, the contents of the map `meta` in FOLDER, into METER, which must be new. The parser
 * overwrites TEXT, which must outlive METER. Return -EBADMSG if pin_meta_text() cannot have made
 * the text, -EPROTO if another version wrote it.
 */
int pin_meta_parse(struct ocp_meter *meter, const char *folder, char *text);

/*
 * Like pin_meta_parse(), but for a TEXT whose writer is not trusted: also replace terminal control
 * characters by '?'. Errors have no message.
 */
int pin_meta_parse_untrusted(struct ocp_meter *meter, char *text);

/*
 * Return true if text B requests everything that text A requests, in the same processes. B may have
 * more probes, of files that were loaded since.
 */
bool pin_meta_is_part(const char *a, const char *b);

#endif
