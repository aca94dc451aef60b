// SPDX-License-Identifier: MIT
#include "serve/label_name.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* ASCII only, whatever the locale says. */
static bool is_label_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_label_character(char c)
{
	return is_label_letter(c) || (c >= '0' && c <= '9');
}

const char *label_name_check(const char *name)
{
	/* The labels of metrics.c, then those that Prometheus and histograms have. */
	static const char *const taken[] = {
		"probe",	"phase", "start",    "stop",   "exe",	   "pod_uid",
		"container_id", "side",	 "reason",   "engine", "pid",	   "kind",
		"version",	"le",	 "quantile", "job",    "instance",
	};

	if (!is_label_letter(*name))
		return "must begin with a letter or '_'";
	for (const char *at = name; *at; at++)
		if (!is_label_character(*at))
			return "may have only letters, digits and '_'";
	if (strncmp(name, "__", 2) == 0)
		return "is reserved by Prometheus, like all labels that begin with '__'";
	if (strlen(name) > 100)
		return "is longer than 100 characters";
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (strcmp(name, taken[i]) == 0)
			return "is the name of another label of the metrics";
	return NULL;
}

char *label_name_of(const char *arg)
{
	char *name = strdup(arg);

	for (char *at = name; at && *at; at++)
		if (!is_label_character(*at))
			*at = '_';
	return name;
}
