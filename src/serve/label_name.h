/* SPDX-License-Identifier: MIT */
/* The names of labels whose values come from an argument of probes. */
#ifndef SERVE_LABEL_NAME_H
#define SERVE_LABEL_NAME_H

/*
 * Return NULL if NAME may be such a label: it must have the form that Prometheus demands, and
 * neither the metrics nor Prometheus may use it for something else. Otherwise return the reason, in
 * words that follow the name.
 */
const char *label_name_check(const char *name);

/*
 * Return the name of the label for the argument ARG: the name of ARG, with "_" for each character
 * that a label must not have. The caller frees it. NULL: out of memory.
 */
char *label_name_of(const char *arg);

#endif
