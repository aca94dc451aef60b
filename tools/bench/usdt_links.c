// SPDX-License-Identifier: MIT
/*
 * usdt_links PID FILE NAMES: count the probes of a program made of sites.S with libbpf's USDT
 * support, one link per probe: attach to all of them, then detach.
 */
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include "usdt_links.skel.h"

int main(int argc, char **argv)
{
	struct usdt_links_bpf *skel;
	struct bpf_link **links;
	char name[64];
	int pid, n;

	if (argc != 4)
		return 2;
	pid = atoi(argv[1]);
	n = atoi(argv[3]);
	links = calloc((size_t)n, sizeof(struct bpf_link *));
	skel = usdt_links_bpf__open_and_load();
	if (!links || !skel)
		return 1;
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "library_module_function_%d", i);
		links[i] = bpf_program__attach_usdt(skel->progs.count, pid, argv[2], "ocaml_1",
						    name, NULL);
		if (!links[i])
			return 1;
	}
	for (int i = 0; i < n; i++)
		bpf_link__destroy(links[i]);
	usdt_links_bpf__destroy(skel);
	free(links);
	return 0;
}
