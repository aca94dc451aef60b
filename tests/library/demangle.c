// SPDX-License-Identifier: MIT
/*
 * demangle: like c++filt, write a line for each line of the input: the name of the OCaml function
 * whose symbol the line is; for other symbols, the line itself.
 */
#include <ocaml_probes.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	char line[4096], name[1024];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		puts(ocp_demangle(line, name, sizeof(name)) ? name : line);
	}
	return 0;
}
