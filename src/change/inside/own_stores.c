// SPDX-License-Identifier: MIT
/*
 * Make a process write to many places by a routine that stores. The tool has the process map memory
 * for the image of the routine, fills this memory, and points the registers of a thread to the
 * routine. From then on, the process carries out the routine even if the tool is killed. If the
 * tool is killed earlier, an unused mapping or descriptor is left, which stop_remove_orphans()
 * removes.
 *
 * While the routine of a killed tool is running, no other tool may write: stop_run() waits for the
 * end of the routine. Two cases are not covered, because the other threads continue when the tool
 * is killed. A thread may unmap a plugin in the very microseconds in which the routine stores to
 * its sites. A thread may fork: the child gets writable text, and sites as they are at that moment.
 */
#include "change/inside/own_stores.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "change/inside/block.h"
#include "change/inside/held.h"
#include "change/inside/stop.h"

/* ---- the image ------------------------------------------------------------------------------ */

/*
 * Routines by which the process itself writes to many places: the byte stores of patch.h, at the
 * speed of memory. The image of a routine is one temporary mapping (r-x), which consists of:
 *
 *	struct stores_job
 *	ranges		text to make writable; it stays executable
 *	ranges		text to make r-x again
 *	code
 *	entries		the stores to make, for STORES_LIST
 *
 * The code makes the text writable, stores, makes the text read-only again and unmaps the image. So
 * a routine that has begun runs to its end even if the tool is killed, and leaves nothing behind.
 */

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

struct stores_range {
	uint64_t start, bytes;
};

struct stores {
	enum stores_kind kind;
	/* the mappings of the text, which are r-x; each range is a whole mapping */
	const struct stores_range *text;
	size_t n_text;
	/* the address, in the process, of the array of block_site; not used for STORES_LIST */
	uint64_t sites;
	const uint64_t *entries; /* the entries; only for STORES_LIST */
	size_t n;		 /* the number of sites or entries */
};

