/* SPDX-License-Identifier: MIT */
/* Completion for shells. */
#ifndef TOOL_COMPLETE_H
#define TOOL_COMPLETE_H

/* Print the candidates for the last of the N WORDS after "ocaml-probes". See complete.c. */
int complete(int n, char **words);

#endif
