// SPDX-License-Identifier: MIT
#include "measured_args.h"

#include <stdlib.h>
#include <unistd.h>
#include "measure/args/operand.h"

#define SITE "	.byte 0x90, 0x3d\n	.long 0\n	ret\n"

__asm__(".pushsection .text\n"
	".globl args_start, args_stop\n"
	"args_start:\n" SITE "args_stop:\n" SITE ".globl args_start_below, args_stop_below\n"
	"args_start_below:\n	sub $40, %rsp\n	call args_start\n	add $40, %rsp\n	ret\n"
	"args_stop_below:\n	sub $40, %rsp\n	call args_stop\n	add $40, %rsp\n	ret\n"
	".popsection\n");

void measured_prepare(struct measured *m)
{
	*m = (struct measured){ .ctx = ctx_or_skip(),
				.pid = getpid(),
				.sites = { { .nop_off = file_off((void *)args_start) },
					   { .nop_off = file_off((void *)args_stop) } },
				.roles = { { .pair = 0 }, { .is_stop = true } } };
	m->sites[STOP].first_role = STOP;
	m->file = engine_file_of(&m->pid, m->sites, N_SITES);
	assert_int_equal(operand_parse(m->ctx, "8@%rdi 8@%rsi", &m->args), 0);
	m->file.args = &m->args;
	m->file.n_args = 1;
	m->spec = spec_of(&m->file);
	m->spec.max_args = 1;
}

void measured_prepare_pair(struct measured *m)
{
	measured_prepare(m);
	m->sites[START].n_roles = m->sites[STOP].n_roles = 1;
	m->spec.roles = m->roles;
	m->spec.n_roles = N_SITES;
	m->spec.request.n_pairs = 1;
	m->spec.max_open = 64;
	m->spec.request.depth = 8;
}

void measured_set_key(struct measured *m, unsigned int arg)
{
	for (size_t i = 0; i < N_SITES; i++) {
		m->roles[i].is_keyed = true;
		m->roles[i].key_arg = arg;
	}
}

void measured_compare(struct measured *m, unsigned int arg)
{
	for (size_t i = 0; i < N_SITES; i++) {
		m->roles[i].is_compared = true;
		m->roles[i].key_arg = arg;
	}
}

void measured_set_filter(struct measured *m, const char *text)
{
	struct asked_names asked = { .n = 0 };
	__u32 used;

	assert_int_equal(filter_parse(m->ctx, text, &asked, &m->filter, &used), 0);
	m->spec.filter = &m->filter;
	m->sites[START].is_filtered = true;
}

void measured_attach(struct measured *m)
{
	int err = engine_bpf.open(m->ctx, &m->spec, &m->engine);

	if (!err)
		err = engine_bpf.attach(m->engine, &m->file, 1);
	if (err)
		print_message("%s\n", ocp_error(m->ctx));
	assert_int_equal(err, 0);
}

void measured_read(struct measured *m)
{
	struct engine_reading reading = { .hits = m->hits,
					  .pairs = &m->pair,
					  .pair_buckets = m->buckets,
					  .histograms = &m->histogram,
					  .floats = &m->floats };

	assert_int_equal(engine_bpf.read(m->engine, &reading), 0);
	m->losses = reading.losses;
	free(reading.keyed);
}

void measured_detach(struct measured *m)
{
	assert_int_equal(engine_bpf.detach(m->engine), 0);
	measured_read(m);
}

void measured_finish(struct measured *m)
{
	engine_bpf.close(m->engine);
	ocp_ctx_free(m->ctx);
}