struct stores_job {
	uint64_t bytes; /* the size of the image */
	/* the ends of the two lists of ranges, as offsets from the job */
	uint64_t open_end, close_end;
	uint64_t n, list; /* the number and the address of the sites or entries */
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
 * The bits of an entry: 0 to 46 are the address, 47 is set if two bytes are stored, 48 to 63 are
 * the value.
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

/* Return an entry that stores VALUE, of 1 or 2 BYTES, at ADDR; 0 if ADDR is too high. */
static uint64_t stores_entry(uint64_t addr, uint16_t value, size_t bytes)
{
	if (addr >> ADDR_BITS)
		return 0;
	return addr | (uint64_t)(bytes == 2) << ADDR_BITS | (uint64_t)value << VALUE_SHIFT;
}

/* Return the offset of the code in the image. */
static size_t stores_code_off(const struct stores *stores)
{
	return sizeof(struct stores_job) +
	       (1 + CLOSE_STEPS) * stores->n_text * sizeof(struct stores_range);
}

/* Return the size of the head of the image: the part before the entries. */
static size_t stores_head_bytes(const struct stores *stores)
{
	const size_t end = stores_code_off(stores) + sizeof(begin_code) +
			   kinds[stores->kind].bytes + sizeof(end_code);

	return (end + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

static size_t stores_image_bytes(const struct stores *stores)
{
	return stores_head_bytes(stores) + (stores->entries ? stores->n * sizeof(uint64_t) : 0);
}

/*
 * Decode the rbx that the code leaves. stores_open_error() returns the error of the first
 * mprotect(2) that failed to make text writable; in this case nothing was stored.
 * stores_close_error() returns the error of the last mprotect(2) that failed to make text
 * read-only. Both are -errno or 0.
 */
static int stores_open_error(uint64_t rbx)
{
	return (int32_t)(uint32_t)rbx;
}

static int stores_close_error(uint64_t rbx)
{
	return (int32_t)(uint32_t)(rbx >> 32);
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

/*
 * Write the head of an image that is mapped at address ADDR in the process. HEAD must have room for
 * stores_head_bytes().
 */
static void stores_write_head(const struct stores *stores, uint64_t addr, uint8_t *head)
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

/* ---- what is written to --------------------------------------------------------------------- */

/* The mappings whose text is to be written. */
struct text {
	const struct stop *stop;
	bool *marks; /* for each mapping: true if it is in `ranges` */
	/* a cache: the mapping found most recently, which usually contains the next address, too */
	const struct mapping *latest;
	struct stores_range *ranges;
	size_t n;
};

static int text_begin(struct stop *stop, struct text *text)
{
	*text = (struct text){
		.stop = stop,
		.marks = calloc(stop->maps.n + 1, sizeof(*text->marks)),
		.ranges = calloc(stop->maps.n + 1, sizeof(*text->ranges)),
	};
	return text->marks && text->ranges ? 0 : ctx_no_memory(stop->ctx);
}

static void text_end(struct text *text)
{
	free(text->marks);
	free(text->ranges);
}

static const struct mapping *mapping_at(struct text *text, uint64_t addr)
{
	if (!text->latest || addr < text->latest->start || addr >= text->latest->end)
		text->latest = maps_find(&text->stop->maps, addr);
	return text->latest;
}

static int no_stores(const struct stop *stop, uint64_t addr, const char *why)
{
	return ctx_error(stop->ctx, -ENOTSUP, "pid %d: 0x%" PRIx64 " %s", (int)stop->pid, addr,
			 why);
}

/*
 * Add the mapping of ADDR to the ranges. Refuse a shared mapping: stores to it would change its
 * file.
 */
static int add_code_range(struct text *text, uint64_t addr)
{
	const struct mapping *m = mapping_at(text, addr);

	if (!m || !m->readable || !m->executable || m->writable || m->shared)
		return no_stores(text->stop, addr, "is not ordinary code");
	if (!text->marks[m - text->stop->maps.mappings]) {
		text->marks[m - text->stop->maps.mappings] = true;
		text->ranges[text->n++] = (struct stores_range){ m->start, m->end - m->start };
	}
	return 0;
}

static int check_data(struct text *text, uint64_t addr)
{
	const struct mapping *m = mapping_at(text, addr);

	if (!m || !m->readable || !m->writable || addr + 2 > m->end)
		return no_stores(text->stop, addr, "is not ordinary data");
	return 0;
}

/* ---- carrying it out ------------------------------------------------------------------------ */

static int fill(const struct stop *stop, int ours, const struct stores *stores, uint64_t addr)
{
	const size_t head_bytes = stores_head_bytes(stores), bytes = stores_image_bytes(stores);
	uint8_t *head = malloc(head_bytes);
	const struct iovec parts[] = {
		{ head, head_bytes },
		{ (void *)stores->entries, bytes - head_bytes },
	};
	ssize_t n;

	if (!head)
		return ctx_no_memory(stop->ctx);
	stores_write_head(stores, addr, head);
	n = pwritev(ours, parts, stores->entries ? 2 : 1, 0);
	free(head);
	if (n == (ssize_t)bytes)
		return 0;
	return ctx_error(stop->ctx, n < 0 ? -errno : -ENOSPC, "pid %d: memory for its stores: %s",
			 (int)stop->pid, n < 0 ? strerror(errno) : "no room");
}

/*
 * Check that the process has mapped the memfd at ADDR. At the moment of the mmap, the descriptor
 * may have referred to another file: see struct memfd.
 */
static int check_image(const struct stop *stop, const struct memfd *memfd, uint64_t addr)
{
	struct maps maps;
	int err = maps_read(stop->ctx, stop->pid, &maps);

	if (!err && !memfd_is_at(&maps, addr, memfd->dev, memfd->ino))
		err = no_stores(stop, addr, "is another file: another process changes descriptors");
	maps_free(&maps);
	return err;
}

static int map_image(struct stop *stop, const struct memfd *memfd, const struct stores *stores,
		     uint64_t *addr)
{
	const size_t bytes = stores_image_bytes(stores);
	const uint64_t args[6] = {
		0, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, (uint64_t)memfd->theirs, 0
	};
	int err = stop_call(stop, "mmap", SYS_mmap, args, addr);

	if (err)
		return err;
	err = check_image(stop, memfd, *addr);
	if (!err)
		err = fill(stop, memfd->ours, stores, *addr);
	if (err)
		stop_unmap(stop, *addr, *addr + bytes);
	return err;
}

static int make_image(struct stop *stop, const struct stores *stores, uint64_t *addr)
{
	const size_t bytes = stores_image_bytes(stores);
	struct memfd memfd;
	int close_err, err = memfd_make(stop, STORES_NAME, bytes, &memfd);

	if (err)
		return err;
	err = map_image(stop, &memfd, stores, addr);
	close_err = memfd_close(stop, &memfd);
	if (!err && close_err && close_err != -ETIMEDOUT && close_err != -ESRCH)
		stop_unmap(stop, *addr, *addr + bytes);
	return err ? err : close_err;
}

/*
 * Log a warning about text that is still writable, according to the maps. The errors of mprotect(2)
 * do not show this: text can be read-only although one of the three steps for it has failed.
 */
static void check_closed(const struct stop *stop, const struct stores *stores)
{
	struct maps maps;

	if (maps_read(stop->ctx, stop->pid, &maps) != 0)
		return;
	for (size_t i = 0; i < stores->n_text; i++) {
		const struct mapping *m = maps_find(&maps, stores->text[i].start);

		if (m && m->writable)
			ctx_log(stop->ctx, OCP_LOG_WARN,
				"pid %d: its code at 0x%" PRIx64 " stays writable", (int)stop->pid,
				m->start);
	}
	maps_free(&maps);
}

static int run_store_block(struct stop *stop, struct stores *stores, const struct text *text)
{
	uint64_t addr = 0, result = 0;
	int err;

	stores->text = text->ranges;
	stores->n_text = text->n;
	err = make_image(stop, stores, &addr);
	if (err == -ETIMEDOUT || err == -ESRCH || err == -EAGAIN)
		return err;
	if (err)
		return -ENOTSUP;
	err = remote_run(stop->remote, addr + stores_code_off(stores), addr, &result);
	if (err)
		return err;
	if (stores_close_error(result))
		check_closed(stop, stores);
	if (!stores_open_error(result))
		return 0;
	return ctx_error(stop->ctx, -ENOTSUP, "pid %d: mprotect in the process: %s", (int)stop->pid,
			 strerror(-stores_open_error(result)));
}

int own_stores_sites(struct stop *stop, const struct inside *inside, enum stores_kind kind)
{
	const struct block_header *header = &inside->header;
	const struct block_site *sites = inside->sites;
	struct stores stores = {
		.kind = kind,
		.sites = header->addr + header->sites_off,
		.n = header->n_sites,
	};
	struct text text;
	int err = text_begin(stop, &text);

	/* A site can span two mappings, so add the mappings of its first and of its last byte. */
	for (size_t i = 0; !err && i < header->n_sites; i++)
		for (uint64_t off = 0; !err && sites[i].store && off <= 5; off += 5)
			err = add_code_range(&text, sites[i].addr + off);
	if (!err)
		err = run_store_block(stop, &stores, &text);
	text_end(&text);
	return err;
}

/* ---- lists ---------------------------------------------------------------------------------- */

struct own_stores {
	struct ocp_ctx *ctx;
	struct memory *memory;
	struct tracee *tracee;
	struct patcher *patcher;
	struct remote_plan *plan;
	/* The list that was prepared. `entries` is NULL if no list was prepared. */
	const struct patch_write *writes;
	size_t n;
	uint64_t *entries; /* the stores, in the order of the phases */
	bool has_begun;
};

int own_stores_open(struct ocp_ctx *ctx, struct memory *memory, struct tracee *tracee,
		    struct patcher *patcher, struct own_stores **out)
{
	struct own_stores *stores = calloc(1, sizeof(*stores));
	int err;

	*out = stores;
	if (!stores)
		return ctx_no_memory(ctx);
	*stores = (struct own_stores){
		.ctx = ctx, .memory = memory, .tracee = tracee, .patcher = patcher
	};
	err = remote_plan_make(ctx, memory_pid(memory), &stores->plan);
	if (err) {
		own_stores_close(stores);
		*out = NULL;
	}
	return err;
}

void own_stores_close(struct own_stores *stores)
{
	if (!stores)
		return;
	remote_plan_free(stores->plan);
	free(stores->entries);
	free(stores);
}

int own_stores_prepare(struct own_stores *stores, const struct patch_write *writes, size_t n)
{
	size_t to = 0;

	free(stores->entries);
	stores->entries = NULL;
	if (!n)
		return 0;
	stores->writes = writes;
	stores->n = n;
	stores->entries = malloc(n * sizeof(stores->entries[0]));
	if (!stores->entries)
		return ctx_no_memory(stores->ctx);
	for (int phase = 0; phase < N_PATCH_PHASES; phase++)
		for (size_t i = 0; i < n; i++)
			if (writes[i].phase == phase)
				stores->entries[to++] = stores_entry(writes[i].addr, writes[i].new,
								     writes[i].bytes);
	return 0;
}

static int store_prepared(struct stop *stop, void *arg)
{
	struct own_stores *own = arg;
	struct stores stores = { .kind = STORES_LIST, .entries = own->entries, .n = own->n };
	struct text text;
	int err = text_begin(stop, &text);

	own->has_begun = true;
	for (size_t i = 0; !err && i < own->n; i++) {
		const struct patch_write *w = &own->writes[i];

		err = w->bytes == 1 ? add_code_range(&text, w->addr) : check_data(&text, w->addr);
		if (!err && !stores_entry(w->addr, w->new, w->bytes))
			err = no_stores(stop, w->addr, "is too high an address");
	}
	err = err ? -ENOTSUP : run_store_block(stop, &stores, &text);
	text_end(&text);
	return err;
}

int own_stores_apply(struct own_stores *stores, const struct patch_write *writes, size_t n,
		     bool *is_unsure)
{
	const bool is_prepared = stores->entries && stores->writes == writes && stores->n == n;
	struct stop stop = {
		.ctx = stores->ctx,
		.pid = memory_pid(stores->memory),
		.memory = stores->memory,
		.patcher = stores->patcher,
		.tracee = stores->tracee,
		.plan = stores->plan,
	};
	int err = is_prepared ? 0 : own_stores_prepare(stores, writes, n);

	stores->has_begun = false;
	if (!err)
		err = stop_work(&stop, store_prepared, stores);
	*is_unsure = err && stores->has_begun && err != -ENOTSUP && err != -EAGAIN;
	/*
	 * Forget a list that was prepared above: the caller may later pass other writes at the same
	 * address.
	 */
	if (!is_prepared)
		own_stores_prepare(stores, NULL, 0);
	return err;
}
