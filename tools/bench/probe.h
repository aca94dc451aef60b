/* SPDX-License-Identifier: MIT */
/* A disabled probe site and its note as an OCaml compiler of the ocaml_1 generation writes them. */
#ifndef BENCH_PROBE_H
#define BENCH_PROBE_H

/* For use in asm(); both take strings. */
#define PROBE_SITE(label) label ":	.byte 0x90, 0x3d\n	.long 0\n"

#define PROBE_NOTE(label, name, semaphore) PROBE_NOTE_ARGS(label, name, semaphore, "")

#define PROBE_NOTE_ARGS(label, name, semaphore, args)                                              \
	"	.pushsection .note.stapsdt, \"\", \"note\"\n"                                            \
	"	.balign 4\n"                                                                             \
	"	.long 8, 2f - 1f, 3\n"                                                                   \
	"	.asciz \"stapsdt\"\n"                                                                    \
	"1:	.quad " label ", _.stapsdt.base, " semaphore "\n"                                  \
	"	.asciz \"ocaml_1\", \"" name "\", \"" args "\"\n"                                  \
	"2:	.balign 4\n"                                                                           \
	"	.popsection\n"

#define PROBE_NOTE_BASE                                                                            \
	"	.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"               \
	"	.weak _.stapsdt.base\n"                                                                  \
	"	.hidden _.stapsdt.base\n"                                                                \
	"_.stapsdt.base: .space 1\n"                                                               \
	"	.size _.stapsdt.base, 1\n"                                                               \
	"	.popsection\n"

/* Two 16-bit counters: for tracers and for handlers. */
#define PROBE_SEMAPHORE(label)                                                                     \
	"	.pushsection .probes, \"aw\", \"progbits\"\n"                                            \
	"	.balign 2\n" label ":	.short 0, 0\n"                                               \
	"	.popsection\n"

#endif
