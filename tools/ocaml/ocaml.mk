# What OCaml users need: the ppx, its run-time library, the control library, the compiler-driver
# wrapper.
#
# They are installed into $(O)/ocaml/lib as a package would be: with OCAMLPATH set to that folder,
# dune and ocamlfind find ocaml-probes.ppx, ocaml-probes.runtime and ocaml-probes.probes_lib. The
# latter is compiled from the C library's sources (tools/ocaml/src and bpf are links to them): dune alone can
# build the package, as opam does.
ocaml_dir := $(abspath $(O))/ocaml
ocaml_srcs := tools/ocaml/dune-project $(wildcard tools/ocaml/*/dune tools/ocaml/*/*.ml \
	tools/ocaml/*/*.mli tools/ocaml/*/*.[ch] include/*.h) tools/man/help.awk tools/man/ocaml-probes-link.1 \
	$(wildcard src/base/*.[ch] src/program/dormant/*.[ch] src/program/*.[ch] src/elf/*.[ch] src/look/*.[ch] src/change/*/*.[ch] src/process/*.[ch] \
	src/code/*.[ch] src/kernel/perf_event.[ch] src/kernel/ticks.[ch] src/unwind/*.[ch] src/memprof/*.[ch] bpf/walk.h)
ocaml_stamp := $(ocaml_dir)/installed
ocaml_stubs := $(wildcard tools/ocaml/probes_lib/*.c tools/ocaml/memprof/*.c)
dune_quiet := $(if $(filter 1,$(V)),--display short,--display quiet)

.PHONY: ocaml
ocaml: $(ocaml_stamp) $(O)/ocaml-probes-cc ## build the ppx and its run-time library into build/ocaml

$(ocaml_stamp): $(ocaml_srcs)
	$(say) DUNE tools/ocaml
	$(Q)mkdir -p $(ocaml_dir)
	$(Q)dune build --root tools/ocaml --build-dir $(ocaml_dir)/_build --profile release \
		$(dune_quiet) --no-print-directory @install
	$(Q)rm -rf $(ocaml_dir)/lib
	$(Q)env -u DESTDIR dune install --root tools/ocaml --build-dir $(ocaml_dir)/_build --profile release \
		--prefix $(ocaml_dir) --libdir $(ocaml_dir)/lib ocaml-probes \
		>$(ocaml_dir)/install.log 2>&1 || { cat $(ocaml_dir)/install.log >&2; exit 1; }
	$(Q)touch $@

# Beside the post-linker, as it will be when both are installed: with $(O) in PATH, -cc finds both.
$(O)/ocaml-probes-cc: tools/ocaml/ocaml-probes-cc
	$(Q)mkdir -p $(@D)
	$(Q)install -m755 $< $@

# The programs that the tests run.
include tests/ocaml/ocaml_tests.mk
