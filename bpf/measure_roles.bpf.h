/* SPDX-License-Identifier: MIT */
/* At a hit, begins and ends the pairs to which the site belongs. */
#ifndef MEASURE_ROLES_BPF_H
#define MEASURE_ROLES_BPF_H

#include "measure_frames.bpf.h"
#include "measure_pairs.bpf.h"

static __always_inline void play_roles(struct pt_regs *regs, const struct measure_site *site,
				       const struct bpf_pidns_info *ids, __u64 now_ns, int matches,
				       const struct walk_scratch *stack)
{
	for (__u32 i = 0; i < MEASURE_MAX_ROLES && i < site->n_roles; i++) {
		__u32 number = site->first_role + i;
		struct measure_role *role = bpf_map_lookup_elem(&roles, &number);

		if (!role)
			continue;
		if (config.frames && (role->flags & MEASURE_ROLE_FRAME))
			play_frame(role, regs, site, ids, now_ns, matches, stack);
		else
			play_role(role, ids, sp_of(regs, site), now_ns, matches, stack);
	}
}

#endif
