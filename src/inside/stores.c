// SPDX-License-Identifier: MIT
/*
 * The code gets the address of the job in rdi, and the address of a `syscall; ret` in rsi. Its last
 * system call unmaps the code itself. So the code jumps to the `syscall; ret` to make this call,
 * with rsp pointing to the address to which the `ret` returns. System calls keep all registers but
 * rax, rcx and r11.
 *
 * The kernel does not insert a uprobe that is registered while text is writable (valid_vma() of
 * kernel/events/uprobes.c). But when it joins two mappings of a file, it inserts all uprobes of the
 * file into the joined mapping. So each text is made read-only in two steps, first its first page
 * and then the rest; the kernel joins the two. The third step does the whole range, in case the
 * first one failed because the process has reached its limit of mappings.
 */
#include "inside/stores.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "inside/block.h"

struct stores_job {
	uint64_t bytes;		      /* size of the image */
	uint64_t open_end, close_end; /* ends of the two lists of ranges, as offsets from the job */
	uint64_t n, list;	      /* number and address of the sites or entries */
};

enum { CLOSE_STEPS = 3 };

_Static_assert(sizeof(struct block_site) == 32, "the stride in the code below");
_Static_assert(offsetof(struct block_site, addr) == 0 &&
		       offsetof(struct block_site, trampoline) == 8 &&
		       offsetof(struct block_site, displacement) == 24 &&
		       offsetof(struct block_site, store) == 31,
	       "the offsets in the code below");

#define BYTES	  offsetof(struct stores_job, bytes)
#define OPEN_END  offsetof(struct stores_job, open_end)
#define CLOSE_END offsetof(struct stores_job, close_end)
#define N	  offsetof(struct stores_job, n)
#define LIST	  offsetof(struct stores_job, list)
#define RANGES	  sizeof(struct stores_job)
#define RWX	  (PROT_READ | PROT_WRITE | PROT_EXEC)
#define RX	  (PROT_READ | PROT_EXEC)

static const uint8_t begin_code[] = {
	0x56,					  /*	push %rsi */
	0x48, 0x89,	    0xfb,		  /*	mov %rdi,%rbx */
	0x31, 0xed,				  /*	xor %ebp,%ebp */
	0x4c, 0x8b,	    0x7b, N,		  /*	mov n(%rbx),%r15 */
	0x4c, 0x8d,	    0x63, RANGES,	  /*	lea ranges(%rbx),%r12 */
	0x4c, 0x8b,	    0x73, OPEN_END,	  /*	mov open_end(%rbx),%r14 */
	0x49, 0x01,	    0xde,		  /*	add %rbx,%r14 */
	0x4d, 0x39,	    0xf4,		  /* open: cmp %r14,%r12 */
	0x74, 0x22,				  /*	je ready */
	0x49, 0x8b,	    0x3c, 0x24,		  /*	mov (%r12),%rdi */
	0x49, 0x8b,	    0x74, 0x24,	    0x08, /*	mov 8(%r12),%rsi */
	0xba, RWX,	    0,	  0,	    0,	  /*	mov $RWX,%edx */
	0xb8, SYS_mprotect, 0,	  0,	    0,	  /*	mov $mprotect,%eax */
	0x0f, 0x05,				  /*	syscall */
	0x49, 0x83,	    0xc4, 0x10,		  /*	add $16,%r12 */
	0x85, 0xc0,				  /*	test %eax,%eax */
	0x74, 0xde,				  /*	jz open */
	0x89, 0xc5,				  /*	mov %eax,%ebp */
	0x45, 0x31,	    0xff,		  /*	xor %r15d,%r15d: store nothing */
	0x4c, 0x89,	    0xf9,		  /* ready: mov %r15,%rcx */
	0x48, 0x8b,	    0x73, LIST,		  /*	mov list(%rbx),%rsi */
};

