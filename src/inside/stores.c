// SPDX-License-Identifier: MIT
/*
 * For each site whose `store` is not 0: the opcode 3d, then the displacement, then `store` as the opcode. A
 * process that is left alone between any two of these stores has valid instructions at all sites. The nop
 * is not written: it belongs to uprobes.
 */
#include "inside/stores.h"

#include <string.h>
#include <sys/syscall.h>
#include "inside/block.h"

_Static_assert(sizeof(struct block_site) == 32, "the stride in the code below");
_Static_assert(offsetof(struct block_site, addr) == 0 &&
		       offsetof(struct block_site, trampoline) == 8 &&
		       offsetof(struct block_site, displacement) == 24 &&
		       offsetof(struct block_site, store) == 31,
	       "the offsets in the code below");
_Static_assert(offsetof(struct block_header, sites_off) < 128 &&
		       offsetof(struct block_header, n_sites) < 128,
	       "they fit a byte in the code below");

#define SITES_OFF offsetof(struct block_header, sites_off)
#define N_SITES	  offsetof(struct block_header, n_sites)

static const uint8_t attach_code[] = {
	0x8b, 0x4f,	  N_SITES,		    /*	mov n_sites(%rdi),%ecx */
	0x48, 0x8b,	  0x77,	   SITES_OFF,	    /*	mov sites_off(%rdi),%rsi */
	0x48, 0x01,	  0xfe,			    /*	add %rdi,%rsi */
	0x85, 0xc9,				    /* next:	test %ecx,%ecx */
	0x74, 0x29,				    /*	jz done */
	0x8a, 0x56,	  31,			    /*	mov store(%rsi),%dl */
	0x84, 0xd2,				    /*	test %dl,%dl */
	0x74, 0x1a,				    /*	jz skip */
	0x4c, 0x8b,	  0x06,			    /*	mov addr(%rsi),%r8 */
	0x48, 0x8b,	  0x46,	   8,		    /*	mov trampoline(%rsi),%rax */
	0x4c, 0x29,	  0xc0,			    /*	sub %r8,%rax */
	0x83, 0xe8,	  6,			    /*	sub $6,%eax */
	0x41, 0xc6,	  0x40,	   1,	      0x3d, /*	movb $0x3d,1(%r8) */
	0x41, 0x89,	  0x40,	   2,		    /*	mov %eax,2(%r8) */
	0x41, 0x88,	  0x50,	   1,		    /*	mov %dl,1(%r8) */
	0x48, 0x83,	  0xc6,	   32,		    /* skip:	add $32,%rsi */
	0xff, 0xc9,				    /*	dec %ecx */
	0xeb, 0xd3,				    /*	jmp next */
	0xb8, SYS_getpid, 0,	   0,	      0,
	0x0f, 0x05,	  0xc3, /* done: mov $getpid,%eax; syscall; ret */
};

static const uint8_t detach_code[] = {
	0x8b, 0x4f,	  N_SITES,		    /*	mov n_sites(%rdi),%ecx */
	0x48, 0x8b,	  0x77,	   SITES_OFF,	    /*	mov sites_off(%rdi),%rsi */
	0x48, 0x01,	  0xfe,			    /*	add %rdi,%rsi */
	0x85, 0xc9,				    /* next:	test %ecx,%ecx */
	0x74, 0x22,				    /*	jz done */
	0x8a, 0x56,	  31,			    /*	mov store(%rsi),%dl */
	0x84, 0xd2,				    /*	test %dl,%dl */
	0x74, 0x13,				    /*	jz skip */
	0x4c, 0x8b,	  0x06,			    /*	mov addr(%rsi),%r8 */
	0x8b, 0x46,	  24,			    /*	mov displacement(%rsi),%eax */
	0x41, 0xc6,	  0x40,	   1,	      0x3d, /*	movb $0x3d,1(%r8) */
	0x41, 0x89,	  0x40,	   2,		    /*	mov %eax,2(%r8) */
	0x41, 0x88,	  0x50,	   1,		    /*	mov %dl,1(%r8) */
	0x48, 0x83,	  0xc6,	   32,		    /* skip:	add $32,%rsi */
	0xff, 0xc9,				    /*	dec %ecx */
	0xeb, 0xda,				    /*	jmp next */
	0xb8, SYS_getpid, 0,	   0,	      0,
	0x0f, 0x05,	  0xc3, /* done: mov $getpid,%eax; syscall; ret */
};

size_t stores_bytes(void)
{
	return sizeof(attach_code) + sizeof(detach_code);
}

size_t stores_attach_off(void)
{
	return 0;
}

size_t stores_detach_off(void)
{
	return sizeof(attach_code);
}

void stores_write(uint8_t *code)
{
	memcpy(code + stores_attach_off(), attach_code, sizeof(attach_code));
	memcpy(code + stores_detach_off(), detach_code, sizeof(detach_code));
}
