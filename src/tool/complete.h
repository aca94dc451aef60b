/* SPDX-License-Identifier: MIT */
/* What a shell asks when the user presses Tab. */
#ifndef TOOL_COMPLETE_H
#define TOOL_COMPLETE_H

/* Print what the last of the N WORDS, which follow "ocaml-probes", may become. See complete.c. */
int complete(int n, char **words);

#endif
