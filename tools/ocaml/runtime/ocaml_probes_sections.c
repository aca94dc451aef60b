// SPDX-License-Identifier: MIT
/*
 * Two sections that tracers look for in an executable with probes.
 *
 * .stapsdt.base: the notes carry its address, which tells a reader how far a prelinker has moved
 * the file since. The same definition as in <sys/sdt.h>, so that there is one in the program.
 *
 * .probes: bcc and bpftrace compute a semaphore's place in the file from where the section of this
 * name stands. The semaphores are in .data, which the linker puts into the same segment: the
 * distance between address and offset is the same.
 */
#include <caml/mlvalues.h>

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
	"	.weak	_.stapsdt.base\n"
	"	.hidden	_.stapsdt.base\n"
	"_.stapsdt.base:\n"
	"	.space	1\n"
	"	.size	_.stapsdt.base, 1\n"
	"	.popsection\n"
	"	.pushsection .probes,\"aw\",\"progbits\"\n"
	"	.balign	8\n"
	"	.hidden	ocaml_probes_section\n"
	"	.globl	ocaml_probes_section\n"
	"ocaml_probes_section:\n"
	"	.8byte	0\n"
	"	.size	ocaml_probes_section, 8\n"
	"	.popsection\n");

extern const char stapsdt_base[] __asm__("_.stapsdt.base") __attribute__((visibility("hidden")));
extern const char probes_section[] __asm__("ocaml_probes_section")
	__attribute__((visibility("hidden")));

value ocaml_probes_keep_sections(value unit);

/* References from code keep both sections under --gc-sections. */
value ocaml_probes_keep_sections(value unit)
{
	__asm__ volatile("" ::"r"(stapsdt_base), "r"(probes_section));
	return unit;
}
