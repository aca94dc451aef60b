// SPDX-License-Identifier: MIT
/*
 * Reading the collector's figures while the program runs.
 *
 * One process_vm_readv(2) copies the same structures several times, one after the other. The kernel
 * copies in the given order. Each sum has two parts: the collector adds to the first part now and
 * then, and resets the second part to zero at the same time (the used part of the minor heap; the
 * words allocated since the last slice). If the first part is equal before and after the second
 * part was copied, the two belong together. But the collector's two stores are not simultaneous: up
 * to a few hundred nanoseconds pass between them if they wait for memory that we read. A read
 * between the two stores is noticed in other ways: OCaml 4 sets a flag during minor collections,
 * and the second part of the major words must not be lower when another system call copies it once
 * more. If the copies do not belong together, everything is read again.
 *
 * While OCaml code runs, the pointer into the minor heap is in a register, and memory has the value
 * of the code's last call of the runtime. So minor_words may lack what was allocated since that
 * call.
 */
#include "process/gc_gauges.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "process/gc_read.h"
#include "process/image.h"

enum {
	MAX_READS = 64,	   /* attempts to read consistent values */
	QUICK_READS = 32,  /* the first attempts, which do not wait */
	WAIT_NS = 1000000, /* before each later attempt: the program may have been preempted */
};

/*
 * Return true if a sum has decreased since the last read. Then the read was between two stores of
 * the collector, or a domain was about to end and its figures were nowhere for a moment.
 */
static bool has_decreased(const struct gc_reader *r, const struct gc_gauges *gauges)
{
	return !gauges->lacks_ended_domains &&
	       (gauges->words.promoted < r->last.promoted || gauges->words.major < r->last.major);
}

int gc_reader_read(struct gc_reader *r, struct gc_gauges *gauges)
{
	const struct timespec wait = { .tv_nsec = WAIT_NS };
	int done = 0, err;

	for (int i = 0; i < MAX_READS && done == 0; i++) {
		if (i >= QUICK_READS)
			nanosleep(&wait, NULL);
		done = r->runtime.layout.has_domains ? gc_read_5(r, gauges) : gc_read_4(r, gauges);
		if (done > 0 && has_decreased(r, gauges) && i + 1 < MAX_READS)
			done = 0;
	}
	if (done >= 0)
		err = memory_check_alive(r->memory);
	else
		err = done;
	if (err)
		return err;
	if (done == 0)
		return ctx_error(r->ctx, -EAGAIN,
				 "pid %d (%s): the figures of its collector changed during each of "
				 "%d attempts to read them",
				 (int)r->pid, r->exe, MAX_READS);
	/*
	 * The last successful read may have seen more of the minor heap. Both values are lower
	 * bounds: keep the higher one.
	 */
	if (gauges->words.minor < r->last.minor && !gauges->lacks_ended_domains)
		gauges->words.minor = r->last.minor;
	if (!gauges->lacks_ended_domains)
		r->last = gauges->words;
	if (r->domains)
		gc_domains_keep(r->domains);
	return 0;
}

static int check_places(const struct gc_reader *r)
{
	const struct runtime_places *places = &r->runtime.places;
	const bool is_complete = r->runtime.layout.has_domains
					 ? places->n_domains && places->minor_collections &&
						   places->major_collections
					 : places->caml_state && places->allocated_words;

	if (is_complete)
		return 0;
	return ctx_error(r->ctx, -ENODATA,
			 "%s: does not tell where its runtime keeps its figures%s", r->exe,
			 r->runtime.is_stripped ? " (it is stripped)" : "");
}

static int recognise(struct gc_reader *r)
{
	struct image_exe exe;
	int err = image_exe_open(r->ctx, r->pid, &exe);

	if (err)
		return err;
	err = runtime_recognise(r->ctx, exe.elf, &r->runtime);
	r->bias = exe.bias;
	r->exe = exe.path;
	exe.path = NULL;
	image_exe_close(&exe);
	return err ? err : check_places(r);
}

int gc_reader_open(struct ocp_ctx *ctx, pid_t pid, struct gc_reader **out)
{
	struct gc_reader *r = calloc(1, sizeof(*r));
	int err;

	*out = NULL;
	if (!r)
		return ctx_no_memory(ctx);
	*r = (struct gc_reader){ .ctx = ctx, .pid = pid };
	err = memory_open(ctx, pid, &r->memory);
	if (!err)
		err = recognise(r);
	if (!err && r->runtime.layout.has_domains)
		err = gc_domains_new(r);
	if (err) {
		gc_reader_free(r);
		return err;
	}
	*out = r;
	return 0;
}

void gc_reader_free(struct gc_reader *r)
{
	if (!r)
		return;
	memory_close(r->memory);
	free(r->exe);
	gc_domains_free(r->domains);
	free(r);
}

const struct runtime *gc_reader_runtime(const struct gc_reader *r)
{
	return &r->runtime;
}

const char *gc_reader_exe(const struct gc_reader *r)
{
	return r->exe;
}