static const uint8_t attach_code[] = {
	0x48, 0x85, 0xc9,	    /* next:	test %rcx,%rcx */
	0x74, 0x2a,		    /*	jz end */
	0x8a, 0x56, 31,		    /*	mov store(%rsi),%dl */
	0x84, 0xd2,		    /*	test %dl,%dl */
	0x74, 0x1a,		    /*	jz skip */
	0x4c, 0x8b, 0x06,	    /*	mov addr(%rsi),%r8 */
	0x48, 0x8b, 0x46, 8,	    /*	mov trampoline(%rsi),%rax */
	0x4c, 0x29, 0xc0,	    /*	sub %r8,%rax */
	0x83, 0xe8, 6,		    /*	sub $6,%eax */
	0x41, 0xc6, 0x40, 1,  0x3d, /*	movb $0x3d,1(%r8) */
	0x41, 0x89, 0x40, 2,	    /*	mov %eax,2(%r8) */
	0x41, 0x88, 0x50, 1,	    /*	mov %dl,1(%r8) */
	0x48, 0x83, 0xc6, 32,	    /* skip:	add $32,%rsi */
	0x48, 0xff, 0xc9,	    /*	dec %rcx */
	0xeb, 0xd1,		    /*	jmp next; end: */
};

static const uint8_t detach_code[] = {
	0x48, 0x85, 0xc9,	    /* next:	test %rcx,%rcx */
	0x74, 0x23,		    /*	jz end */
	0x8a, 0x56, 31,		    /*	mov store(%rsi),%dl */
	0x84, 0xd2,		    /*	test %dl,%dl */
	0x74, 0x13,		    /*	jz skip */
	0x4c, 0x8b, 0x06,	    /*	mov addr(%rsi),%r8 */
	0x8b, 0x46, 24,		    /*	mov displacement(%rsi),%eax */
	0x41, 0xc6, 0x40, 1,  0x3d, /*	movb $0x3d,1(%r8) */
	0x41, 0x89, 0x40, 2,	    /*	mov %eax,2(%r8) */
	0x41, 0x88, 0x50, 1,	    /*	mov %dl,1(%r8) */
	0x48, 0x83, 0xc6, 32,	    /* skip:	add $32,%rsi */
	0x48, 0xff, 0xc9,	    /*	dec %rcx */
	0xeb, 0xd8,		    /*	jmp next; end: */
};

/*
 * An entry: bits 0 to 46 are the address, bit 47 is set for two bytes, bits 48 to 63 are the value.
 */
enum { ADDR_BITS = 47, VALUE_SHIFT = 48 };

static const uint8_t list_code[] = {
	0x48, 0x85,
	0xc9,	    /* next: test %rcx,%rcx */
	0x74, 0x28, /*	jz end */
	0x48, 0x8b,
	0x06, /*	mov (%rsi),%rax */
	0x48, 0x89,
	0xc2, /*	mov %rax,%rdx */
	0x48, 0xc1,
	0xea, VALUE_SHIFT, /*	shr $48,%rdx */
	0x48, 0xc1,
	0xe0, 64 - ADDR_BITS, /*	shl $17,%rax: the bit behind the address is the carry */
	0x72, 0x08,	      /*	jc two */
	0x48, 0xc1,
	0xe8, 64 - ADDR_BITS, /*	shr $17,%rax */
	0x88, 0x10,	      /*	mov %dl,(%rax) */
	0xeb, 0x07,	      /*	jmp step */
	0x48, 0xc1,
	0xe8, 64 - ADDR_BITS, /* two:	shr $17,%rax */
	0x66, 0x89,
	0x10, /*	mov %dx,(%rax) */
	0x48, 0x83,
	0xc6, 8, /* step: add $8,%rsi */
	0x48, 0xff,
	0xc9,	    /*	dec %rcx */
	0xeb, 0xd3, /*	jmp next; end: */
};

