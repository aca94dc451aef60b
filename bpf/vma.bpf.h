/* SPDX-License-Identifier: MIT */
/*
 * Finds the mapping of the current process at an address, in the kernel's own tree of mappings.
 *
 * BPF has a helper for this, bpf_find_vma(), but it is not suitable. If interrupts are off, as in a
 * sample of the CPU, the helper releases the mmap lock only after the interrupt, so that until then
 * every further call of the helper fails (-EBUSY, 1993 of 1993 times). Also, the first call takes
 * 12 us.
 *
 * So the tree is read without a lock. The kernel frees nodes and mappings by RCU, so not while a
 * BPF program runs. When the addresses of mappings change, the kernel replaces the node instead of
 * modifying it. A mapping counts only if it holds the address both before and after its members are
 * read. CO-RE adapts the offsets of members to the running kernel. But the encoding of pointers to
 * nodes is written into this code: it is the encoding of Linux 6.1 and later. On other kernels, the
 * code finds no mapping.
 */
#ifndef VMA_BPF_H
#define VMA_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

enum {
	VMA_LEVELS = 8,
	VMA_NODE_WORDS = 32, /* words of struct maple_node; a power of two */
	VMA_EXECUTABLE = 4,  /* VM_EXEC of linux/mm.h */
	VMA_PAGE_SHIFT = 12,
	/*
	 * A pointer to a node has enum maple_type in bits 3 to 6. Nodes are aligned to 256 bytes.
	 */
	VMA_TYPE_SHIFT = 3,
	VMA_TYPE_MASK = 15,
	VMA_NODE_MASK = 255,
	VMA_LEAF = 1,
	VMA_RANGE = 2,
	VMA_ARANGE = 3,
};

struct vma {
	__u64 start, end, off; /* off: offset in the file */
	__u64 flags;
	__u64 dev, ino; /* the mapped file; 0: no file */
};

struct vma_search {
	__u64 *node; /* working memory of VMA_NODE_WORDS words */
	__u64 address, entry;
};

/*
 * Return the entry of NODE for ADDRESS. Pivot i is the last address that slot i is for; a pivot of
 * 0 stands for the last address of the node.
 */
static __always_inline __u64 vma_entry(const __u64 *node, __u32 pivots_at, __u32 slots_at,
				       __u32 n_pivots, __u64 address)
{
	__u32 i = 0;

	for (; i < n_pivots; i++) {
		const __u64 pivot = node[(pivots_at / 8 + i) % VMA_NODE_WORDS];

		if (pivot >= address || (i && !pivot))
			break;
	}
	return node[(slots_at / 8 + i) % VMA_NODE_WORDS];
}

static long vma_descend(__u32 level, struct vma_search *s)
{
	const __u32 type = s->entry >> VMA_TYPE_SHIFT & VMA_TYPE_MASK;
	const void *node = (const void *)(s->entry & ~(__u64)VMA_NODE_MASK);
	const struct maple_range_64 *range = (void *)0;
	const struct maple_arange_64 *arange = (void *)0;

	(void)level;
	s->entry = 0;
	if (type < VMA_LEAF || type > VMA_ARANGE ||
	    bpf_probe_read_kernel(s->node, VMA_NODE_WORDS * sizeof(*s->node), node))
		return 1;
	if (type == VMA_ARANGE)
		s->entry = vma_entry(s->node, bpf_core_field_offset(arange->pivot),
				     bpf_core_field_offset(arange->slot),
				     bpf_core_field_size(arange->pivot) / 8, s->address);
	else
		s->entry = vma_entry(s->node, bpf_core_field_offset(range->pivot),
				     bpf_core_field_offset(range->slot),
				     bpf_core_field_size(range->pivot) / 8, s->address);
	return type == VMA_LEAF;
}

static __always_inline int vma_holds(const struct vm_area_struct *area, const struct mm_struct *mm,
				     __u64 address, struct vma *vma)
{
	vma->start = BPF_CORE_READ(area, vm_start);
	vma->end = BPF_CORE_READ(area, vm_end);
	return BPF_CORE_READ(area, vm_mm) == mm && vma->start <= address && address < vma->end;
}

/*
 * Set *VMA to the mapping that contains ADDRESS. NODE is working memory of VMA_NODE_WORDS words.
 * Returns 0 if nothing is mapped at ADDRESS, else 1.
 */
static __always_inline int find_vma(__u64 *node, __u64 address, struct vma *vma)
{
	struct vma_search s = { .node = node, .address = address };
	struct task_struct *task = (void *)bpf_get_current_task();
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	const struct vm_area_struct *area;
	const struct file *file;

	if (!mm || !bpf_core_field_exists(mm->mm_mt))
		return 0;
	s.entry = (__u64)BPF_CORE_READ(mm, mm_mt.ma_root);
	bpf_loop(VMA_LEVELS, vma_descend, &s, 0);
	area = (const void *)s.entry;
	if (!area || !vma_holds(area, mm, address, vma))
		return 0;
	vma->flags = BPF_CORE_READ(area, vm_flags);
	vma->off = BPF_CORE_READ(area, vm_pgoff) << VMA_PAGE_SHIFT;
	file = BPF_CORE_READ(area, vm_file);
	vma->dev = file ? BPF_CORE_READ(file, f_inode, i_sb, s_dev) : 0;
	vma->ino = file ? BPF_CORE_READ(file, f_inode, i_ino) : 0;
	return vma_holds(area, mm, address, vma);
}

static __always_inline int is_vdso(const struct vma *vma)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return !vma->ino && (__u64)BPF_CORE_READ(task, mm, context.vdso) == vma->start;
}

#endif