static const uint8_t end_code[] = {
	0x4c, 0x8b,	    0x63, OPEN_END,	   /*	mov open_end(%rbx),%r12 */
	0x49, 0x01,	    0xdc,		   /*	add %rbx,%r12 */
	0x4c, 0x8b,	    0x73, CLOSE_END,	   /*	mov close_end(%rbx),%r14 */
	0x49, 0x01,	    0xde,		   /*	add %rbx,%r14 */
	0x45, 0x31,	    0xed,		   /*	xor %r13d,%r13d */
	0x4d, 0x39,	    0xf4,		   /* close: cmp %r14,%r12 */
	0x74, 0x21,				   /*	je done */
	0x49, 0x8b,	    0x3c, 0x24,		   /*	mov (%r12),%rdi */
	0x49, 0x8b,	    0x74, 0x24,	     0x08, /*	mov 8(%r12),%rsi */
	0xba, RX,	    0,	  0,	     0,	   /*	mov $RX,%edx */
	0xb8, SYS_mprotect, 0,	  0,	     0,	   /*	mov $mprotect,%eax */
	0x0f, 0x05,				   /*	syscall */
	0x49, 0x83,	    0xc4, 0x10,		   /*	add $16,%r12 */
	0x85, 0xc0,				   /*	test %eax,%eax */
	0x44, 0x0f,	    0x45, 0xe8,		   /*	cmovnz %eax,%r13d */
	0xeb, 0xda,				   /*	jmp close */
	0x48, 0x89,	    0xdf,		   /* done: mov %rbx,%rdi */
	0x48, 0x8b,	    0x73, BYTES,	   /*	mov bytes(%rbx),%rsi */
	0x89, 0xeb,				   /*	mov %ebp,%ebx */
	0x49, 0xc1,	    0xe5, 32,		   /*	shl $32,%r13 */
	0x4c, 0x09,	    0xeb,		   /*	or %r13,%rbx */
	0xb8, SYS_munmap,   0,	  0,	     0,	   /*	mov $munmap,%eax */
	0xc3,					   /*	ret: to the syscall; ret */
};

static const struct {
	const uint8_t *code;
	size_t bytes;
} kinds[N_STORES_KINDS] = {
	[STORES_ATTACH] = { attach_code, sizeof(attach_code) },
	[STORES_DETACH] = { detach_code, sizeof(detach_code) },
	[STORES_LIST] = { list_code, sizeof(list_code) },
};

uint64_t stores_entry(uint64_t addr, uint16_t value, size_t bytes)
{
	if (addr >> ADDR_BITS)
		return 0;
	return addr | (uint64_t)(bytes == 2) << ADDR_BITS | (uint64_t)value << VALUE_SHIFT;
}

size_t stores_code_off(const struct stores *stores)
{
	return sizeof(struct stores_job) +
	       (1 + CLOSE_STEPS) * stores->n_text * sizeof(struct stores_range);
}

size_t stores_head_bytes(const struct stores *stores)
{
	const size_t end = stores_code_off(stores) + sizeof(begin_code) +
			   kinds[stores->kind].bytes + sizeof(end_code);

	return (end + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

size_t stores_image_bytes(const struct stores *stores)
{
	return stores_head_bytes(stores) + (stores->entries ? stores->n * sizeof(uint64_t) : 0);
}

static void write_ranges(const struct stores *stores, struct stores_range *to)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	memcpy(to, stores->text, stores->n_text * sizeof(*to));
	to += stores->n_text;
	for (size_t i = 0; i < stores->n_text; i++) {
		const struct stores_range *text = &stores->text[i];

		*to++ = (struct stores_range){ text->start, page };
		*to++ = (struct stores_range){ text->start + page, text->bytes - page };
		*to++ = *text;
	}
}

void stores_write_head(const struct stores *stores, uint64_t addr, uint8_t *head)
{
	const size_t range = sizeof(struct stores_range), code_off = stores_code_off(stores);
	const struct stores_job job = {
		.bytes = stores_image_bytes(stores),
		.open_end = sizeof(job) + stores->n_text * range,
		.close_end = code_off,
		.n = stores->n,
		.list = stores->entries ? addr + stores_head_bytes(stores) : stores->sites,
	};
	uint8_t *code = head + code_off;

	memcpy(head, &job, sizeof(job));
	write_ranges(stores, (struct stores_range *)(head + sizeof(job)));
	memcpy(code, begin_code, sizeof(begin_code));
	code += sizeof(begin_code);
	memcpy(code, kinds[stores->kind].code, kinds[stores->kind].bytes);
	code += kinds[stores->kind].bytes;
	memcpy(code, end_code, sizeof(end_code));
}
